// Shape rules of the reductions.
#include "kernels/reduce/shape.h"
#include "kernels/kernel_util.h"
#include "kernels/reduce/reduce.h"

namespace tenon::kernels::reduce {
namespace {

// Reduction of known elements of a shape vector, when the kind has an expression.
std::optional<Dim> ReduceElements(Kind kind, const std::vector<Dim>& elements) {
  if (elements.empty()) return std::nullopt;
  Dim acc = elements[0];
  for (size_t i = 1; i < elements.size(); ++i) {
    switch (kind) {
      case Kind::kSum: acc = acc + elements[i]; break;
      case Kind::kProd: acc = acc * elements[i]; break;
      case Kind::kMax: acc = Dim::Max(acc, elements[i]); break;
      case Kind::kMin: acc = Dim::Min(acc, elements[i]); break;
      default: return std::nullopt;
    }
  }
  if (kind != Kind::kSum && kind != Kind::kProd && kind != Kind::kMax && kind != Kind::kMin) return std::nullopt;
  return acc;
}

constexpr size_t kMaxElements = 64;

Status AxesType(const ValueInfo& axes) {
  if (axes.dtype != DType::kI64 && axes.dtype != DType::kUndefined) {
    return BadInput("axes are {}; allowed: int64", DTypeName(axes.dtype));
  }
  if (axes.shape.has_rank() && axes.shape.rank() != 1) return BadInput("axes have rank {}; allowed: 1", axes.shape.rank());
  return {};
}

SymShape UnknownAxesShape(const ShapeArgs& args, bool keepdims) {
  const SymShape& x = args.in[0].shape;
  if (!x.has_rank()) return {};
  if (keepdims) return SymShape::OfRank(x.rank());
  const SymShape& axes = args.in[1].shape;
  if (axes.has_rank() && axes.rank() == 1 && axes[0].is_const() && axes[0].value() > 0 && axes[0].value() <= x.rank()) {
    return SymShape::OfRank(x.rank() - static_cast<int>(axes[0].value()));
  }
  return {};
}

SymShape Reduced(const SymShape& x, uint32_t mask, bool keepdims) {
  std::vector<Dim> dims;
  for (int i = 0; i < x.rank(); ++i) {
    if ((mask >> i & 1) == 0) {
      dims.push_back(x[i]);
    } else if (keepdims) {
      dims.emplace_back(1);
    }
  }
  return SymShape(std::move(dims));
}

}  // namespace

Status InferReduce(Kind kind, const ShapeArgs& args) {
  const bool keepdims = args.attrs.Int("keepdims", 1) != 0;
  const bool noop = args.attrs.Int("noop_with_empty_axes", 0) != 0;
  const ValueInfo& x = args.in[0];
  std::optional<std::vector<int64_t>> axes;
  if (args.Has(1)) {
    TENON_RETURN_IF_ERROR(AxesType(args.in[1]));
    axes = KnownInts(args.in[1]);
    const SymShape& s = args.in[1].shape;
    if (!axes && s.has_rank() && s[0].Is(0)) axes.emplace();
    if (!axes) {
      SetOutput(args, 0, x.dtype, UnknownAxesShape(args, keepdims));
      return {};
    }
  }
  if (!x.shape.has_rank()) {
    SetOutput(args, 0, x.dtype, SymShape());
    return {};
  }
  if (x.shape.rank() > kMaxRank) return BadInput("rank {}; allowed: up to {}", x.shape.rank(), kMaxRank);
  TENON_ASSIGN_OR_RETURN(const uint32_t mask, AxesMask(axes ? &*axes : nullptr, x.shape.rank(), noop));
  SetOutput(args, 0, x.dtype, Reduced(x.shape, mask, keepdims));
  if (x.shape.rank() == 1 && mask == 1 && IsInteger(x.dtype)) {
    const auto elements = KnownElements(x);
    if (elements && elements->size() <= kMaxElements) {
      if (auto e = ReduceElements(kind, *elements)) args.out[0].elements = std::vector<Dim>{*e};
    }
  }
  return {};
}

Status InferArg(const ShapeArgs& args) {
  const bool keepdims = args.attrs.Int("keepdims", 1) != 0;
  const SymShape& x = args.in[0].shape;
  if (!x.has_rank()) {
    SetOutput(args, 0, DType::kI64, SymShape());
    return {};
  }
  TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(args.attrs.Int("axis", 0), x.rank()));
  if (x[axis].Is(0)) return BadInput("axis {} has extent 0; an index needs at least one element", axis);
  SetOutput(args, 0, DType::kI64, Reduced(x, 1u << axis, keepdims));
  return {};
}

Result<uint32_t> AxesMask(const std::vector<int64_t>* axes, int rank, bool noop) {
  if (axes == nullptr || axes->empty()) return noop ? 0u : (1u << rank) - 1;
  uint32_t mask = 0;
  for (const int64_t a : *axes) {
    TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(a, rank));
    if ((mask >> axis & 1) != 0) return BadInput("axis {} is named twice in axes", a);
    mask |= 1u << axis;
  }
  return mask;
}

Result<uint32_t> AxesMask(const ReduceParams& params, const RunArgs& args) {
  const int rank = args.in[0].shape.rank();
  if (!args.Has(1) || args.in[1].num_elements() == 0) return params.noop_with_empty_axes ? 0u : (1u << rank) - 1;
  uint32_t mask = 0;
  const int64_t* axes = args.in[1].Data<int64_t>();
  for (int64_t i = 0; i < args.in[1].num_elements(); ++i) {
    TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axes[i], rank));
    if ((mask >> axis & 1) != 0) return BadInput("axis {} is named twice in axes", axes[i]);
    mask |= 1u << axis;
  }
  return mask;
}

Shape ReducedShape(const Shape& in, uint32_t mask, bool keepdims) {
  Shape out;
  for (int i = 0; i < in.rank(); ++i) {
    if ((mask >> i & 1) == 0) {
      out.push_back(in[i]);
    } else if (keepdims) {
      out.push_back(1);
    }
  }
  return out;
}

}  // namespace tenon::kernels::reduce
