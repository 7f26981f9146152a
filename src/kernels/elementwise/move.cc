// Where and Identity: elements are moved, not computed, so only their size matters.
#include <complex>
#include <cstring>

#include "kernels/elementwise/elementwise.h"

namespace tenon::kernels::elementwise {
namespace {

// Steps are 0 or 1; the three common combinations get loops of their own that the compiler vectorises.
template <typename T>
void Select(const bool* c, int64_t sc, const T* x, int64_t sx, const T* y, int64_t sy, T* out, int64_t n) {
  if (sc == 0) {
    const T* from = *c ? x : y;
    const int64_t step = *c ? sx : sy;
    if constexpr (std::is_trivially_copyable_v<T>) {
      if (step == 1) {
        if (out != from) std::memmove(out, from, static_cast<size_t>(n) * sizeof(T));
        return;
      }
    }
    for (int64_t k = 0; k < n; ++k) out[k] = from[k * step];
  } else if (sx == 1 && sy == 1) {
    for (int64_t k = 0; k < n; ++k) out[k] = c[k] ? x[k] : y[k];
  } else if (sx == 1) {
    const T v = *y;
    for (int64_t k = 0; k < n; ++k) out[k] = c[k] ? x[k] : v;
  } else if (sy == 1) {
    const T v = *x;
    for (int64_t k = 0; k < n; ++k) out[k] = c[k] ? v : y[k];
  } else {
    const T v = *x;
    const T w = *y;
    for (int64_t k = 0; k < n; ++k) out[k] = c[k] ? v : w;
  }
}

template <typename T>
class Where final : public Kernel {
 public:
  uint32_t InPlaceInputs() const override { return 0b110; }
  Status Run(const RunArgs& args) const override {
    const View& c = args.in[0];
    const View& x = args.in[1];
    const View& y = args.in[2];
    TENON_ASSIGN_OR_RETURN(Shape shape, BroadcastShapes("Where", x.shape, y.shape));
    TENON_ASSIGN_OR_RETURN(shape, BroadcastShapes("Where", c.shape, shape));
    TENON_ASSIGN_OR_RETURN(void* data, OutputData(args, shape));
    T* out = static_cast<T*>(data);
    const Shape* shapes[] = {&c.shape, &x.shape, &y.shape};
    BroadcastPlan plan;
    MakePlan(shapes, shape, &plan);
    args.team.ParallelFor(plan.total, kGrain, [&](int64_t begin, int64_t end, int) {
      ForEachRow(plan, begin, end, [&](int64_t at, int64_t n, const int64_t* offsets) {
        Select<T>(c.Data<bool>() + offsets[0], plan.inner_stride(0), x.Data<T>() + offsets[1], plan.inner_stride(1),
                  y.Data<T>() + offsets[2], plan.inner_stride(2), out + at, n);
      });
    });
    return Status::Ok();
  }
};

class Identity final : public Kernel {
 public:
  uint32_t InPlaceInputs() const override { return 1; }
  Status Run(const RunArgs& args) const override {
    const View& in = args.in[0];
    if (in.sequence != nullptr) {
      if (args.out[0].sequence == nullptr) return Internal("Identity: no place for the output sequence");
      *args.out[0].sequence = *in.sequence;
      return Status::Ok();
    }
    TENON_ASSIGN_OR_RETURN(void* out, OutputData(args, in.shape));
    if (in.dtype == DType::kString) {
      const auto* from = in.Data<std::string>();
      auto* to = static_cast<std::string*>(out);
      for (int64_t k = 0; k < in.num_elements(); ++k) to[k] = from[k];
      return Status::Ok();
    }
    const size_t bytes = in.bytes();
    if (bytes == 0 || out == in.data) return Status::Ok();
    const auto* from = static_cast<const std::byte*>(in.data);
    auto* to = static_cast<std::byte*>(out);
    args.team.ParallelFor(static_cast<int64_t>(bytes), int64_t{1} << 20, [&](int64_t begin, int64_t end, int) {
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
    });
    return Status::Ok();
  }
};

template <typename T>
std::unique_ptr<Kernel> New() {
  return std::unique_ptr<Kernel>(new Where<T>());
}

}  // namespace

KernelPtr MakeWhere(const Problem& problem) {
  const DType t = problem.in[1].dtype;
  if (t == DType::kString) return New<std::string>();
  switch (DTypeBits(t)) {
    case 8: return New<uint8_t>();
    case 16: return New<uint16_t>();
    case 32: return New<uint32_t>();
    case 64: return New<uint64_t>();
    case 128: return New<std::complex<double>>();
    default: return Unsupported("Where: elements of type {}", DTypeName(t));
  }
}

KernelPtr MakeIdentity(const Problem& /*problem*/) {
  return std::unique_ptr<Kernel>(new Identity());
}

}  // namespace tenon::kernels::elementwise
