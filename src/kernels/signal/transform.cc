// DFT and STFT: fast rows over blocks of transforms laid side by side as columns, and the plain O(n^2) reference.
// Two real transforms share one complex one: z = a + ib, from which the spectra of a and b are taken apart by symmetry.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/element.h"
#include "kernels/kernel_util.h"
#include "kernels/signal/fft.h"
#include "kernels/signal/signal.h"

namespace tenon::kernels::signal {
namespace {

constexpr int64_t kColumns = 16;
// Elements of one work array, so that a block stays in cache or at least in reason.
constexpr int64_t kMaxWork = int64_t{1} << 18;

bool IsStft(std::string_view op) {
  return op == "STFT";
}

template <typename T>
struct Plan final : ShapeState {
  explicit Plan(int64_t n) : fft(n) {}
  FftPlan<T> fft;
};

template <typename T>
int64_t ColumnsFor(const FftPlan<T>& plan) {
  return std::clamp<int64_t>(kMaxWork / plan.WorkLength(), 1, kColumns);
}

template <typename T>
size_t ScratchFor(const FftPlan<T>& plan) {
  return (static_cast<size_t>(plan.WorkLength() * ColumnsFor(plan)) * 4 * sizeof(T) + 63) / 64 * 64;
}

// Reads and writes the blocks of one run. E: type of elements, T: type of sums.
template <typename E, typename T>
struct Block {
  const Transforms& t;
  const E* x;
  const E* window;  // may be null
  E* y;

  const E* In(int64_t r) const { return x + r / t.row_mod * t.in_batch + r % t.row_mod * t.in_row; }
  E* Out(int64_t r) const { return y + r / t.row_mod * t.out_batch + r % t.row_mod * t.out_row; }
  int RowsPerColumn() const { return t.complex_in && !t.real_out ? 1 : 2; }

  void LoadComplex(int64_t row, int64_t columns, int64_t column, T* re, T* im) const {
    const E* from = In(row);
    for (int64_t n = 0; n < t.length; ++n) {
      const int64_t to = n * columns + column;
      if (n >= t.given) {
        re[to] = im[to] = 0;
        continue;
      }
      const T w = window != nullptr ? static_cast<T>(window[n]) : T{1};
      const T a = static_cast<T>(from[n * t.in_step]) * w, b = static_cast<T>(from[n * t.in_step + 1]) * w;
      re[to] = t.inverse ? b : a;
      im[to] = t.inverse ? a : b;
    }
  }

  // Rows `row` and, when there is one, row + 1.
  void LoadReal(int64_t row, bool two, int64_t columns, int64_t column, T* re, T* im) const {
    for (int which = 0; which < 2; ++which) {
      const E* from = In(which == 0 || two ? row + which : row);
      T* to = (which == 0 ? re : im) + column;
      for (int64_t n = 0; n < t.length; ++n, to += columns) {
        const bool there = n < t.given && (which == 0 || two);
        const T w = window != nullptr ? static_cast<T>(window[n]) : T{1};
        *to = there ? static_cast<T>(from[n * t.in_step]) * w : T{0};
      }
    }
  }

  // Half spectra A and B of two real signals as Z = A + iB with both halves filled in, swapped for the inverse.
  void LoadHalf(int64_t row, bool two, int64_t columns, int64_t column, T* re, T* im) const {
    const E* fa = In(row);
    const E* fb = two ? In(row + 1) : fa;
    for (int64_t k = 0; k <= t.length / 2; ++k) {
      T ar = 0, ai = 0, br = 0, bi = 0;
      if (k < t.given) {
        const bool self = k == 0 || 2 * k == t.length;  // these bins of a real signal have no imaginary part
        ar = static_cast<T>(fa[k * t.in_step]);
        ai = self ? T{0} : static_cast<T>(fa[k * t.in_step + 1]);
        br = two ? static_cast<T>(fb[k * t.in_step]) : T{0};
        bi = self || !two ? T{0} : static_cast<T>(fb[k * t.in_step + 1]);
      }
      im[k * columns + column] = ar - bi;
      re[k * columns + column] = ai + br;
      if (k == 0) continue;
      im[(t.length - k) * columns + column] = ar + bi;
      re[(t.length - k) * columns + column] = br - ai;
    }
  }

  void StoreComplex(int64_t row, int64_t columns, int64_t column, const T* re, const T* im) const {
    E* to = Out(row);
    const T scale = t.inverse ? T{1} / static_cast<T>(t.length) : T{1};
    for (int64_t k = 0; k < t.bins; ++k) {
      const T a = re[k * columns + column] * scale, b = im[k * columns + column] * scale;
      to[k * t.out_step] = E(t.inverse ? b : a);
      to[k * t.out_step + 1] = E(t.inverse ? a : b);
    }
  }

  void StoreReal(int64_t row, bool two, int64_t columns, int64_t column, const T* re, const T* im) const {
    E* ta = Out(row);
    E* tb = two ? Out(row + 1) : nullptr;
    // The inverse transform of real input is the conjugate of the forward one, divided by N.
    const T half = t.inverse ? T{0.5} / static_cast<T>(t.length) : T{0.5};
    const T sign = t.inverse ? -half : half;
    for (int64_t k = 0; k < t.bins; ++k) {
      const int64_t p = k * columns + column;
      const int64_t q = (k == 0 ? 0 : t.length - k) * columns + column;
      ta[k * t.out_step] = E(half * (re[p] + re[q]));
      ta[k * t.out_step + 1] = E(sign * (im[p] - im[q]));
      if (tb == nullptr) continue;
      tb[k * t.out_step] = E(half * (im[p] + im[q]));
      tb[k * t.out_step + 1] = E(sign * (re[q] - re[p]));
    }
  }

  void StoreSignal(int64_t row, bool two, int64_t columns, int64_t column, const T* re, const T* im) const {
    const T scale = T{1} / static_cast<T>(t.length);
    for (int64_t k = 0; k < t.bins; ++k) {
      Out(row)[k * t.out_step] = E(im[k * columns + column] * scale);
      if (two) Out(row + 1)[k * t.out_step] = E(re[k * columns + column] * scale);
    }
  }

  // Transforms rows [first, last) with `columns` columns.
  void Run(int64_t first, int64_t last, int64_t columns, const FftPlan<T>& plan, FftPasses<T> passes, T* scratch) const {
    const int64_t size = plan.WorkLength() * columns;
    const FftBuffers<T> b{scratch, scratch + size, scratch + 2 * size, scratch + 3 * size};
    const int per = RowsPerColumn();
    int64_t column = 0;
    for (int64_t r = first; r < last; r += per, ++column) {
      const bool two = per == 2 && r + 1 < last;
      if (per == 1) {
        LoadComplex(r, columns, column, b.re, b.im);
      } else if (t.real_out) {
        LoadHalf(r, two, columns, column, b.re, b.im);
      } else {
        LoadReal(r, two, columns, column, b.re, b.im);
      }
    }
    for (; column < columns; ++column) {
      for (int64_t n = 0; n < t.length; ++n) b.re[n * columns + column] = b.im[n * columns + column] = 0;
    }
    T *re = nullptr, *im = nullptr;
    FftRun(plan, passes, columns, b, &re, &im);
    column = 0;
    for (int64_t r = first; r < last; r += per, ++column) {
      const bool two = per == 2 && r + 1 < last;
      if (per == 1) {
        StoreComplex(r, columns, column, re, im);
      } else if (t.real_out) {
        StoreSignal(r, two, columns, column, re, im);
      } else {
        StoreReal(r, two, columns, column, re, im);
      }
    }
  }
};

class FftKernel final : public Kernel {
 public:
  FftKernel(bool stft, Attrs attrs, DType dtype, int threads, FftPasses<float> passes)
      : stft_(stft), attrs_(std::move(attrs)), dtype_(dtype), threads_(threads), passes_(passes) {}

  Result<Configured> Configure(std::span<const View> in, std::span<const View> /*out*/) const override {
    Configured c;
    for (size_t i = 1; i < in.size(); ++i) {
      const bool number = !(stft_ && i == 2);
      if (in[i].present() && number && in[i].data == nullptr) return c;  // the length is known in Run only
    }
    TENON_ASSIGN_OR_RETURN(const Transforms t, Resolve(in));
    if (dtype_ == DType::kF64) {
      auto plan = std::make_unique<Plan<double>>(t.length);
      c.scratch_bytes = ScratchFor(plan->fft) * static_cast<size_t>(threads_);
      c.state = std::move(plan);
    } else {
      auto plan = std::make_unique<Plan<float>>(t.length);
      c.scratch_bytes = ScratchFor(plan->fft) * static_cast<size_t>(threads_);
      c.state = std::move(plan);
    }
    return c;
  }

  Status Run(const RunArgs& args) const override {
    TENON_ASSIGN_OR_RETURN(const Transforms t, Resolve(args.in));
    switch (dtype_) {
      case DType::kF32: return RunAs<float, float>(args, t, passes_);
      case DType::kF16: return RunAs<Half, float>(args, t, passes_);
      case DType::kBF16: return RunAs<BFloat16, float>(args, t, passes_);
      case DType::kF64: return RunAs<double, double>(args, t, FftPassesF64);
      default: return Unsupported("element type {}", DTypeName(dtype_));
    }
  }

 private:
  Result<Transforms> Resolve(std::span<const View> in) const { return stft_ ? ResolveStft(attrs_, in) : ResolveDft(attrs_, in); }

  template <typename E, typename T>
  Status RunAs(const RunArgs& args, const Transforms& t, FftPasses<T> passes) const {
    if (t.rows == 0) return {};
    std::unique_ptr<Plan<T>> own;
    std::shared_ptr<Buffer> buffer;
    const auto* plan = static_cast<const Plan<T>*>(args.state);
    auto* scratch = reinterpret_cast<std::byte*>(args.scratch);
    if (plan == nullptr) {
      own = std::make_unique<Plan<T>>(t.length);
      plan = own.get();
      buffer = Buffer::Allocate(ScratchFor(plan->fft) * static_cast<size_t>(threads_));
      if (buffer == nullptr) return ResourceLimit("no memory for a transform of length {}", t.length);
      scratch = static_cast<std::byte*>(buffer->data());
    }
    const Block<E, T> block{t, args.in[0].Data<E>(), stft_ && args.Has(2) ? args.in[2].Data<E>() : nullptr,
                            args.out[0].Data<E>()};
    const int64_t per = block.RowsPerColumn();
    const int64_t columns = std::min(ColumnsFor(plan->fft), (t.rows + per - 1) / per);
    const int64_t blocks = (t.rows + per * columns - 1) / (per * columns);
    const bool threaded = args.team.size() <= threads_ && t.rows * t.length > 8192;
    args.team.ParallelFor(blocks, threaded ? 1 : blocks, [&](int64_t begin, int64_t end, int thread) {
      T* mine = reinterpret_cast<T*>(scratch + ScratchFor(plan->fft) * static_cast<size_t>(threaded ? thread : 0));
      for (int64_t i = begin; i < end; ++i) {
        block.Run(i * per * columns, std::min(t.rows, (i + 1) * per * columns), columns, plan->fft, passes, mine);
      }
    });
    return {};
  }

  bool stft_;
  Attrs attrs_;
  DType dtype_;
  int threads_;
  FftPasses<float> passes_;
};

class Reference final : public Kernel {
 public:
  Reference(bool stft, Attrs attrs) : stft_(stft), attrs_(std::move(attrs)) {}

  Status Run(const RunArgs& args) const override {
    TENON_ASSIGN_OR_RETURN(const Transforms t, stft_ ? ResolveStft(attrs_, args.in) : ResolveDft(attrs_, args.in));
    const View& x = args.in[0];
    MutView& y = args.out[0];
    const View window = stft_ && args.Has(2) ? args.in[2] : View{};
    const auto n_length = static_cast<size_t>(t.length);
    std::vector<double> re(n_length), im(n_length);
    for (int64_t r = 0; r < t.rows; ++r) {
      const int64_t from = r / t.row_mod * t.in_batch + r % t.row_mod * t.in_row;
      const int64_t to = r / t.row_mod * t.out_batch + r % t.row_mod * t.out_row;
      std::fill(re.begin(), re.end(), 0.0);
      std::fill(im.begin(), im.end(), 0.0);
      for (int64_t n = 0; n < t.given; ++n) {
        const double w = window.present() ? LoadDouble(window.dtype, window.data, n) : 1;
        const auto i = static_cast<size_t>(n);
        re[i] = w * LoadDouble(x.dtype, x.data, from + n * t.in_step);
        im[i] = t.complex_in ? w * LoadDouble(x.dtype, x.data, from + n * t.in_step + 1) : 0;
        if (!t.real_out) continue;
        if (n == 0 || 2 * n == t.length) im[i] = 0;
        if (n > 0) {
          re[n_length - i] = re[i];
          im[n_length - i] = -im[i];
        }
      }
      for (int64_t k = 0; k < t.bins; ++k) {
        double sum_re = 0, sum_im = 0;
        for (int64_t n = 0; n < t.length; ++n) {
          const double angle =
              (t.inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(k * n % t.length) / static_cast<double>(t.length);
          const auto i = static_cast<size_t>(n);
          sum_re += re[i] * std::cos(angle) - im[i] * std::sin(angle);
          sum_im += re[i] * std::sin(angle) + im[i] * std::cos(angle);
        }
        const double scale = t.inverse ? 1.0 / static_cast<double>(t.length) : 1.0;
        StoreDouble(y.dtype, y.data, to + k * t.out_step, sum_re * scale);
        if (!t.real_out) StoreDouble(y.dtype, y.data, to + k * t.out_step + 1, sum_im * scale);
      }
    }
    return {};
  }

 private:
  bool stft_;
  Attrs attrs_;
};

Result<std::unique_ptr<Kernel>> Make(const Problem& p, FftPasses<float> passes) {
  return std::unique_ptr<Kernel>(new FftKernel(IsStft(p.op), p.attrs, p.in[0].dtype, std::max(1, p.threads), passes));
}

}  // namespace

Refusal CanFft(const Problem& p) {
  return IsPlainFloat(p.in[0].dtype) ? nullptr : kRefuseDType;
}

Result<std::unique_ptr<Kernel>> MakeFftAvx512(const Problem& p) {
  return Make(p, FftPassesF32Avx512);
}
Result<std::unique_ptr<Kernel>> MakeFftAvx2(const Problem& p) {
  return Make(p, FftPassesF32Avx2);
}
Result<std::unique_ptr<Kernel>> MakeFft(const Problem& p) {
  return Make(p, FftPassesF32);
}

Result<std::unique_ptr<Kernel>> MakeReference(const Problem& p) {
  return std::unique_ptr<Kernel>(new Reference(IsStft(p.op), p.attrs));
}

}  // namespace tenon::kernels::signal
