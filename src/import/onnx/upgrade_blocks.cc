// Weights of com.microsoft that are quantised in blocks along their rows: DequantizeLinear with block_size, then the operator.
#include <algorithm>

#include "import/onnx/emit.h"

namespace tenon::import::onnx_format {

using ir::kNone;
using ir::ValueId;

namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 27;

struct Blocks {
  int64_t n = 0, k = 0, bits = 4, size = 0, count = 0;  // count: blocks of a row
  int64_t padded() const { return count * size; }
};

DType TypeOfBits(int64_t bits) {
  return bits == 2 ? DType::kU2 : bits == 4 ? DType::kU4 : DType::kU8;
}

Status CheckBlock(int64_t bits, int64_t size) {
  if (bits != 2 && bits != 4 && bits != 8) return Unsupported("bits = {} is not supported; 2, 4 and 8 are", bits);
  if (size < 16 || size > kMaxExtent || (size & (size - 1)) != 0) {
    return BadInput("block_size is {}; a power of two of at least 16 is needed", size);
  }
  return Status::Ok();
}

Result<Blocks> ReadBlocks(const Pending& p) {
  const Attrs& a = p.node.attrs;
  Blocks k;
  k.n = a.Int("N", 0), k.k = a.Int("K", 0), k.bits = a.Int("bits", 4), k.size = a.Int("block_size", 0);
  TENON_RETURN_IF_ERROR(CheckBlock(k.bits, k.size));
  if (k.n < 1 || k.k < 1 || k.n > kMaxExtent || k.k > kMaxExtent) {
    return BadInput("N is {} and K {}; allowed: 1 to {}", k.n, k.k, kMaxExtent);
  }
  k.count = (k.k + k.size - 1) / k.size;
  return k;
}

// A constant of bytes.
Result<Tensor> Bytes(const Builder& b, const Pending& p, size_t index, int64_t count) {
  const ir::Value& v = b.value(p.In(index));
  if (!v.constant.defined()) return Unsupported("input {} must be a constant", index);
  if (v.dtype != DType::kU8) return BadInput("input {} is {}; uint8 needed", index, DTypeName(v.dtype));
  if (v.constant.shape().num_elements() != count) {
    return BadInput("input {} has shape {}; {} bytes needed", index, v.constant.shape().ToString(), count);
  }
  return v.constant;
}

// [n, k] of unsigned integers: the bytes of B as they are, for blocks fill bytes.
Result<ValueId> Weights(Builder* b, const Pending& p, const Blocks& k) {
  TENON_ASSIGN_OR_RETURN(const Tensor raw, Bytes(*b, p, 1, k.n * k.count * (k.size * k.bits / 8)));
  return b->Constant(Tensor(TypeOfBits(k.bits), Shape{k.n, k.padded()}, raw.buffer()));
}

// Zero points [n, count]: packed, each row beginning with a byte of its own; without any, the middle of the range.
Result<ValueId> ZeroPoints(Builder* b, const Pending& p, const Blocks& k) {
  const DType type = TypeOfBits(k.bits);
  const int64_t row = (k.count * k.bits + 7) / 8;
  TENON_ASSIGN_OR_RETURN(Tensor zeros, Tensor::Zeros(type, Shape{k.n, k.count}));
  uint8_t* to = static_cast<uint8_t*>(zeros.mutable_data());
  const auto put = [&](int64_t i, uint32_t value) {
    const int64_t bit = i * k.bits;
    to[bit / 8] = static_cast<uint8_t>(to[bit / 8] | (value << (bit % 8)));
  };
  const uint32_t mask = (1U << k.bits) - 1;
  if (!p.Has(3)) {
    for (int64_t i = 0; i < k.n * k.count; ++i) put(i, 1U << (k.bits - 1));
    return b->Constant(std::move(zeros));
  }
  TENON_ASSIGN_OR_RETURN(const Tensor packed, Bytes(*b, p, 3, k.n * row));
  for (int64_t n = 0; n < k.n; ++n) {
    for (int64_t c = 0; c < k.count; ++c) {
      const int64_t bit = c * k.bits;
      put(n * k.count + c, (packed.Data<uint8_t>()[n * row + bit / 8] >> (bit % 8)) & mask);
    }
  }
  return b->Constant(std::move(zeros));
}

// (q - zero) * scale where DequantizeLinear has no form: zero points of the type of the scale, or blocks chosen by g_idx [k].
Result<ValueId> DequantizeBy(Builder* b, const Pending& p, const Blocks& k, ValueId weights, ValueId scales) {
  const DType type = b->value(scales).dtype;
  if (type == DType::kUndefined) return Unsupported("the type of input 2 must be known");
  const bool floats = p.Has(3) && b->value(p.In(3)).dtype == type;
  ValueId zeros = kNone;
  if (floats) {
    zeros = emit::Reshape(b, p.In(3), {k.n, k.count});
  } else {
    TENON_ASSIGN_OR_RETURN(const ValueId packed, ZeroPoints(b, p, k));
    zeros = emit::Cast(b, packed, type);
  }
  ValueId q = emit::Cast(b, weights, type);
  if (p.Has(4)) {
    q = emit::Slice(b, q, 1, 0, k.k);
    const ValueId z = b->Emit("Gather", {zeros, p.In(4)}, emit::IntAttr("axis", 1));
    const ValueId s = b->Emit("Gather", {scales, p.In(4)}, emit::IntAttr("axis", 1));
    return b->Emit("Mul", {b->Emit("Sub", {q, z}), s});
  }
  q = emit::Reshape(b, q, {k.n, k.count, k.size});
  const ValueId shifted = b->Emit("Sub", {q, emit::Unsqueeze(b, zeros, {2})});
  const ValueId whole = emit::Reshape(b, b->Emit("Mul", {shifted, emit::Unsqueeze(b, scales, {2})}), {k.n, k.padded()});
  return k.padded() == k.k ? whole : emit::Slice(b, whole, 1, 0, k.k);
}

Result<ValueId> Dequantize(Builder* b, const Pending& p, const Blocks& k) {
  const ValueId scales = emit::Reshape(b, p.In(2), {k.n, k.count});
  TENON_ASSIGN_OR_RETURN(const ValueId weights, Weights(b, p, k));
  if (p.Has(4) || (p.Has(3) && b->value(p.In(3)).dtype != DType::kU8)) return DequantizeBy(b, p, k, weights, scales);
  TENON_ASSIGN_OR_RETURN(const ValueId zeros, ZeroPoints(b, p, k));
  Attrs attrs = emit::IntAttr("axis", 1);
  attrs.Set("block_size", k.size);
  const ValueId whole = b->Emit("DequantizeLinear", {weights, scales, zeros}, std::move(attrs));
  return k.padded() == k.k ? whole : emit::Slice(b, whole, 1, 0, k.k);
}

}  // namespace

// A, B (packed [N, blocks, bytes]), scales [N, blocks], zero_points, g_idx, bias: Y = A * dequantised(B)^T + bias
Status MicrosoftMatMulNBits(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1, 2}));
  if (p->node.attrs.Int("weight_prepacked", 0) != 0) return Unsupported("weight_prepacked is not supported");
  TENON_ASSIGN_OR_RETURN(const Blocks k, ReadBlocks(*p));
  TENON_ASSIGN_OR_RETURN(const ValueId weights, Dequantize(b, *p, k));
  const ValueId turned = emit::Transpose(b, weights, {1, 0});
  if (!p->Has(5)) {
    emit::Become(b, p, "MatMul", {p->In(0), turned});
  } else {
    emit::Become(b, p, "Add", {b->Emit("MatMul", {p->In(0), turned}), p->In(5)});
  }
  return Status::Ok();
}

// data, indices, scales, zero_points: rows of a dequantised table
Status MicrosoftGatherBlockQuantized(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1, 2}));
  const Attrs& a = p->node.attrs;
  const ir::Value& data = b->value(p->In(0));
  const auto shape = data.shape.has_rank() ? data.shape.ToShape() : std::nullopt;
  if (!shape || shape->rank() < 1) return Unsupported("the shape of input 0 must be known");
  TENON_RETURN_IF_ERROR(CheckBlock(a.Int("bits", 4), a.Int("block_size", 128)));
  ValueId table = p->In(0), zeros = p->In(3);
  if (data.dtype == DType::kU8) {
    // Packed along the last axis.
    const int64_t bits = a.Int("bits", 4);
    const auto unpack = [&](ValueId v) -> Result<ValueId> {
      const ir::Value& value = b->value(v);
      if (!value.constant.defined() || value.dtype != DType::kU8) return Unsupported("inputs 0 and 3 must be uint8 constants");
      std::vector<int64_t> extents(value.constant.shape().begin(), value.constant.shape().end());
      if (!extents.empty()) extents.back() *= 8 / bits;
      return b->Constant(Tensor(TypeOfBits(bits), Shape(extents), value.constant.buffer()));
    };
    const ir::Value& scale = b->value(p->In(2));
    const auto scales = scale.shape.has_rank() ? scale.shape.ToShape() : std::nullopt;
    if (!scales || scales->rank() != shape->rank()) return Unsupported("the shape of input 2 must be known");
    TENON_ASSIGN_OR_RETURN(table, unpack(p->In(0)));
    if (zeros != kNone) {
      TENON_ASSIGN_OR_RETURN(zeros, unpack(zeros));
      zeros = emit::Slice(b, zeros, -1, 0, (*scales)[scales->rank() - 1]);
    } else {
      const DType type = TypeOfBits(bits);
      const uint8_t middle = bits == 8 ? 128 : bits == 4 ? 0x88 : 0xaa;
      TENON_ASSIGN_OR_RETURN(Tensor all, Tensor::Zeros(type, *scales));
      std::fill_n(static_cast<uint8_t*>(all.mutable_data()), all.bytes(), middle);
      zeros = b->Constant(std::move(all));
    }
  } else if (data.dtype != DType::kU4 && data.dtype != DType::kI4) {
    return Unsupported("data of {} is not supported; uint8, uint4 and int4 are", DTypeName(data.dtype));
  }
  Attrs attrs = emit::IntAttr("axis", a.Int("quantize_axis", 1));
  attrs.Set("block_size", a.Int("block_size", 128));
  const ValueId floats = b->Emit("DequantizeLinear", {table, p->In(2), zeros}, std::move(attrs));
  emit::Become(b, p, "Gather", {floats, p->In(1)}, emit::IntAttr("axis", a.Int("gather_axis", 0)));
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format
