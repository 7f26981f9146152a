#include "import/hf/encoder.h"

#include <algorithm>
#include <cmath>

namespace tenon::import::hf {
namespace {

using ir::kNone;
using ir::ValueId;

// Distances of two tokens share a bias in buckets: small ones have their own, larger ones by their logarithm, each direction
// apart.
constexpr int64_t kBuckets = 32, kFar = 128;   // all distances from kFar on are one

int64_t BucketOf(int64_t distance) {
  constexpr int64_t kHalf = kBuckets / 2, kExact = kHalf / 2;
  const int64_t side = distance > 0 ? kHalf : 0, n = std::abs(distance);
  if (n < kExact) return side + n;
  const float octave = std::log(static_cast<float>(n) / kExact) / std::log(static_cast<float>(kFar) / kExact);
  return side + std::min(kExact + static_cast<int64_t>(octave * (kHalf - kExact)), kHalf - 1);
}

class Builder {
 public:
  Builder(const Safetensors& weights, const Config& config) : w_(weights), c_(config), n_(*config.arch->names) {
    for (const char* prefix : {"", "bert.", "roberta.", "mpnet.", "model.", "0.auto_model."}) {
      if (w_.Has(prefix + std::string(n_.words) + ".weight")) prefix_ = prefix;
    }
  }

  Result<ir::Graph> Run() {
    ids_ = graph_.AddInput("input_ids", DType::kI64, SymShape({Dim::Symbol("batch"), Dim::Symbol("seq")}));
    TENON_ASSIGN_OR_RETURN(ValueId x, Embeddings());
    if (c_.rope_base > 0) rope_ = Rope(c_.rope_base, "rope");
    if (c_.local_rope_base > 0) local_rope_ = Rope(c_.local_rope_base, "rope_local");
    if (c_.arch->relative_bias) {
      TENON_ASSIGN_OR_RETURN(bias_, RelativeBias());
    }
    for (int64_t i = 0; i < c_.layers; ++i) {
      TENON_ASSIGN_OR_RETURN(x, Layer(i, x));
    }
    if (n_.final_norm != nullptr) {
      TENON_ASSIGN_OR_RETURN(x, Norm(x, n_.final_norm));
    }
    graph_.Rename(x, "last_hidden_state");
    graph_.AddOutput(x);
    for (const std::string& name : w_.Names()) {
      if (name.starts_with(prefix_ + n_.layer) && used_.count(name) == 0)
        return Unsupported("tensor '{}' has no place in architecture '{}' as it is known here", name, c_.arch->model_type);
    }
    return std::move(graph_);
  }

 private:
  ValueId Emit(std::string op, std::vector<ValueId> inputs, Attrs attrs, const std::string& name, DType dtype = DType::kF32) {
    return Split(std::move(op), std::move(inputs), std::move(attrs), name, 1, dtype).front();
  }
  std::vector<ValueId> Split(std::string op, std::vector<ValueId> inputs, Attrs attrs, const std::string& name, int outputs,
                             DType dtype = DType::kF32) {
    ir::Node node;
    for (int i = 0; i < outputs; ++i) {
      node.outputs.push_back(graph_.AddValue(i == 0 ? name : fmt::format("{}.{}", name, i), dtype, SymShape()));
    }
    node.op = std::move(op), node.name = name, node.attrs = std::move(attrs), node.inputs = std::move(inputs);
    const std::vector<ValueId> out = node.outputs;
    graph_.AddNode(std::move(node));
    return out;
  }
  ValueId Ints(const std::string& name, const std::vector<int64_t>& values) {
    return graph_.AddConstant(name, Tensor::FromVector<int64_t>(Shape({static_cast<int64_t>(values.size())}), values));
  }
  ValueId Int(const std::string& name, int64_t value) { return graph_.AddConstant(name, Tensor::Scalar<int64_t>(value)); }
  bool Has(const std::string& name) const { return w_.Has(prefix_ + name); }
  Result<Tensor> Weights(const std::string& name, std::vector<int64_t> extents) {
    used_.insert(prefix_ + name);
    return w_.Float(prefix_ + name, Shape(std::span<const int64_t>(extents)));
  }
  Result<ValueId> Constant(const std::string& name, std::vector<int64_t> extents) {
    TENON_ASSIGN_OR_RETURN(Tensor t, Weights(name, std::move(extents)));
    return graph_.AddConstant(name, std::move(t));
  }

  ValueId SeqLength() {
    if (seq_ != kNone) return seq_;
    Attrs axis;
    axis.Set("start", int64_t{1});
    axis.Set("end", int64_t{2});
    return seq_ = Emit("Shape", {ids_}, std::move(axis), "seq", DType::kI64);
  }

  Result<ValueId> Embeddings() {
    TENON_ASSIGN_OR_RETURN(const ValueId words, Constant(n_.words + std::string(".weight"), {c_.vocabulary, c_.width}));
    ValueId x = Emit("Gather", {words, ids_}, {}, "words");
    const ValueId axis = Ints("axis", {0});
    if (n_.types != nullptr) {
      TENON_ASSIGN_OR_RETURN(const ValueId types, Constant(n_.types + std::string(".weight"), {c_.types, c_.width}));
      x = Emit("Add", {x, Emit("Slice", {types, axis, Ints("one", {1}), axis}, {}, "type")}, {}, "with_type");
    }
    if (n_.positions != nullptr) {
      TENON_ASSIGN_OR_RETURN(const ValueId table, Constant(n_.positions + std::string(".weight"), {c_.positions, c_.width}));
      const ValueId first = Ints("first_position", {c_.position_offset});
      ValueId end = SeqLength();
      if (c_.position_offset > 0) end = Emit("Add", {end, first}, {}, "end_position", DType::kI64);
      x = Emit("Add", {x, Emit("Slice", {table, first, end, axis}, {}, "positions")}, {}, "with_position");
    }
    return Norm(x, n_.embedding_norm);
  }

  // Cosines and sines of all positions, [batch, seq, head_dim / 2] each.
  std::vector<ValueId> Rope(float base, const std::string& name) {
    std::vector<float> freqs;
    for (int64_t i = 0; i < c_.head_dim(); i += 2) {
      freqs.push_back(
          static_cast<float>(std::pow(static_cast<double>(base), -static_cast<double>(i) / static_cast<double>(c_.head_dim()))));
    }
    Attrs attrs, halves;
    attrs.Set("freqs", std::move(freqs));
    halves.Set("axis", int64_t{-1});
    halves.Set("num_outputs", int64_t{2});
    return Split("Split", {Emit("RopeTable", {ids_}, std::move(attrs), name)}, std::move(halves), name + ".cos", 2);
  }

  // What is added to the scores, [heads, seq, seq].
  Result<ValueId> RelativeBias() {
    TENON_ASSIGN_OR_RETURN(const Tensor buckets, Weights("encoder.relative_attention_bias.weight", {kBuckets, c_.heads}));
    std::vector<float> by_distance;
    for (int64_t head = 0; head < c_.heads; ++head) {
      for (int64_t d = -kFar; d <= kFar; ++d) by_distance.push_back(buckets.Data<float>()[BucketOf(d) * c_.heads + head]);
    }
    const ValueId table =
        graph_.AddConstant("bias_by_distance", Tensor::FromVector<float>({c_.heads, 2 * kFar + 1}, by_distance));
    const ValueId axis = Ints("first_axis", {0}), far = Int("far", kFar);
    const ValueId length = Emit("Squeeze", {SeqLength(), axis}, {}, "length", DType::kI64);
    const ValueId at = Emit("Range", {Int("range_start", 0), length, Int("range_step", 1)}, {}, "places", DType::kI64);
    const ValueId keys = Emit("Unsqueeze", {at, axis}, {}, "key_places", DType::kI64);
    const ValueId queries = Emit("Unsqueeze", {at, Ints("last_axis", {1})}, {}, "query_places", DType::kI64);
    ValueId distance = Emit("Sub", {keys, queries}, {}, "distance", DType::kI64);
    distance = Emit("Clip", {distance, Int("most_before", -kFar), far}, {}, "distance_in_table", DType::kI64);
    Attrs columns;
    columns.Set("axis", int64_t{1});
    return Emit("Gather", {table, Emit("Add", {distance, far}, {}, "distance_index", DType::kI64)}, std::move(columns),
                "position_bias");
  }

  Result<ValueId> Norm(ValueId x, const std::string& name) {
    TENON_ASSIGN_OR_RETURN(const ValueId scale, Constant(name + ".weight", {c_.width}));
    std::vector<ValueId> inputs = {x, scale};
    if (Has(name + ".bias")) {
      TENON_ASSIGN_OR_RETURN(const ValueId bias, Constant(name + ".bias", {c_.width}));
      inputs.push_back(bias);
    }
    Attrs attrs;
    attrs.Set("axis", int64_t{-1});
    attrs.Set("epsilon", c_.epsilon);
    return Emit("LayerNormalization", std::move(inputs), std::move(attrs), name);
  }

  // `parts` products from the rows of one tensor, `out` each.
  Result<std::vector<ValueId>> Linear(ValueId x, const std::string& name, int64_t in, int64_t out, int64_t parts) {
    TENON_ASSIGN_OR_RETURN(const Tensor weight, Weights(name + ".weight", {parts * out, in}));
    Tensor bias;
    if (Has(name + ".bias")) {
      TENON_ASSIGN_OR_RETURN(bias, Weights(name + ".bias", {parts * out}));
    }
    std::vector<ValueId> products;
    for (int64_t part = 0; part < parts; ++part) {
      const std::string of_part = parts == 1 ? name : fmt::format("{}.{}", name, part);
      TENON_ASSIGN_OR_RETURN(Tensor rows, Rows(weight, part * out, Shape({out, in})));
      Attrs perm;
      perm.Set("perm", std::vector<int64_t>{1, 0});
      const ValueId columns =
          Emit("Transpose", {graph_.AddConstant(of_part + ".weight", std::move(rows))}, std::move(perm), of_part + ".transposed");
      ValueId y = Emit("MatMul", {x, columns}, {}, of_part);
      if (bias.dtype() != DType::kUndefined) {
        TENON_ASSIGN_OR_RETURN(Tensor added, Rows(bias, part * out, Shape({out})));
        y = Emit("Add", {y, graph_.AddConstant(of_part + ".bias", std::move(added))}, {}, of_part + ".biased");
      }
      products.push_back(y);
    }
    return products;
  }
  Result<ValueId> Linear(ValueId x, const std::string& name, int64_t in, int64_t out) {
    TENON_ASSIGN_OR_RETURN(const std::vector<ValueId> y, Linear(x, name, in, out, 1));
    return y.front();
  }

  // Rows from `first` on, as many as `shape` has.
  static Result<Tensor> Rows(const Tensor& all, int64_t first, const Shape& shape) {
    if (shape.num_elements() == all.shape().num_elements()) return all;
    const int64_t row = all.shape().rank() == 2 ? all.shape()[1] : 1;
    TENON_ASSIGN_OR_RETURN(Tensor part, Tensor::Allocate(DType::kF32, shape));
    std::copy_n(all.Data<float>() + first * row, shape.num_elements(), part.MutableData<float>());
    return part;
  }

  Result<ValueId> FeedForward(ValueId x, const std::string& layer) {
    ValueId up = kNone, gate = kNone;
    if (n_.gate_up != nullptr) {
      TENON_ASSIGN_OR_RETURN(const std::vector<ValueId> both, Linear(x, layer + n_.gate_up, c_.width, c_.inner, 2));
      gate = both[0], up = both[1];
    } else {
      TENON_ASSIGN_OR_RETURN(up, Linear(x, layer + n_.up, c_.width, c_.inner));
      if (n_.gate != nullptr) {
        TENON_ASSIGN_OR_RETURN(gate, Linear(x, layer + n_.gate, c_.width, c_.inner));
      }
    }
    ValueId h = Activation(gate == kNone ? up : gate, layer + "activation");
    if (gate != kNone) h = Emit("Mul", {h, up}, {}, layer + "gated");
    return Linear(h, layer + n_.down, c_.inner, c_.width);
  }

  ValueId Activation(ValueId x, const std::string& name) {
    if (c_.activation == "relu") return Emit("Relu", {x}, {}, name);
    if (c_.activation == "silu") return Emit("Silu", {x}, {}, name);
    Attrs attrs;
    if (c_.activation == "gelu_tanh") attrs.Set("approximate", std::string("tanh"));
    return Emit("Gelu", {x}, std::move(attrs), name);
  }

  Result<ValueId> Attention(ValueId x, const std::string& layer, bool local) {
    std::vector<ValueId> qkv;
    if (n_.qkv != nullptr) {
      TENON_ASSIGN_OR_RETURN(qkv, Linear(x, layer + n_.qkv, c_.width, c_.width, 3));
    } else {
      for (const char* name : {n_.query, n_.key, n_.value}) {
        TENON_ASSIGN_OR_RETURN(const ValueId y, Linear(x, layer + name, c_.width, c_.width));
        qkv.push_back(y);
      }
    }
    if (const std::vector<ValueId>& rope = local ? local_rope_ : rope_; !rope.empty()) {
      for (size_t i = 0; i < 2; ++i) {
        Attrs heads;
        heads.Set("num_heads", c_.heads);
        qkv[i] =
            Emit("RotaryEmbedding", {qkv[i], rope[0], rope[1]}, std::move(heads), layer + (i == 0 ? "query" : "key") + ".turned");
      }
    }
    Attrs attrs;
    attrs.Set("num_heads", c_.heads);
    if (local) {
      attrs.Set("left_window_size", c_.window);
      attrs.Set("right_window_size", c_.window);
    }
    if (bias_ != kNone) qkv.push_back(bias_);
    const ValueId mixed = Emit("FusedAttention", std::move(qkv), std::move(attrs), layer + "attention");
    return Linear(mixed, layer + n_.attention_out, c_.width, c_.width);
  }

  Result<ValueId> Layer(int64_t i, ValueId x) {
    const std::string layer = fmt::format("{}{}.", n_.layer, i);
    const std::string norms[2] = {layer + n_.attention_norm, layer + n_.output_norm};
    for (int part = 0; part < 2; ++part) {
      ValueId h = x;
      // The first layer of such a model follows the norm of the embeddings and may have none of its own.
      if (c_.arch->pre_norm && (i > 0 || part > 0 || Has(norms[part] + ".weight"))) {
        TENON_ASSIGN_OR_RETURN(h, Norm(x, norms[part]));
      }
      TENON_ASSIGN_OR_RETURN(h, part == 0 ? Attention(h, layer, c_.local[static_cast<size_t>(i)]) : FeedForward(h, layer));
      x = Emit("Add", {h, x}, {}, layer + (part == 0 ? "attention.residual" : "residual"));
      if (!c_.arch->pre_norm) {
        TENON_ASSIGN_OR_RETURN(x, Norm(x, norms[part]));
      }
    }
    return x;
  }

  const Safetensors& w_;
  const Config& c_;
  const Names& n_;
  std::string prefix_;
  std::set<std::string> used_;
  ir::Graph graph_;
  ValueId ids_ = kNone, seq_ = kNone, bias_ = kNone;
  std::vector<ValueId> rope_, local_rope_;
};

}  // namespace

Result<ir::Graph> BuildEncoder(const Safetensors& weights, const Config& config) {
  return Builder(weights, config).Run();
}

}  // namespace tenon::import::hf
