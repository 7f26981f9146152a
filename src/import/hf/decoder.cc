// The tensors of a decoder's folder under GGUF's names.
#include "import/hf/decoder.h"

#include <cstring>
#include <deque>
#include <optional>

#include "import/gguf/decoder.h"

namespace tenon::import::hf {
namespace {

struct Name {
  std::string_view here, there;
};
constexpr Name kOutside[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
};
// Within a layer, without ".weight" and ".bias".
constexpr Name kInside[] = {
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
};

std::string_view Lookup(std::span<const Name> names, std::string_view here) {
  for (const Name& n : names) {
    if (n.here == here) return n.there;
  }
  return {};
}

// Empty: the name is not known.
std::string GgufName(const DecoderArch& arch, std::string_view name) {
  if (const std::string_view there = Lookup(kOutside, name); !there.empty()) return std::string(there);
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return {};
  name.remove_prefix(kLayers.size());
  const size_t first = name.find('.'), last = name.rfind('.');
  if (first == std::string_view::npos || last <= first) return {};
  const std::string_view number = name.substr(0, first), inside = name.substr(first + 1, last - first - 1),
                         kind = name.substr(last);
  if (kind != ".weight" && kind != ".bias") return {};
  std::string_view there = Lookup(kInside, inside);
  if (inside == "post_attention_layernorm") there = arch.norms_around ? "post_attention_norm" : "ffn_norm";
  return there.empty() ? std::string() : fmt::format("blk.{}.{}{}", number, there, kind);
}

class Tensors {
 public:
  explicit Tensors(const DecoderConfig& config) : config_(config) {}

  Status Add(const Safetensors& weights) {
    for (const auto& [name, entry] : weights.entries()) {
      if (name.ends_with("rotary_emb.inv_freq") || (config_.tied && name == "lm_head.weight")) continue;
      const std::string known = GgufName(*config_.arch, name);
      if (known.empty())
        return Unsupported("tensor '{}' has no place in a '{}' as it is known here", name, config_.arch->model_type);
      GgufTensor t;
      t.name = known;
      t.shape.assign(entry.shape.dims().begin(), entry.shape.dims().end());
      t.format = FindBlockFormat(entry.dtype == DType::kF32    ? "f32"
                                 : entry.dtype == DType::kF16  ? "f16"
                                 : entry.dtype == DType::kBF16 ? "bf16"
                                                               : "");
      if (t.format == nullptr)
        return BadInput("tensor '{}' has elements of type {}; allowed: f32, f16, bf16", name, DTypeName(entry.dtype));
      if (t.shape.empty() || t.shape.size() > 2)
        return BadInput("tensor '{}' has the shape {}; one or two extents needed", name, entry.shape.ToString());
      t.data = entry.bytes.data(), t.bytes = entry.bytes.size(), t.file = weights.file();
      if (config_.arch->norms_add_one && known.ends_with("norm.weight")) AddOne(&t);
      all_.push_back(std::move(t));
    }
    return {};
  }

  // A vector that no file has.
  void AddVector(std::string name, std::vector<float> values) {
    GgufTensor t;
    t.name = std::move(name);
    t.shape = {std::ssize(values)};
    Own(std::move(values), &t);
    all_.push_back(std::move(t));
  }

  std::span<const GgufTensor> all() const { return all_; }

 private:
  void Own(std::vector<float> values, GgufTensor* t) {
    own_.push_back(std::move(values));
    t->format = FindBlockFormat("f32");
    t->data = reinterpret_cast<const std::byte*>(own_.back().data()), t->bytes = own_.back().size() * sizeof(float),
    t->file = nullptr;
  }
  void AddOne(GgufTensor* t) {
    std::vector<float> values(static_cast<size_t>(t->rows() * t->row()));
    UnpackRow(*t->format, reinterpret_cast<const uint8_t*>(t->data), std::ssize(values), values.data());
    for (float& v : values) v += 1;
    Own(std::move(values), t);
  }

  const DecoderConfig& config_;
  std::vector<GgufTensor> all_;
  std::deque<std::vector<float>> own_;
};

}  // namespace

Result<ir::Graph> BuildDecoder(const std::vector<Safetensors>& weights, const DecoderConfig& config,
                               const LanguageModelOptions& options) {
  Tensors tensors(config);
  for (const Safetensors& file : weights) TENON_RETURN_IF_ERROR(tensors.Add(file));
  if (!config.rope_factors.empty()) tensors.AddVector("rope_freqs.weight", config.rope_factors);
  for (const GgufTensor& t : tensors.all()) {
    if (t.name == "token_embd.weight" && t.rows() != config.numbers.vocabulary)
      return BadInput("config.json: vocab_size is {}; the embedding has {} rows", config.numbers.vocabulary, t.rows());
  }
  return gguf::BuildDecoder(tensors.all(), config.numbers, options);
}

}  // namespace tenon::import::hf
