#include "passes/weight_only.h"

#include <cmath>

#include "passes/activation.h"
#include "tensor/blocks/blocks.h"
#include "tensor/blocks/quantize.h"

namespace tenon::passes {
namespace {

constexpr int64_t kBlock = 32;
// Scales are f16: smaller steps than this lose digits, larger ones have no place.
constexpr float kLeast = 0x1p-10F;
constexpr float kMost = 0x1p15F;

std::string FormatName(DType weights) {
  return weights == DType::kI8 ? "q8_0" : "q4_1";
}

// Rows of blocks: of w [rows, k], or of its transpose.
std::optional<Tensor> Pack(const float* w, int64_t rows, int64_t k, bool transposed, float alpha, DType weights) {
  const auto& format = *FindBlockFormat(FormatName(weights));
  auto packed = Tensor::Allocate(DType::kU8, Shape({rows, format.RowBytes(k)}));
  if (!packed.ok()) return std::nullopt;
  auto* to = packed->MutableData<uint8_t>();
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t b = 0; b < k; b += kBlock, to += format.bytes) {
      float x[kBlock];
      for (int64_t i = 0; i < kBlock; ++i) x[i] = alpha * (transposed ? w[(b + i) * rows + n] : w[n * k + b + i]);
      weights == DType::kI8 ? QuantizeQ8_0(x, to) : QuantizeQ4_1(x, to);
    }
  }
  return *std::move(packed);
}

// Whether blocks with scales in f16 can say these numbers.
bool Sayable(const Tensor& w, float alpha) {
  float largest = 0;
  for (int64_t i = 0, n = w.shape().num_elements(); i < n; ++i) {
    const float v = std::abs(w.Data<float>()[i] * alpha);
    if (!(v <= kMost)) return false;
    largest = std::max(largest, v);
  }
  return largest >= kLeast || largest == 0;
}

bool IsTable(const Rewriter& r, ValueId v) {
  return v != kNone && r.IsConst(v) && r.TypeOf(v) == DType::kF32 && r.RankOf(v) == 2;
}

ValueId Packed(Rewriter& r, ValueId v, bool transposed, float alpha, DType weights, std::string* reason) {
  const Tensor& w = r.value(v).constant;
  const int64_t rows = w.shape()[transposed ? 1 : 0], k = w.shape()[transposed ? 0 : 1];
  if (k == 0 || k % kBlock != 0 || rows == 0) {
    *reason = fmt::format("weights have {} elements a row; blocks have {}", k, kBlock);
    return kNone;
  }
  if (!Sayable(w, alpha)) {
    *reason = fmt::format("weights are not finite, or not between {} and {}", kLeast, kMost);
    return kNone;
  }
  auto packed = Pack(w.Data<float>(), rows, k, transposed, alpha, weights);
  if (!packed) {
    *reason = "no memory for the weights";
    return kNone;
  }
  return r.Constant(r.value(v).name + (weights == DType::kI8 ? "_q8" : "_q4"), *std::move(packed));
}

// What a FusedMatMul does to its sums, as operators of its own; they fuse again with others.
ValueId Epilogue(Rewriter& r, NodeId id, ValueId y) {
  const Attrs& from = r.node(id).attrs;
  const std::string name = from.String("activation", "");
  const std::vector<float> params = from.Floats("activation_params");
  const auto param = [&](size_t i, float or_else) { return i < params.size() ? params[i] : or_else; };
  Attrs attrs;
  std::vector<ValueId> inputs = {y};
  std::string op = name;
  if (name == "Gelu" || name == "GeluTanh") {
    op = "Gelu";
    attrs.Set("approximate", std::string(name == "Gelu" ? "none" : "tanh"));
  } else if (name == "HardSigmoid") {
    attrs.Set("alpha", param(0, 0.2F));
    attrs.Set("beta", param(1, 0.5F));
  } else if (name == "LeakyRelu") {
    attrs.Set("alpha", param(0, 0.01F));
  } else if (name == "Clip") {
    inputs.push_back(r.ScalarLike(y, param(0, 0)));
    inputs.push_back(r.ScalarLike(y, param(1, 0)));
  } else if (name == "Silu") {
    op = "Swish";
  }
  if (!op.empty()) y = r.Add(op, std::move(inputs), std::move(attrs), id);
  const float scale = from.Float("post_scale", 1), shift = from.Float("post_shift", 0);
  if (y != kNone && scale != 1) y = r.Add("Mul", {y, r.ScalarLike(y, scale)}, {}, id);
  if (y != kNone && shift != 0) y = r.Add("Add", {y, r.ScalarLike(y, shift)}, {}, id);
  return y;
}

ValueId AddProduct(Rewriter& r, NodeId id, DType weights, std::string* reason) {
  const ir::Node& n = r.node(id);
  const bool fused = n.op == "FusedMatMul";
  if (!IsTable(r, r.In(id, 1)) || n.attrs.Int("transA", 0) != 0 || n.op == "Gemm") {
    *reason = "weights alone need constant weights of rank 2 and an input that is not transposed";
    return kNone;
  }
  const ValueId w = Packed(r, r.In(id, 1), n.attrs.Int("transB", 0) == 0, fused ? n.attrs.Float("alpha", 1) : 1, weights, reason);
  if (w == kNone) return kNone;
  Attrs attrs;
  attrs.Set("formats", std::vector<std::string>{FormatName(weights)});
  std::vector<ValueId> inputs = {r.In(id, 0), fused ? r.In(id, 3) : kNone, w, fused ? r.In(id, 2) : kNone};
  while (inputs.back() == kNone) inputs.pop_back();
  if (!r.FastKernelExists("BlockMatMul", attrs, inputs)) {
    *reason = fmt::format("no kernel with weights in blocks for this {}", n.op);
    return kNone;
  }
  const ValueId y = r.Add("BlockMatMul", std::move(inputs), std::move(attrs), id);
  return y != kNone && fused ? Epilogue(r, id, y) : y;
}

ValueId AddGather(Rewriter& r, NodeId id, DType weights, std::string* reason) {
  if (!IsTable(r, r.In(id, 0)) || r.node(id).attrs.Int("axis", 0) != 0) return kNone;
  const ValueId w = Packed(r, r.In(id, 0), false, 1, weights, reason);
  if (w == kNone) return kNone;
  Attrs attrs;
  attrs.Set("format", FormatName(weights));
  attrs.Set("from_end", int64_t{1});
  return r.Add("BlockGather", {w, r.In(id, 1)}, std::move(attrs), id);
}

}  // namespace

ValueId AddWeightOnly(Rewriter& r, NodeId id, DType weights, std::string* reason) {
  const std::string& op = r.node(id).op;
  if (op == "MatMul" || op == "FusedMatMul" || op == "Gemm") return AddProduct(r, id, weights, reason);
  if (op == "Gather") return AddGather(r, id, weights, reason);
  *reason = fmt::format("weights alone of {} are not rounded", op);
  return kNone;
}

}  // namespace tenon::passes
