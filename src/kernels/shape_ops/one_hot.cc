// OneHot.
#include <cmath>

#include "kernels/movement/element.h"
#include "kernels/shape_ops/internal.h"

namespace tenon::kernels::shape_ops {
namespace {

// Largest depth: an output is at least as large.
constexpr int64_t kMaxDepth = int64_t{1} << 40;

// The index as an integer; -2^62, which is outside every depth, for what is no int64.
template <typename T>
int64_t AsIndex(T v) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return AsIndex(static_cast<float>(v));
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::fabs(v) < T(4e18) ? static_cast<int64_t>(v) : -(int64_t{1} << 62);
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    return v < (uint64_t{1} << 62) ? static_cast<int64_t>(v) : -(int64_t{1} << 62);
  } else {
    return static_cast<int64_t>(v);
  }
}

Result<int64_t> ReadDepth(const View& v) {
  if (v.num_elements() != 1) return BadInput("OneHot: depth has shape {}; one number is allowed", v.shape.ToString());
  int64_t depth = 0;
  if (!DispatchDType<TENON_NUMERIC_TYPES>(v.dtype, [&](auto tag) { depth = AsIndex(*v.Data<typename decltype(tag)::type>()); })) {
    return BadInput("OneHot: depth must be a number, not {}", DTypeName(v.dtype));
  }
  if (depth < 0 || depth > kMaxDepth) return BadInput("OneHot: depth {} is outside [0, 2^40]", depth);
  return depth;
}

class OneHotKernel final : public movement::MoveKernel {
 public:
  explicit OneHotKernel(const Problem& p) : axis_(p.attrs.Int("axis", -1)) {}

 protected:
  Status Move(const RunArgs& args) const override {
    const View& indices = args.in[0];
    const View& values = args.in[2];
    TENON_ASSIGN_OR_RETURN(const int64_t depth, ReadDepth(args.in[1]));
    if (values.num_elements() != 2) return BadInput("OneHot: values has shape {}; [off, on] is allowed", values.shape.ToString());
    const int rank = indices.shape.rank();
    if (rank + 1 > kMaxRank) return BadInput("OneHot: rank {} is over the limit of {}", rank + 1, kMaxRank);
    TENON_ASSIGN_OR_RETURN(const int axis, movement::NormalizeAxis(axis_, rank + 1));
    Shape wanted;
    for (int i = 0; i <= rank; ++i) wanted.push_back(i < axis ? indices.shape[i] : i == axis ? depth : indices.shape[i - 1]);
    TENON_ASSIGN_OR_RETURN(const Shape shape, CheckedShape(wanted.dims()));
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, shape));
    const int size = movement::ElementSize(values.dtype);
    void* out = args.out[0].data;
    args.team.ParallelFor(shape.num_elements(), int64_t{1} << 17, [&](int64_t begin, int64_t end, int) {
      movement::FillElements(movement::At(out, begin, size), values.data, end - begin, size);
    });
    const int64_t outer = indices.shape.Product(0, axis);
    const int64_t inner = indices.shape.Product(axis, rank);
    const bool known = DispatchDType<TENON_NUMERIC_TYPES>(indices.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* index = indices.Data<T>();
      for (int64_t i = 0; i < outer * inner; ++i) {
        const int64_t hot = AsIndex(index[i]);
        if (hot < -depth || hot >= depth) continue;
        const int64_t at = (i / inner * depth + (hot < 0 ? hot + depth : hot)) * inner + i % inner;
        movement::CopyElements(movement::At(out, at, size), movement::At(values.data, 1, size), 1, size);
      }
    });
    return known ? Status::Ok() : BadInput("OneHot: indices must be numbers, not {}", DTypeName(indices.dtype));
  }

 private:
  int64_t axis_;
};

}  // namespace

Status InferOneHot(const ShapeArgs& args) {
  const SymShape& indices = args.in[0].shape;
  movement::SetTensor(&args.out[0], args.in[2].dtype, {});
  const Dim values = args.in[2].shape.NumElements();
  if (values.is_const() && !values.Is(2))
    return BadInput("OneHot: values has shape {}; [off, on] is allowed", args.in[2].shape.ToString());
  Dim depth = Dim::Unknown();
  if (args.in[1].data != nullptr) {
    TENON_ASSIGN_OR_RETURN(depth, ReadDepth(*args.in[1].data));
  } else if (args.in[1].elements && args.in[1].elements->size() == 1) {
    depth = (*args.in[1].elements)[0];
  }
  if (!indices.has_rank()) return Status::Ok();
  auto axis = movement::NormalizeAxis(args.attrs.Int("axis", -1), indices.rank() + 1);
  if (!axis.ok()) return std::move(axis).TakeStatus().Within("OneHot");
  SymShape shape = indices;
  shape.dims().insert(shape.dims().begin() + *axis, std::move(depth));
  TENON_RETURN_IF_ERROR(movement::CheckDims(shape));
  args.out[0].shape = std::move(shape);
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeOneHot(const Problem& p) {
  return movement::Make<OneHotKernel>(p);
}

}  // namespace tenon::kernels::shape_ops
