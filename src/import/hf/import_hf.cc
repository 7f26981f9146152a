// Hugging Face folders to graphs: BERT encoders, with what sentence-transformers keeps beside them.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "import/hf/safetensors.h"
#include "import/import.h"
#include "text/tokenizer_spec.h"

namespace tenon::import {
namespace {

namespace fs = std::filesystem;
using ir::kNone;
using ir::ValueId;
using Json = nlohmann::json;

constexpr uint64_t kMaxJson = uint64_t{256} << 20;

Result<std::string> ReadText(const fs::path& path) {
  return ReadFile(path.string(), kMaxJson);
}

Result<Json> ReadJson(const fs::path& path) {
  TENON_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return BadInput("'{}' is no JSON", path.string());
  return json;
}

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::string Text(const Json& j, const char* key, std::string otherwise) {
  return j.is_object() && j.contains(key) && j[key].is_string() ? j[key].get<std::string>() : otherwise;
}

struct BertConfig {
  int64_t width = 0, layers = 0, heads = 0, inner = 0, positions = 0, types = 0, vocabulary = 0;
  float epsilon = 1e-12f;
  std::string activation;

  static Result<BertConfig> Read(const Json& j) {
    BertConfig c;
    const std::pair<const char*, int64_t*> kNumbers[] = {
        {"hidden_size", &c.width},       {"num_hidden_layers", &c.layers},          {"num_attention_heads", &c.heads},
        {"intermediate_size", &c.inner}, {"max_position_embeddings", &c.positions}, {"type_vocab_size", &c.types},
        {"vocab_size", &c.vocabulary}};
    constexpr int64_t kMost = 1 << 24;
    for (const auto& [key, value] : kNumbers) {
      if (!j.contains(key) || !j[key].is_number_integer() || j[key].get<int64_t>() < 1 || j[key].get<int64_t>() > kMost)
        return BadInput("config.json: '{}' is missing or not within 1..{}", key, kMost);
      *value = j[key].get<int64_t>();
    }
    if (c.layers > 1024) return BadInput("config.json: {} layers; at most 1024", c.layers);
    if (c.width % c.heads != 0) return BadInput("config.json: hidden_size {} is no multiple of {} heads", c.width, c.heads);
    if (j.contains("layer_norm_eps") && j["layer_norm_eps"].is_number()) c.epsilon = j["layer_norm_eps"].get<float>();
    c.activation = Text(j, "hidden_act", "gelu");
    if (c.activation != "gelu" && c.activation != "gelu_new" && c.activation != "relu")
      return Unsupported("config.json: hidden_act '{}'; supported are gelu, gelu_new and relu", c.activation);
    const std::string position = Text(j, "position_embedding_type", "absolute");
    if (position != "absolute") return Unsupported("config.json: position_embedding_type '{}'; supported is absolute", position);
    return c;
  }
};

// One input, input_ids [batch, seq]: every row is a whole text, so nothing is masked and nothing padded.
class BertBuilder {
 public:
  BertBuilder(const Safetensors& weights, const BertConfig& config) : w_(weights), c_(config) {
    for (const char* prefix : {"", "bert.", "model.", "0.auto_model."}) {
      if (w_.Has(std::string(prefix) + "embeddings.word_embeddings.weight")) prefix_ = prefix;
    }
  }

  Result<ir::Graph> Run() {
    const ValueId ids = graph_.AddInput("input_ids", DType::kI64, SymShape({Dim::Symbol("batch"), Dim::Symbol("seq")}));
    TENON_ASSIGN_OR_RETURN(const ValueId words, Constant("embeddings.word_embeddings.weight", {c_.vocabulary, c_.width}));
    TENON_ASSIGN_OR_RETURN(const ValueId positions, Constant("embeddings.position_embeddings.weight", {c_.positions, c_.width}));
    TENON_ASSIGN_OR_RETURN(const ValueId types, Constant("embeddings.token_type_embeddings.weight", {c_.types, c_.width}));
    Attrs seq_axis;
    seq_axis.Set("start", int64_t{1});
    seq_axis.Set("end", int64_t{2});
    const ValueId seq = Emit("Shape", {ids}, std::move(seq_axis), "seq", DType::kI64);
    const ValueId zero = Ints("zero", {0});
    const ValueId here = Emit("Slice", {positions, zero, seq, zero}, {}, "positions");
    const ValueId type = Emit("Slice", {types, zero, Ints("one", {1}), zero}, {}, "type");
    ValueId x = Emit("Gather", {words, ids}, {}, "words");
    x = Emit("Add", {x, type}, {}, "with_type");
    x = Emit("Add", {x, here}, {}, "with_position");
    TENON_ASSIGN_OR_RETURN(x, Norm(x, "embeddings.LayerNorm"));
    for (int64_t i = 0; i < c_.layers; ++i) {
      TENON_ASSIGN_OR_RETURN(x, Layer(fmt::format("encoder.layer.{}.", i), x));
    }
    graph_.Rename(x, "last_hidden_state");
    graph_.AddOutput(x);
    return std::move(graph_);
  }

 private:
  ValueId Emit(std::string op, std::vector<ValueId> inputs, Attrs attrs, const std::string& name, DType dtype = DType::kF32) {
    const ValueId out = graph_.AddValue(name, dtype, SymShape());
    ir::Node node;
    node.op = std::move(op);
    node.name = name;
    node.attrs = std::move(attrs);
    node.inputs = std::move(inputs);
    node.outputs = {out};
    graph_.AddNode(std::move(node));
    return out;
  }
  ValueId Ints(const std::string& name, const std::vector<int64_t>& values) {
    return graph_.AddConstant(name, Tensor::FromVector<int64_t>(Shape({static_cast<int64_t>(values.size())}), values));
  }
  Result<ValueId> Constant(const std::string& name, std::vector<int64_t> extents) {
    TENON_ASSIGN_OR_RETURN(Tensor t, w_.Float(prefix_ + name, Shape(std::span<const int64_t>(extents))));
    return graph_.AddConstant(name, std::move(t));
  }

  Result<ValueId> Norm(ValueId x, const std::string& name) {
    TENON_ASSIGN_OR_RETURN(const ValueId scale, Constant(name + ".weight", {c_.width}));
    TENON_ASSIGN_OR_RETURN(const ValueId bias, Constant(name + ".bias", {c_.width}));
    Attrs attrs;
    attrs.Set("axis", int64_t{-1});
    attrs.Set("epsilon", c_.epsilon);
    return Emit("LayerNormalization", {x, scale, bias}, std::move(attrs), name);
  }

  Result<ValueId> Linear(ValueId x, const std::string& name, int64_t in, int64_t out) {
    TENON_ASSIGN_OR_RETURN(const ValueId weight, Constant(name + ".weight", {out, in}));
    TENON_ASSIGN_OR_RETURN(const ValueId bias, Constant(name + ".bias", {out}));
    Attrs perm;
    perm.Set("perm", std::vector<int64_t>{1, 0});
    const ValueId columns = Emit("Transpose", {weight}, std::move(perm), name + ".transposed");
    return Emit("Add", {Emit("MatMul", {x, columns}, {}, name), bias}, {}, name + ".biased");
  }

  ValueId Activation(ValueId x, const std::string& name) {
    if (c_.activation == "relu") return Emit("Relu", {x}, {}, name);
    Attrs attrs;
    if (c_.activation == "gelu_new") attrs.Set("approximate", std::string("tanh"));
    return Emit("Gelu", {x}, std::move(attrs), name);
  }

  Result<ValueId> Layer(const std::string& layer, ValueId x) {
    TENON_ASSIGN_OR_RETURN(const ValueId q, Linear(x, layer + "attention.self.query", c_.width, c_.width));
    TENON_ASSIGN_OR_RETURN(const ValueId k, Linear(x, layer + "attention.self.key", c_.width, c_.width));
    TENON_ASSIGN_OR_RETURN(const ValueId v, Linear(x, layer + "attention.self.value", c_.width, c_.width));
    Attrs attention;
    attention.Set("num_heads", c_.heads);
    const ValueId mixed = Emit("FusedAttention", {q, k, v}, std::move(attention), layer + "attention.self");
    TENON_ASSIGN_OR_RETURN(const ValueId attended, Linear(mixed, layer + "attention.output.dense", c_.width, c_.width));
    TENON_ASSIGN_OR_RETURN(
        x, Norm(Emit("Add", {attended, x}, {}, layer + "attention.residual"), layer + "attention.output.LayerNorm"));
    TENON_ASSIGN_OR_RETURN(ValueId h, Linear(x, layer + "intermediate.dense", c_.width, c_.inner));
    h = Activation(h, layer + "intermediate.activation");
    TENON_ASSIGN_OR_RETURN(h, Linear(h, layer + "output.dense", c_.inner, c_.width));
    return Norm(Emit("Add", {h, x}, {}, layer + "residual"), layer + "output.LayerNorm");
  }

  const Safetensors& w_;
  const BertConfig& c_;
  std::string prefix_;
  ir::Graph graph_;
};

// How sentence-transformers makes one vector of a text's: into the graph's metadata, where `tenon embed` and a server find it.
Status ReadPooling(const fs::path& folder, int64_t positions, std::map<std::string, std::string>* metadata) {
  std::string pooling = "mean";
  bool normalize = false;
  int64_t longest = positions;
  if (Exists(folder / "modules.json")) {
    TENON_ASSIGN_OR_RETURN(const Json modules, ReadJson(folder / "modules.json"));
    for (const Json& m : modules.is_array() ? modules : Json::array()) {
      const std::string type = Text(m, "type", "");
      if (type.ends_with(".Normalize")) {
        normalize = true;
      } else if (type.ends_with(".Pooling")) {
        const fs::path path = Text(m, "path", "");
        if (path.is_absolute() || path.string().find("..") != std::string::npos)
          return BadInput("modules.json: the path '{}' leads out of the folder", path.string());
        TENON_ASSIGN_OR_RETURN(const Json config, ReadJson(folder / path / "config.json"));
        pooling.clear();
        for (const auto& [key, name] : {std::pair{"pooling_mode_cls_token", "cls"},
                                        {"pooling_mode_mean_tokens", "mean"},
                                        {"pooling_mode_max_tokens", "max"},
                                        {"pooling_mode_lasttoken", "last"}}) {
          if (!config.is_object() || !config.contains(key) || !config[key].is_boolean() || !config[key].get<bool>()) continue;
          if (!pooling.empty()) return Unsupported("two modes of pooling together");
          pooling = name;
        }
        if (pooling.empty()) return Unsupported("the pooling of '{}'; supported are cls, mean, max and lasttoken", path.string());
      } else if (!type.ends_with(".Transformer")) {
        return Unsupported("modules.json: a module of type '{}'", type);
      }
    }
  }
  if (Exists(folder / "sentence_bert_config.json")) {
    TENON_ASSIGN_OR_RETURN(const Json config, ReadJson(folder / "sentence_bert_config.json"));
    if (config.is_object() && config.contains("max_seq_length") && config["max_seq_length"].is_number_integer()) {
      longest = config["max_seq_length"].get<int64_t>();
      if (longest < 1 || longest > positions)
        return BadInput("max_seq_length is {}; the model has {} positions", longest, positions);
    }
  }
  (*metadata)["tenon.pooling"] = pooling;
  (*metadata)["tenon.normalize"] = normalize ? "1" : "0";
  (*metadata)["tenon.max_tokens"] = std::to_string(longest);
  return Status::Ok();
}

}  // namespace

Result<ir::Graph> ImportHf(const std::string& path) {
  const fs::path folder(path);
  if (!Exists(folder / "config.json")) return BadInput("the folder has no config.json");
  TENON_ASSIGN_OR_RETURN(const Json config, ReadJson(folder / "config.json"));
  if (!config.is_object()) return BadInput("config.json is no JSON object");
  const std::string type = Text(config, "model_type", "");
  if (type != "bert") return Unsupported("config.json: model_type '{}'; supported is bert", type);
  if (!Exists(folder / "model.safetensors")) return BadInput("the folder has no model.safetensors");
  TENON_ASSIGN_OR_RETURN(const BertConfig bert, BertConfig::Read(config));
  TENON_ASSIGN_OR_RETURN(const Safetensors weights, Safetensors::Open((folder / "model.safetensors").string()));
  TENON_ASSIGN_OR_RETURN(ir::Graph graph, BertBuilder(weights, bert).Run());
  graph.metadata["general.architecture"] = type;
  TENON_RETURN_IF_ERROR(ReadPooling(folder, bert.positions, &graph.metadata));
  if (Exists(folder / "tokenizer.json")) {
    TENON_ASSIGN_OR_RETURN(const std::string json, ReadText(folder / "tokenizer.json"));
    std::string tokenizer_config;
    if (Exists(folder / "tokenizer_config.json")) {
      TENON_ASSIGN_OR_RETURN(tokenizer_config, ReadText(folder / "tokenizer_config.json"));
    }
    TENON_ASSIGN_OR_RETURN(const text::TokenizerSpec spec, text::SpecFromJson(json, tokenizer_config));
    graph.metadata["tenon.tokenizer"] = spec.Serialize();
  }
  return graph;
}

}  // namespace tenon::import
