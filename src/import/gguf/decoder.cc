#include "import/gguf/decoder.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "kernels/kv_step.h"

namespace tenon::import::gguf {
namespace {

using ir::kNone;
using ir::ValueId;

// Weights as a constant of raw bytes.
Tensor RawTensor(const GgufTensor& t, int64_t first_row, int64_t rows) {
  const int64_t row_bytes = t.format->RowBytes(t.row());
  const std::byte* data = t.data + first_row * row_bytes;
  const auto bytes = static_cast<size_t>(rows * row_bytes);
  const auto release = [file = t.file] {};
  auto buffer = t.file != nullptr ? Buffer::Mapped(data, bytes, release) : Buffer::Foreign(data, bytes, release);
  return {DType::kU8, Shape({rows, row_bytes}), std::move(buffer)};
}

Result<Tensor> FloatTensor(const GgufTensor& t) {
  const int64_t n = t.rows() * t.row();
  if (n > (int64_t{1} << 24)) return BadInput("tensor '{}' has {} elements; at most 2^24 for one that is no matrix", t.name, n);
  TENON_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(DType::kF32, Shape({n})));
  UnpackRow(*t.format, reinterpret_cast<const uint8_t*>(t.data), n, out.MutableData<float>());
  return out;
}

// Rows [first, first + rows) as f32; turned, each becomes a column.
Result<Tensor> UnpackedMatrix(const GgufTensor& t, int64_t first, int64_t rows, bool turned) {
  const int64_t columns = t.row(), row_bytes = t.format->RowBytes(columns);
  const auto* data = reinterpret_cast<const uint8_t*>(t.data) + first * row_bytes;
  TENON_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(DType::kF32, turned ? Shape({columns, rows}) : Shape({rows, columns})));
  auto* to = out.MutableData<float>();
  if (!turned) {
    for (int64_t r = 0; r < rows; ++r) UnpackRow(*t.format, data + r * row_bytes, columns, to + r * columns);
    return out;
  }
  constexpr int64_t kRows = 32;   // at once: what is written lies side by side then
  std::vector<float> block(static_cast<size_t>(kRows * columns));
  for (int64_t r = 0; r < rows; r += kRows) {
    const int64_t count = std::min(kRows, rows - r);
    for (int64_t i = 0; i < count; ++i) UnpackRow(*t.format, data + (r + i) * row_bytes, columns, block.data() + i * columns);
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t i = 0; i < count; ++i) to[c * rows + r + i] = block[static_cast<size_t>(i * columns + c)];
    }
  }
  return out;
}

class Builder {
 public:
  Builder(std::span<const GgufTensor> tensors, const Config& config, const LanguageModelOptions& options)
      : tensors_(tensors), c_(config), options_(options) {
    for (const GgufTensor& t : tensors) by_name_[t.name] = &t;
  }

  Result<ir::Graph> Run() {
    const GgufTensor* embedding = Peek("token_embd.weight");
    if (embedding == nullptr) return BadInput("tensor 'token_embd.weight' is missing");
    TENON_RETURN_IF_ERROR(CheckMatrix(*embedding, -1, c_.width));
    used_.insert(embedding->name);
    tokens_ = graph_.AddInput("tokens", DType::kI64, SymShape());
    TENON_ASSIGN_OR_RETURN(ValueId x, Embed(*embedding));
    TENON_RETURN_IF_ERROR(MakeRope());
    for (int64_t i = 0; i < c_.layers; ++i) TENON_RETURN_IF_ERROR(Layer(i, &x));
    TENON_ASSIGN_OR_RETURN(x, Norm(x, "output_norm.weight"));
    const GgufTensor* head = Peek("output.weight");
    const GgufTensor& out = head != nullptr ? *head : *embedding;
    TENON_RETURN_IF_ERROR(CheckMatrix(out, embedding->rows(), c_.width));
    used_.insert(out.name);
    TENON_ASSIGN_OR_RETURN(x, Product(x, out, 0, out.rows(), kNone, "output"));
    x = Scaled(x, 1 / c_.logit_divisor, "logit_scale");
    if (c_.final_softcap > 0) {
      x = Scaled(x, 1 / c_.final_softcap, "softcap_in");
      x = Scaled(Emit("Tanh", {x}, {}, "softcap"), c_.final_softcap, "softcap_out");
    }
    graph_.Rename(x, "logits");
    graph_.AddOutput(x);
    for (const GgufTensor& t : tensors_) {
      if (used_.count(t.name) == 0) {
        return Unsupported("tensor '{}' has no place in architecture '{}' as it is known here", t.name, c_.arch->name);
      }
    }
    return std::move(graph_);
  }

 private:
  ValueId Emit(std::string op, std::vector<ValueId> inputs, Attrs attrs, const std::string& name) {
    const ValueId out = graph_.AddValue(name, DType::kF32, SymShape());
    ir::Node node;
    node.op = std::move(op), node.name = name, node.attrs = std::move(attrs);
    node.inputs = std::move(inputs), node.outputs = {out};
    graph_.AddNode(std::move(node));
    return out;
  }

  ValueId Scaled(ValueId x, float factor, const std::string& name) {
    if (factor == 1) return x;
    return Emit("Mul", {x, graph_.AddConstant(name + "_factor", Tensor::Scalar<float>(factor))}, {}, name);
  }

  bool unpacked() const { return options_.weights == "f32"; }

  Result<ValueId> Embed(const GgufTensor& t) {
    if (unpacked()) {
      TENON_ASSIGN_OR_RETURN(Tensor rows, UnpackedMatrix(t, 0, t.rows(), false));
      const ValueId table = graph_.AddConstant(t.name, std::move(rows));
      return Scaled(Emit("Gather", {table, tokens_}, {}, "token_embd"), c_.embedding_scale, "embedding_scale");
    }
    table_ = graph_.AddConstant(t.name, RawTensor(t, 0, t.rows()));
    Attrs attrs;
    attrs.Set("format", std::string(t.format->name));
    if (c_.embedding_scale != 1) attrs.Set("scale", c_.embedding_scale);
    return Emit("BlockGather", {table_, tokens_}, std::move(attrs), "token_embd");
  }

  // Rows [first, first + rows) of w times x, and bias.
  Result<ValueId> Product(ValueId x, const GgufTensor& w, int64_t first, int64_t rows, ValueId bias, const std::string& node) {
    if (unpacked()) {
      TENON_ASSIGN_OR_RETURN(Tensor columns, UnpackedMatrix(w, first, rows, true));
      const ValueId y = Emit("MatMul", {x, graph_.AddConstant(node + ".weight", std::move(columns))}, {}, node);
      return bias == kNone ? y : Emit("Add", {y, bias}, {}, node + "_bias");
    }
    const bool tied = w.name == "token_embd.weight";
    std::vector<ValueId> inputs = {x, kNone, tied ? table_ : graph_.AddConstant(node + ".weight", RawTensor(w, first, rows))};
    if (bias != kNone) inputs.push_back(bias);
    Attrs attrs;
    attrs.Set("formats", std::vector<std::string>{std::string(w.format->name)});
    return Emit("BlockMatMul", std::move(inputs), std::move(attrs), node);
  }

  // `rows` < 0: any number.
  static Status CheckMatrix(const GgufTensor& t, int64_t rows, int64_t row) {
    if (t.shape.size() != 2 || t.row() != row || t.rows() < 1 || (rows >= 0 && t.rows() != rows)) {
      return BadInput("tensor '{}' has {} rows of {} elements; {} of {} needed", t.name, t.rows(), t.row(),
                      rows < 0 ? "some" : std::to_string(rows), row);
    }
    return {};
  }

  // Null when there is none.
  const GgufTensor* Peek(const std::string& name) const {
    const auto it = by_name_.find(name);
    return it != by_name_.end() ? it->second : nullptr;
  }
  const GgufTensor* Find(const std::string& name) {
    const GgufTensor* t = Peek(name);
    if (t != nullptr) used_.insert(name);
    return t;
  }
  Result<const GgufTensor*> Need(const std::string& name) {
    const GgufTensor* t = Find(name);
    if (t == nullptr) return BadInput("tensor '{}' is missing", name);
    return t;
  }

  // A vector of n elements; kNone when there is none.
  Result<ValueId> Vector(const std::string& name, int64_t n) {
    const GgufTensor* t = Find(name);
    if (t == nullptr) return kNone;
    if (t->rows() * t->row() != n) return BadInput("tensor '{}' has {} elements; {} needed", name, t->rows() * t->row(), n);
    TENON_ASSIGN_OR_RETURN(Tensor values, FloatTensor(*t));
    return graph_.AddConstant(name, std::move(values));
  }

  Result<ValueId> Norm(ValueId x, const std::string& weight) {
    TENON_ASSIGN_OR_RETURN(const ValueId w, Vector(weight, c_.width));
    if (w == kNone) return BadInput("tensor '{}' is missing", weight);
    Attrs attrs;
    attrs.Set("epsilon", c_.epsilon);
    attrs.Set("axis", int64_t{-1});
    return Emit("SimplifiedLayerNormalization", {x, w}, std::move(attrs), weight.substr(0, weight.rfind('.')));
  }

  // Rows [first, first + rows) of tensor `name`, which has `total`, times x.
  Result<ValueId> Linear(ValueId x, const std::string& name, int64_t depth, int64_t total, int64_t first, int64_t rows,
                         const std::string& node) {
    TENON_ASSIGN_OR_RETURN(const GgufTensor* w, Need(name + ".weight"));
    TENON_RETURN_IF_ERROR(CheckMatrix(*w, total, depth));
    ValueId bias = kNone;
    if (const GgufTensor* b = Find(name + ".bias")) {
      if (b->rows() * b->row() != total)
        return BadInput("tensor '{}' has {} elements; {} needed", b->name, b->rows() * b->row(), total);
      TENON_ASSIGN_OR_RETURN(const Tensor all, FloatTensor(*b));
      const float* from = all.Data<float>() + first;
      bias = graph_.AddConstant(node + ".bias", Tensor::FromVector<float>({rows}, std::vector<float>(from, from + rows)));
    }
    return Product(x, *w, first, rows, bias, node);
  }
  Result<ValueId> Linear(ValueId x, const std::string& name, int64_t depth, int64_t rows) {
    return Linear(x, name, depth, rows, 0, rows, name);
  }

  Status MakeRope() {
    std::vector<float> factors;
    // Long factors are for contexts beyond the one of training, which the short ones serve.
    for (const char* name : {"rope_factors_long.weight", "rope_factors_short.weight", "rope_freqs.weight"}) {
      const GgufTensor* t = Find(name);
      if (t == nullptr) continue;
      if (t->rows() * t->row() != c_.rope_dims / 2) {
        return BadInput("tensor '{}' has {} elements; {} needed", name, t->rows() * t->row(), c_.rope_dims / 2);
      }
      TENON_ASSIGN_OR_RETURN(const Tensor values, FloatTensor(*t));
      factors.assign(values.Data<float>(), values.Data<float>() + c_.rope_dims / 2);
      for (float f : factors) {
        if (!(f > 0) || !std::isfinite(f)) return BadInput("tensor '{}' has an element {}; numbers above 0 needed", name, f);
      }
    }
    const auto table = [&](bool local, const char* name) {
      Attrs attrs;
      attrs.Set("freqs", RopeFrequencies(c_, local, factors));
      if (c_.rope_mscale != 1) attrs.Set("mscale", c_.rope_mscale);
      return Emit("RopeTable", {tokens_}, std::move(attrs), name);
    };
    rope_ = table(false, "rope");
    local_rope_ = c_.local_rope_base > 0 ? table(true, "rope_local") : rope_;
    return {};
  }

  Result<ValueId> Attention(int64_t i, ValueId h, const std::string& prefix) {
    const int64_t q_rows = c_.heads * c_.head_dim, kv_rows = c_.kv_heads * c_.head_dim;
    ValueId q = kNone, k = kNone, v = kNone;
    if (Peek(prefix + "attn_qkv.weight") != nullptr) {
      const std::string name = prefix + "attn_qkv";
      const int64_t all = q_rows + 2 * kv_rows;
      TENON_ASSIGN_OR_RETURN(q, Linear(h, name, c_.width, all, 0, q_rows, prefix + "attn_q"));
      TENON_ASSIGN_OR_RETURN(k, Linear(h, name, c_.width, all, q_rows, kv_rows, prefix + "attn_k"));
      TENON_ASSIGN_OR_RETURN(v, Linear(h, name, c_.width, all, q_rows + kv_rows, kv_rows, prefix + "attn_v"));
    } else {
      TENON_ASSIGN_OR_RETURN(q, Linear(h, prefix + "attn_q", c_.width, q_rows));
      TENON_ASSIGN_OR_RETURN(k, Linear(h, prefix + "attn_k", c_.width, kv_rows));
      TENON_ASSIGN_OR_RETURN(v, Linear(h, prefix + "attn_v", c_.width, kv_rows));
    }
    TENON_ASSIGN_OR_RETURN(const ValueId q_norm, Vector(prefix + "attn_q_norm.weight", c_.head_dim));
    TENON_ASSIGN_OR_RETURN(const ValueId k_norm, Vector(prefix + "attn_k_norm.weight", c_.head_dim));
    Attrs attrs;
    attrs.Set("heads", c_.heads);
    attrs.Set("kv_heads", c_.kv_heads);
    attrs.Set("head_dim", c_.head_dim);
    attrs.Set("layer", i);
    attrs.Set("epsilon", c_.epsilon);
    if (c_.interleaved_rope) attrs.Set("interleaved", int64_t{1});
    if (options_.kv_cache != "f16") attrs.Set("cache", options_.kv_cache);
    if (c_.attention_scale > 0) attrs.Set("scale", c_.attention_scale);
    if (c_.attention_softcap > 0) attrs.Set("softcap", c_.attention_softcap);
    const bool local = c_.local[static_cast<size_t>(i)];
    if (local && c_.window > 0) attrs.Set("window", c_.window);
    std::vector<ValueId> inputs = {q, k, v, local ? local_rope_ : rope_, q_norm, k_norm};
    while (inputs.back() == kNone) inputs.pop_back();
    return Emit("CachedAttention", std::move(inputs), std::move(attrs), prefix + "attn");
  }

  Result<ValueId> FeedForward(ValueId h, const std::string& prefix) {
    const std::string up_name = prefix + "ffn_up";
    TENON_ASSIGN_OR_RETURN(const GgufTensor* up_weight, Need(up_name + ".weight"));
    const bool joined = Peek(prefix + "ffn_gate.weight") == nullptr;   // gate and up in one tensor
    int64_t hidden = up_weight->rows();
    if (joined && hidden % 2 != 0) return BadInput("tensor '{}' has {} rows; an even number needed", up_weight->name, hidden);
    ValueId gate = kNone, up = kNone;
    if (joined) {
      hidden /= 2;
      TENON_ASSIGN_OR_RETURN(gate, Linear(h, up_name, c_.width, 2 * hidden, 0, hidden, prefix + "ffn_gate"));
      TENON_ASSIGN_OR_RETURN(up, Linear(h, up_name, c_.width, 2 * hidden, hidden, hidden, up_name));
    } else {
      TENON_ASSIGN_OR_RETURN(gate, Linear(h, prefix + "ffn_gate", c_.width, hidden));
      TENON_ASSIGN_OR_RETURN(up, Linear(h, up_name, c_.width, hidden));
    }
    ValueId act = kNone;
    if (std::string_view(c_.arch->gate) == "silu") {
      act = Emit("SwiGLU", {gate, up}, {}, prefix + "ffn_act");
    } else {
      Attrs tanh_form;
      tanh_form.Set("approximate", std::string("tanh"));
      act = Emit("Mul", {Emit("Gelu", {gate}, std::move(tanh_form), prefix + "ffn_gelu"), up}, {}, prefix + "ffn_act");
    }
    return Linear(act, prefix + "ffn_down", hidden, c_.width);
  }

  // x + f, f normalised where the model has a weight for that.
  Result<ValueId> Residual(ValueId x, ValueId f, const std::string& prefix, const char* norm, const char* name) {
    if (Peek(prefix + norm) != nullptr) {
      TENON_ASSIGN_OR_RETURN(f, Norm(f, prefix + norm));
    }
    f = Scaled(f, c_.residual_scale, prefix + name + "_scale");
    return Emit("Add", {x, f}, {}, prefix + name);
  }

  Status Layer(int64_t i, ValueId* x) {
    const std::string prefix = fmt::format("blk.{}.", i);
    TENON_ASSIGN_OR_RETURN(ValueId h, Norm(*x, prefix + "attn_norm.weight"));
    TENON_ASSIGN_OR_RETURN(h, Attention(i, h, prefix));
    if (i + 1 == c_.layers) {   // nothing of the other rows is read from here on
      h = Emit("SelectRows", {h}, {}, "select_attn");
      *x = Emit("SelectRows", {*x}, {}, "select");
    }
    TENON_ASSIGN_OR_RETURN(h, Linear(h, prefix + "attn_output", c_.heads * c_.head_dim, c_.width));
    TENON_ASSIGN_OR_RETURN(*x, Residual(*x, h, prefix, "post_attention_norm.weight", "attn_add"));
    TENON_ASSIGN_OR_RETURN(h, Norm(*x, prefix + "ffn_norm.weight"));
    TENON_ASSIGN_OR_RETURN(h, FeedForward(h, prefix));
    TENON_ASSIGN_OR_RETURN(*x, Residual(*x, h, prefix, "post_ffw_norm.weight", "ffn_add"));
    return {};
  }

  std::span<const GgufTensor> tensors_;
  std::map<std::string_view, const GgufTensor*> by_name_;
  const Config& c_;
  const LanguageModelOptions& options_;
  ir::Graph graph_;
  ValueId tokens_ = kNone, table_ = kNone, rope_ = kNone, local_rope_ = kNone;
  std::set<std::string> used_;
};

}  // namespace

Result<ir::Graph> BuildDecoder(std::span<const GgufTensor> tensors, const Config& config, const LanguageModelOptions& options) {
  TENON_RETURN_IF_ERROR(kernels::ParseKvType(options.kv_cache, config.head_dim).status());
  if (options.weights != "file" && options.weights != "f32") return Usage("weights '{}'; allowed: file, f32", options.weights);
  TENON_ASSIGN_OR_RETURN(ir::Graph graph, Builder(tensors, config, options).Run());
  graph.metadata["tenon.kind"] = "decoder";
  graph.metadata["tenon.layers"] = std::to_string(config.layers);
  graph.metadata["tenon.kv_heads"] = std::to_string(config.kv_heads);
  graph.metadata["tenon.head_dim"] = std::to_string(config.head_dim);
  graph.metadata["tenon.vocabulary"] = std::to_string(config.vocabulary);
  graph.metadata["tenon.context"] = std::to_string(config.context);
  graph.metadata["tenon.kv_cache"] = options.kv_cache;
  return graph;
}

}  // namespace tenon::import::gguf
