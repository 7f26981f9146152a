// The numbers of a decoder, read from config.json and checked.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "import/hf/decoder.h"
#include "import/hf/fields.h"

namespace tenon::import::hf {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMost = 1 << 20;

constexpr DecoderArch kArchs[] = {
    {.model_type = "llama", .gguf = "llama"},
    {.model_type = "mistral", .gguf = "mistral"},
    {.model_type = "granite", .gguf = "granite"},
    {.model_type = "qwen2", .gguf = "qwen2"},
    {.model_type = "qwen3", .gguf = "qwen3"},
    {.model_type = "phi3", .gguf = "phi3"},
    {.model_type = "gemma", .gguf = "gemma", .norms_add_one = true, .ties = true},
    {.model_type = "gemma2", .gguf = "gemma2", .norms_add_one = true, .norms_around = true, .ties = true},
    {.model_type = "gemma3_text", .gguf = "gemma3", .norms_add_one = true, .norms_around = true, .ties = true},
};

std::string Text(const Json* v) {
  return v != nullptr && v->is_string() ? v->get<std::string>() : "";
}

bool IsTrue(const Json& j, const char* key, bool fallback) {
  const Json* v = Find(j, {key});
  return v != nullptr && v->is_boolean() ? v->get<bool>() : fallback;
}

// Llama 3: slow pairs turn slower by `factor`, fast ones as ever, those between by something between.
Status ReadLlama3(const Json& rope, const gguf::Config& c, std::vector<float>* factors) {
  float factor = 1, low = 1, high = 4;
  int64_t trained = 0;
  TENON_RETURN_IF_ERROR(Real(rope, {"factor"}, &factor));
  TENON_RETURN_IF_ERROR(Real(rope, {"low_freq_factor"}, &low));
  TENON_RETURN_IF_ERROR(Real(rope, {"high_freq_factor"}, &high));
  TENON_RETURN_IF_ERROR(Count(rope, {"original_max_position_embeddings"}, -1, int64_t{1} << 32, &trained));
  if (!(high > low)) return BadInput("config.json: high_freq_factor {} is not above low_freq_factor {}", high, low);
  for (const float angle : gguf::RopeFrequencies(c, false, {})) {
    const double turns =
        static_cast<double>(trained) * static_cast<double>(angle) / (2 * std::numbers::pi);   // in all of the context
    const double fast = std::clamp((turns - static_cast<double>(low)) / static_cast<double>(high - low), 0.0, 1.0);
    factors->push_back(static_cast<float>(1 / ((1 - fast) / static_cast<double>(factor) + fast)));
  }
  return {};
}

// The short factors: contexts beyond the one of training, which long ones are for, turn every token otherwise.
Status ReadLongRope(const Json& j, const Json& rope, gguf::Config* c, std::vector<float>* factors) {
  int64_t trained = 0;
  const Json& where = Find(rope, {"original_max_position_embeddings"}) != nullptr ? rope : j;
  TENON_RETURN_IF_ERROR(Count(where, {"original_max_position_embeddings"}, c->context, int64_t{1} << 32, &trained));
  const float stretch = static_cast<float>(c->context) / static_cast<float>(trained);
  if (stretch > 1 && trained > 1) c->rope_mscale = std::sqrt(1 + std::log(stretch) / std::log(static_cast<float>(trained)));
  TENON_RETURN_IF_ERROR(Real(rope, {"attention_factor"}, &c->rope_mscale));
  c->context = std::min(c->context, trained);
  const Json* list = Find(rope, {"short_factor"});
  if (list == nullptr || !list->is_array() || std::ssize(*list) != c->rope_dims / 2) {
    return BadInput("config.json: short_factor is no list of {}", c->rope_dims / 2);
  }
  for (const Json& f : *list) {
    if (!f.is_number() || !(f.get<float>() > 0)) return BadInput("config.json: short_factor holds what is no number above 0");
    factors->push_back(f.get<float>());
  }
  return {};
}

Status ReadRope(const Json& j, DecoderConfig* out) {
  gguf::Config& c = out->numbers;
  const Json none = Json::object();
  const Json* rope = Find(j, {"rope_parameters", "rope_scaling"});
  if (rope == nullptr) rope = &none;
  if (!rope->is_object()) return BadInput("config.json: rope_parameters is no object");
  const Json* local = Find(*rope, {"sliding_attention"});
  if (const Json* full = Find(*rope, {"full_attention"})) rope = full;
  TENON_RETURN_IF_ERROR(Real(j, {"rope_theta"}, &c.rope_base));
  TENON_RETURN_IF_ERROR(Real(*rope, {"rope_theta"}, &c.rope_base));
  c.local_rope_base = c.arch->local_rope_base;
  TENON_RETURN_IF_ERROR(Real(j, {"rope_local_base_freq"}, &c.local_rope_base));
  if (local != nullptr) {
    TENON_RETURN_IF_ERROR(Want(*local, "rope_type", "default"));
    TENON_RETURN_IF_ERROR(Real(*local, {"rope_theta"}, &c.local_rope_base));
  }
  float part = 1;
  TENON_RETURN_IF_ERROR(Real(j, {"partial_rotary_factor"}, &part));
  TENON_RETURN_IF_ERROR(Real(*rope, {"partial_rotary_factor"}, &part));
  c.rope_dims = static_cast<int64_t>(static_cast<float>(c.head_dim) * std::min(part, 1.0f));
  if (c.rope_dims < 2 || c.rope_dims % 2 != 0)
    return BadInput("config.json: {} elements of a head are turned; an even number needed", c.rope_dims);
  const std::string type = Text(Find(*rope, {"rope_type", "type"}));
  if (type == "linear") return Real(*rope, {"factor"}, &c.rope_divisor);
  if (type == "llama3") return ReadLlama3(*rope, c, &out->rope_factors);
  if (type == "longrope" || type == "su") return ReadLongRope(j, *rope, &c, &out->rope_factors);
  if (!type.empty() && type != "default")
    return Unsupported("config.json: rope_type '{}'; supported: default, linear, llama3, longrope", type);
  return {};
}

Status ReadWindow(const Json& j, gguf::Config* c) {
  c->local.assign(static_cast<size_t>(c->layers), false);
  const Json* window = Find(j, {"sliding_window"});
  if (window == nullptr || !IsTrue(j, "use_sliding_window", true)) return {};
  TENON_RETURN_IF_ERROR(Count(j, {"sliding_window"}, -1, int64_t{1} << 32, &c->window));
  if (const Json* kinds = Find(j, {"layer_types"})) {
    if (!kinds->is_array() || kinds->size() != c->local.size())
      return BadInput("config.json: layer_types is no list of {}", c->layers);
    for (size_t i = 0; i < kinds->size(); ++i) {
      const std::string kind = Text(&(*kinds)[i]);
      if (kind != "sliding_attention" && kind != "full_attention")
        return Unsupported("config.json: layer_types holds '{}'", kind);
      c->local[i] = kind == "sliding_attention";
    }
  } else if (Find(j, {"max_window_layers"}) != nullptr) {
    return Unsupported("config.json: sliding_window without layer_types, and max_window_layers");
  } else {
    int64_t every = c->arch->local_every;
    TENON_RETURN_IF_ERROR(Count(j, {"sliding_window_pattern"}, every, 4096, &every));
    for (int64_t i = 0; i < c->layers; ++i) c->local[static_cast<size_t>(i)] = every == 0 || (i + 1) % every != 0;
  }
  if (c->window >= c->context) c->window = 0;
  return {};
}

// What scores, sums and embeddings are multiplied by.
Status ReadFactors(const Json& j, gguf::Config* c) {
  float scalar = 0;
  TENON_RETURN_IF_ERROR(Real(j, {"query_pre_attn_scalar"}, &scalar));
  if (scalar > 0) c->attention_scale = 1 / std::sqrt(scalar);
  TENON_RETURN_IF_ERROR(Real(j, {"attention_multiplier"}, &c->attention_scale));
  TENON_RETURN_IF_ERROR(Real(j, {"attn_logit_softcapping"}, &c->attention_softcap));
  TENON_RETURN_IF_ERROR(Real(j, {"final_logit_softcapping"}, &c->final_softcap));
  TENON_RETURN_IF_ERROR(Real(j, {"embedding_multiplier"}, &c->embedding_scale));
  TENON_RETURN_IF_ERROR(Real(j, {"residual_multiplier"}, &c->residual_scale));
  TENON_RETURN_IF_ERROR(Real(j, {"logits_scaling"}, &c->logit_divisor));
  if (c->arch->scaled_embedding) c->embedding_scale = std::sqrt(static_cast<float>(c->width));
  return {};
}

Status ReadActivation(const Json& j, const gguf::Config& c) {
  const std::string name = Text(Find(j, {"hidden_activation", "hidden_act"}));
  const bool silu = std::string_view(c.arch->gate) == "silu";
  // Gemma's older configurations say "gelu" and mean the tanh form.
  if (name.empty() || (silu ? name == "silu" : name.starts_with("gelu"))) return {};
  return Unsupported("config.json: hidden_act '{}'; supported for '{}' is {}", name, c.arch->name,
                     silu ? "silu" : "gelu_pytorch_tanh");
}

}  // namespace

const DecoderArch* FindDecoderArch(std::string_view model_type) {
  const auto it =
      std::find_if(std::begin(kArchs), std::end(kArchs), [&](const DecoderArch& a) { return a.model_type == model_type; });
  return it != std::end(kArchs) ? it : nullptr;
}

std::string KnownDecoders() {
  std::string names;
  for (const DecoderArch& a : kArchs) names += (names.empty() ? "" : ", ") + std::string(a.model_type);
  return names;
}

Result<DecoderConfig> ReadDecoderConfig(const DecoderArch& arch, const Json& j) {
  DecoderConfig out;
  out.arch = &arch;
  gguf::Config& c = out.numbers;
  c.arch = gguf::FindArch(arch.gguf);
  TENON_RETURN_IF_ERROR(Count(j, {"num_hidden_layers"}, -1, 4096, &c.layers));
  TENON_RETURN_IF_ERROR(Count(j, {"hidden_size"}, -1, kMost, &c.width));
  TENON_RETURN_IF_ERROR(Count(j, {"num_attention_heads"}, -1, kMost, &c.heads));
  TENON_RETURN_IF_ERROR(Count(j, {"num_key_value_heads"}, c.heads, kMost, &c.kv_heads));
  if (c.heads % c.kv_heads != 0) return BadInput("config.json: {} heads and {} of keys; a multiple needed", c.heads, c.kv_heads);
  TENON_RETURN_IF_ERROR(Count(j, {"head_dim"}, std::max<int64_t>(1, c.width / c.heads), 4096, &c.head_dim));
  TENON_RETURN_IF_ERROR(Count(j, {"max_position_embeddings"}, 4096, int64_t{1} << 32, &c.context));
  TENON_RETURN_IF_ERROR(Count(j, {"vocab_size"}, -1, int64_t{1} << 24, &c.vocabulary));
  c.epsilon = 1e-6f;
  TENON_RETURN_IF_ERROR(Real(j, {"rms_norm_eps"}, &c.epsilon));
  TENON_RETURN_IF_ERROR(ReadActivation(j, c));
  TENON_RETURN_IF_ERROR(ReadFactors(j, &c));
  TENON_RETURN_IF_ERROR(ReadRope(j, &out));
  TENON_RETURN_IF_ERROR(ReadWindow(j, &c));
  out.tied = IsTrue(j, "tie_word_embeddings", arch.ties);
  return out;
}

}  // namespace tenon::import::hf
