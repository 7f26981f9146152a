#include "import/hf/arch.h"

namespace tenon::import::hf {
namespace {

constexpr Names kBert = {
    .words = "embeddings.word_embeddings",
    .positions = "embeddings.position_embeddings",
    .types = "embeddings.token_type_embeddings",
    .embedding_norm = "embeddings.LayerNorm",
    .layer = "encoder.layer.",
    .query = "attention.self.query",
    .key = "attention.self.key",
    .value = "attention.self.value",
    .attention_out = "attention.output.dense",
    .attention_norm = "attention.output.LayerNorm",
    .up = "intermediate.dense",
    .down = "output.dense",
    .output_norm = "output.LayerNorm",
};

constexpr Names kMpnet = {
    .words = "embeddings.word_embeddings",
    .positions = "embeddings.position_embeddings",
    .embedding_norm = "embeddings.LayerNorm",
    .layer = "encoder.layer.",
    .query = "attention.attn.q",
    .key = "attention.attn.k",
    .value = "attention.attn.v",
    .attention_out = "attention.attn.o",
    .attention_norm = "attention.LayerNorm",
    .up = "intermediate.dense",
    .down = "output.dense",
    .output_norm = "output.LayerNorm",
};

constexpr Names kNomic = {
    .words = "embeddings.word_embeddings",
    .types = "embeddings.token_type_embeddings",
    .embedding_norm = "emb_ln",
    .layer = "encoder.layers.",
    .qkv = "attn.Wqkv",
    .attention_out = "attn.out_proj",
    .attention_norm = "norm1",
    .gate = "mlp.fc12",
    .up = "mlp.fc11",
    .down = "mlp.fc2",
    .output_norm = "norm2",
};

constexpr Names kModern = {
    .words = "embeddings.tok_embeddings",
    .embedding_norm = "embeddings.norm",
    .final_norm = "final_norm",
    .layer = "layers.",
    .qkv = "attn.Wqkv",
    .attention_out = "attn.Wo",
    .attention_norm = "attn_norm",
    .gate_up = "mlp.Wi",
    .down = "mlp.Wo",
    .output_norm = "mlp_norm",
};

constexpr Arch kArchs[] = {
    {.model_type = "bert", .names = &kBert},
    {.model_type = "roberta", .names = &kBert, .offset = Offset::kAfterPadding},
    {.model_type = "xlm-roberta", .names = &kBert, .offset = Offset::kAfterPadding},
    {.model_type = "mpnet", .names = &kMpnet, .offset = Offset::kTwo, .relative_bias = true},
    {.model_type = "nomic_bert", .names = &kNomic, .rope_base = 1000},
    {.model_type = "modernbert", .names = &kModern, .pre_norm = true, .rope_base = 160000, .local_rope_base = 10000},
};

}  // namespace

const Arch* FindArch(std::string_view model_type) {
  for (const Arch& a : kArchs) {
    if (a.model_type == model_type) return &a;
  }
  return nullptr;
}

std::string KnownArchs() {
  std::string names;
  for (const Arch& a : kArchs) names += (names.empty() ? "" : ", ") + std::string(a.model_type);
  return names;
}

}  // namespace tenon::import::hf
