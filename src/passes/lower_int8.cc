#include "passes/lower_int8.h"

#include <algorithm>
#include <cmath>

#include "passes/weight_only.h"

namespace tenon::passes {
namespace {

struct Weights {
  ValueId bytes = kNone;
  ValueId scales = kNone;
};

// Rounds w[outer][channel][inner] to int8 with a scale per channel: the largest magnitude becomes 127.
Weights Quantize(Rewriter& r, ValueId v, int64_t outer, int64_t channels, int64_t inner, float alpha) {
  const Tensor& w = r.value(v).constant;
  auto bytes = Tensor::Allocate(DType::kI8, w.shape());
  auto scales = Tensor::Allocate(DType::kF32, Shape({channels}));
  if (!bytes.ok() || !scales.ok()) return {};
  const auto* from = w.Data<float>();
  auto* to = bytes->MutableData<int8_t>();
  auto* scale = scales->MutableData<float>();
  for (int64_t c = 0; c < channels; ++c) {
    float largest = 0;
    for (int64_t o = 0; o < outer; ++o) {
      const float* p = from + (o * channels + c) * inner;
      for (int64_t i = 0; i < inner; ++i) largest = std::max(largest, std::abs(p[i]));
    }
    if (!std::isfinite(largest)) return {};
    const float step = largest > 0 ? largest / 127.0F : 1.0F;
    for (int64_t o = 0; o < outer; ++o) {
      const int64_t at = (o * channels + c) * inner;
      for (int64_t i = 0; i < inner; ++i)
        to[at + i] = static_cast<int8_t>(std::clamp(std::nearbyint(from[at + i] / step), -127.0F, 127.0F));
    }
    scale[c] = step * alpha;
  }
  return {r.Constant(r.value(v).name + "_int8", *std::move(bytes)), r.Constant(r.value(v).name + "_scale", *std::move(scales))};
}

bool IsF32Constant(const Rewriter& r, ValueId v, int rank) {
  return v != kNone && r.IsConst(v) && r.TypeOf(v) == DType::kF32 && r.RankOf(v) == rank;
}

bool IsConv(std::string_view op) {
  return op == "Conv" || op == "FusedConv";
}

void SetOutput(const Int8Request& request, Attrs* attrs) {
  attrs->Set("output_dtype", static_cast<int64_t>(request.output));
  if (request.output != DType::kU8) return;
  attrs->Set("y_scale", request.grid.scale);
  attrs->Set("y_zero_point", request.grid.zero);
}

// The bytes of `v` with their grid as attributes, or `v`.
ValueId Operand(ValueId v, const char* scale, const char* zero, const BytesOf& bytes, Attrs* attrs) {
  const auto it = bytes.find(v);
  if (it == bytes.end()) return v;
  attrs->Set(scale, it->second.grid.scale);
  attrs->Set(zero, it->second.grid.zero);
  return it->second.value;
}

ValueId Residual(ValueId v, const BytesOf& bytes, Attrs* attrs) {
  return Operand(v, "residual_scale", "residual_zero_point", bytes, attrs);
}

bool SetInputGrid(const Rewriter& r, ValueId x, const PrecisionPolicy& policy, Attrs* attrs, std::string* reason) {
  const auto grid = GridOf(r, x, policy);
  if (!grid) {
    *reason = "no range of the input was measured";
    return false;
  }
  attrs->Set("x_scale", grid->scale);
  attrs->Set("x_zero_point", grid->zero);
  attrs->Set("x_dtype", static_cast<int64_t>(DType::kU8));
  return true;
}

// A row other than the reference must serve it, or integers are no gain.
ValueId AddFast(Rewriter& r, NodeId id, std::string_view op, const std::vector<ValueId>& inputs, const Attrs& attrs,
                std::string* reason) {
  if (r.FastKernelExists(op, attrs, inputs)) return r.Add(op, inputs, attrs, id);
  *reason = fmt::format("no int8 kernel for this {}", r.node(id).op);
  return kNone;
}

ValueId AddMatMul(Rewriter& r, NodeId id, const PrecisionPolicy& policy, const BytesOf& bytes, const Int8Request& request,
                  std::string* reason) {
  const ir::Node& n = r.node(id);
  const bool fused = n.op == "FusedMatMul";
  const ValueId b = r.In(id, 1);
  if (!IsF32Constant(r, b, 2) || n.attrs.Int("transA", 0) != 0 || n.op == "Gemm") {
    *reason = "int8 needs constant weights of rank 2 and an input that is not transposed";
    return kNone;
  }
  const bool trans_b = n.attrs.Int("transB", 0) != 0;
  const Shape& shape = r.value(b).constant.shape();
  const float alpha = fused ? n.attrs.Float("alpha", 1) : 1;
  const Weights w = trans_b ? Quantize(r, b, 1, shape[0], shape[1], alpha) : Quantize(r, b, shape[0], shape[1], 1, alpha);
  if (w.bytes == kNone) {
    *reason = "weights are not finite";
    return kNone;
  }
  Attrs attrs = n.attrs;
  attrs.Erase("alpha");
  attrs.Erase("transA");
  SetOutput(request, &attrs);
  const ValueId x = Operand(r.In(id, 0), "x_scale", "x_zero_point", bytes, &attrs);
  if (x == r.In(id, 0) && !policy.static_products) attrs.Set("dynamic", int64_t{1});
  if (x == r.In(id, 0) && policy.static_products && !SetInputGrid(r, x, policy, &attrs, reason)) return kNone;
  std::vector<ValueId> inputs{x, w.bytes, w.scales, kNone, kNone};
  if (fused) {
    inputs[3] = r.In(id, 2);
    inputs[4] = Residual(r.In(id, 3), bytes, &attrs);
  }
  return AddFast(r, id, "QuantizedMatMul", inputs, attrs, reason);
}

ValueId AddConv(Rewriter& r, NodeId id, const PrecisionPolicy& policy, const BytesOf& bytes, const Int8Request& request,
                std::string* reason) {
  const ir::Node& n = r.node(id);
  const ValueId weights = r.In(id, 1);
  Attrs attrs = n.attrs;
  if (weights == kNone || !r.IsConst(weights) || r.TypeOf(weights) != DType::kF32 || r.RankOf(weights) < 3) {
    *reason = "int8 needs constant weights";
    return kNone;
  }
  const ValueId x = Operand(r.In(id, 0), "x_scale", "x_zero_point", bytes, &attrs);
  if (x == r.In(id, 0) && !SetInputGrid(r, x, policy, &attrs, reason)) return kNone;
  const Shape& shape = r.value(weights).constant.shape();
  const Weights w = Quantize(r, weights, 1, shape[0], shape.Product(1, shape.rank()), 1);
  if (w.bytes == kNone) {
    *reason = "weights are not finite";
    return kNone;
  }
  SetOutput(request, &attrs);
  const ValueId residual = Residual(r.In(id, 3), bytes, &attrs);
  return AddFast(r, id, "QuantizedConv", {x, w.bytes, w.scales, r.In(id, 2), residual}, attrs, reason);
}

}  // namespace

std::optional<ByteGrid> GridOf(const Rewriter& r, ValueId v, const PrecisionPolicy& policy) {
  const auto range = policy.ranges.find(r.value(v).name);
  if (range == policy.ranges.end()) return std::nullopt;
  const float low = std::min(range->second.first, 0.0F);
  const float high = std::max(range->second.second, 0.0F);
  if (!std::isfinite(low) || !std::isfinite(high)) return std::nullopt;
  const float scale = high > low ? (high - low) / 255.0F : 1.0F;
  return ByteGrid{scale, static_cast<int64_t>(std::clamp(std::nearbyint(-low / scale), 0.0F, 255.0F))};
}

bool ReadsBytes(const Rewriter& r, NodeId id, size_t i) {
  const std::string& op = r.node(id).op;
  if (IsConv(op)) return i == 0 || i == 3;
  const bool product = op == "MatMul" || op == "FusedMatMul";
  return (product && i == 0 && r.context().precision.static_products) || (op == "FusedMatMul" && i == 3);
}

ValueId AddInt8(Rewriter& r, NodeId id, const PrecisionPolicy& policy, const BytesOf& bytes, const Int8Request& request,
                std::string* reason) {
  if (policy.weights_only != DType::kUndefined) return AddWeightOnly(r, id, policy.weights_only, reason);
  const std::string& op = r.node(id).op;
  if (op == "MatMul" || op == "FusedMatMul") return AddMatMul(r, id, policy, bytes, request, reason);
  if (IsConv(op)) return AddConv(r, id, policy, bytes, request, reason);
  *reason = fmt::format("{} is not computed in int8", op);
  return kNone;
}

}  // namespace tenon::passes
