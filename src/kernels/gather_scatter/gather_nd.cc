// GatherElements and GatherND.
#include <algorithm>
#include <atomic>

#include "kernels/gather_scatter/nd_index.h"

namespace tenon::kernels::gather_scatter {
namespace {

using movement::At;
using movement::SetTensor;

enum class Range { kPlain, kNegative, kOutside };  // all in [0, extent), all in [-extent, extent), neither

// The differences of indices inside are not negative, and what wraps comes out negative.
template <typename I>
Range RangeOf(const I* index, int64_t n, int64_t extent) {
  const auto e = static_cast<uint64_t>(extent);
  const auto at = [&](int64_t j) { return static_cast<uint64_t>(static_cast<int64_t>(index[j])); };
  uint64_t signs = 0;
  constexpr int64_t kPiece = 16;  // a constant, so that the compiler vectorises it
  int64_t j = 0;
  for (; j + kPiece <= n; j += kPiece) {
    for (int64_t k = 0; k < kPiece; ++k) signs |= at(j + k) | (e - 1 - at(j + k));
  }
  for (; j < n; ++j) signs |= at(j) | (e - 1 - at(j));
  if (signs >> 63 == 0) return Range::kPlain;
  for (j = 0; j < n; ++j) {
    if (!InRange(index[j], extent)) return Range::kOutside;
  }
  return Range::kNegative;
}

// out[j] = data[j * kStep + index[j] * stride] for indices inside. kUnit: stride is 1. kNegative: some count from the end.
template <typename T, typename I, int64_t kStep, bool kUnit, bool kNegative>
void GatherRow(const T* data, int64_t extent, int64_t stride, const I* index, int64_t n, T* out) {
  for (int64_t j = 0; j < n; ++j) {
    const int64_t given = index[j];
    const int64_t i = kNegative ? given + ((given >> 63) & extent) : given;
    out[j] = data[(kUnit ? i : i * stride) + j * kStep];
  }
}

// Indices are checked piece by piece as they are used: reading a large tensor of them twice costs more than the gather.
class GatherElementsKernel final : public movement::MoveKernel {
 public:
  explicit GatherElementsKernel(const Problem& p) : axis_(p.attrs.Int("axis", 0)) {}

 protected:
  Status Move(const RunArgs& args) const override {
    const View& data = args.in[0];
    const View& indices = args.in[1];
    TENON_ASSIGN_OR_RETURN(const int axis, movement::NormalizeAxis(axis_, data.shape.rank()));
    TENON_RETURN_IF_ERROR(CheckInside("GatherElements", indices.shape, data.shape, axis));
    const int64_t extent = data.shape[axis];
    const int64_t n = indices.num_elements();
    if (extent == 0 || !movement::IsIndexType(indices.dtype)) {
      TENON_RETURN_IF_ERROR(CheckIndices("GatherElements", indices, extent));
    }
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, indices.shape));
    if (n == 0) return Status::Ok();
    const int64_t stride = data.shape.Product(axis + 1, data.shape.rank());
    const bool step = LastStep(indices.shape, axis) != 0;
    std::atomic<bool> good{true};
    args.team.ParallelFor(n, int64_t{1} << 14, [&](int64_t begin, int64_t end, int) {
      const bool inside = movement::DispatchSize(movement::ElementSize(data.dtype), [&](auto* tag) {
        using T = std::remove_pointer_t<decltype(tag)>;
        const auto* from = static_cast<const T*>(data.data);
        auto* out = static_cast<T*>(args.out[0].data);
        const auto walk = [&]<typename I>(const I* index) {
          bool all = true;
          WalkWithoutAxis(indices.shape, data.shape, axis, begin, end, [&](int64_t p, int64_t count, int64_t offset) {
            constexpr int64_t kPiece = 1024;  // stays in the cache between the check and the use
            for (int64_t q = p; q < p + count && all; q += kPiece) {
              const int64_t m = std::min(kPiece, p + count - q);
              const Range range = RangeOf(index + q, m, extent);
              all = range != Range::kOutside;
              if (!all) break;
              const auto row =
                  step ? (range == Range::kNegative ? GatherRow<T, I, 1, false, true> : GatherRow<T, I, 1, false, false>)
                  : stride == 1
                      ? (range == Range::kNegative ? GatherRow<T, I, 0, true, true> : GatherRow<T, I, 0, true, false>)
                      : (range == Range::kNegative ? GatherRow<T, I, 0, false, true> : GatherRow<T, I, 0, false, false>);
              row(from + offset + (step ? q - p : 0), extent, stride, index + q, m, out + q);
            }
          });
          return all;
        };
        return indices.dtype == DType::kI64 ? walk(indices.Data<int64_t>()) : walk(indices.Data<int32_t>());
      });
      if (!inside) good.store(false, std::memory_order_relaxed);
    });
    if (!good.load()) return CheckIndices("GatherElements", indices, extent);
    return Status::Ok();
  }

 private:
  int64_t axis_;
};

// Shape of GatherND's output, on Dims or numbers.
template <typename S>
Status CheckND(const S& data, const S& indices, int64_t batch) {
  if (data.rank() < 1 || indices.rank() < 1) return BadInput("GatherND: data and indices must not be scalars");
  if (batch < 0 || batch >= std::min(data.rank(), indices.rank())) {
    return BadInput("GatherND: batch_dims {} is outside [0, {}]", batch, std::min(data.rank(), indices.rank()) - 1);
  }
  return Status::Ok();
}

Status CheckWidth(int64_t width, int most) {
  if (width >= 1 && width <= most) return Status::Ok();
  return BadInput("GatherND: indices have {} components; allowed are 1 to {}", width, most);
}

class GatherNDKernel final : public movement::MoveKernel {
 public:
  explicit GatherNDKernel(const Problem& p) : batch_(p.attrs.Int("batch_dims", 0)) {}

 protected:
  Status Move(const RunArgs& args) const override {
    const View& data = args.in[0];
    const View& indices = args.in[1];
    const Shape& d = data.shape;
    const Shape& s = indices.shape;
    if (!movement::IsIndexType(indices.dtype))
      return BadInput("GatherND: indices must be int64, not {}", DTypeName(indices.dtype));
    TENON_RETURN_IF_ERROR(CheckND(d, s, batch_));
    const int batch = static_cast<int>(batch_);
    TENON_RETURN_IF_ERROR(CheckWidth(s[s.rank() - 1], d.rank() - batch));
    const int width = static_cast<int>(s[s.rank() - 1]);
    if (s.rank() - 1 + d.rank() - batch - width > kMaxRank) return BadInput("GatherND: the result's rank is over {}", kMaxRank);
    Shape wanted;
    for (int i = 0; i < s.rank() - 1; ++i) {
      if (i < batch && s[i] != d[i]) return BadInput("GatherND: batch extents {} and {} differ at axis {}", d[i], s[i], i);
      wanted.push_back(s[i]);
    }
    for (int i = batch + width; i < d.rank(); ++i) wanted.push_back(d[i]);
    TENON_ASSIGN_OR_RETURN(const Shape shape, CheckedShape(wanted.dims()));
    const TupleIndex index(indices, d, batch, width);
    const int64_t tuples = s.Product(0, s.rank() - 1);
    TENON_RETURN_IF_ERROR(index.Check("GatherND", tuples));
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, shape));
    const int64_t slice = d.Product(batch + width, d.rank());
    if (tuples == 0 || slice == 0) return Status::Ok();
    const int64_t per_batch = s.Product(batch, s.rank() - 1);
    const int64_t batch_stride = d.Product(batch, d.rank());
    const int size = movement::ElementSize(data.dtype);
    const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 16) / (slice * movement::StrideBytes(size) + 16));
    args.team.ParallelFor(tuples, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t from = t / per_batch * batch_stride + index.Offset(t);
        movement::CopyElements(At(args.out[0].data, t * slice, size), At(data.data, from, size), slice, size);
      }
    });
    return Status::Ok();
  }

 private:
  int64_t batch_;
};

}  // namespace

Status CheckInside(std::string_view op, const SymShape& small, const SymShape& large, int axis) {
  if (small.rank() != large.rank()) {
    return BadInput("{}: indices have rank {}, data has rank {}", op, small.rank(), large.rank());
  }
  for (int i = 0; i < small.rank(); ++i) {
    if (i == axis || !small[i].is_const() || !large[i].is_const() || small[i].value() <= large[i].value()) continue;
    return BadInput("{}: indices of shape {} go beyond data of shape {} at axis {}", op, small.ToString(), large.ToString(), i);
  }
  return Status::Ok();
}

Status CheckInside(std::string_view op, const Shape& small, const Shape& large, int axis) {
  bool good = small.rank() == large.rank();
  for (int i = 0; good && i < small.rank(); ++i) good = i == axis || small[i] <= large[i];
  return good ? Status::Ok() : CheckInside(op, SymShape(small), SymShape(large), axis);
}

Status InferGatherElements(const ShapeArgs& args) {
  const SymShape& data = args.in[0].shape;
  const SymShape& indices = args.in[1].shape;
  TENON_RETURN_IF_ERROR(CheckIndexType("GatherElements", args.in[1]));
  if (data.has_rank()) {
    auto axis = movement::NormalizeAxis(args.attrs.Int("axis", 0), data.rank());
    if (!axis.ok()) return std::move(axis).TakeStatus().Within("GatherElements");
    if (indices.has_rank()) TENON_RETURN_IF_ERROR(CheckInside("GatherElements", indices, data, *axis));
    TENON_RETURN_IF_ERROR(CheckKnownIndices("GatherElements", args.in[1], data[*axis]));
  }
  SetTensor(&args.out[0], args.in[0].dtype, indices);
  return Status::Ok();
}

Status InferGatherND(const ShapeArgs& args) {
  const SymShape& data = args.in[0].shape;
  const SymShape& indices = args.in[1].shape;
  TENON_RETURN_IF_ERROR(CheckIndexType("GatherND", args.in[1]));
  SetTensor(&args.out[0], args.in[0].dtype, {});
  if (!data.has_rank() || !indices.has_rank()) return Status::Ok();
  const int64_t batch = args.attrs.Int("batch_dims", 0);
  TENON_RETURN_IF_ERROR(CheckND(data, indices, batch));
  const Dim width = indices[indices.rank() - 1];
  if (!width.is_const()) return Status::Ok();
  TENON_RETURN_IF_ERROR(CheckWidth(width.value(), data.rank() - static_cast<int>(batch)));
  std::vector<Dim> dims(indices.dims().begin(), indices.dims().end() - 1);
  dims.insert(dims.end(), data.dims().begin() + batch + width.value(), data.dims().end());
  SymShape shape(std::move(dims));
  TENON_RETURN_IF_ERROR(movement::CheckDims(shape));
  args.out[0].shape = std::move(shape);
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeGatherElements(const Problem& p) {
  return movement::Make<GatherElementsKernel>(p);
}
Result<std::unique_ptr<Kernel>> MakeGatherND(const Problem& p) {
  return movement::Make<GatherNDKernel>(p);
}

}  // namespace tenon::kernels::gather_scatter
