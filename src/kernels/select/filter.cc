// NonZero and Compress.
#include <algorithm>

#include "kernels/movement/element.h"
#include "kernels/select/internal.h"

namespace tenon::kernels::select {
namespace {

using movement::SetTensor;

// Bits that make an element other than zero: all but the signs of floating-point numbers, which have a negative zero.
uint64_t ZeroMask(DType t) {
  switch (t) {
    case DType::kF64: return 0x7fffffffffffffffu;
    case DType::kC64: return 0x7fffffff7fffffffu;
    case DType::kF32: return 0x7fffffffu;
    case DType::kF16:
    case DType::kBF16: return 0x7fffu;
    case DType::kF8E4M3FN:
    case DType::kF8E5M2: return 0x7fu;
    case DType::kF4E2M1: return 0x7u;
    default: return ~uint64_t{0};
  }
}

template <typename T>
bool IsNonZero(const T& v, uint64_t mask) {
  if constexpr (std::is_same_v<T, std::string>) {
    return !v.empty();
  } else if constexpr (std::is_same_v<T, movement::Bytes16>) {
    return ((v.lo | v.hi) & 0x7fffffffffffffffu) != 0;
  } else {
    return (static_cast<uint64_t>(v) & mask) != 0;
  }
}

class NonZeroKernel final : public movement::MoveKernel {
 public:
  explicit NonZeroKernel(const Problem& p) : mask_(ZeroMask(p.in[0].dtype)) {}

 protected:
  Status Move(const RunArgs& args) const override {
    const View& x = args.in[0];
    const int64_t n = x.num_elements();
    const int rank = x.shape.rank();
    Status status;
    movement::DispatchSize(movement::ElementSize(x.dtype), [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      const T* p = x.Data<T>();
      int64_t count = 0;
      for (int64_t i = 0; i < n; ++i) count += IsNonZero(p[i], mask_) ? 1 : 0;
      status = movement::PrepareOutput(args, 0, Shape({rank, count}));
      if (!status.ok() || rank == 0) return;
      int64_t* out = args.out[0].Data<int64_t>();
      int64_t at = 0;
      for (int64_t i = 0; i < n; ++i) {
        if (!IsNonZero(p[i], mask_)) continue;
        int64_t rest = i;
        for (int k = rank - 1; k >= 0; --k) {
          out[k * count + at] = rest % x.shape[k];
          rest /= x.shape[k];
        }
        ++at;
      }
    });
    return status;
  }

 private:
  uint64_t mask_;
};

// How many of the conditions hold; kBadInput when one does beyond `extent`.
Result<int64_t> CountHeld(const View& condition, int64_t extent) {
  if (condition.dtype != DType::kBool || condition.shape.rank() != 1) {
    return BadInput("Compress: condition must be a list of bools, not {} of shape {}", DTypeName(condition.dtype),
                    condition.shape.ToString());
  }
  const bool* c = condition.Data<bool>();
  int64_t count = 0;
  for (int64_t i = 0; i < condition.num_elements(); ++i) {
    if (!c[i]) continue;
    if (i >= extent) return BadInput("Compress: condition {} holds, beyond the extent of {}", i, extent);
    ++count;
  }
  return count;
}

class CompressKernel final : public movement::MoveKernel {
 public:
  explicit CompressKernel(const Problem& p) : flat_(!p.attrs.Has("axis")), axis_(p.attrs.Int("axis", 0)) {}

 protected:
  Status Move(const RunArgs& args) const override {
    const View& x = args.in[0];
    const View& condition = args.in[1];
    const Shape in = flat_ ? Shape({x.num_elements()}) : x.shape;
    TENON_ASSIGN_OR_RETURN(const int axis, movement::NormalizeAxis(axis_, in.rank()));
    TENON_ASSIGN_OR_RETURN(const int64_t count, CountHeld(condition, in[axis]));
    Shape shape = in;
    shape[axis] = count;
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, shape));
    const int64_t inner = in.Product(axis + 1, in.rank());
    const int64_t outer = in.Product(0, axis);
    const int size = movement::ElementSize(x.dtype);
    int64_t at = 0;
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < std::min(in[axis], condition.num_elements()); ++i) {
        if (!condition.Data<bool>()[i]) continue;
        movement::CopyElements(movement::At(args.out[0].data, at * inner, size),
                               movement::At(x.data, (o * in[axis] + i) * inner, size), inner, size);
        ++at;
      }
    }
    return Status::Ok();
  }

 private:
  bool flat_;
  int64_t axis_;
};

}  // namespace

Status InferNonZero(const ShapeArgs& args) {
  const SymShape& x = args.in[0].shape;
  SetTensor(&args.out[0], DType::kI64, SymShape({x.has_rank() ? Dim(x.rank()) : Dim::Unknown(), Dim::Unknown()}));
  return Status::Ok();
}

Status InferCompress(const ShapeArgs& args) {
  const SymShape& x = args.in[0].shape;
  const ValueInfo& condition = args.in[1];
  if (condition.dtype != DType::kUndefined && condition.dtype != DType::kBool) {
    return BadInput("Compress: condition must be bool, not {}", DTypeName(condition.dtype));
  }
  if (condition.shape.has_rank() && condition.shape.rank() != 1) {
    return BadInput("Compress: condition must be a list, not of shape {}", condition.shape.ToString());
  }
  SetTensor(&args.out[0], args.in[0].dtype, SymShape::OfRank(1));
  if (!args.attrs.Has("axis")) return Status::Ok();
  SymShape shape = x;
  if (x.has_rank()) {
    auto axis = movement::NormalizeAxis(args.attrs.Int("axis", 0), x.rank());
    if (!axis.ok()) return std::move(axis).TakeStatus().Within("Compress");
    shape[*axis] = Dim::Unknown();
  }
  args.out[0].shape = std::move(shape);
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeNonZero(const Problem& p) {
  return movement::Make<NonZeroKernel>(p);
}
Result<std::unique_ptr<Kernel>> MakeCompress(const Problem& p) {
  return movement::Make<CompressKernel>(p);
}

}  // namespace tenon::kernels::select
