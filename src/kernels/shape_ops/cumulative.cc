// CumSum and CumProd.
#include <algorithm>

#include "kernels/elementwise/f32_table.h"
#include "kernels/movement/element.h"
#include "kernels/refusals.h"
#include "kernels/shape_ops/internal.h"

namespace tenon::kernels::shape_ops {
namespace {

template <typename T>
using Accumulator = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

// Wraps on overflow like the hardware, without signed overflow.
template <typename A>
A Combine(A a, A b, bool product) {
  if constexpr (std::is_integral_v<A>) {
    const auto x = static_cast<uint64_t>(a);
    const auto y = static_cast<uint64_t>(b);
    return static_cast<A>(product ? x * y : x + y);
  } else {
    return product ? a * b : a + b;
  }
}

class CumulativeKernel final : public Kernel {
 public:
  explicit CumulativeKernel(const Problem& p)
      : product_(p.op == "CumProd"), exclusive_(p.attrs.Int("exclusive", 0) != 0), reverse_(p.attrs.Int("reverse", 0) != 0) {
    if (const elementwise::F32Table* table = elementwise::TableFor(p.isa)) {
      const auto op = product_ ? elementwise::BinaryOp::kMul : elementwise::BinaryOp::kAdd;
      step_f32_ = table->binary[static_cast<int>(op)][elementwise::kBothVectors];
    }
  }

  Status Run(const RunArgs& args) const override {
    const View& x = args.in[0];
    if (!movement::IsIndexType(args.in[1].dtype) || args.in[1].num_elements() != 1) {
      return BadInput("{}: axis must be one integer", Name());
    }
    TENON_ASSIGN_OR_RETURN(const int axis, movement::NormalizeAxis(movement::ReadInt(args.in[1], 0), x.shape.rank()));
    TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, 0, x.shape));
    const int64_t n = x.shape[axis];
    const int64_t inner = x.shape.Product(axis + 1, x.shape.rank());
    const int64_t lines = x.shape.Product(0, axis) * inner;
    const bool known = DispatchDType<TENON_NUMERIC_TYPES>(x.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (std::is_same_v<T, Accumulator<T>>) {
        if (inner > 1 && n > 0) return Columns(x.Data<T>(), args.out[0].Data<T>(), lines / inner, n, inner, args.team);
      }
      args.team.ParallelFor(lines, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, n)), [&](int64_t begin, int64_t end, int) {
        for (int64_t line = begin; line < end; ++line) {
          const int64_t base = line / inner * n * inner + line % inner;
          Line(x.Data<T>() + base, args.out[0].Data<T>() + base, n, inner);
        }
      });
    });
    return known ? Status::Ok() : Unsupported("{} of {}", Name(), DTypeName(x.dtype));
  }

 private:
  const char* Name() const { return product_ ? "CumProd" : "CumSum"; }

  template <typename T>
  void Line(const T* x, T* out, int64_t n, int64_t stride) const {
    using A = Accumulator<T>;
    A sum = product_ ? A(1) : A(0);
    for (int64_t k = 0; k < n; ++k) {
      const int64_t i = (reverse_ ? n - 1 - k : k) * stride;
      const A next = Combine<A>(sum, static_cast<A>(x[i]), product_);
      out[i] = static_cast<T>(exclusive_ ? sum : next);
      sum = next;
    }
  }

  // Row by row: row k of the sums is the row before it plus row k of x, or k - 1 when exclusive. Blocks of columns stay in cache.
  template <typename T>
  void Columns(const T* x, T* out, int64_t outer, int64_t n, int64_t inner, hw::Team& team) const {
    constexpr int64_t kWidth = 512;
    const int64_t blocks = (inner + kWidth - 1) / kWidth;
    const int64_t grain = std::max<int64_t>(1, 16384 / (n * std::min(kWidth, inner)));
    team.ParallelFor(outer * blocks, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t b = begin; b < end; ++b) {
        const int64_t first = b % blocks * kWidth;
        const int64_t width = std::min(kWidth, inner - first);
        const int64_t base = b / blocks * n * inner + first;
        const auto row = [&](int64_t k) { return base + (reverse_ ? n - 1 - k : k) * inner; };
        const T start = product_ ? T(1) : T(0);
        for (int64_t j = 0; j < width; ++j) out[row(0) + j] = exclusive_ ? start : Combine<T>(start, x[row(0) + j], product_);
        for (int64_t k = 1; k < n; ++k) {
          const T* add = x + (exclusive_ ? row(k - 1) : row(k));
          Step(out + row(k - 1), add, out + row(k), width);
        }
      }
    });
  }

  // y = a op b; the three do not overlap.
  template <typename T>
  void Step(const T* __restrict a, const T* __restrict b, T* __restrict y, int64_t n) const {
    if constexpr (std::is_same_v<T, float>) {
      if (step_f32_ != nullptr) return step_f32_(a, b, y, n);
    }
    constexpr int64_t kPiece = 16;  // a constant, so that the compiler vectorises it
    int64_t j = 0;
    if (product_) {
      for (; j + kPiece <= n; j += kPiece) {
        for (int64_t i = 0; i < kPiece; ++i) y[j + i] = Combine<T>(a[j + i], b[j + i], true);
      }
    } else {
      for (; j + kPiece <= n; j += kPiece) {
        for (int64_t i = 0; i < kPiece; ++i) y[j + i] = Combine<T>(a[j + i], b[j + i], false);
      }
    }
    for (; j < n; ++j) y[j] = Combine<T>(a[j], b[j], product_);
  }

  bool product_;
  bool exclusive_;
  bool reverse_;
  elementwise::BinaryF32 step_f32_ = nullptr;  // the vector sum or product of this CPU, to the same bits
};

}  // namespace

Status InferCumulative(const ShapeArgs& args) {
  const SymShape& x = args.in[0].shape;
  if (auto axis = movement::SmallKnownInts(args.in[1])) {
    if (axis->size() != 1) return BadInput("cumulative: axis has {} elements, not 1", axis->size());
    if (x.has_rank()) TENON_RETURN_IF_ERROR(movement::NormalizeAxis((*axis)[0], x.rank()).status());
  }
  movement::SetTensor(&args.out[0], args.in[0].dtype, x);
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeCumulative(const Problem& p) {
  return movement::Make<CumulativeKernel>(p);
}

}  // namespace tenon::kernels::shape_ops
