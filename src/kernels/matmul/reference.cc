#include "base/dtype.h"
#include "kernels/float_io.h"
#include "kernels/matmul/matmul.h"
#include "kernels/refusals.h"

namespace tenon::kernels::matmul {
namespace {

// Sums in double for floats (better than every fast row), in uint64 for integers (wraps without undefined behaviour).
template <typename T>
struct Sum {
  using type = double;
};
template <typename T>
  requires std::is_integral_v<T>
struct Sum<T> {
  using type = uint64_t;
};

class Reference final : public Kernel {
 public:
  explicit Reference(Params params) : params_(std::move(params)) {}

  Status Run(const RunArgs& args) const override {
    TENON_ASSIGN_OR_RETURN(const Geometry g, Resolve(params_, args.in[0].shape, args.in[1].shape));
    TENON_RETURN_IF_ERROR(CheckAddends(args, g));
    if (args.in[1].dtype == DType::kBF16) {
      for (int64_t i = 0; i < g.batch; ++i) ProductBf16(args, g, i);
      return Status::Ok();
    }
    const bool served = DispatchDType<TENON_NUMERIC_TYPES>(args.in[0].dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (int64_t i = 0; i < g.batch; ++i) Product<T>(args, g, i);
    });
    return served ? Status::Ok() : Unsupported("matrix product of {}", DTypeName(args.in[0].dtype));
  }

 private:
  Status CheckAddends(const RunArgs& args, const Geometry& g) const {
    if (args.Has(2)) {
      const Shape& c = args.in[2].shape;
      bool fits = params_.is_gemm ? c.rank() <= 2 : (c.rank() == 1 && c[0] == g.n);
      for (int i = 1; params_.is_gemm && fits && i <= c.rank(); ++i) {
        fits = c.dim(-i) == 1 || c.dim(-i) == (i == 1 ? g.n : g.m);
      }
      if (!fits) return BadInput("input 2 of shape {} does not fit the result {}", c.ToString(), g.y.ToString());
    }
    if (args.Has(3) && !(args.in[3].shape == g.y)) {
      return BadInput("residual of shape {}; {} is needed", args.in[3].shape.ToString(), g.y.ToString());
    }
    return Status::Ok();
  }

  template <typename T>
  void Product(const RunArgs& args, const Geometry& g, int64_t i) const {
    using S = typename Sum<T>::type;
    const T* a = args.in[0].Data<T>() + OperandBatch(g.batch_dims, g.a_batch, i) * g.m * g.k;
    const T* b = args.in[1].Data<T>() + OperandBatch(g.batch_dims, g.b_batch, i) * g.k * g.n;
    T* y = args.out[0].Data<T>() + i * g.m * g.n;
    for (int64_t r = 0; r < g.m; ++r) {
      for (int64_t c = 0; c < g.n; ++c) {
        S sum = 0;
        for (int64_t k = 0; k < g.k; ++k) {
          const T& va = params_.trans_a ? a[k * g.m + r] : a[r * g.k + k];
          const T& vb = params_.trans_b ? b[c * g.k + k] : b[k * g.n + c];
          sum += static_cast<S>(To<S>(va)) * static_cast<S>(To<S>(vb));
        }
        y[r * g.n + c] = Finish<T, S>(args, g, sum, i, r, c);
      }
    }
  }

  // B is bf16, all others bf16 or f32.
  void ProductBf16(const RunArgs& args, const Geometry& g, int64_t i) const {
    const int64_t a = OperandBatch(g.batch_dims, g.a_batch, i) * g.m * g.k;
    const int64_t b = OperandBatch(g.batch_dims, g.b_batch, i) * g.k * g.n;
    for (int64_t r = 0; r < g.m; ++r) {
      for (int64_t c = 0; c < g.n; ++c) {
        double sum = 0;
        for (int64_t k = 0; k < g.k; ++k) {
          const double va = LoadAt(args.in[0], a + (params_.trans_a ? k * g.m + r : r * g.k + k));
          const double vb = LoadAt(args.in[1], b + (params_.trans_b ? c * g.k + k : k * g.n + c));
          sum += LoadF(StoreF<BFloat16>(va)) * vb;
        }
        double v = params_.alpha * sum;
        if (args.Has(2)) v += (params_.is_gemm ? params_.beta : 1) * LoadAt(args.in[2], AddendIndex(args.in[2].shape, r, c));
        if (args.Has(3)) v += LoadAt(args.in[3], (i * g.m + r) * g.n + c);
        StoreAt(args.out[0], (i * g.m + r) * g.n + c, gemm::Apply(params_.activation, v));
      }
    }
  }

  // Where input 2, which broadcasts, holds the addend of row r and column c.
  static int64_t AddendIndex(const Shape& s, int64_t r, int64_t c) {
    const int64_t col = s.rank() >= 1 && s.dim(-1) != 1 ? c : 0;
    const int64_t row = s.rank() >= 2 && s.dim(-2) != 1 ? r : 0;
    return row * (s.rank() >= 1 ? s.dim(-1) : 1) + col;
  }

  template <typename S, typename T>
  static S To(const T& v) {
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      return static_cast<S>(static_cast<float>(v));
    } else {
      return static_cast<S>(v);
    }
  }

  // alpha, addends and activation. Integers know alpha and beta of 1 only (CanReference).
  template <typename T, typename S>
  T Finish(const RunArgs& args, const Geometry& g, S sum, int64_t batch, int64_t r, int64_t c) const {
    S addend = 0;
    if (args.Has(2)) addend = To<S>(args.in[2].Data<T>()[AddendIndex(args.in[2].shape, r, c)]);
    S residual = 0;
    if (args.Has(3)) residual = To<S>(args.in[3].Data<T>()[(batch * g.m + r) * g.n + c]);
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(sum + addend + residual);
    } else {
      const double beta = params_.is_gemm ? params_.beta : 1;
      const double v = params_.alpha * sum + beta * addend + residual;
      const double y = gemm::Apply(params_.activation, v);
      if constexpr (std::is_same_v<T, double>) {
        return y;
      } else {
        return T(static_cast<float>(y));
      }
    }
  }

  Params params_;
};

}  // namespace

Refusal CanReference(const Problem& problem) {
  const DType t = problem.in[0].dtype;
  if (!DispatchDType<TENON_NUMERIC_TYPES>(t, [](auto) {})) return kRefuseDType;
  if (IsInteger(t)) {
    auto p = ParseParams(problem.op, problem.attrs);
    if (p.ok() && (p->alpha != 1 || p->beta != 1 || !p->activation.is_identity())) return kRefuseAttribute;
  }
  return nullptr;
}

Result<std::unique_ptr<Kernel>> MakeReference(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(Params p, ParseParams(problem.op, problem.attrs));
  return std::unique_ptr<Kernel>(new Reference(std::move(p)));
}

}  // namespace tenon::kernels::matmul
