// Arithmetic of com.microsoft, and experimental operators of old opsets of ai.onnx, where ONNX says the same with others.
#include <cmath>

#include "import/onnx/emit.h"

namespace tenon::import::onnx_format {

using ir::kNone;
using ir::ValueId;

namespace {

Status OneSided(const Pending& p) {
  const Attrs& a = p.node.attrs;
  if (a.Int("signal_ndim", 1) != 1 || a.Int("onesided", 1) != 1 || a.Int("normalized", 0) != 0) {
    return Unsupported("only signal_ndim 1, onesided 1 and normalized 0 are supported");
  }
  return emit::Need(p, {0});
}

}  // namespace

// [..., n] to [..., n / 2 + 1, 2]
Status MicrosoftRfft(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(OneSided(*p));
  const ValueId x = emit::Unsqueeze(b, p->In(0), {-1});
  emit::Become(b, p, "DFT", {x, kNone, b->Int(-2)}, emit::IntAttr("onesided", 1));
  return Status::Ok();
}

// [..., m, 2] to [..., 2 * (m - 1)]
Status MicrosoftIrfft(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(OneSided(*p));
  Attrs attrs = emit::IntAttr("onesided", 1);
  attrs.Set("inverse", int64_t{1});
  const ValueId y = b->Emit("DFT", {p->In(0), kNone, b->Int(-2)}, std::move(attrs));
  emit::Become(b, p, "Squeeze", {y, b->Ints({-1})});
  return Status::Ok();
}

// Distances of each row of A [m, n] from each row of B [k, n]: a^2 - 2 a b + b^2.
Status MicrosoftCDist(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1}));
  const std::string metric = p->node.attrs.String("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean") {
    return Unsupported("metric '{}' is not supported; sqeuclidean and euclidean are", metric);
  }
  const ValueId last = b->Ints({1});
  const ValueId rows = b->Emit("ReduceSumSquare", {p->In(0), last}, emit::IntAttr("keepdims", 1));
  const ValueId columns = b->Emit("ReduceSumSquare", {p->In(1), last}, emit::IntAttr("keepdims", 0));
  const ValueId product = b->Emit("MatMul", {p->In(0), emit::Transpose(b, p->In(1), {1, 0})});
  const ValueId twice = b->Emit("Mul", {product, b->ScalarLike(2, p->In(0))});
  const ValueId square = b->Emit("Add", {b->Emit("Sub", {rows, twice}), columns});
  const ValueId clipped = b->Emit("Max", {square, b->ScalarLike(0, p->In(0))});
  emit::Become(b, p, metric == "euclidean" ? "Sqrt" : "Identity", {clipped});
  return Status::Ok();
}

Status MicrosoftMatMulInteger16(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1}));
  emit::Become(b, p, "MatMul", {emit::Cast(b, p->In(0), DType::kI32), emit::Cast(b, p->In(1), DType::kI32)});
  return Status::Ok();
}

namespace {

ValueId Word(Builder* b, uint32_t v) {
  return b->Constant(Tensor::Scalar<uint32_t>(v));
}

ValueId Shift(Builder* b, ValueId x, uint32_t by, const char* direction) {
  Attrs a;
  a.Set("direction", std::string(direction));
  return b->Emit("BitShift", {x, Word(b, by)}, std::move(a));
}

ValueId Rotate(Builder* b, ValueId x, uint32_t by) {
  return b->Emit("BitwiseOr", {Shift(b, x, by, "LEFT"), Shift(b, x, 32 - by, "RIGHT")});
}

ValueId BitCast(Builder* b, ValueId x, DType to) {
  if (b->value(x).dtype == to) return x;
  return b->Emit("BitCast", {x}, emit::IntAttr("to", static_cast<int64_t>(to)));
}

ValueId Times(Builder* b, ValueId x, uint32_t by) {
  return b->Emit("Mul", {x, Word(b, by)});
}

// x ^ (x >> by)
ValueId Fold(Builder* b, ValueId x, uint32_t by) {
  return b->Emit("BitwiseXor", {x, Shift(b, x, by, "RIGHT")});
}

}  // namespace

// MurmurHash3_x86_32 of each element's bytes.
Status MicrosoftMurmurHash3(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0}));
  const DType type = b->value(p->In(0)).dtype;
  const int bits = type == DType::kString || type == DType::kUndefined ? 0 : DTypeBits(type);
  if (bits != 32 && bits != 64) return Unsupported("elements of {} are not supported; of 32 and 64 bits are", DTypeName(type));
  std::vector<ValueId> words;
  if (bits == 32) {
    words = {BitCast(b, p->In(0), DType::kU32)};
  } else {
    const ValueId whole = BitCast(b, p->In(0), DType::kU64);
    const ValueId low = b->Emit("BitwiseAnd", {whole, b->Constant(Tensor::Scalar<uint64_t>(0xffffffffU))});
    Attrs right;
    right.Set("direction", std::string("RIGHT"));
    const ValueId high = b->Emit("BitShift", {whole, b->Constant(Tensor::Scalar<uint64_t>(32))}, std::move(right));
    words = {emit::Cast(b, low, DType::kU32), emit::Cast(b, high, DType::kU32)};
  }
  ValueId hash = Word(b, static_cast<uint32_t>(p->node.attrs.Int("seed", 0)));
  for (ValueId w : words) {
    const ValueId mixed = Times(b, Rotate(b, Times(b, w, 0xcc9e2d51U), 15), 0x1b873593U);
    hash = Rotate(b, b->Emit("BitwiseXor", {hash, mixed}), 13);
    hash = b->Emit("Add", {Times(b, hash, 5), Word(b, 0xe6546b64U)});
  }
  hash = b->Emit("BitwiseXor", {hash, Word(b, static_cast<uint32_t>(bits / 8))});
  hash = Times(b, Fold(b, hash, 16), 0x85ebca6bU);
  hash = Times(b, Fold(b, hash, 13), 0xc2b2ae35U);
  hash = Fold(b, hash, 16);
  const bool positive = p->node.attrs.Int("positive", 1) != 0;
  emit::Become(b, p, "Identity", {positive ? hash : BitCast(b, hash, DType::kI32)});
  return Status::Ok();
}

// alpha * x + beta
Status ExperimentalAffine(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0}));
  const ValueId scaled = b->Emit("Mul", {p->In(0), b->ScalarLike(p->node.attrs.Float("alpha", 1), p->In(0))});
  emit::Become(b, p, "Add", {scaled, b->ScalarLike(p->node.attrs.Float("beta", 0), p->In(0))});
  return Status::Ok();
}

// scale * x
Status ExperimentalScale(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0}));
  emit::Become(b, p, "Mul", {p->In(0), b->ScalarLike(p->node.attrs.Float("scale", 1), p->In(0))});
  return Status::Ok();
}

// scale * x + bias[channel]
Status ExperimentalImageScaler(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0}));
  const std::vector<float> bias = p->node.attrs.Floats("bias");
  const ValueId scaled = b->Emit("Mul", {p->In(0), b->ScalarLike(p->node.attrs.Float("scale", 1), p->In(0))});
  if (bias.empty()) {
    emit::Become(b, p, "Identity", {scaled});
  } else {
    const ValueId shift = b->Constant(Tensor::FromVector<float>(Shape{static_cast<int64_t>(bias.size()), 1, 1}, bias));
    emit::Become(b, p, "Add", {scaled, shift});
  }
  return Status::Ok();
}

// alpha * log(1 + exp(beta * x))
Status ExperimentalParametricSoftplus(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0}));
  const ValueId inner = b->Emit("Mul", {p->In(0), b->ScalarLike(p->node.attrs.Float("beta", 1), p->In(0))});
  emit::Become(b, p, "Mul", {b->Emit("Softplus", {inner}), b->ScalarLike(p->node.attrs.Float("alpha", 1), p->In(0))});
  return Status::Ok();
}

// alpha * tanh(beta * x)
Status ExperimentalScaledTanh(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0}));
  const ValueId inner = b->Emit("Mul", {p->In(0), b->ScalarLike(p->node.attrs.Float("beta", 1), p->In(0))});
  emit::Become(b, p, "Mul", {b->Emit("Tanh", {inner}), b->ScalarLike(p->node.attrs.Float("alpha", 1), p->In(0))});
  return Status::Ok();
}

// x [n, c, h, w]: a window of `scale` (height, width) from `border` (left, top, right, bottom)
Status ExperimentalCrop(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0}));
  const std::vector<int64_t> border = p->node.attrs.Ints("border"), scale = p->node.attrs.Ints("scale");
  if (border.size() != 4 || (!scale.empty() && scale.size() != 2)) {
    return BadInput("border has {} values instead of 4, or scale {} instead of 2", border.size(), scale.size());
  }
  constexpr int64_t kMost = int64_t{1} << 40;
  for (int64_t v : border) {
    if (v < 0 || v > kMost) return BadInput("border holds {}; at least 0 needed", v);
  }
  for (int64_t v : scale) {
    if (v < 0 || v > kMost) return BadInput("scale holds {}; at least 0 needed", v);
  }
  ValueId ends = kNone;
  if (scale.empty()) {
    const ValueId extents = emit::Concat(b, {emit::Extent(b, p->In(0), 2), emit::Extent(b, p->In(0), 3)}, 0);
    ends = b->Emit("Sub", {extents, b->Ints({border[3], border[2]})});
  } else {
    ends = b->Ints({border[1] + scale[0], border[0] + scale[1]});
  }
  emit::Become(b, p, "Slice", {p->In(0), b->Ints({border[1], border[0]}), ends, b->Ints({2, 3})});
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format
