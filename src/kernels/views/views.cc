#include "kernels/views/views.h"

#include <algorithm>

#include "kernels/movement/element.h"

namespace tenon::kernels::views {
namespace {

using movement::NormalizeAxis;
using movement::SetTensor;

// Sets the output; a list of known integers that stays a list (or scalar) keeps its elements.
Status Finish(const ShapeArgs& args, SymShape shape) {
  TENON_RETURN_IF_ERROR(movement::CheckDims(shape));
  const bool list = shape.has_rank() && shape.rank() <= 1;
  auto elements = list ? movement::SmallElements(args.in[0]) : std::nullopt;
  SetTensor(&args.out[0], args.in[0].dtype, std::move(shape));
  if (elements) movement::SetElements(&args.out[0], *std::move(elements));
  return Status::Ok();
}

// num / den where the division is known to be exact: common factors go first, so that sums cancel too.
Dim Quotient(std::vector<Dim> num, std::vector<Dim> den) {
  for (auto d = den.begin(); d != den.end();) {
    auto same = std::find(num.begin(), num.end(), *d);
    if (same == num.end()) {
      ++d;
      continue;
    }
    num.erase(same);
    d = den.erase(d);
  }
  Dim n(1);
  Dim m(1);
  for (const Dim& d : num) n = n * d;
  for (const Dim& d : den) m = m * d;
  return Dim::FloorDiv(n, m);
}

// The rank of a target given as a list of integers whose values are not known.
SymShape OfListLength(const ValueInfo& list) {
  if (!list.shape.has_rank() || list.shape.rank() != 1 || !list.shape[0].is_const()) return {};
  const int64_t n = list.shape[0].value();
  return n >= 0 && n <= kMaxRank ? SymShape::OfRank(static_cast<int>(n)) : SymShape();
}

Status ReshapeTo(const SymShape& in, std::vector<Dim> target, bool allow_zero, SymShape* out) {
  int infer = -1;
  bool zero = false;
  std::vector<bool> copied(target.size(), false);
  for (size_t i = 0; i < target.size(); ++i) {
    if (!target[i].is_const()) continue;
    const int64_t v = target[i].value();
    if (v < -1) return BadInput("Reshape: extent {} at position {}; allowed are -1, 0 and positive numbers", v, i);
    if (v == -1) {
      if (infer >= 0) return BadInput("Reshape: more than one -1 in the shape");
      infer = static_cast<int>(i);
    } else if (v == 0 && !allow_zero) {
      if (in.has_rank() && static_cast<int>(i) >= in.rank()) {
        return BadInput("Reshape: 0 at position {} copies an extent that the input of shape {} lacks", i, in.ToString());
      }
      target[i] = in.has_rank() ? in[static_cast<int>(i)] : Dim::Unknown();
      copied[i] = true;
    }
    zero = zero || target[i].Is(0);
  }
  if (infer >= 0) {
    if (allow_zero && zero) return BadInput("Reshape: -1 together with 0 and allowzero has no one answer");
    // Copied extents stand on both sides and are left out, so that an empty batch still tells the others.
    std::vector<Dim> from, rest;
    for (int i = 0; in.has_rank() && i < in.rank(); ++i) {
      if (static_cast<size_t>(i) >= copied.size() || !copied[static_cast<size_t>(i)]) from.push_back(in[i]);
    }
    for (size_t i = 0; i < target.size(); ++i) {
      if (static_cast<int>(i) != infer && !copied[i]) rest.push_back(target[i]);
    }
    const Dim n = SymShape(from).NumElements();
    const Dim known = SymShape(rest).NumElements();
    Dim& inferred = target[static_cast<size_t>(infer)];
    if (!in.has_rank()) {
      inferred = Dim::Unknown();
    } else if (in.is_const() && known.is_const()) {
      if (n.is_unknown() || (known.Is(0) ? !n.Is(0) : n.value() % known.value() != 0)) {
        return BadInput("Reshape: {} elements of {} do not divide into {}", in.NumElements().ToString(), in.ToString(),
                        SymShape(rest).ToString());
      }
      inferred = known.Is(0) ? Dim(0) : Dim::FloorDiv(n, known);
    } else {
      inferred = Quotient(std::move(from), std::move(rest));
    }
  }
  *out = SymShape(std::move(target));
  TENON_RETURN_IF_ERROR(movement::CheckDims(*out));
  if (in.is_const() && out->is_const() && !(in.NumElements() == out->NumElements())) {
    return BadInput("Reshape: input of shape {} has {} elements, shape {} has {}", in.ToString(), in.NumElements().ToString(),
                    out->ToString(), out->NumElements().ToString());
  }
  return Status::Ok();
}

}  // namespace

Status InferReshape(const ShapeArgs& args) {
  const ValueInfo& list = args.in[1];
  if (list.dtype != DType::kI64 && list.dtype != DType::kI32 && list.dtype != DType::kUndefined) {
    return BadInput("Reshape: the shape must be int64, not {}", DTypeName(list.dtype));
  }
  if (list.shape.has_rank() && list.shape.rank() != 1) {
    return BadInput("Reshape: the shape must be a list, not of shape {}", list.shape.ToString());
  }
  auto target = movement::SmallElements(list);
  if (!target) {
    if (list.data != nullptr) return BadInput("Reshape: {} extents; allowed are {}", list.data->num_elements(), kMaxRank);
    return Finish(args, OfListLength(list));
  }
  if (target->size() > kMaxRank) return BadInput("Reshape: {} extents; allowed are {}", target->size(), kMaxRank);
  SymShape out;
  TENON_RETURN_IF_ERROR(ReshapeTo(args.in[0].shape, *std::move(target), args.attrs.Int("allowzero", 0) != 0, &out));
  return Finish(args, std::move(out));
}

Status InferFlatten(const ShapeArgs& args) {
  const SymShape& in = args.in[0].shape;
  if (!in.has_rank()) return Finish(args, SymShape::OfRank(2));
  const int64_t axis = args.attrs.Int("axis", 1);
  if (axis < -in.rank() || axis > in.rank()) {
    return BadInput("Flatten: axis {} is outside [{}, {}]", axis, -in.rank(), in.rank());
  }
  const auto split = static_cast<int>(axis < 0 ? axis + in.rank() : axis);
  Dim left(1);
  Dim right(1);
  for (int i = 0; i < in.rank(); ++i) (i < split ? left : right) = (i < split ? left : right) * in[i];
  return Finish(args, SymShape({left, right}));
}

Status InferSqueeze(const ShapeArgs& args) {
  const SymShape& in = args.in[0].shape;
  if (!in.has_rank()) return Finish(args, {});
  std::vector<bool> drop(static_cast<size_t>(in.rank()), false);
  if (args.Has(1)) {
    auto axes = movement::SmallKnownInts(args.in[1]);
    if (!axes) {
      if (args.in[1].data != nullptr) return BadInput("Squeeze: axes must be a list of at most {} integers", kMaxRank);
      const SymShape& list = args.in[1].shape;
      if (!list.has_rank() || list.rank() != 1 || !list[0].is_const()) return Finish(args, {});
      if (list[0].value() > in.rank()) return BadInput("Squeeze: {} axes for rank {}", list[0].value(), in.rank());
      return Finish(args, SymShape::OfRank(static_cast<int>(in.rank() - list[0].value())));
    }
    for (int64_t a : *axes) {
      auto axis = NormalizeAxis(a, in.rank());
      if (!axis.ok()) return std::move(axis).TakeStatus().Within("Squeeze");
      if (in[*axis].is_const() && !in[*axis].Is(1)) {
        return BadInput("Squeeze: axis {} has extent {}, not 1", a, in[*axis].value());
      }
      drop[static_cast<size_t>(*axis)] = true;
    }
  } else {
    if (!in.is_const()) return Finish(args, {});
    for (int i = 0; i < in.rank(); ++i) drop[static_cast<size_t>(i)] = in[i].Is(1);
  }
  std::vector<Dim> dims;
  for (int i = 0; i < in.rank(); ++i) {
    if (!drop[static_cast<size_t>(i)]) dims.push_back(in[i]);
  }
  return Finish(args, SymShape(std::move(dims)));
}

Status InferUnsqueeze(const ShapeArgs& args) {
  const SymShape& in = args.in[0].shape;
  auto axes = movement::SmallKnownInts(args.in[1]);
  if (!axes && args.in[1].data != nullptr) {
    return BadInput("Unsqueeze: axes must be a list of at most {} integers", kMaxRank);
  }
  if (!in.has_rank()) return Finish(args, {});
  if (!axes) {
    const SymShape& list = args.in[1].shape;
    if (!list.has_rank() || list.rank() > 1 || (list.rank() == 1 && !list[0].is_const())) return Finish(args, {});
    const int64_t n = list.rank() == 0 ? 1 : list[0].value();
    if (n < 0 || n + in.rank() > kMaxRank) return BadInput("Unsqueeze: rank {} is over the limit of {}", n + in.rank(), kMaxRank);
    return Finish(args, SymShape::OfRank(static_cast<int>(n) + in.rank()));
  }
  const int rank = in.rank() + static_cast<int>(axes->size());
  if (rank > kMaxRank) return BadInput("Unsqueeze: rank {} is over the limit of {}", rank, kMaxRank);
  std::vector<bool> added(static_cast<size_t>(rank), false);
  for (int64_t a : *axes) {
    auto axis = NormalizeAxis(a, rank);
    if (!axis.ok()) return std::move(axis).TakeStatus().Within("Unsqueeze");
    if (added[static_cast<size_t>(*axis)]) return BadInput("Unsqueeze: axis {} is given twice", a);
    added[static_cast<size_t>(*axis)] = true;
  }
  std::vector<Dim> dims;
  int next = 0;
  for (int i = 0; i < rank; ++i) {
    if (added[static_cast<size_t>(i)]) {
      dims.emplace_back(1);
    } else {
      dims.push_back(in[next++]);
    }
  }
  return Finish(args, SymShape(std::move(dims)));
}

Status InferBitCast(const ShapeArgs& args) {
  const int64_t raw = args.attrs.Int("to", 0);
  if (raw < 1 || raw > 1000 || !IsValidDType(static_cast<int32_t>(raw)))
    return BadInput("BitCast: to is {}; an element type needed", raw);
  const auto to = static_cast<DType>(raw);
  const DType from = args.in[0].dtype;
  if (from != DType::kUndefined && (DTypeBits(from) != DTypeBits(to) || DTypeBits(to) == 0)) {
    return BadInput("BitCast: {} to {}; types of equal width needed", DTypeName(from), DTypeName(to));
  }
  args.out[0].dtype = to;
  args.out[0].shape = args.in[0].shape;
  return Status::Ok();
}

namespace {

class CopyKernel final : public Kernel {
 public:
  explicit CopyKernel(const Problem& /*problem*/) {}
  Status Run(const RunArgs& args) const override {
    const View& in = args.in[0];
    const MutView& out = args.out[0];
    if (out.data == nullptr) return Internal("a view was run without memory for its output");
    if (out.num_elements() != in.num_elements()) {
      return BadInput("shape {} does not hold the elements of {}", out.shape.ToString(), in.shape.ToString());
    }
    if (out.data == in.data) return Status::Ok();
    const bool strings = in.dtype == DType::kString;
    const int64_t n = strings ? in.num_elements() : static_cast<int64_t>(in.bytes());
    movement::CopyElementsParallel(out.data, in.data, n, strings ? movement::kStringSize : 1, args.team);
    return Status::Ok();
  }
};

#define KERNEL(op, rule, min_in, max_in, row, isa, can, make) constexpr Row k##op[] = {{row, isa, can, make}};
#include "kernels/views/kernels.inc"
#undef KERNEL

}  // namespace

std::span<const OpKernels> Operators() {
#define KERNEL(op, rule, min_in, max_in, row, isa, can, make) {#op, rule, k##op, min_in, max_in, 1, 1, true},
  static const OpKernels table[] = {
#include "kernels/views/kernels.inc"
  };
#undef KERNEL
  return table;
}

}  // namespace tenon::kernels::views
