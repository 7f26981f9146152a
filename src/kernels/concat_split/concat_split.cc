#include "kernels/concat_split/concat_split.h"

#include "kernels/movement/strided.h"

namespace tenon::kernels::concat_split {
namespace {

using movement::NormalizeAxis;
using movement::SetTensor;
using movement::SmallElements;

// Elements of a concatenation of lists; what is not known of one input does not hide the others.
void ConcatElements(const ShapeArgs& args) {
  std::vector<Dim> all;
  bool any = false;
  for (const ValueInfo& v : args.in) {
    if (!v.present) continue;
    if (auto elements = SmallElements(v)) {
      all.insert(all.end(), elements->begin(), elements->end());
      any = true;
    } else if (v.shape[0].is_const() && v.shape[0].value() <= movement::kMaxKnownElements) {
      all.resize(all.size() + static_cast<size_t>(v.shape[0].value()), Dim::Unknown());
    } else {
      return;
    }
    if (static_cast<int64_t>(all.size()) > movement::kMaxKnownElements) return;
  }
  if (any) movement::SetElements(&args.out[0], std::move(all));
}

}  // namespace

Status InferConcat(const ShapeArgs& args) {
  DType dtype = DType::kUndefined;
  int rank = -1;
  bool all_ranked = true;
  for (size_t i = 0; i < args.in.size(); ++i) {
    const ValueInfo& v = args.in[i];
    if (!v.present) return BadInput("Concat: input {} is missing", i);
    if (dtype == DType::kUndefined) dtype = v.dtype;
    if (v.dtype != DType::kUndefined && v.dtype != dtype) {
      return BadInput("Concat: input {} is {} while others are {}", i, DTypeName(v.dtype), DTypeName(dtype));
    }
    if (!v.shape.has_rank()) {
      all_ranked = false;
      continue;
    }
    if (rank >= 0 && v.shape.rank() != rank) {
      return BadInput("Concat: input {} has rank {} while others have {}", i, v.shape.rank(), rank);
    }
    rank = v.shape.rank();
  }
  if (rank < 0) {
    SetTensor(&args.out[0], dtype, {});
    return Status::Ok();
  }
  TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(args.attrs.Int("axis", 0), rank));
  SymShape out = SymShape::OfRank(rank);
  out[axis] = all_ranked ? Dim(0) : Dim::Unknown();
  for (size_t i = 0; i < args.in.size(); ++i) {
    const SymShape& s = args.in[i].shape;
    if (!s.has_rank()) continue;
    for (int k = 0; k < rank; ++k) {
      if (k == axis) {
        out[k] = out[k] + s[k];
      } else if (out[k].is_const() && s[k].is_const() && !(out[k] == s[k])) {
        return BadInput("Concat: input {} of shape {} has extent {} at axis {}, others have {}", i, s.ToString(), s[k].value(), k,
                        out[k].value());
      } else if (out[k].is_unknown() || s[k].is_const()) {
        out[k] = s[k];
      }
    }
  }
  TENON_RETURN_IF_ERROR(movement::CheckDims(out));
  SetTensor(&args.out[0], dtype, std::move(out));
  if (rank == 1 && all_ranked) ConcatElements(args);
  return Status::Ok();
}

namespace {

// Extents of the parts along the axis, as far as they are known.
Status PartSizes(const ShapeArgs& args, const Dim& extent, std::vector<Dim>* parts) {
  const size_t n = args.out.size();
  if (args.Has(1)) {
    auto sizes = movement::SmallKnownInts(args.in[1], int64_t{1} << 16);
    if (!sizes) {
      parts->assign(n, Dim::Unknown());
      if (auto symbols = SmallElements(args.in[1]); symbols && symbols->size() == n) *parts = *std::move(symbols);
      return Status::Ok();
    }
    if (sizes->size() != n) return BadInput("Split: {} sizes for {} outputs", sizes->size(), n);
    Dim sum(0);
    for (int64_t s : *sizes) {
      if (s < 0) return BadInput("Split: size {} is negative", s);
      sum = sum + Dim(s);
      parts->emplace_back(s);
    }
    if (sum.is_unknown() || (extent.is_const() && !(sum == extent))) {
      return BadInput("Split: the sizes add up to {}, the axis has {}", sum.ToString(), extent.ToString());
    }
    return Status::Ok();
  }
  const int64_t count = args.attrs.Int("num_outputs", static_cast<int64_t>(n));
  if (count != static_cast<int64_t>(n)) return BadInput("Split: num_outputs is {} but there are {} outputs", count, n);
  const Dim part = Dim::CeilDiv(extent, Dim(count));
  const Dim last = extent - part * Dim(count - 1);
  if (last.is_const() && last.value() < 0) {
    return BadInput("Split: an axis of {} does not split into {} parts of {}", extent.ToString(), count, part.ToString());
  }
  parts->assign(n, part);
  parts->back() = last;
  return Status::Ok();
}

}  // namespace

Status InferSplit(const ShapeArgs& args) {
  const ValueInfo& in = args.in[0];
  if (args.Has(1) && args.in[1].dtype != DType::kUndefined && !movement::IsIndexType(args.in[1].dtype)) {
    return BadInput("Split: sizes must be int64, not {}", DTypeName(args.in[1].dtype));
  }
  if (args.out.empty()) return BadInput("Split: no outputs");
  if (!in.shape.has_rank()) {
    for (ValueInfo& o : args.out) SetTensor(&o, in.dtype, {});
    return Status::Ok();
  }
  TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(args.attrs.Int("axis", 0), in.shape.rank()));
  std::vector<Dim> parts;
  TENON_RETURN_IF_ERROR(PartSizes(args, in.shape[axis], &parts));
  auto elements = in.shape.rank() == 1 ? SmallElements(in) : std::nullopt;
  size_t next = 0;
  for (size_t i = 0; i < args.out.size(); ++i) {
    SymShape shape = in.shape;
    shape[axis] = parts[i];
    if (args.out[i].present) SetTensor(&args.out[i], in.dtype, std::move(shape));
    if (!elements || !parts[i].is_const()) {
      elements.reset();
      continue;
    }
    const size_t end = next + static_cast<size_t>(parts[i].value());
    if (end > elements->size()) return BadInput("Split: the sizes go beyond the {} elements", elements->size());
    if (args.out[i].present) {
      movement::SetElements(&args.out[i], std::vector<Dim>(elements->begin() + static_cast<int64_t>(next),
                                                           elements->begin() + static_cast<int64_t>(end)));
    }
    next = end;
  }
  return Status::Ok();
}

namespace {

class ConcatKernel final : public movement::MoveKernel {
 public:
  explicit ConcatKernel(const Problem& problem) : axis_(problem.attrs.Int("axis", 0)) {}

 protected:
  Status Move(const RunArgs& args) const override {
    Shape shape = args.in[0].shape;
    TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, shape.rank()));
    for (size_t i = 1; i < args.in.size(); ++i) {
      Shape other = args.in[i].shape;
      if (other.rank() != shape.rank() || args.in[i].dtype != args.in[0].dtype) {
        return BadInput("Concat: inputs differ in type or rank");
      }
      const int64_t extent = other[axis];
      other[axis] = shape[axis];
      if (!(other == shape)) {
        return BadInput("Concat: input {} of shape {} does not fit beside {}", i, args.in[i].shape.ToString(), shape.ToString());
      }
      shape[axis] += extent;
    }
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, shape));
    const int size = movement::ElementSize(args.in[0].dtype);
    const int64_t outer = shape.Product(0, axis);
    const int64_t row = shape.Product(axis, shape.rank());
    int64_t offset = 0;
    for (const View& v : args.in) {
      const int64_t run = v.shape.Product(axis, shape.rank());
      if (outer == 1) {
        movement::CopyElementsParallel(movement::At(args.out[0].data, offset, size), v.data, run, size, args.team);
      } else {
        movement::StridedCopy copy;
        copy.Add(outer, row, run);
        copy.Add(run, 1, 1);
        copy.Run(movement::At(args.out[0].data, offset, size), v.data, size, args.team);
      }
      offset += run;
    }
    return Status::Ok();
  }

 private:
  int64_t axis_;
};

class SplitKernel final : public movement::MoveKernel {
 public:
  explicit SplitKernel(const Problem& problem) : axis_(problem.attrs.Int("axis", 0)) {}

 protected:
  Status Move(const RunArgs& args) const override {
    const View& in = args.in[0];
    TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, in.shape.rank()));
    const int64_t extent = in.shape[axis];
    const auto parts = static_cast<int64_t>(args.out.size());
    const bool sizes = args.Has(1);
    if (sizes && (!movement::IsIndexType(args.in[1].dtype) || args.in[1].num_elements() != parts)) {
      return BadInput("Split: sizes must be {} integers", parts);
    }
    const int64_t equal = (extent + parts - 1) / parts;
    const int64_t outer = in.shape.Product(0, axis);
    const int64_t inner = in.shape.Product(axis + 1, in.shape.rank());
    const int size = movement::ElementSize(in.dtype);
    int64_t start = 0;
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t part = sizes ? movement::ReadInt(args.in[1], i) : i + 1 < parts ? equal : extent - start;
      if (part < 0 || part > extent - start || (i + 1 == parts && part != extent - start)) {
        return BadInput("Split: part {} of size {} does not fit an axis of {} after {}", i, part, extent, start);
      }
      const auto o = static_cast<size_t>(i);
      if (movement::HasOutput(args, o)) {
        Shape shape = in.shape;
        shape[axis] = part;
        TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, o, shape));
        movement::StridedCopy copy;
        copy.Add(outer, part * inner, extent * inner);
        copy.Add(part * inner, 1, 1);
        copy.Run(args.out[o].data, movement::At(in.data, start * inner, size), size, args.team);
      }
      start += part;
    }
    return Status::Ok();
  }

 private:
  int64_t axis_;
};

#define KERNEL(op, rule, min_in, max_in, min_out, max_out, row, isa, can, make) constexpr Row k##op[] = {{row, isa, can, make}};
#include "kernels/concat_split/kernels.inc"
#undef KERNEL

}  // namespace

std::span<const OpKernels> Operators() {
#define KERNEL(op, rule, min_in, max_in, min_out, max_out, row, isa, can, make) \
  {#op, rule, k##op, min_in, max_in, min_out, max_out, false},
  static const OpKernels table[] = {
#include "kernels/concat_split/kernels.inc"
  };
#undef KERNEL
  return table;
}

}  // namespace tenon::kernels::concat_split
