#include "passes/quantized.h"

#include <cmath>

namespace tenon::passes {

std::optional<Quantisation> QuantisationOf(const Rewriter& r, NodeId id) {
  const ir::Node& n = r.node(id);
  const bool quantizes = n.op == "QuantizeLinear";
  if (!quantizes && n.op != "DequantizeLinear") return std::nullopt;
  const ValueId bytes = quantizes ? r.Out(id) : r.In(id, 0);
  const ValueId floats = quantizes ? r.In(id, 0) : r.Out(id);
  if (r.TypeOf(floats) != DType::kF32 || (r.TypeOf(bytes) != DType::kU8 && r.TypeOf(bytes) != DType::kI8)) return std::nullopt;
  const auto scale = r.Scalar(r.In(id, 1));
  const auto zero = r.In(id, 2) == kNone ? std::optional<double>(0) : r.Scalar(r.In(id, 2));
  if (!scale || !zero || !(*scale > 0) || !std::isfinite(*scale) || r.TypeOf(r.In(id, 1)) != DType::kF32) return std::nullopt;
  if (n.attrs.Int("block_size", 0) != 0 || n.attrs.Has("precision")) return std::nullopt;
  return Quantisation{bytes, static_cast<float>(*scale), static_cast<int32_t>(*zero)};
}

std::optional<Quantisation> Dequantised(const Rewriter& r, ValueId v) {
  const NodeId id = r.Producer(v, "DequantizeLinear");
  return id == kNone ? std::nullopt : QuantisationOf(r, id);
}

}  // namespace tenon::passes
