// ScatterElements (and Scatter, its old name) and ScatterND.
#include <algorithm>

#include "kernels/gather_scatter/nd_index.h"

namespace tenon::kernels::gather_scatter {
namespace {

using movement::At;
using movement::SetTensor;

template <typename T, Reduction kReduction>
T Reduce(T a, T b) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T(Reduce<float, kReduction>(static_cast<float>(a), static_cast<float>(b)));
  } else if constexpr (kReduction == Reduction::kMax || kReduction == Reduction::kMin) {
    if (a != a) return a;  // NaN wins, as in NumPy
    if (b != b) return b;
    return (kReduction == Reduction::kMax ? a < b : b < a) ? b : a;
  } else if constexpr (std::is_integral_v<T>) {  // wraps
    const auto x = static_cast<uint64_t>(a);
    const auto y = static_cast<uint64_t>(b);
    return static_cast<T>(kReduction == Reduction::kAdd ? x + y : x * y);
  } else {
    return kReduction == Reduction::kAdd ? a + b : a * b;
  }
}

template <typename T, Reduction kReduction>
void Run(void* dst, const void* src, int64_t n) {
  auto* d = static_cast<T*>(dst);
  const auto* s = static_cast<const T*>(src);
  for (int64_t i = 0; i < n; ++i) d[i] = Reduce<T, kReduction>(d[i], s[i]);
}

// What both scatters begin with: the output holds data.
Status CopyData(const RunArgs& args, int size) {
  TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, args.in[0].shape));
  if (args.out[0].data != args.in[0].data) {
    movement::CopyElementsParallel(args.out[0].data, args.in[0].data, args.in[0].num_elements(), size, args.team);
  }
  return Status::Ok();
}

class ScatterKernel : public movement::MoveKernel {
 public:
  static Status Check(const Problem& p) {
    TENON_ASSIGN_OR_RETURN(const Reduction r, ParseReduction(p.op, p.attrs));
    if (r != Reduction::kNone && FindReduce(r, p.in[0].dtype) == nullptr) {
      return Unsupported("{} with a reduction of {}", p.op, DTypeName(p.in[0].dtype));
    }
    return Status::Ok();
  }
  explicit ScatterKernel(const Problem& p)
      : axis_(p.attrs.Int("axis", 0)), reduce_(FindReduce(*ParseReduction(p.op, p.attrs), p.in[0].dtype)) {}
  uint32_t InPlaceInputs() const override { return 1; }

 protected:
  void Apply(void* dst, const void* src, int64_t n, int size) const {
    if (reduce_ != nullptr) {
      reduce_(dst, src, n);
    } else {
      movement::CopyElements(dst, src, n, size);
    }
  }
  int64_t axis_;
  ReduceRun reduce_;
};

class ScatterElementsKernel final : public ScatterKernel {
 public:
  using ScatterKernel::ScatterKernel;

 protected:
  Status Move(const RunArgs& args) const override {
    const View& data = args.in[0];
    const View& indices = args.in[1];
    const View& updates = args.in[2];
    TENON_ASSIGN_OR_RETURN(const int axis, movement::NormalizeAxis(axis_, data.shape.rank()));
    TENON_RETURN_IF_ERROR(CheckInside("ScatterElements", indices.shape, data.shape, axis));
    if (!(updates.shape == indices.shape) || updates.dtype != data.dtype) {
      return BadInput("ScatterElements: updates of shape {} for indices of shape {}", updates.shape.ToString(),
                      indices.shape.ToString());
    }
    const int64_t extent = data.shape[axis];
    TENON_RETURN_IF_ERROR(CheckIndices("ScatterElements", indices, extent));
    const int size = movement::ElementSize(data.dtype);
    TENON_RETURN_IF_ERROR(CopyData(args, size));
    const int64_t n = indices.num_elements();
    if (n == 0) return Status::Ok();
    const int64_t stride = data.shape.Product(axis + 1, data.shape.rank());
    // Slices before `axis` never meet: threads take whole ones, and within one updates go in their order.
    const int64_t slice = indices.shape.Product(axis, indices.shape.rank());
    args.team.ParallelFor(n / slice, std::max<int64_t>(1, (int64_t{1} << 14) / slice), [&](int64_t begin, int64_t end, int) {
      movement::DispatchSize(size, [&](auto* tag) {
        using T = std::remove_pointer_t<decltype(tag)>;
        auto* out = static_cast<T*>(args.out[0].data);
        const auto* from = static_cast<const T*>(updates.data);
        const int64_t step = LastStep(indices.shape, axis);
        const auto walk = [&]<typename I>(const I* index) {
          WalkWithoutAxis(indices.shape, data.shape, axis, begin * slice, end * slice,
                          [&](int64_t p, int64_t count, int64_t offset) {
                            for (int64_t j = 0; j < count; ++j) {
                              const int64_t given = index[p + j];
                              T* to = out + offset + j * step + (given < 0 ? given + extent : given) * stride;
                              if (reduce_ == nullptr) {
                                *to = from[p + j];
                              } else {
                                reduce_(to, from + p + j, 1);
                              }
                            }
                          });
        };
        indices.dtype == DType::kI64 ? walk(indices.Data<int64_t>()) : walk(indices.Data<int32_t>());
      });
    });
    return Status::Ok();
  }
};

class ScatterNDKernel final : public ScatterKernel {
 public:
  using ScatterKernel::ScatterKernel;

 protected:
  Status Move(const RunArgs& args) const override {
    const View& data = args.in[0];
    const View& indices = args.in[1];
    const View& updates = args.in[2];
    const Shape& d = data.shape;
    const Shape& s = indices.shape;
    if (!movement::IsIndexType(indices.dtype))
      return BadInput("ScatterND: indices must be int64, not {}", DTypeName(indices.dtype));
    if (s.rank() < 1 || d.rank() < 1 || s[s.rank() - 1] < 0 || s[s.rank() - 1] > d.rank()) {
      return BadInput("ScatterND: indices of shape {} for data of rank {}", s.ToString(), d.rank());
    }
    const int width = static_cast<int>(s[s.rank() - 1]);
    const int64_t tuples = s.Product(0, s.rank() - 1);
    const int64_t slice = d.Product(width, d.rank());
    if (updates.dtype != data.dtype || updates.shape.rank() != s.rank() - 1 + d.rank() - width ||
        updates.num_elements() != tuples * slice) {
      return BadInput("ScatterND: updates of shape {} for indices of shape {} and data of shape {}", updates.shape.ToString(),
                      s.ToString(), d.ToString());
    }
    const TupleIndex index(indices, d, 0, width);
    TENON_RETURN_IF_ERROR(index.Check("ScatterND", tuples));
    const int size = movement::ElementSize(data.dtype);
    TENON_RETURN_IF_ERROR(CopyData(args, size));
    for (int64_t t = 0; t < tuples && slice > 0; ++t) {
      Apply(At(args.out[0].data, index.Offset(t), size), At(updates.data, t * slice, size), slice, size);
    }
    return Status::Ok();
  }
};

Status CheckTypes(std::string_view op, const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(CheckIndexType(op, args.in[1]));
  const DType a = args.in[0].dtype;
  const DType b = args.in[2].dtype;
  if (a == b || a == DType::kUndefined || b == DType::kUndefined) return Status::Ok();
  return BadInput("{}: updates are {}, data is {}", op, DTypeName(b), DTypeName(a));
}

}  // namespace

Result<Reduction> ParseReduction(std::string_view op, const Attrs& attrs) {
  const std::string r = attrs.String("reduction", "none");
  if (r == "none") return Reduction::kNone;
  if (r == "add") return Reduction::kAdd;
  if (r == "mul") return Reduction::kMul;
  if (r == "max") return Reduction::kMax;
  if (r == "min") return Reduction::kMin;
  return BadInput("{}: reduction '{}'; allowed are none, add, mul, max and min", op, r);
}

ReduceRun FindReduce(Reduction reduction, DType dtype) {
  ReduceRun run = nullptr;
  DispatchDType<TENON_NUMERIC_TYPES>(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    switch (reduction) {
      case Reduction::kNone: break;
      case Reduction::kAdd: run = Run<T, Reduction::kAdd>; break;
      case Reduction::kMul: run = Run<T, Reduction::kMul>; break;
      case Reduction::kMax: run = Run<T, Reduction::kMax>; break;
      case Reduction::kMin: run = Run<T, Reduction::kMin>; break;
    }
  });
  return run;
}

Status InferScatterElements(const ShapeArgs& args) {
  const SymShape& data = args.in[0].shape;
  const SymShape& indices = args.in[1].shape;
  TENON_RETURN_IF_ERROR(CheckTypes("ScatterElements", args));
  TENON_RETURN_IF_ERROR(ParseReduction("ScatterElements", args.attrs).status());
  if (data.has_rank()) {
    auto axis = movement::NormalizeAxis(args.attrs.Int("axis", 0), data.rank());
    if (!axis.ok()) return std::move(axis).TakeStatus().Within("ScatterElements");
    if (indices.has_rank()) TENON_RETURN_IF_ERROR(CheckInside("ScatterElements", indices, data, *axis));
    TENON_RETURN_IF_ERROR(CheckKnownIndices("ScatterElements", args.in[1], data[*axis]));
  }
  SetTensor(&args.out[0], args.in[0].dtype, data);
  return Status::Ok();
}

Status InferScatterND(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(CheckTypes("ScatterND", args));
  TENON_RETURN_IF_ERROR(ParseReduction("ScatterND", args.attrs).status());
  SetTensor(&args.out[0], args.in[0].dtype, args.in[0].shape);
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeScatterElements(const Problem& p) {
  return movement::Make<ScatterElementsKernel>(p);
}
Result<std::unique_ptr<Kernel>> MakeScatterND(const Problem& p) {
  return movement::Make<ScatterNDKernel>(p);
}

}  // namespace tenon::kernels::gather_scatter
