// Shape and Size.
#include <algorithm>
#include <limits>

#include "kernels/movement/element.h"
#include "kernels/shape_ops/internal.h"

namespace tenon::kernels::shape_ops {
namespace {

struct Range {
  int begin, end;
};

// Attributes start and end, clamped to the rank as Shape-15 says.
Range ClampAxes(int64_t start, int64_t end, int rank) {
  if (start < 0) start += rank;
  if (end < 0) end += rank;
  const int b = static_cast<int>(std::clamp<int64_t>(start, 0, rank));
  const int e = static_cast<int>(std::clamp<int64_t>(end, 0, rank));
  return {b, std::max(b, e)};
}

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

class ShapeKernel final : public Kernel {
 public:
  explicit ShapeKernel(const Problem& p) : start_(p.attrs.Int("start", 0)), end_(p.attrs.Int("end", kEnd)) {}
  Status Run(const RunArgs& args) const override {
    const Shape& in = args.in[0].shape;
    const Range r = ClampAxes(start_, end_, in.rank());
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, Shape({r.end - r.begin})));
    std::copy(in.begin() + r.begin, in.begin() + r.end, args.out[0].Data<int64_t>());
    return Status::Ok();
  }

 private:
  int64_t start_;
  int64_t end_;
};

class SizeKernel final : public Kernel {
 public:
  explicit SizeKernel(const Problem& /*problem*/) {}
  Status Run(const RunArgs& args) const override {
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, Shape()));
    *args.out[0].Data<int64_t>() = args.in[0].num_elements();
    return Status::Ok();
  }
};

}  // namespace

Status InferShape(const ShapeArgs& args) {
  const SymShape& in = args.in[0].shape;
  if (!in.has_rank()) {
    movement::SetTensor(&args.out[0], DType::kI64, SymShape::OfRank(1));
    return Status::Ok();
  }
  const Range r = ClampAxes(args.attrs.Int("start", 0), args.attrs.Int("end", kEnd), in.rank());
  movement::SetTensor(&args.out[0], DType::kI64, SymShape({Dim(r.end - r.begin)}));
  movement::SetElements(&args.out[0], std::vector<Dim>(in.dims().begin() + r.begin, in.dims().begin() + r.end));
  return Status::Ok();
}

Status InferSize(const ShapeArgs& args) {
  movement::SetTensor(&args.out[0], DType::kI64, SymShape(std::vector<Dim>{}));
  movement::SetElements(&args.out[0], {args.in[0].shape.NumElements()});
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeShape(const Problem& problem) {
  return movement::Make<ShapeKernel>(problem);
}
Result<std::unique_ptr<Kernel>> MakeSize(const Problem& problem) {
  return movement::Make<SizeKernel>(problem);
}

}  // namespace tenon::kernels::shape_ops
