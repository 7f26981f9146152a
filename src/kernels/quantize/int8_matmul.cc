// MatMulInteger, QLinearMatMul and QuantizedMatMul with constant B of rank 2, on the byte products of gemm/.
#include <algorithm>

#include "kernels/kernel_util.h"
#include "kernels/matmul/matmul.h"
#include "kernels/quantize/int8.h"
#include "kernels/quantize/simd.h"
#include "kernels/quantize/terms.h"

namespace tenon::kernels::quantize {
namespace {

constexpr int64_t kGrain = 32 * 1024;   // bytes worth another thread

int64_t RoundUp(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

struct State final : ShapeState {
  int64_t rows = 0;
  gemm::Int8Product product;
  bool copied = false;        // A is quantised into scratch
  size_t a_bytes = 0;         // scratch for it
};

class Int8MatMul final : public Kernel {
 public:
  Int8MatMul(std::string_view op, hw::IsaMask isa, int threads)
      : fused_(IsFused(op)),
        linear_(LinearInputsOf(op)),
        isa_(isa),
        kernels_(gemm::SelectInt8(isa)),
        threads_(std::max(1, threads)) {}

  Status Prepare(const Problem& problem) {
    if (fused_) {
      TENON_ASSIGN_OR_RETURN(params_, ParseFused(problem.attrs));
    }
    const View& b = *problem.in[B()].data;
    gemm::Int8Weights w;
    w.b = b.Data<uint8_t>();
    w.is_unsigned = b.dtype == DType::kU8;
    const bool turned = params_.trans_b;
    w.n = b.shape[turned ? 0 : 1];
    w.inner = b.shape[turned ? 1 : 0];
    w.n_stride = turned ? w.inner : 1;
    w.inner_stride = turned ? 1 : w.n;
    TENON_ASSIGN_OR_RETURN(packed_, gemm::Int8Packed::Make(kernels_, w));
    return Status::Ok();
  }

  Result<Configured> Configure(std::span<const View> in, std::span<const View> /*out*/) const override {
    const Shape& a = in[0].shape;
    if (a.rank() < 2 || a.dim(-1) != packed_.depth()) {
      return BadInput("operand of shape {}; {} columns needed", a.ToString(), packed_.depth());
    }
    auto s = std::make_unique<State>();
    s->rows = a.Product(0, a.rank() - 1);
    const int64_t k = packed_.depth();
    s->copied = in[0].dtype == DType::kF32;
    gemm::Int8Walk walk;
    walk.rows = walk.pitch = walk.valid = std::max<int64_t>(1, s->rows);
    walk.row_stride = k;
    if (s->rows == 0) walk.planes = 0;
    s->product = gemm::Int8Product(kernels_, isa_, packed_, walk, {0}, s->rows * k, threads_);
    if (s->copied) s->a_bytes = static_cast<size_t>(RoundUp(s->rows * k + s->product.reach(), 64));
    const size_t bytes = ColumnBytes(packed_.n()) + s->a_bytes + s->product.scratch_bytes() + RoundUp(threads_ * 8, 64);
    return Configured{std::move(s), bytes};
  }

  Status Run(const RunArgs& args) const override {
    const auto& s = static_cast<const State&>(*args.state);
    if (s.rows == 0 || packed_.n() == 0) return Status::Ok();
    View row_zeros;
    if (!fused_ && args.Has(linear_.x_zero) && args.in[linear_.x_zero].num_elements() != 1) row_zeros = args.in[linear_.x_zero];
    if (row_zeros.present() && (linear_.requantize || row_zeros.num_elements() != s.rows)) {
      return BadInput("a_zero_point of shape {}; 1 or {} elements needed", row_zeros.shape.ToString(), s.rows);
    }
    Result<Terms> resolved = fused_ ? TermsOf(params_, args, packed_.n()) : TermsOf(linear_, args, packed_.n());
    if (!resolved.ok()) return std::move(resolved).TakeStatus();
    Terms& terms = *resolved;
    std::byte* scratch = args.scratch;
    std::byte* columns = scratch;
    auto* a = reinterpret_cast<uint8_t*>(columns + ColumnBytes(packed_.n()));
    auto* ranges = reinterpret_cast<float*>(a + s.a_bytes);
    std::byte* rest = reinterpret_cast<std::byte*>(ranges) + RoundUp(threads_ * 8, 64);
    const View& x = args.in[0];
    if (params_.dynamic) terms.x = Range(x, ranges, args.team);
    gemm::Int8Operands o;
    o.a = x.Data<uint8_t>();
    o.a_end = o.a + x.bytes();
    if (s.copied) {
      args.team.ParallelFor(s.rows * packed_.depth(), kGrain, [&](int64_t begin, int64_t end, int) {
        QuantizeRow(x.Data<float>() + begin, DType::kF32, terms.x, end - begin, isa_, a + begin);
      });
      o.a = a;
      o.a_end = a + s.a_bytes;
    }
    Bind(terms, kernels_.flips_signed, packed_.sums(), packed_.depth(), args.out[0].data, terms.residual_view.data, columns, &o);
    s.product.Run(packed_, o, rest, args.team);
    if (row_zeros.present()) TakeOff(row_zeros, o.finish, args.out[0]);
    return Status::Ok();
  }

  uint32_t InPlaceInputs() const override { return fused_ ? 1U << kFusedResidual : 0; }
  size_t PackedBytes() const override { return packed_.bytes(); }
  bool ConsumedConstant(size_t i) const override { return i == B(); }

 private:
  size_t B() const { return fused_ ? kFusedW : linear_.w; }

  // y[r][c] -= zero[r] * sum of (b - its zero point) in column c.
  void TakeOff(const View& zeros, const gemm::Int8Finish& f, MutView& y) const {
    auto* sums = y.Data<uint32_t>();
    for (int64_t r = 0; r < zeros.num_elements(); ++r, sums += packed_.n()) {
      const auto zero = static_cast<uint32_t>(LoadInt(zeros.dtype, zeros.data, r));
      for (int64_t c = 0; c < packed_.n(); ++c) {
        const int64_t zb = f.b_zero != nullptr ? f.b_zero[c] : 0;
        sums[c] -= zero * static_cast<uint32_t>(packed_.sums()[static_cast<size_t>(c)] - packed_.depth() * zb);
      }
    }
  }

  // As DynamicQuantizeLinear has it.
  Grid Range(const View& x, float* ranges, hw::Team& team) const {
    const auto* from = x.Data<float>();
    const int64_t n = x.num_elements();
    std::fill(ranges, ranges + 2 * threads_, 0.0F);
    const int64_t grain = team.size() <= threads_ ? kGrain : n;
    team.ParallelFor(n, grain,
                     [&](int64_t b, int64_t e, int t) { MinMaxOf(from + b, e - b, isa_, ranges + 2 * t, ranges + 2 * t + 1); });
    float low = 0, high = 0;
    for (int t = 0; t < threads_; ++t) {
      low = std::min(low, ranges[2 * t]);
      high = std::max(high, ranges[2 * t + 1]);
    }
    const float scale = (high == low ? 1.0F : high - low) / 255.0F;
    return {DType::kU8, scale, RoundSaturate(-low / scale, 0, 0, 255)};
  }

  bool fused_;
  LinearInputs linear_;
  FusedParams params_;
  hw::IsaMask isa_;
  const gemm::Int8Kernels& kernels_;
  int threads_;
  gemm::Int8Packed packed_;
};

}  // namespace

Refusal CanInt8MatMul(const Problem& problem) {
  const bool fused = IsFused(problem.op);
  const LinearInputs in = LinearInputsOf(problem.op);
  const size_t b = fused ? kFusedW : in.w;
  if (!problem.IsConst(b)) return kRefuseWeightsNotConstant;
  const SymShape& a = problem.in[0].shape;
  if (problem.in[b].data->shape.rank() != 2 || !a.has_rank() || a.rank() < 2) return kRefuseRank;
  if (problem.in[b].data->num_elements() == 0) return kRefuseSize;
  if (fused) return nullptr;
  // Quantities per row.
  for (size_t i : {in.x_zero, in.x_scale, in.y_scale, in.y_zero}) {
    if (i == 0 || !problem.Has(i)) continue;
    if (i == in.x_zero && !in.requantize && a.rank() == 2) continue;   // zero points of rows are taken off afterwards
    if (!problem.in[i].shape.has_rank() || !problem.in[i].shape.NumElements().Is(1)) return kRefuseLayout;
  }
  return nullptr;
}

Result<std::unique_ptr<Kernel>> MakeInt8MatMulOn(const Problem& problem, hw::IsaMask isa) {
  auto kernel = std::make_unique<Int8MatMul>(problem.op, isa, problem.threads);
  TENON_RETURN_IF_ERROR(kernel->Prepare(problem));
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace tenon::kernels::quantize
