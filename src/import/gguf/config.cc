#include "import/gguf/config.h"

#include <algorithm>
#include <cmath>

namespace tenon::import::gguf {
namespace {

class Keys {
 public:
  Keys(const GgufFile& file, std::string arch) : file_(file), arch_(std::move(arch)) {}

  // A number of at least `least`; `fallback` < 0: it must be there. An array of equal numbers counts as one.
  Status Count(const char* key, int64_t fallback, int64_t most, int64_t* to, int64_t least = 1) const {
    const std::string name = arch_ + "." + key;
    const GgufValue* v = file_.Find(name);
    if (v == nullptr) {
      if (fallback < 0) return BadInput("metadata '{}' is missing", name);
      *to = fallback;
      return {};
    }
    auto n = v->Int();
    if (const auto list = v->Ints(); list && !list->empty()) {
      n = list->front();
      for (int64_t e : *list) {
        if (e != *n) return Unsupported("metadata '{}' differs from layer to layer", name);
      }
    }
    if (!n || *n < least || *n > most) return BadInput("metadata '{}'; a number from {} to {} needed", name, least, most);
    *to = *n;
    return {};
  }

  Status Real(const char* key, float* to) const {
    const std::string name = arch_ + "." + key;
    const GgufValue* v = file_.Find(name);
    if (v == nullptr) return {};
    const auto f = v->Float();
    if (!f || !std::isfinite(*f)) return BadInput("metadata '{}'; a finite number needed", name);
    *to = static_cast<float>(*f);
    return {};
  }

  std::string Text(const char* key) const {
    const GgufValue* v = file_.Find(arch_ + "." + key);
    const auto s = v != nullptr ? v->String() : std::nullopt;
    return std::string(s.value_or(""));
  }
  const GgufValue* Find(const char* key) const { return file_.Find(arch_ + "." + key); }

 private:
  const GgufFile& file_;
  std::string arch_;
};

Status ReadRope(const Keys& keys, Config* c) {
  TENON_RETURN_IF_ERROR(keys.Real("rope.freq_base", &c->rope_base));
  if (!(c->rope_base > 0)) return BadInput("rope.freq_base {}; a number above 0 needed", c->rope_base);
  TENON_RETURN_IF_ERROR(keys.Count("rope.dimension_count", c->head_dim, c->head_dim, &c->rope_dims));
  if (c->rope_dims % 2 != 0) return BadInput("rope.dimension_count {}; an even number needed", c->rope_dims);
  const std::string scaling = keys.Text("rope.scaling.type");
  if (scaling == "linear") {
    TENON_RETURN_IF_ERROR(keys.Real("rope.scaling.factor", &c->rope_divisor));
    if (!(c->rope_divisor > 0)) return BadInput("rope.scaling.factor {}; a number above 0 needed", c->rope_divisor);
  } else if (scaling == "longrope") {
    TENON_RETURN_IF_ERROR(keys.Real("rope.scaling.attn_factor", &c->rope_mscale));
    // The long factors, for contexts beyond this one, turn every token otherwise: one model cannot serve both.
    int64_t trained = 0;
    TENON_RETURN_IF_ERROR(keys.Count("rope.scaling.original_context_length", c->context, int64_t{1} << 32, &trained));
    c->context = std::min(c->context, trained);
  } else if (!scaling.empty() && scaling != "none") {
    return Unsupported("rope scaling '{}'; supported: none, linear, longrope", scaling);
  }
  return {};
}

// Which layers look at a window only, and how far.
Status ReadWindow(const Keys& keys, Config* c) {
  TENON_RETURN_IF_ERROR(keys.Count("attention.sliding_window", c->arch->default_window, int64_t{1} << 32, &c->window, 0));
  c->local.assign(static_cast<size_t>(c->layers), c->window > 0);
  if (c->window == 0) return {};
  if (c->window >= c->context) c->window = 0;
  int64_t every = c->arch->local_every;
  if (const GgufValue* pattern = keys.Find("attention.sliding_window_pattern"); pattern != nullptr && pattern->is_array()) {
    const auto list = pattern->Ints();
    if (!list || list->size() != c->local.size()) return BadInput("attention.sliding_window_pattern is no list of {}", c->layers);
    for (size_t i = 0; i < list->size(); ++i) c->local[i] = (*list)[i] != 0;
    every = 0;
  } else {
    TENON_RETURN_IF_ERROR(keys.Count("attention.sliding_window_pattern", every, 4096, &every));
  }
  for (int64_t i = 0; every > 0 && i < c->layers; ++i) c->local[static_cast<size_t>(i)] = (i + 1) % every != 0;
  c->local_rope_base = c->arch->local_rope_base;
  TENON_RETURN_IF_ERROR(keys.Real("rope.freq_base_swa", &c->local_rope_base));
  if (c->local_rope_base < 0) return BadInput("rope.freq_base_swa {}; a number above 0 needed", c->local_rope_base);
  return {};
}

}  // namespace

Result<Config> ReadConfig(const GgufFile& file) {
  const GgufValue* name = file.Find("general.architecture");
  const auto text = name != nullptr ? name->String() : std::nullopt;
  if (!text) return BadInput("metadata 'general.architecture' is missing");
  Config c;
  c.arch = FindArch(*text);
  if (c.arch == nullptr) {
    return Unsupported(
        "architecture '{}'; supported: llama (also smollm, mistral), qwen2, qwen3, phi3, gemma, gemma2, gemma3, granite", *text);
  }
  c.interleaved_rope = c.arch->interleaved_rope;
  const Keys keys(file, std::string(*text));
  constexpr int64_t kMost = 1 << 20;
  TENON_RETURN_IF_ERROR(keys.Count("block_count", -1, 4096, &c.layers));
  TENON_RETURN_IF_ERROR(keys.Count("embedding_length", -1, kMost, &c.width));
  TENON_RETURN_IF_ERROR(keys.Count("attention.head_count", -1, kMost, &c.heads));
  TENON_RETURN_IF_ERROR(keys.Count("attention.head_count_kv", c.heads, kMost, &c.kv_heads));
  if (c.heads % c.kv_heads != 0) return BadInput("{} heads and {} of keys; a multiple needed", c.heads, c.kv_heads);
  TENON_RETURN_IF_ERROR(keys.Count("attention.key_length", c.width / c.heads, 4096, &c.head_dim));
  int64_t value_dim = 0;
  TENON_RETURN_IF_ERROR(keys.Count("attention.value_length", c.head_dim, 4096, &value_dim));
  if (value_dim != c.head_dim) return Unsupported("keys of {} and values of {} elements", c.head_dim, value_dim);
  TENON_RETURN_IF_ERROR(keys.Count("context_length", 4096, int64_t{1} << 32, &c.context));
  TENON_RETURN_IF_ERROR(keys.Real("attention.layer_norm_rms_epsilon", &c.epsilon));
  if (c.layers == c.arch->scaled_by_width) c.attention_scale = 1 / std::sqrt(static_cast<float>(c.width / c.heads));
  TENON_RETURN_IF_ERROR(keys.Real("attention.scale", &c.attention_scale));
  TENON_RETURN_IF_ERROR(keys.Real("attn_logit_softcapping", &c.attention_softcap));
  TENON_RETURN_IF_ERROR(keys.Real("final_logit_softcapping", &c.final_softcap));
  TENON_RETURN_IF_ERROR(keys.Real("embedding_scale", &c.embedding_scale));
  TENON_RETURN_IF_ERROR(keys.Real("residual_scale", &c.residual_scale));
  TENON_RETURN_IF_ERROR(keys.Real("logit_scale", &c.logit_divisor));
  if (c.logit_divisor == 0) return BadInput("logit_scale is 0");
  if (c.arch->scaled_embedding) c.embedding_scale = std::sqrt(static_cast<float>(c.width));
  TENON_RETURN_IF_ERROR(ReadRope(keys, &c));
  TENON_RETURN_IF_ERROR(ReadWindow(keys, &c));
  const GgufTensor* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr) return BadInput("tensor 'token_embd.weight' is missing");
  c.vocabulary = embedding->rows();
  return c;
}

std::vector<float> RopeFrequencies(const Config& config, bool local, const std::vector<float>& factors) {
  std::vector<float> out;
  const bool own = local && config.local_rope_base > 0;
  const double base = own ? config.local_rope_base : config.rope_base;
  for (int64_t i = 0; i < config.rope_dims / 2; ++i) {
    const double f = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(config.rope_dims));
    const double factor = factors.empty() ? 1 : factors[static_cast<size_t>(i)];
    out.push_back(static_cast<float>(f / factor / (own ? 1 : config.rope_divisor)));
  }
  return out;
}

}  // namespace tenon::import::gguf
