// Expand and Tile.
#include <algorithm>

#include "kernels/movement/strided.h"
#include "kernels/shape_ops/internal.h"

namespace tenon::kernels::shape_ops {
namespace {

using movement::SetTensor;
using movement::SmallElements;

// A list of extents or repeats: known, of known length, or nothing.
Status ReadList(std::string_view op, const ValueInfo& v, std::optional<std::vector<Dim>>* out) {
  if (v.dtype != DType::kUndefined && !movement::IsIndexType(v.dtype)) {
    return BadInput("{}: input 1 must be int64, not {}", op, DTypeName(v.dtype));
  }
  *out = SmallElements(v);
  if (!*out && v.data == nullptr && v.shape.has_rank() && v.shape.rank() == 1 && v.shape[0].is_const()) {
    if (v.shape[0].value() > kMaxRank)
      return BadInput("{}: input 1 lists {} numbers; allowed are {}", op, v.shape[0].value(), kMaxRank);
    *out = std::vector<Dim>(static_cast<size_t>(std::max<int64_t>(0, v.shape[0].value())), Dim::Unknown());
  }
  if (!*out && v.data != nullptr) return BadInput("{}: input 1 must be a list of at most {} integers", op, kMaxRank);
  if (!*out) return Status::Ok();
  if ((*out)->size() > kMaxRank) return BadInput("{}: input 1 lists {} numbers; allowed are {}", op, (*out)->size(), kMaxRank);
  for (const Dim& d : **out) {
    if (d.is_const() && d.value() < 0) return BadInput("{}: {} in input 1 is negative", op, d.value());
  }
  return Status::Ok();
}

Result<Shape> ExpandedShape(const Shape& in, std::span<const int64_t> target) {
  Shape wanted;
  const int n = static_cast<int>(target.size());
  const int rank = std::max(in.rank(), n);
  if (rank > kMaxRank) return BadInput("Expand: rank {} is over the limit of {}", rank, kMaxRank);
  for (int i = 0; i < rank; ++i) {
    const int a = i - (rank - in.rank());
    const int b = i - (rank - n);
    const int64_t x = a < 0 ? 1 : in[a];
    const int64_t y = b < 0 ? 1 : target[static_cast<size_t>(b)];
    if (x != y && x != 1 && y != 1) return BadInput("Expand: extent {} does not broadcast with {}", x, y);
    wanted.push_back(x == 1 ? y : x);
  }
  return CheckedShape(wanted.dims());
}

class ExpandKernel final : public movement::MoveKernel {
 public:
  explicit ExpandKernel(const Problem& /*problem*/) {}

 protected:
  Status Move(const RunArgs& args) const override {
    const View& in = args.in[0];
    movement::SmallInts target;
    TENON_RETURN_IF_ERROR(movement::ReadSmallInts(args.in[1], "Expand: the shape", &target));
    TENON_ASSIGN_OR_RETURN(const Shape shape, ExpandedShape(in.shape, target.span()));
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, shape));
    int64_t src[kMaxRank];
    int64_t dst[kMaxRank];
    movement::RowMajorStrides(in.shape, src);
    movement::RowMajorStrides(shape, dst);
    movement::StridedCopy copy;
    const int lead = shape.rank() - in.shape.rank();
    for (int i = 0; i < shape.rank(); ++i) {
      const int a = i - lead;
      copy.Add(shape[i], dst[i], a < 0 || in.shape[a] == 1 ? 0 : src[a]);
    }
    copy.Run(args.out[0].data, in.data, movement::ElementSize(in.dtype), args.team);
    return Status::Ok();
  }
};

class TileKernel final : public movement::MoveKernel {
 public:
  explicit TileKernel(const Problem& /*problem*/) {}

 protected:
  Status Move(const RunArgs& args) const override {
    const View& in = args.in[0];
    movement::SmallInts repeats;
    TENON_RETURN_IF_ERROR(movement::ReadSmallInts(args.in[1], "Tile: repeats", &repeats));
    const int rank = in.shape.rank();
    if (repeats.count != rank) return BadInput("Tile: {} repeats for rank {}", repeats.count, rank);
    Shape wanted;
    for (int i = 0; i < rank; ++i) {
      const auto extent = CheckedMul(in.shape[i], repeats[i]);
      if (!extent) return BadInput("Tile: extent {} repeated {} times is too large", in.shape[i], repeats[i]);
      wanted.push_back(*extent);
    }
    TENON_ASSIGN_OR_RETURN(const Shape shape, CheckedShape(wanted.dims()));
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, shape));
    int64_t src[kMaxRank];
    int64_t dst[kMaxRank];
    movement::RowMajorStrides(in.shape, src);
    movement::RowMajorStrides(shape, dst);
    movement::StridedCopy copy;
    for (int i = 0; i < rank; ++i) {
      copy.Add(repeats[i], dst[i] * in.shape[i], 0);
      copy.Add(in.shape[i], dst[i], src[i]);
    }
    copy.Run(args.out[0].data, in.data, movement::ElementSize(in.dtype), args.team);
    return Status::Ok();
  }
};

}  // namespace

Status InferExpand(const ShapeArgs& args) {
  const SymShape& in = args.in[0].shape;
  SetTensor(&args.out[0], args.in[0].dtype, {});
  std::optional<std::vector<Dim>> target;
  TENON_RETURN_IF_ERROR(ReadList("Expand", args.in[1], &target));
  if (!target || !in.has_rank()) return Status::Ok();
  const int n = static_cast<int>(target->size());
  const int rank = std::max(in.rank(), n);
  std::vector<Dim> dims;
  for (int i = 0; i < rank; ++i) {
    const int a = i - (rank - in.rank());
    const int b = i - (rank - n);
    const Dim x = a < 0 ? Dim(1) : in[a];
    const Dim y = b < 0 ? Dim(1) : (*target)[static_cast<size_t>(b)];
    auto d = Dim::Broadcast(x, y);
    if (!d) return BadInput("Expand: axis {} of {} does not broadcast with {}", i, in.ToString(), SymShape(*target).ToString());
    dims.push_back(*std::move(d));
  }
  SymShape shape(std::move(dims));
  TENON_RETURN_IF_ERROR(movement::CheckDims(shape));
  const bool list = shape.rank() <= 1;
  args.out[0].shape = std::move(shape);
  auto elements = list ? SmallElements(args.in[0]) : std::nullopt;
  if (!elements) return Status::Ok();
  const Dim count = args.out[0].shape.NumElements();
  if (!count.is_const() || count.value() > movement::kMaxKnownElements) return Status::Ok();
  if (elements->size() == 1) elements->resize(static_cast<size_t>(count.value()), Dim((*elements)[0]));
  movement::SetElements(&args.out[0], *std::move(elements));
  return Status::Ok();
}

Status InferTile(const ShapeArgs& args) {
  const SymShape& in = args.in[0].shape;
  SetTensor(&args.out[0], args.in[0].dtype, {});
  std::optional<std::vector<Dim>> repeats;
  TENON_RETURN_IF_ERROR(ReadList("Tile", args.in[1], &repeats));
  if (!in.has_rank()) return Status::Ok();
  if (!repeats) {
    args.out[0].shape = SymShape::OfRank(in.rank());
    return Status::Ok();
  }
  if (static_cast<int>(repeats->size()) != in.rank()) return BadInput("Tile: {} repeats for rank {}", repeats->size(), in.rank());
  SymShape shape = in;
  for (int i = 0; i < in.rank(); ++i) shape[i] = in[i] * (*repeats)[static_cast<size_t>(i)];
  TENON_RETURN_IF_ERROR(movement::CheckDims(shape));
  args.out[0].shape = std::move(shape);
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeExpand(const Problem& p) {
  return movement::Make<ExpandKernel>(p);
}
Result<std::unique_ptr<Kernel>> MakeTile(const Problem& p) {
  return movement::Make<TileKernel>(p);
}

}  // namespace tenon::kernels::shape_ops
