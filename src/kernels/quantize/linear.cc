// QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear: attributes, shape rules and plain kernels for every type.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/small_float.h"
#include "kernels/kernel_util.h"
#include "kernels/quantize/quantize.h"

namespace tenon::kernels::quantize {
namespace {

bool IsHighPrecision(DType t) {
  return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16;
}

// The scale's shape against x's, as far as numbers are known.
Status CheckScale(const LinearParams& p, const ShapeArgs& args) {
  const auto x = args.in[0].shape.has_rank() ? args.in[0].shape.ToShape() : std::nullopt;
  const auto scale = args.in[1].shape.has_rank() ? args.in[1].shape.ToShape() : std::nullopt;
  if (x && scale)
    TENON_RETURN_IF_ERROR(ResolveGranularity(p, *x, *scale).ok() ? Status::Ok() : ResolveGranularity(p, *x, *scale).status());
  if (!args.Has(2)) return Status::Ok();
  const auto zero = args.in[2].shape.has_rank() ? args.in[2].shape.ToShape() : std::nullopt;
  if (scale && zero && scale->num_elements() != zero->num_elements()) {
    return BadInput("zero point of shape {} with a scale of shape {}; equal shapes needed", zero->ToString(), scale->ToString());
  }
  return Status::Ok();
}

Status CheckScaleType(DType t) {
  if (t == DType::kUndefined || IsHighPrecision(t) || t == DType::kI32 || t == DType::kF8E8M0) return Status::Ok();
  return BadInput("scale is {}; allowed: float32, float16, bfloat16, int32, float8_e8m0", DTypeName(t));
}

// x / scale in the precision asked for: each operand and the quotient rounded to it.
float Divide(DType precision, float x, float scale) {
  if (precision == DType::kF16)
    return F16BitsToF32(F32ToF16Bits(F16BitsToF32(F32ToF16Bits(x)) / F16BitsToF32(F32ToF16Bits(scale))));
  if (precision == DType::kBF16) {
    return BF16BitsToF32(F32ToBF16Bits(BF16BitsToF32(F32ToBF16Bits(x)) / BF16BitsToF32(F32ToBF16Bits(scale))));
  }
  return x / scale;
}

template <typename F>
void ForEach(const Granularity& g, F&& f) {
  int64_t i = 0;
  for (int64_t o = 0; o < g.outer; ++o) {
    for (int64_t a = 0; a < g.extent; ++a) {
      for (int64_t n = 0; n < g.inner; ++n) f(i++, g.ScaleIndex(o, a, n));
    }
  }
}

void Quantize(const LinearParams& p, const Granularity& g, const View& x, const View& scale, const View& zero, MutView& y) {
  const DType precision = p.precision != DType::kUndefined ? p.precision : scale.dtype;
  int32_t low = 0, high = 0;
  const bool integer = QuantizedRange(y.dtype, &low, &high);
  ForEach(g, [&](int64_t i, int64_t s) {
    const float q = Divide(precision, LoadFloat(x.dtype, x.data, i), LoadFloat(scale.dtype, scale.data, s));
    if (integer) {
      StoreInt(y.dtype, y.data, i, RoundSaturate(q, zero.present() ? LoadInt(zero.dtype, zero.data, s) : 0, low, high));
      return;
    }
    const float shifted = zero.present() ? q + LoadFloat(zero.dtype, zero.data, s) : q;
    const uint8_t bits = F32ToSmallFloat(y.dtype, shifted, p.saturate);
    if (y.dtype == DType::kF4E2M1) {
      StoreInt(DType::kU4, y.data, i, bits);
    } else {
      static_cast<uint8_t*>(y.data)[i] = bits;
    }
  });
}

void Dequantize(const Granularity& g, const View& x, const View& scale, const View& zero, MutView& y) {
  int32_t low = 0, high = 0;
  const bool integer = QuantizedRange(x.dtype, &low, &high);
  ForEach(g, [&](int64_t i, int64_t s) {
    float v;
    if (integer || x.dtype == DType::kI32) {
      const int64_t z = zero.present() ? LoadInt(zero.dtype, zero.data, s) : 0;
      v = static_cast<float>(LoadInt(x.dtype, x.data, i) - z);
    } else {
      v = LoadFloat(x.dtype, x.data, i) - (zero.present() ? LoadFloat(zero.dtype, zero.data, s) : 0.0f);
    }
    StoreFloat(y.dtype, y.data, i, v * LoadFloat(scale.dtype, scale.data, s));
  });
}

class Linear final : public Kernel {
 public:
  explicit Linear(LinearParams p) : p_(p) {}
  Status Run(const RunArgs& args) const override {
    TENON_ASSIGN_OR_RETURN(const Granularity g, ResolveGranularity(p_, args.in[0].shape, args.in[1].shape));
    const View zero = args.Has(2) ? args.in[2] : View{};
    if (p_.quantize) {
      Quantize(p_, g, args.in[0], args.in[1], zero, args.out[0]);
    } else {
      Dequantize(g, args.in[0], args.in[1], zero, args.out[0]);
    }
    return Status::Ok();
  }

 private:
  LinearParams p_;
};

class Dynamic final : public Kernel {
 public:
  Status Run(const RunArgs& args) const override {
    const float* x = args.in[0].Data<float>();
    const int64_t n = args.in[0].num_elements();
    float low = 0, high = 0;
    for (int64_t i = 0; i < n; ++i) {
      low = std::min(low, x[i]);
      high = std::max(high, x[i]);
    }
    const float scale = (high == low ? 1.0f : high - low) / 255.0f;
    const int32_t zero = RoundSaturate(-low / scale, 0, 0, 255);
    for (int64_t i = 0; i < n; ++i)
      args.out[0].Data<uint8_t>()[i] = static_cast<uint8_t>(RoundSaturate(x[i] / scale, zero, 0, 255));
    if (Wants(args.out, 1)) *args.out[1].Data<float>() = scale;
    if (Wants(args.out, 2)) *args.out[2].Data<uint8_t>() = static_cast<uint8_t>(zero);
    return Status::Ok();
  }
};

}  // namespace

Result<LinearParams> ParseLinear(std::string_view op, const Attrs& attrs) {
  LinearParams p;
  p.quantize = op == "QuantizeLinear";
  p.axis = attrs.Int("axis", 1);
  p.block_size = attrs.Int("block_size", 0);
  p.saturate = attrs.Int("saturate", 1) != 0;
  if (p.block_size < 0) return BadInput("block_size {}; at least 0 needed", p.block_size);
  const int64_t output = attrs.Int("output_dtype", 0);
  const int64_t precision = attrs.Int("precision", 0);
  for (int64_t raw : {output, precision}) {
    if (raw != 0 && (raw < 0 || raw > 1000 || !IsValidDType(static_cast<int32_t>(raw)))) {
      return BadInput("element type {}; attribute output_dtype or precision; a TensorProto.DataType needed", raw);
    }
  }
  p.output = static_cast<DType>(output);
  p.precision = static_cast<DType>(precision);
  if (precision != 0 && !IsHighPrecision(p.precision)) {
    return BadInput("precision {}; allowed: float32, float16, bfloat16", DTypeName(p.precision));
  }
  return p;
}

Result<Granularity> ResolveGranularity(const LinearParams& p, const Shape& x, const Shape& scale) {
  Granularity g;
  g.inner = x.num_elements();
  if (scale.num_elements() == 1 && p.block_size == 0) return g;
  const int64_t given = x.rank() == 1 && p.axis == 1 ? 0 : p.axis;  // the default axis means nothing for a vector
  TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(given, x.rank()));
  g.outer = x.Product(0, axis);
  g.extent = x[axis];
  g.inner = x.Product(axis + 1, x.rank());
  if (p.block_size == 0) {
    if (scale.rank() != 1 || scale[0] != x[axis]) {
      return BadInput("scale of shape {}; a scalar or [{}] (axis {} of x, {}) needed, or block_size given", scale.ToString(),
                      x[axis], axis, x.ToString());
    }
    g.kind = Granularity::Kind::kAxis;
    return g;
  }
  g.kind = Granularity::Kind::kBlock;
  g.block = p.block_size;
  g.blocks = scale.rank() == x.rank() ? scale[axis] : -1;
  bool fits = scale.rank() == x.rank() && g.blocks == x[axis] / g.block + (x[axis] % g.block != 0);
  for (int i = 0; fits && i < x.rank(); ++i) fits = i == axis || x[i] == scale[i];
  if (!fits)
    return BadInput("scale of shape {} for x of shape {}; axis {} in blocks of {}", scale.ToString(), x.ToString(), axis,
                    g.block);
  return g;
}

Status InferQuantize(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const LinearParams p, ParseLinear("QuantizeLinear", args.attrs));
  const DType x = args.in[0].dtype;
  if (x != DType::kUndefined && !IsHighPrecision(x) && x != DType::kI32) {
    return BadInput("x is {}; allowed: float32, float16, bfloat16, int32", DTypeName(x));
  }
  TENON_RETURN_IF_ERROR(CheckScaleType(args.in[1].dtype));
  DType y = p.output;
  if (args.Has(2) && args.in[2].dtype != DType::kUndefined) {
    if (y != DType::kUndefined && y != args.in[2].dtype) {
      return BadInput("output_dtype {} with a zero point of {}; equal types needed", DTypeName(y), DTypeName(args.in[2].dtype));
    }
    y = args.in[2].dtype;
  }
  if (y == DType::kUndefined && !args.Has(2)) y = DType::kU8;
  if (y != DType::kUndefined && !IsQuantizedType(y)) return BadInput("cannot quantise to {}", DTypeName(y));
  TENON_RETURN_IF_ERROR(CheckScale(p, args));
  SetOutput(args, 0, y, args.in[0].shape);
  return Status::Ok();
}

Status InferDequantize(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const LinearParams p, ParseLinear("DequantizeLinear", args.attrs));
  const DType x = args.in[0].dtype;
  if (x != DType::kUndefined && !IsQuantizedType(x) && x != DType::kI32)
    return BadInput("x is {}; a quantised type needed", DTypeName(x));
  TENON_RETURN_IF_ERROR(CheckScaleType(args.in[1].dtype));
  if (args.Has(2) && args.in[2].dtype != DType::kUndefined && x != DType::kUndefined && args.in[2].dtype != x) {
    return BadInput("zero point is {} and x {}; equal types needed", DTypeName(args.in[2].dtype), DTypeName(x));
  }
  const DType y = p.output != DType::kUndefined ? p.output : args.in[1].dtype;
  if (y != DType::kUndefined && !IsHighPrecision(y)) return BadInput("cannot dequantise to {}", DTypeName(y));
  TENON_RETURN_IF_ERROR(CheckScale(p, args));
  SetOutput(args, 0, y, args.in[0].shape);
  return Status::Ok();
}

Status InferDynamicQuantize(const ShapeArgs& args) {
  const DType x = args.in[0].dtype;
  if (x != DType::kUndefined && x != DType::kF32) return BadInput("x is {}; float32 needed", DTypeName(x));
  SetOutput(args, 0, DType::kU8, args.in[0].shape);
  SetOutput(args, 1, DType::kF32, Shape());
  SetOutput(args, 2, DType::kU8, Shape());
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeLinear(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(const LinearParams p, ParseLinear(problem.op, problem.attrs));
  return std::unique_ptr<Kernel>(new Linear(p));
}

Result<std::unique_ptr<Kernel>> MakeDynamicQuantize(const Problem& /*problem*/) {
  return std::unique_ptr<Kernel>(new Dynamic());
}

}  // namespace tenon::kernels::quantize
