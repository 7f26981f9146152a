// Gather: rows by index along one axis.
#include <algorithm>
#include <cstring>

#include "kernels/gather_scatter/internal.h"
#include "kernels/movement/element.h"

namespace tenon::kernels::gather_scatter {
namespace {

using movement::At;

// out[o, i] = data[o, indices[i]] with one element a row.
template <typename T, typename I>
void GatherElementwise(const T* data, int64_t extent, const I* indices, int64_t n, int64_t begin, int64_t end, T* out) {
  for (int64_t at = begin; at < end;) {
    const int64_t o = at / n;
    const int64_t stop = std::min(end, (o + 1) * n);
    const T* row = data + o * extent;
    const I* index = indices - o * n;
    for (; at < stop; ++at) {
      const int64_t i = index[at];
      out[at] = row[i < 0 ? i + extent : i];
    }
  }
}

class GatherKernel final : public movement::MoveKernel {
 public:
  explicit GatherKernel(const Problem& problem) : axis_(problem.attrs.Int("axis", 0)) {}

 protected:
  Status Move(const RunArgs& args) const override {
    const View& data = args.in[0];
    const View& indices = args.in[1];
    TENON_ASSIGN_OR_RETURN(const int axis, movement::NormalizeAxis(axis_, data.shape.rank()));
    const int64_t extent = data.shape[axis];
    TENON_RETURN_IF_ERROR(CheckIndices("Gather", indices, extent));
    if (data.shape.rank() - 1 + indices.shape.rank() > kMaxRank)
      return BadInput("Gather: the result's rank is over {}", kMaxRank);
    Shape shape;
    for (int i = 0; i < axis; ++i) shape.push_back(data.shape[i]);
    for (int64_t d : indices.shape) shape.push_back(d);
    for (int i = axis + 1; i < data.shape.rank(); ++i) shape.push_back(data.shape[i]);
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, shape));
    const int64_t outer = data.shape.Product(0, axis);
    const int64_t inner = data.shape.Product(axis + 1, data.shape.rank());
    const int64_t n = indices.num_elements();
    if (outer == 0 || inner == 0 || n == 0) return Status::Ok();
    const int size = movement::ElementSize(data.dtype);
    void* out = args.out[0].data;
    if (inner == 1 && size != movement::kStringSize) {
      args.team.ParallelFor(outer * n, int64_t{1} << 15, [&](int64_t begin, int64_t end, int) {
        movement::DispatchSize(size, [&](auto* tag) {
          using T = std::remove_pointer_t<decltype(tag)>;
          const auto* from = static_cast<const T*>(data.data);
          if (indices.dtype == DType::kI64) {
            GatherElementwise(from, extent, indices.Data<int64_t>(), n, begin, end, static_cast<T*>(out));
          } else {
            GatherElementwise(from, extent, indices.Data<int32_t>(), n, begin, end, static_cast<T*>(out));
          }
        });
      });
      return Status::Ok();
    }
    const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 17) / (inner * movement::StrideBytes(size)));
    args.team.ParallelFor(outer * n, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t at = begin; at < end; ++at) {
        const int64_t o = at / n;
        int64_t i = movement::ReadInt(indices, at - o * n);
        if (i < 0) i += extent;
        movement::CopyElements(At(out, at * inner, size), At(data.data, (o * extent + i) * inner, size), inner, size);
      }
    });
    return Status::Ok();
  }

 private:
  int64_t axis_;
};

}  // namespace

Status InferGather(const ShapeArgs& args) {
  const SymShape& data = args.in[0].shape;
  const SymShape& indices = args.in[1].shape;
  TENON_RETURN_IF_ERROR(CheckIndexType("Gather", args.in[1]));
  movement::SetTensor(&args.out[0], args.in[0].dtype, {});
  if (!data.has_rank()) return Status::Ok();
  auto axis = movement::NormalizeAxis(args.attrs.Int("axis", 0), data.rank());
  if (!axis.ok()) return std::move(axis).TakeStatus().Within("Gather");
  TENON_RETURN_IF_ERROR(CheckKnownIndices("Gather", args.in[1], data[*axis]));
  if (!indices.has_rank()) return Status::Ok();
  std::vector<Dim> dims(data.dims().begin(), data.dims().begin() + *axis);
  dims.insert(dims.end(), indices.dims().begin(), indices.dims().end());
  dims.insert(dims.end(), data.dims().begin() + *axis + 1, data.dims().end());
  SymShape out(std::move(dims));
  TENON_RETURN_IF_ERROR(movement::CheckDims(out));
  const bool list = out.rank() <= 1 && data.rank() == 1;
  args.out[0].shape = std::move(out);
  if (!list) return Status::Ok();
  auto elements = movement::SmallElements(args.in[0]);
  auto known = movement::SmallKnownInts(args.in[1], movement::kMaxKnownElements);
  if (!elements || !known) return Status::Ok();
  std::vector<Dim> picked;
  const auto n = static_cast<int64_t>(elements->size());
  for (int64_t i : *known) {
    if (!InRange(i, n)) return IndexError("Gather", i, static_cast<int64_t>(picked.size()), n);
    picked.push_back((*elements)[static_cast<size_t>(i < 0 ? i + n : i)]);
  }
  movement::SetElements(&args.out[0], std::move(picked));
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeGather(const Problem& problem) {
  return movement::Make<GatherKernel>(problem);
}

}  // namespace tenon::kernels::gather_scatter
