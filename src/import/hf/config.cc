#include "import/hf/config.h"

#include <nlohmann/json.hpp>

#include "import/hf/decoder.h"
#include "import/hf/fields.h"

namespace tenon::import::hf {
namespace {

using Json = nlohmann::json;

Status ReadActivation(const Json& j, Config* c) {
  const Json* v = Find(j, {"hidden_act", "hidden_activation", "activation_function"});
  const std::string name = v == nullptr ? "gelu" : v->is_string() ? v->get<std::string>() : "";
  if (name == "gelu" || name == "relu" || name == "silu") {
    c->activation = name;
  } else if (name == "gelu_new" || name == "gelu_pytorch_tanh") {
    c->activation = "gelu_tanh";
  } else if (name == "swiglu" && c->arch->names->gate != nullptr) {
    c->activation = "silu";
  } else {
    return Unsupported("config.json: hidden_act '{}'; supported are gelu, gelu_new, gelu_pytorch_tanh, relu and silu", name);
  }
  return {};
}

// Rotary embedding, for all layers or for each kind of them.
Status ReadRope(const Json& j, Config* c) {
  if (c->arch->rope_base == 0) return {};
  if (c->head_dim() % 2 != 0) return BadInput("config.json: heads of {} elements; an even number needed", c->head_dim());
  c->rope_base = c->arch->rope_base;
  c->local_rope_base = c->arch->local_rope_base;
  TENON_RETURN_IF_ERROR(Real(j, {"rope_theta", "rotary_emb_base", "global_rope_theta"}, &c->rope_base));
  TENON_RETURN_IF_ERROR(Real(j, {"local_rope_theta"}, &c->local_rope_base));
  for (const auto& [key, want] : std::initializer_list<std::pair<const char*, Json>>{{"rotary_emb_fraction", 1.0},
                                                                                     {"rotary_emb_interleaved", false},
                                                                                     {"rotary_scaling_factor", nullptr},
                                                                                     {"rope_scaling", nullptr}}) {
    TENON_RETURN_IF_ERROR(Want(j, key, want));
  }
  const Json* rope = Find(j, {"rope_parameters"});
  if (rope == nullptr) return {};
  const auto read = [&](const Json* parameters, float* base) -> Status {
    if (parameters == nullptr) return {};
    TENON_RETURN_IF_ERROR(Want(*parameters, "rope_type", "default"));
    return Real(*parameters, {"rope_theta"}, base);
  };
  TENON_RETURN_IF_ERROR(read(rope, &c->rope_base));
  TENON_RETURN_IF_ERROR(read(Find(*rope, {"full_attention"}), &c->rope_base));
  return read(Find(*rope, {"sliding_attention"}), &c->local_rope_base);
}

Status ReadLayerKinds(const Json& j, Config* c) {
  c->local.assign(static_cast<size_t>(c->layers), false);
  if (c->arch->local_rope_base == 0) return {};
  int64_t span = 0, every = 0;
  TENON_RETURN_IF_ERROR(Count(j, {"local_attention"}, 128, int64_t{1} << 32, &span));
  c->window = span / 2;
  if (const Json* kinds = Find(j, {"layer_types"})) {
    if (!kinds->is_array() || kinds->size() != c->local.size())
      return BadInput("config.json: layer_types is no list of {}", c->layers);
    for (size_t i = 0; i < kinds->size(); ++i) {
      const bool local = (*kinds)[i] == "sliding_attention";
      if (!local && (*kinds)[i] != "full_attention") return Unsupported("config.json: layer_types holds an unknown kind");
      c->local[i] = local;
    }
    return {};
  }
  TENON_RETURN_IF_ERROR(Count(j, {"global_attn_every_n_layers"}, 3, 1024, &every));
  for (size_t i = 0; i < c->local.size(); ++i) c->local[i] = i % static_cast<size_t>(every) != 0;
  return {};
}

Status ReadPositions(const Json& j, Config* c) {
  constexpr int64_t kMost = 1 << 24;
  TENON_RETURN_IF_ERROR(Count(j, {"max_position_embeddings", "n_positions"}, -1, kMost, &c->positions));
  if (c->arch->offset == Offset::kTwo) c->position_offset = 2;
  if (c->arch->offset == Offset::kAfterPadding) {
    const Json* padding = Find(j, {"pad_token_id"});
    if (padding != nullptr && (!padding->is_number_unsigned() || padding->get<uint64_t>() > static_cast<uint64_t>(kMost)))
      return BadInput("config.json: 'pad_token_id' is no number from 0 to {}", kMost);
    c->position_offset = (padding == nullptr ? 1 : padding->get<int64_t>()) + 1;
  }
  if (c->max_tokens() < 1)
    return BadInput("config.json: {} positions, of which {} stand before the first token's", c->positions, c->position_offset);
  return {};
}

}  // namespace

Result<Config> ReadConfig(const Json& j) {
  const Json* type = Find(j, {"model_type"});
  const std::string name = type != nullptr && type->is_string() ? type->get<std::string>() : "";
  Config c;
  c.arch = FindArch(name);
  if (c.arch == nullptr)
    return Unsupported("config.json: model_type '{}'; supported: {}, {}", name, KnownArchs(), KnownDecoders());
  constexpr int64_t kMost = 1 << 24;
  TENON_RETURN_IF_ERROR(Count(j, {"hidden_size", "n_embd"}, -1, kMost, &c.width));
  TENON_RETURN_IF_ERROR(Count(j, {"num_hidden_layers", "n_layer"}, -1, 1024, &c.layers));
  TENON_RETURN_IF_ERROR(Count(j, {"num_attention_heads", "n_head"}, -1, kMost, &c.heads));
  TENON_RETURN_IF_ERROR(Count(j, {"intermediate_size", "n_inner"}, -1, kMost, &c.inner));
  TENON_RETURN_IF_ERROR(Count(j, {"vocab_size"}, -1, kMost, &c.vocabulary));
  if (c.width % c.heads != 0) return BadInput("config.json: hidden_size {} is no multiple of {} heads", c.width, c.heads);
  if (c.arch->names->types != nullptr) TENON_RETURN_IF_ERROR(Count(j, {"type_vocab_size"}, 2, kMost, &c.types));
  TENON_RETURN_IF_ERROR(Real(j, {"layer_norm_eps", "norm_eps", "layer_norm_epsilon"}, &c.epsilon));
  for (const auto& [key, want] : std::initializer_list<std::pair<const char*, Json>>{{"position_embedding_type", "absolute"},
                                                                                     {"is_decoder", false},
                                                                                     {"prenorm", false},
                                                                                     {"parallel_block", false},
                                                                                     {"use_rms_norm", false},
                                                                                     {"relative_attention_num_buckets", 32},
                                                                                     {"head_dim", c.head_dim()}}) {
    TENON_RETURN_IF_ERROR(Want(j, key, want));
  }
  TENON_RETURN_IF_ERROR(ReadActivation(j, &c));
  TENON_RETURN_IF_ERROR(ReadPositions(j, &c));
  TENON_RETURN_IF_ERROR(ReadRope(j, &c));
  TENON_RETURN_IF_ERROR(ReadLayerKinds(j, &c));
  return c;
}

}  // namespace tenon::import::hf
