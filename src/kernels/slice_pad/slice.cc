// Slice: rule and kernel.
#include <algorithm>
#include <limits>

#include "kernels/movement/strided.h"
#include "kernels/slice_pad/internal.h"

namespace tenon::kernels::slice_pad {
namespace {

using movement::NormalizeAxis;
using movement::SmallElements;

// Exporters write "to the end" as the largest int32 or int64, or something near it.
constexpr int64_t kFar = std::numeric_limits<int32_t>::max() - 1;

bool CannotBeNegative(const Dim& d) {
  return !d.is_unknown() && d.ToString().find('-') == std::string::npos;
}

// Where start or end `v` lies in [0, extent] for a positive step.
Dim Position(const Dim& v, const Dim& extent) {
  if (v.is_unknown() || extent.is_unknown()) return Dim::Unknown();
  if (v.Is(0)) return Dim(0);
  if (v == extent) return extent;
  if (v.is_const()) {
    if (v.value() >= 0) return v.value() >= kFar && !extent.is_const() ? extent : Dim::Min(v, extent);
    return v.value() <= -kFar && !extent.is_const() ? Dim(0) : Dim::Max(extent + v, Dim(0));
  }
  if ((extent - v).Is(1)) return Dim::Max(v, Dim(0));  // extent - 1; for extent 0 the clamp gives 0 as well
  if (CannotBeNegative(v)) return Dim::Min(v, extent);
  return Dim::Unknown();
}

// Number of elements of start:end:step over an axis of `extent`, as far as symbols reach.
Dim RangeExtent(const Dim& start, const Dim& end, int64_t step, const Dim& extent) {
  if (start.is_const() && end.is_const() && extent.is_const()) {
    return {ClampRange(start.value(), end.value(), step, extent.value()).count};
  }
  if (step < 0) {
    const bool whole =
        start.is_const() && end.is_const() && (start.value() >= kFar || start.value() == -1) && end.value() <= -kFar;
    return whole && step > -kFar ? Dim::CeilDiv(extent, Dim(-step)) : Dim::Unknown();
  }
  const Dim lo = Position(start, extent);
  const Dim hi = Position(end, extent);
  if (lo.is_unknown() || hi.is_unknown()) return Dim::Unknown();
  Dim n;
  if (lo.Is(0)) {
    n = hi;
  } else if (lo == hi) {
    n = Dim(0);
  } else if (hi == extent && start.is_const()) {
    n = start.value() < 0 ? Dim::Min(Dim(-start.value()), extent) : Dim::Max(extent - start, Dim(0));
  } else {
    n = Dim::Max(hi - lo, Dim(0));
  }
  return step == 1 ? n : Dim::CeilDiv(n, Dim(step));
}

// axes[i] of the i-th start; all of them when the input is absent.
Status ReadAxes(const ShapeArgs& args, int rank, size_t count, std::vector<int>* axes, bool* known) {
  *known = true;
  if (count > static_cast<size_t>(rank)) return BadInput("Slice: {} starts for rank {}", count, rank);
  if (!args.Has(3)) {
    for (size_t i = 0; i < count; ++i) axes->push_back(static_cast<int>(i));
    return Status::Ok();
  }
  auto given = movement::SmallKnownInts(args.in[3]);
  if (!given) {
    *known = false;
    return Status::Ok();
  }
  if (given->size() != count) return BadInput("Slice: {} axes for {} starts", given->size(), count);
  for (int64_t a : *given) {
    auto axis = NormalizeAxis(a, rank);
    if (!axis.ok()) return std::move(axis).TakeStatus().Within("Slice");
    if (std::find(axes->begin(), axes->end(), *axis) != axes->end()) return BadInput("Slice: axis {} is given twice", a);
    axes->push_back(*axis);
  }
  return Status::Ok();
}

void SliceElements(const ShapeArgs& args, const std::vector<Dim>& starts, const std::vector<Dim>& ends, int64_t step) {
  if (!starts[0].is_const() || !ends[0].is_const()) return;
  auto elements = SmallElements(args.in[0]);
  if (!elements) return;
  const AxisRange r = ClampRange(starts[0].value(), ends[0].value(), step, static_cast<int64_t>(elements->size()));
  std::vector<Dim> out;
  for (int64_t i = 0; i < r.count; ++i) out.push_back((*elements)[static_cast<size_t>(r.start + i * r.step)]);
  movement::SetElements(&args.out[0], std::move(out));
}

// A list of integers with unknown elements where nothing is known; nullopt when not even its length is.
std::optional<std::vector<Dim>> ListOf(const ValueInfo& v) {
  if (auto e = SmallElements(v)) return e;
  if (!v.shape.has_rank() || v.shape.rank() != 1 || !v.shape[0].is_const() || v.shape[0].value() > kMaxRank) return std::nullopt;
  return std::vector<Dim>(static_cast<size_t>(std::max<int64_t>(0, v.shape[0].value())), Dim::Unknown());
}

}  // namespace

AxisRange ClampRange(int64_t start, int64_t end, int64_t step, int64_t extent) {
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? extent : extent - 1;
  if (start < 0) start += extent;
  if (end < 0) end += extent;
  start = std::clamp(start, step > 0 ? int64_t{0} : int64_t{-1}, high);
  end = std::clamp(end, low, high);
  const auto distance = static_cast<uint64_t>(step > 0 ? end - start : start - end);
  if (step > 0 ? end <= start : start <= end) return {0, 0, step};
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  return {start, static_cast<int64_t>((distance - 1) / stride + 1), step};
}

Status InferSlice(const ShapeArgs& args) {
  const SymShape& in = args.in[0].shape;
  movement::SetTensor(&args.out[0], args.in[0].dtype, {});
  for (size_t i = 1; i < 5; ++i) {
    if (!args.Has(i) || args.in[i].dtype == DType::kUndefined) continue;
    if (!movement::IsIndexType(args.in[i].dtype)) {
      return BadInput("Slice: input {} must be int32 or int64, not {}", i, DTypeName(args.in[i].dtype));
    }
  }
  if (!in.has_rank()) return Status::Ok();
  SymShape shape = SymShape::OfRank(in.rank());
  auto starts = ListOf(args.in[1]);
  auto ends = ListOf(args.in[2]);
  std::vector<int> axes;
  bool known = starts && ends;
  if (known) {
    if (starts->size() != ends->size()) return BadInput("Slice: {} starts and {} ends", starts->size(), ends->size());
    TENON_RETURN_IF_ERROR(ReadAxes(args, in.rank(), starts->size(), &axes, &known));
  }
  if (!known) {
    args.out[0].shape = std::move(shape);
    return Status::Ok();
  }
  shape = in;
  auto steps = args.Has(4) ? ListOf(args.in[4]) : std::vector<Dim>(starts->size(), Dim(1));
  if (steps && steps->size() != starts->size()) return BadInput("Slice: {} steps for {} starts", steps->size(), starts->size());
  for (size_t i = 0; i < axes.size(); ++i) {
    const int a = axes[i];
    if (!steps || !(*steps)[i].is_const()) {
      shape[a] = Dim::Unknown();
      continue;
    }
    if ((*steps)[i].Is(0)) return BadInput("Slice: step 0 at axis {}", a);
    shape[a] = RangeExtent((*starts)[i], (*ends)[i], (*steps)[i].value(), in[a]);
  }
  args.out[0].shape = std::move(shape);
  if (in.rank() == 1 && axes.size() == 1 && steps && (*steps)[0].is_const()) {
    SliceElements(args, *starts, *ends, (*steps)[0].value());
  }
  return Status::Ok();
}

namespace {

class SliceKernel final : public movement::MoveKernel {
 protected:
  Status Move(const RunArgs& args) const override {
    const View& in = args.in[0];
    movement::SmallInts starts, ends, axes, steps;
    TENON_RETURN_IF_ERROR(movement::ReadSmallInts(args.in[1], "Slice: starts", &starts));
    TENON_RETURN_IF_ERROR(movement::ReadSmallInts(args.in[2], "Slice: ends", &ends));
    if (args.Has(3)) TENON_RETURN_IF_ERROR(movement::ReadSmallInts(args.in[3], "Slice: axes", &axes));
    if (args.Has(4)) TENON_RETURN_IF_ERROR(movement::ReadSmallInts(args.in[4], "Slice: steps", &steps));
    const int rank = in.shape.rank();
    const int n = starts.count;
    if (ends.count != n || n > rank || (args.Has(3) && axes.count != n) || (args.Has(4) && steps.count != n)) {
      return BadInput("Slice: {} starts, {} ends, {} axes, {} steps for rank {}", n, ends.count, axes.count, steps.count, rank);
    }
    AxisRange ranges[kMaxRank];
    for (int i = 0; i < rank; ++i) ranges[i] = {0, in.shape[i], 1};
    uint32_t seen = 0;
    for (int i = 0; i < n; ++i) {
      TENON_ASSIGN_OR_RETURN(const int a, NormalizeAxis(args.Has(3) ? axes[i] : i, rank));
      const int64_t step = args.Has(4) ? steps[i] : 1;
      if (step == 0) return BadInput("Slice: step 0 at axis {}", a);
      if ((seen >> a & 1) != 0) return BadInput("Slice: axis {} is given twice", a);
      seen |= 1u << a;
      ranges[a] = ClampRange(starts[i], ends[i], step, in.shape[a]);
    }
    Shape shape;
    int64_t in_strides[kMaxRank];
    int64_t out_strides[kMaxRank];
    for (int i = 0; i < rank; ++i) shape.push_back(ranges[i].count);
    movement::RowMajorStrides(in.shape, in_strides);
    movement::RowMajorStrides(shape, out_strides);
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, shape));
    movement::StridedCopy copy;
    int64_t base = 0;
    for (int i = 0; i < rank; ++i) {
      base += ranges[i].start * in_strides[i];
      // A step beyond the axis has one element; its stride is never taken but must not overflow.
      copy.Add(shape[i], out_strides[i], shape[i] > 1 ? ranges[i].step * in_strides[i] : 0);
    }
    const int size = movement::ElementSize(in.dtype);
    copy.Run(args.out[0].data, movement::At(in.data, base, size), size, args.team);
    return Status::Ok();
  }
};

}  // namespace

Result<std::unique_ptr<Kernel>> MakeSlice(const Problem& /*problem*/) {
  return std::unique_ptr<Kernel>(new SliceKernel());
}

}  // namespace tenon::kernels::slice_pad
