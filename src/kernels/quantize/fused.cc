// QuantizedConv and QuantizedMatMul: attributes and shape rules.
#include "kernels/quantize/fused.h"

#include <cmath>

#include "kernels/conv/conv.h"
#include "kernels/matmul/matmul.h"
#include "kernels/quantize/binary.h"

namespace tenon::kernels::quantize {
namespace {

bool IsByte(DType t) {
  return t == DType::kU8 || t == DType::kI8;
}

Result<DType> TypeAttr(const Attrs& attrs, const char* name, DType fallback, bool floats) {
  const int64_t raw = attrs.Int(name, static_cast<int64_t>(fallback));
  const auto t = static_cast<DType>(raw);
  const bool known = raw == static_cast<int64_t>(fallback) || raw == static_cast<int64_t>(DType::kU8) ||
                     raw == static_cast<int64_t>(DType::kI8) || (floats && raw == static_cast<int64_t>(DType::kBF16));
  if (!known) return BadInput("attribute {} is {}; allowed: uint8, int8{}", name, raw, floats ? ", float32, bfloat16" : "");
  return t;
}

bool Disagree(const Dim& a, const Dim& b) {
  return a.is_const() && b.is_const() && a.value() != b.value();
}

Status CheckVector(const ShapeArgs& args, size_t i, const char* what, const Dim& n) {
  if (!args.Has(i) || !args.in[i].shape.has_rank()) return Status::Ok();
  const SymShape& s = args.in[i].shape;
  const bool fits = s.rank() == 0 || (s.rank() == 1 && (s[0].Is(1) || !Disagree(s[0], n)));
  return fits ? Status::Ok() : BadInput("{} of shape {}; 1 or {} elements needed", what, s.ToString(), n.ToString());
}

// Types of the inputs and of the result; everything that does not depend on the kind of product.
Status CheckTypes(const ShapeArgs& args, const FusedParams& p) {
  const auto type = [&](size_t i) { return args.Has(i) ? args.in[i].dtype : DType::kUndefined; };
  const auto bad = [&](size_t i, const char* allowed) {
    return BadInput("input {} is {}; {} needed", i, DTypeName(args.in[i].dtype), allowed);
  };
  const DType x = type(kFusedX), w = type(kFusedW), bias = type(kFusedBias), r = type(kFusedResidual);
  const DType scale = type(kFusedScale), zero = type(kFusedZero);
  if (x != DType::kUndefined && !IsByte(x) && x != DType::kF32) return bad(kFusedX, "uint8, int8 or float32");
  if (x == DType::kF32 && !p.dynamic && p.x.type == DType::kUndefined) {
    return BadInput("input 0 is float32; attribute x_dtype is needed to quantise it");
  }
  if (IsByte(x) && (p.dynamic || (p.x.type != DType::kUndefined && p.x.type != x))) {
    return BadInput("input 0 is {}; it contradicts attribute dynamic or x_dtype", DTypeName(x));
  }
  if (w != DType::kUndefined && !IsByte(w)) return bad(kFusedW, "uint8 or int8");
  if (scale != DType::kUndefined && scale != DType::kF32) return bad(kFusedScale, "float32");
  if (bias != DType::kUndefined && bias != DType::kF32 && bias != DType::kI32) return bad(kFusedBias, "float32 or int32");
  if (r != DType::kUndefined && !IsByte(r) && r != DType::kF32 && r != DType::kBF16) {
    return bad(kFusedResidual, "uint8, int8, float32 or bfloat16");
  }
  const DType x_scale = type(kFusedXScale), x_zero = type(kFusedXZero);
  if (x_scale != DType::kUndefined && x_scale != DType::kF32) return bad(kFusedXScale, "float32");
  if (x_zero != DType::kUndefined && x != DType::kUndefined && x_zero != x) return bad(kFusedXZero, "the type of input 0");
  if (zero != DType::kUndefined && w != DType::kUndefined && zero != w) return bad(kFusedZero, "the type of the weights");
  return Status::Ok();
}

Status CheckRest(const ShapeArgs& args, const Dim& n) {
  TENON_RETURN_IF_ERROR(CheckVector(args, kFusedScale, "scale of the weights", n));
  TENON_RETURN_IF_ERROR(CheckVector(args, kFusedZero, "zero point of the weights", n));
  TENON_RETURN_IF_ERROR(CheckVector(args, kFusedXScale, "scale of input 0", 1));
  TENON_RETURN_IF_ERROR(CheckVector(args, kFusedXZero, "zero point of input 0", 1));
  if (args.Has(kFusedBias) && args.in[kFusedBias].shape.has_rank()) {
    const SymShape& s = args.in[kFusedBias].shape;
    if (s.rank() != 1 || Disagree(s[0], n)) return BadInput("bias of shape {}; [{}] is needed", s.ToString(), n.ToString());
  }
  if (args.Has(kFusedResidual) && args.in[kFusedResidual].shape.has_rank()) {
    const SymShape& s = args.in[kFusedResidual].shape;
    const SymShape& y = args.out[0].shape;
    bool same = s.rank() == y.rank() || (s.rank() == 1 && !Disagree(s[0], n));
    for (int i = 0; same && s.rank() == y.rank() && i < y.rank(); ++i) same = !Disagree(s[i], y[i]);
    if (!same) return BadInput("residual of shape {}; the result's shape {} is needed", s.ToString(), y.ToString());
  }
  return Status::Ok();
}

}  // namespace

Result<Grid> GridAttrs(const Attrs& attrs, const std::string& prefix, DType type) {
  Grid g;
  g.type = type;
  g.scale = attrs.Float(prefix + "_scale", 1);
  const int64_t zero = attrs.Int(prefix + "_zero_point", 0);
  if (!(g.scale > 0) || !std::isfinite(g.scale)) {
    return BadInput("attribute {}_scale is {}; a finite number above 0 is needed", prefix, g.scale);
  }
  int32_t low = -128, high = 255;
  if (type != DType::kUndefined) QuantizedRange(type, &low, &high);
  if (zero < low || zero > high) return BadInput("attribute {}_zero_point is {}; allowed: {} to {}", prefix, zero, low, high);
  g.zero = static_cast<int32_t>(zero);
  return g;
}

Result<FusedParams> ParseFused(const Attrs& attrs) {
  FusedParams p;
  TENON_ASSIGN_OR_RETURN(p.output, TypeAttr(attrs, "output_dtype", DType::kF32, true));
  TENON_ASSIGN_OR_RETURN(const DType x, TypeAttr(attrs, "x_dtype", DType::kUndefined, false));
  TENON_ASSIGN_OR_RETURN(const DType grid, TypeAttr(attrs, "grid_dtype", DType::kUndefined, false));
  TENON_ASSIGN_OR_RETURN(p.x, GridAttrs(attrs, "x", x));
  TENON_ASSIGN_OR_RETURN(p.grid, GridAttrs(attrs, "grid", grid));
  TENON_ASSIGN_OR_RETURN(p.y, GridAttrs(attrs, "y", IsByte(p.output) ? p.output : DType::kUndefined));
  TENON_ASSIGN_OR_RETURN(p.residual, GridAttrs(attrs, "residual", DType::kUndefined));
  p.dynamic = attrs.Int("dynamic", 0) != 0;
  p.trans_b = attrs.Int("transB", 0) != 0;
  TENON_ASSIGN_OR_RETURN(p.activation, gemm::ParseActivation(attrs));
  return p;
}

Status InferQuantizedConv(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const FusedParams p, ParseFused(args.attrs));
  if (p.dynamic) return BadInput("attribute dynamic is for QuantizedMatMul");
  TENON_RETURN_IF_ERROR(CheckTypes(args, p));
  ValueInfo operands[2] = {args.in[kFusedX], args.in[kFusedW]};
  for (ValueInfo& v : operands) v.dtype = DType::kF32;
  Attrs attrs = args.attrs;
  attrs.Set("output_dtype", static_cast<int64_t>(DType::kF32));
  TENON_RETURN_IF_ERROR(conv::InferFusedConv({attrs, operands, args.out}));
  args.out[0].dtype = p.output;
  const SymShape& y = args.out[0].shape;
  if (!y.has_rank()) return Status::Ok();
  return CheckRest(args, y[args.attrs.String("data_layout", "NCHW") == "NHWC" ? y.rank() - 1 : 1]);
}

Status InferQuantizedMatMul(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const FusedParams p, ParseFused(args.attrs));
  TENON_RETURN_IF_ERROR(CheckTypes(args, p));
  ValueInfo operands[2] = {args.in[kFusedX], args.in[kFusedW]};
  for (ValueInfo& v : operands) v.dtype = DType::kF32;
  Attrs attrs;
  attrs.Set("transB", int64_t{p.trans_b});
  TENON_RETURN_IF_ERROR(matmul::InferFusedMatMul({attrs, operands, args.out}));
  args.out[0].dtype = p.output;
  const SymShape& y = args.out[0].shape;
  if (!y.has_rank()) return Status::Ok();
  return CheckRest(args, y[y.rank() - 1]);
}

}  // namespace tenon::kernels::quantize
