// Shape rules of the elementwise operators.
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/known.h"
#include "kernels/elementwise/scalar.h"

namespace tenon::kernels::elementwise {
namespace {

Status CheckType(std::string_view op, size_t input, DType t, bool accepted) {
  if (t == DType::kUndefined || accepted) return Status::Ok();
  return BadInput("{}: input {} has type {}, for which the operator is not defined", op, input, DTypeName(t));
}

Status CheckSameType(std::string_view op, const ShapeArgs& args, size_t a, size_t b) {
  const DType ta = args.in[a].dtype;
  const DType tb = args.in[b].dtype;
  if (ta == tb || ta == DType::kUndefined || tb == DType::kUndefined) return Status::Ok();
  return BadInput("{}: inputs {} and {} have types {} and {}; they must be equal", op, a, b, DTypeName(ta), DTypeName(tb));
}

DType FirstKnown(const ShapeArgs& args) {
  for (const ValueInfo& v : args.in) {
    if (v.present && v.dtype != DType::kUndefined) return v.dtype;
  }
  return DType::kUndefined;
}

}  // namespace

Status InferUnary(std::string_view op, const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const UnaryFn fn, ParseUnary(op, args.attrs));
  const DType t = args.in[0].dtype;
  TENON_RETURN_IF_ERROR(CheckType(op, 0, t, Accepts(fn.op, t)));
  args.out[0].dtype = GivesBool(fn.op) ? DType::kBool : t;
  args.out[0].shape = args.in[0].shape;
  PropagateUnary(fn, args);
  return Status::Ok();
}

Status InferBinary(std::string_view op, const ShapeArgs& args) {
  ValueInfo& out = args.out[0];
  TENON_ASSIGN_OR_RETURN(const BinaryOp fn, ParseBinary(op, args.attrs));
  TENON_RETURN_IF_ERROR(CheckType(op, 0, args.in[0].dtype, Accepts(fn, args.in[0].dtype)));
  if (!args.Has(1)) {  // FastGelu without its bias
    if (op != "FastGelu") return BadInput("{}: input 1 is missing", op);
    out.dtype = args.in[0].dtype;
    out.shape = args.in[0].shape;
    return Status::Ok();
  }
  TENON_RETURN_IF_ERROR(CheckType(op, 1, args.in[1].dtype, Accepts(fn, args.in[1].dtype)));
  if (fn != BinaryOp::kPow) TENON_RETURN_IF_ERROR(CheckSameType(op, args, 0, 1));
  out.dtype = GivesBool(fn) ? DType::kBool : fn == BinaryOp::kPow ? args.in[0].dtype : FirstKnown(args);
  TENON_ASSIGN_OR_RETURN(out.shape, BroadcastSym(op, args.in[0].shape, args.in[1].shape));
  const bool one_way = fn == BinaryOp::kPRelu || fn == BinaryOp::kGeluErfAdd || fn == BinaryOp::kGeluTanhAdd;
  if (one_way && out.shape.has_rank()) {
    const SymShape& x = args.in[0].shape;
    bool grows = out.shape.rank() != x.rank();
    for (int i = 0; !grows && i < x.rank(); ++i) grows = x[i].is_const() && out.shape[i].is_const() && !(x[i] == out.shape[i]);
    if (grows) {
      return BadInput("{}: input 1 of shape {} does not broadcast to input 0 of shape {}", op, args.in[1].shape.ToString(),
                      x.ToString());
    }
    out.shape = x;
  }
  PropagateBinary(fn, args);
  return Status::Ok();
}

Status InferVariadic(std::string_view op, const ShapeArgs& args) {
  ValueInfo& out = args.out[0];
  TENON_ASSIGN_OR_RETURN(const BinaryOp fn, ParseBinary(op, args.attrs));
  const bool reals_only = op == "Mean" || op == "Sum";
  out.dtype = FirstKnown(args);
  out.shape = args.in[0].shape;
  for (size_t i = 0; i < args.in.size(); ++i) {
    if (!args.Has(i)) return BadInput("{}: input {} is missing", op, i);
    const DType t = args.in[i].dtype;
    TENON_RETURN_IF_ERROR(CheckType(op, i, t, Accepts(fn, t) && (!reals_only || IsFloat(t))));
    TENON_RETURN_IF_ERROR(CheckSameType(op, args, 0, i));
    if (i == 0) continue;
    TENON_ASSIGN_OR_RETURN(out.shape, BroadcastSym(op, out.shape, args.in[i].shape));
  }
  PropagateVariadic(fn, args);
  return Status::Ok();
}

Status InferClip(const ShapeArgs& args) {
  ValueInfo& out = args.out[0];
  const DType t = args.in[0].dtype;
  TENON_RETURN_IF_ERROR(CheckType("Clip", 0, t, Accepts(UnaryOp::kClip, t)));
  for (size_t i = 1; i < args.in.size(); ++i) {
    if (!args.Has(i)) continue;
    TENON_RETURN_IF_ERROR(CheckSameType("Clip", args, 0, i));
    const Dim n = args.in[i].shape.NumElements();
    if (n.is_const() && !n.Is(1)) {
      return BadInput("Clip: {} has shape {}; it must be a scalar", i == 1 ? "min" : "max", args.in[i].shape.ToString());
    }
  }
  out.dtype = t;
  out.shape = args.in[0].shape;
  return Status::Ok();
}

Status InferWhere(const ShapeArgs& args) {
  ValueInfo& out = args.out[0];
  TENON_RETURN_IF_ERROR(CheckType("Where", 0, args.in[0].dtype, args.in[0].dtype == DType::kBool));
  TENON_RETURN_IF_ERROR(CheckSameType("Where", args, 1, 2));
  for (size_t i = 1; i < 3; ++i) {
    const DType t = args.in[i].dtype;
    TENON_RETURN_IF_ERROR(CheckType("Where", i, t, t == DType::kString || DTypeBits(t) >= 8));
  }
  out.dtype = args.in[1].dtype != DType::kUndefined ? args.in[1].dtype : args.in[2].dtype;
  TENON_ASSIGN_OR_RETURN(const SymShape values, BroadcastSym("Where", args.in[1].shape, args.in[2].shape));
  TENON_ASSIGN_OR_RETURN(out.shape, BroadcastSym("Where", args.in[0].shape, values));
  PropagateWhere(args);
  return Status::Ok();
}

Status InferIdentity(const ShapeArgs& args) {
  const ValueInfo& in = args.in[0];
  ValueInfo& out = args.out[0];
  out.dtype = in.dtype;
  out.is_sequence = in.is_sequence;
  out.shape = in.shape;
  PropagateCopy(args);
  return Status::Ok();
}

namespace {

Status InferCastTo(DType to, const ShapeArgs& args) {
  const DType from = args.in[0].dtype;
  const auto castable = [](DType t) { return t != DType::kC64 && t != DType::kC128; };
  TENON_RETURN_IF_ERROR(CheckType("Cast", 0, from, castable(from)));
  if (!castable(to)) return BadInput("Cast: attribute to is {}; complex types are not allowed", DTypeName(to));
  const std::string mode = args.attrs.String("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest") {
    return BadInput("Cast: attribute round_mode is \"{}\"; allowed are \"up\", \"down\" and \"nearest\"", mode);
  }
  args.out[0].dtype = to;
  args.out[0].shape = args.in[0].shape;
  if (IsInteger(to) && DTypeBits(to) >= 32) PropagateCopy(args);
  return Status::Ok();
}

}  // namespace

Status InferCast(const ShapeArgs& args) {
  const int64_t to = args.attrs.Int("to", 0);
  if (to < 0 || to > 1000 || !IsValidDType(static_cast<int32_t>(to))) {
    return BadInput("Cast: attribute to is {}; it must be an ONNX element type from 1 to {}", to, static_cast<int>(DType::kI2));
  }
  return InferCastTo(static_cast<DType>(to), args);
}

Status InferCastLike(const ShapeArgs& args) {
  if (args.in[1].dtype == DType::kUndefined) {
    args.out[0].shape = args.in[0].shape;
    return Status::Ok();
  }
  return InferCastTo(args.in[1].dtype, args);
}

}  // namespace tenon::kernels::elementwise
