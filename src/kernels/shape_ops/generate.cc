// ConstantOfShape, Range, EyeLike: tensors made from little.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/movement/element.h"
#include "kernels/shape_ops/internal.h"

namespace tenon::kernels::shape_ops {
namespace {

using movement::SetElements;
using movement::SetTensor;
using movement::SmallElements;

bool CannotBeNegative(const Dim& d) {
  return !d.is_unknown() && d.ToString().find('-') == std::string::npos;
}

class ConstantOfShapeKernel final : public movement::MoveKernel {
 public:
  static Status Check(const Problem& p) {
    const Tensor* v = p.attrs.GetTensor("value");
    if (v != nullptr && v->shape().num_elements() != 1) {
      return BadInput("ConstantOfShape: value has {} elements; exactly 1 is allowed", v->shape().num_elements());
    }
    return Status::Ok();
  }
  explicit ConstantOfShapeKernel(const Problem& p) {
    const Tensor* v = p.attrs.GetTensor("value");
    value_ = v != nullptr ? *v : Tensor::Scalar(0.0f);
    if (movement::IsSubByte(value_.dtype())) {  // Move sees unpacked elements
      const int bits = DTypeBits(value_.dtype());
      value_ = Tensor::Scalar(static_cast<uint8_t>(value_.Data<uint8_t>()[0] & ((1 << bits) - 1)));
    }
  }

 protected:
  Status Move(const RunArgs& args) const override {
    movement::SmallInts dims;
    TENON_RETURN_IF_ERROR(movement::ReadSmallInts(args.in[0], "ConstantOfShape: the shape", &dims));
    TENON_ASSIGN_OR_RETURN(const Shape shape, CheckedShape(dims.span()));
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, shape));
    const int size = movement::ElementSize(value_.dtype());
    void* out = args.out[0].data;
    args.team.ParallelFor(shape.num_elements(), int64_t{1} << 17, [&](int64_t begin, int64_t end, int) {
      movement::FillElements(movement::At(out, begin, size), value_.data(), end - begin, size);
    });
    return Status::Ok();
  }

 private:
  Tensor value_;
};

template <typename T>
constexpr bool IsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

template <typename T>
Result<int64_t> RangeCountOf(T start, T limit, T delta) {
  if (delta == T(0)) return BadInput("Range: delta is 0");
  double n;
  if constexpr (std::is_floating_point_v<T>) {
    n = std::ceil(static_cast<double>(limit - start) / static_cast<double>(delta));
  } else {
    const __int128 distance = static_cast<__int128>(limit) - start;
    const __int128 step = delta;
    const __int128 q = distance / step;
    n = static_cast<double>(distance % step != 0 && (distance < 0) == (step < 0) ? q + 1 : q);
  }
  if (!(n <= 281474976710656.0)) return BadInput("Range: too many elements");
  return n > 0 ? static_cast<int64_t>(n) : 0;
}

// Number of elements of a range; kBadInput for step 0 or more elements than Tenon accepts.
template <typename T>
Result<int64_t> RangeCount(T start, T limit, T delta) {
  if constexpr (IsHalf<T>) {
    return RangeCount<float>(static_cast<float>(start), static_cast<float>(limit), static_cast<float>(delta));
  } else {
    return RangeCountOf(start, limit, delta);
  }
}

#define RANGE_TYPES float, double, int16_t, int32_t, int64_t, Half, BFloat16

template <typename F>
bool DispatchRange(DType t, F&& f) {
  return DispatchDType<RANGE_TYPES>(t, f);
}

class RangeKernel final : public Kernel {
 public:
  explicit RangeKernel(const Problem& /*problem*/) {}
  Status Run(const RunArgs& args) const override {
    Status status;
    for (const View& v : args.in) {
      if (v.num_elements() != 1 || v.dtype != args.in[0].dtype)
        return BadInput("Range: start, limit and delta must be scalars of one type");
    }
    const bool known = DispatchRange(args.in[0].dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T start = *args.in[0].Data<T>();
      const T delta = *args.in[2].Data<T>();
      auto n = RangeCount<T>(start, *args.in[1].Data<T>(), delta);
      if (n.ok()) status = movement::PrepareOutput(args, 0, Shape({*n}));
      if (!n.ok()) status = std::move(n).TakeStatus();
      if (!status.ok()) return;
      T* out = args.out[0].Data<T>();
      // Unsigned, so that the product of the last step, which is never used, may wrap.
      for (int64_t i = 0; i < args.out[0].shape[0]; ++i) {
        if constexpr (IsHalf<T>) {
          out[i] = T(static_cast<float>(start) + static_cast<float>(i) * static_cast<float>(delta));
        } else if constexpr (std::is_floating_point_v<T>) {
          out[i] = start + static_cast<T>(i) * delta;
        } else {
          out[i] = static_cast<T>(static_cast<uint64_t>(start) + static_cast<uint64_t>(i) * static_cast<uint64_t>(delta));
        }
      }
    });
    if (!known) return Unsupported("Range of {}", DTypeName(args.in[0].dtype));
    return status;
  }
};

class EyeLikeKernel final : public Kernel {
 public:
  explicit EyeLikeKernel(const Problem& p) : k_(p.attrs.Int("k", 0)) {}
  Status Run(const RunArgs& args) const override {
    const Shape shape = args.in[0].shape;
    if (shape.rank() != 2) return BadInput("EyeLike: the input has rank {}, not 2", shape.rank());
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, shape));
    MutView& out = args.out[0];
    if (out.bytes() > 0) std::memset(out.data, 0, out.bytes());
    const bool known = DispatchDType<TENON_NUMERIC_TYPES, bool>(out.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      T* p = out.Data<T>();
      if (k_ > shape[1] || k_ < -shape[0]) return;
      for (int64_t r = std::max<int64_t>(0, -k_); r < shape[0] && r + k_ < shape[1]; ++r) p[r * shape[1] + r + k_] = T(1);
    });
    return known ? Status::Ok() : Unsupported("EyeLike of {}", DTypeName(out.dtype));
  }

 private:
  int64_t k_;
};

}  // namespace

Status InferConstantOfShape(const ShapeArgs& args) {
  const Tensor* value = args.attrs.GetTensor("value");
  const ValueInfo& list = args.in[0];
  SetTensor(&args.out[0], value != nullptr ? value->dtype() : DType::kF32, {});
  if (list.dtype != DType::kUndefined && !movement::IsIndexType(list.dtype)) {
    return BadInput("ConstantOfShape: the shape must be int64, not {}", DTypeName(list.dtype));
  }
  auto dims = SmallElements(list);
  if (!dims) {
    if (list.data != nullptr) return BadInput("ConstantOfShape: the shape must be a list of at most {} integers", kMaxRank);
    if (list.shape.has_rank() && list.shape.rank() == 1 && list.shape[0].is_const() && list.shape[0].value() <= kMaxRank) {
      args.out[0].shape = SymShape::OfRank(static_cast<int>(list.shape[0].value()));
    }
    return Status::Ok();
  }
  SymShape shape(*std::move(dims));
  TENON_RETURN_IF_ERROR(movement::CheckDims(shape));
  const Dim n = shape.NumElements();
  const bool listable = shape.rank() <= 1 && n.is_const() && n.value() <= movement::kMaxKnownElements;
  args.out[0].shape = std::move(shape);
  if (!listable || value == nullptr || !IsInteger(value->dtype())) return Status::Ok();
  auto v = ToInt64s(value->view());
  if (v && v->size() == 1) SetElements(&args.out[0], std::vector<Dim>(static_cast<size_t>(n.value()), Dim((*v)[0])));
  return Status::Ok();
}

Status InferRange(const ShapeArgs& args) {
  const DType dtype = args.in[0].dtype;
  SetTensor(&args.out[0], dtype, SymShape::OfRank(1));
  for (size_t i = 0; i < 3; ++i) {
    const ValueInfo& v = args.in[i];
    if (v.dtype != DType::kUndefined && dtype != DType::kUndefined && v.dtype != dtype) {
      return BadInput("Range: input {} is {}, start is {}", i, DTypeName(v.dtype), DTypeName(dtype));
    }
    if (v.shape.NumElements().is_const() && !v.shape.NumElements().Is(1)) {
      return BadInput("Range: input {} has shape {}; a scalar is allowed", i, v.shape.ToString());
    }
  }
  if (args.in[0].data != nullptr && args.in[1].data != nullptr && args.in[2].data != nullptr && !IsInteger(dtype)) {
    Status status;
    DispatchRange(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const auto at = [&](size_t i) { return *args.in[i].data->Data<T>(); };
      auto n = RangeCount<T>(at(0), at(1), at(2));
      if (n.ok()) args.out[0].shape[0] = Dim(*n);
      if (!n.ok()) status = std::move(n).TakeStatus();
    });
    return status;
  }
  std::vector<Dim> v;
  for (size_t i = 0; i < 3; ++i) {
    auto e = SmallElements(args.in[i]);
    if (!e || e->size() != 1) return Status::Ok();
    v.push_back((*e)[0]);
  }
  if (v[0].is_const() && v[1].is_const() && v[2].is_const()) {
    TENON_ASSIGN_OR_RETURN(const int64_t n, RangeCount<int64_t>(v[0].value(), v[1].value(), v[2].value()));
    args.out[0].shape[0] = Dim(n);
    if (n > movement::kMaxKnownElements) return Status::Ok();
    std::vector<Dim> elements;
    for (int64_t i = 0; i < n; ++i) elements.push_back(v[0] + Dim(i) * v[2]);
    SetElements(&args.out[0], std::move(elements));
    return Status::Ok();
  }
  if (!v[2].is_const() || v[2].value() <= 0) return Status::Ok();
  const Dim n = Dim::CeilDiv(v[1] - v[0], v[2]);
  args.out[0].shape[0] = v[0].is_const() && CannotBeNegative(n) ? n : Dim::Max(n, Dim(0));
  return Status::Ok();
}

Status InferEyeLike(const ShapeArgs& args) {
  const SymShape& in = args.in[0].shape;
  if (in.has_rank() && in.rank() != 2) return BadInput("EyeLike: the input has rank {}, not 2", in.rank());
  const int64_t dtype = args.attrs.Int("dtype", 0);
  if (dtype != 0 && (dtype > INT32_MAX || !IsValidDType(static_cast<int32_t>(dtype)))) {
    return BadInput("EyeLike: dtype {} is not a tensor type", dtype);
  }
  SetTensor(&args.out[0], dtype != 0 ? static_cast<DType>(dtype) : args.in[0].dtype, in.has_rank() ? in : SymShape::OfRank(2));
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeConstantOfShape(const Problem& p) {
  return movement::Make<ConstantOfShapeKernel>(p);
}
Result<std::unique_ptr<Kernel>> MakeRange(const Problem& p) {
  return movement::Make<RangeKernel>(p);
}
Result<std::unique_ptr<Kernel>> MakeEyeLike(const Problem& p) {
  return movement::Make<EyeLikeKernel>(p);
}

}  // namespace tenon::kernels::shape_ops
