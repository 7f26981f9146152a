// The bf16 rows: B is bf16, A and the residual bf16 or f32, sums f32. B is packed once when constant, else into scratch.
#include <algorithm>

#include "base/dtype.h"
#include "kernels/gemm/bf16.h"
#include "kernels/gemm/rows.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/transpose_a.h"
#include "kernels/refusals.h"

namespace tenon::kernels::matmul {
namespace {

bool IsF32(const View& v) {
  return v.dtype == DType::kF32;
}
size_t AlignBytes(int64_t bytes) {
  return static_cast<size_t>((bytes + 63) / 64 * 64);
}
const std::byte* Offset(const View& v, int64_t index) {
  return static_cast<const std::byte*>(v.data) + index * (IsF32(v) ? 4 : 2);
}
float FloatAt(const View& v, int64_t i) {
  return IsF32(v) ? v.Data<float>()[i] : static_cast<float>(v.Data<BFloat16>()[i]);
}

struct State final : ShapeState {
  Geometry g;
  int slots = 1;              // batches in flight, each with its own scratch
  size_t pack_bytes = 0;      // per slot
  size_t a_bytes = 0;         // per slot, A transposed
  size_t product_bytes = 0;   // per slot
  size_t addend_bytes = 0;    // bias or Gemm's C as f32, scaled and broadcast
  bool addend_is_row = true;

  size_t slot_bytes() const { return pack_bytes + a_bytes + product_bytes; }
};

class Bf16 final : public Kernel {
 public:
  Bf16(Params params, const gemm::Bf16Kernels& kernels, int threads)
      : params_(std::move(params)), kernels_(kernels), threads_(threads) {}

  Status PackConstant(const Problem& problem) {
    const View& b = *problem.in[1].data;
    const Shape& s = b.shape;
    if (s.rank() == 0) return BadInput("an operand of rank 0 has no matrix product");
    const int64_t rows = s.rank() == 1 ? s[0] : s.dim(-2);
    const int64_t cols = s.rank() == 1 ? 1 : s.dim(-1);
    const int64_t k = params_.trans_b ? cols : rows;
    const int64_t n = params_.trans_b ? rows : cols;
    const int64_t matrices = s.rank() <= 2 ? 1 : s.Product(0, s.rank() - 2);
    const int64_t each = gemm::Bf16PackedElements(k, n);
    const auto fill = [&](void* to) {
      for (int64_t i = 0; i < matrices; ++i) {
        gemm::PackBf16(kernels_, reinterpret_cast<const uint16_t*>(Offset(b, i * k * n)), k, n, params_.trans_b ? 1 : n,
                       params_.trans_b ? k : 1, static_cast<uint16_t*>(to) + i * each, 0, gemm::Bf16Panels(n));
      }
    };
    TENON_ASSIGN_OR_RETURN(packed_, PackedWeights(problem, static_cast<size_t>(each * matrices) * 2, fill));
    return Status::Ok();
  }

  Result<Configured> Configure(std::span<const View> in, std::span<const View> /*out*/) const override {
    auto state = std::make_unique<State>();
    TENON_ASSIGN_OR_RETURN(state->g, Resolve(params_, in[0].shape, in[1].shape));
    Geometry& g = state->g;
    TENON_RETURN_IF_ERROR(ConfigureAddends(in, state.get()));
    // One B for all batches: the rows of all batches are the rows of one product.
    if (g.batch > 1 && g.b_batch.num_elements() == 1 && g.a_batch.num_elements() == g.batch && !params_.trans_a) {
      g.m *= g.batch;
      g.batch = 1;
      g.batch_dims = g.a_batch = g.b_batch = Shape();
    }
    state->slots = static_cast<int>(std::clamp<int64_t>(g.batch, 1, threads_));
    if (packed_ == nullptr) state->pack_bytes = AlignBytes(gemm::Bf16PackedElements(g.k, g.n) * 2);
    if (params_.trans_a) state->a_bytes = AlignBytes(g.m * g.k * (IsF32(in[0]) ? 4 : 2));
    state->product_bytes = gemm::Bf16ScratchBytes(kernels_, g.m, g.k, OneBatchAtATime(*state) ? threads_ : 1);
    const size_t bytes = static_cast<size_t>(state->slots) * state->slot_bytes() + state->addend_bytes;
    return Configured{std::move(state), bytes};
  }

  Status Run(const RunArgs& args) const override {
    const auto& s = static_cast<const State&>(*args.state);
    gemm::Bf16Gemm base;
    base.m = s.g.m;
    base.n = s.g.n;
    base.k = s.g.k;
    base.a_f32 = IsF32(args.in[0]);
    base.a_stride = s.g.k;
    base.c_f32 = args.out[0].dtype == DType::kF32;
    base.c_stride = s.g.n;
    base.residual_stride = s.g.n;
    base.alpha = params_.alpha;
    base.activation = params_.activation;
    BindAddends(args, s, args.scratch + static_cast<size_t>(s.slots) * s.slot_bytes(), &base);
    if (OneBatchAtATime(s)) {
      Batches(args, s, base, args.team, args.scratch, 0, s.g.batch);
      return Status::Ok();
    }
    args.team.ParallelFor(s.slots, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t slot = begin; slot < end; ++slot) {
        hw::Team one(1);
        Batches(args, s, base, one, args.scratch + static_cast<size_t>(slot) * s.slot_bytes(), s.g.batch * slot / s.slots,
                s.g.batch * (slot + 1) / s.slots);
      }
    });
    return Status::Ok();
  }

  /// The residual: each of its elements is read just before the result at its place is written.
  uint32_t InPlaceInputs() const override { return 1U << 3; }
  size_t PackedBytes() const override { return packed_ ? packed_->bytes() : 0; }
  bool ConsumedConstant(size_t i) const override { return i == 1 && packed_ != nullptr; }

 private:
  bool OneBatchAtATime(const State& s) const { return s.slots <= 1 || s.g.batch < threads_; }

  Status ConfigureAddends(std::span<const View> in, State* s) const {
    const Geometry& g = s->g;
    if (in.size() > 3 && in[3].present() && !(in[3].shape == g.y)) {
      return BadInput("residual of shape {}; {} is needed", in[3].shape.ToString(), g.y.ToString());
    }
    if (in.size() <= 2 || !in[2].present()) return Status::Ok();
    const Shape& c = in[2].shape;
    if (!params_.is_gemm) {
      if (c.rank() != 1 || c[0] != g.n) return BadInput("bias of shape {}; [{}] is needed", c.ToString(), g.n);
      if (!IsF32(in[2])) s->addend_bytes = AlignBytes(g.n * 4);
      return Status::Ok();
    }
    bool fits = c.rank() <= 2;
    for (int i = 1; fits && i <= c.rank(); ++i) fits = c.dim(-i) == 1 || c.dim(-i) == (i == 1 ? g.n : g.m);
    if (!fits) return BadInput("C of shape {}; it must broadcast to {}", c.ToString(), g.y.ToString());
    s->addend_is_row = c.rank() < 2 || c.dim(-2) == 1;
    s->addend_bytes = AlignBytes((s->addend_is_row ? g.n : g.m * g.n) * 4);
    return Status::Ok();
  }

  void BindAddends(const RunArgs& args, const State& s, std::byte* scratch, gemm::Bf16Gemm* base) const {
    if (args.Has(3)) {
      base->residual = args.in[3].data;
      base->residual_f32 = IsF32(args.in[3]);
    }
    if (!args.Has(2)) return;
    if (s.addend_bytes == 0) {
      base->bias = args.in[2].Data<float>();
      return;
    }
    auto* addend = reinterpret_cast<float*>(scratch);
    const Shape& shape = args.in[2].shape;
    const int64_t rows = s.addend_is_row ? 1 : s.g.m;
    const int64_t col_stride = shape.rank() >= 1 && shape.dim(-1) != 1 ? 1 : 0;
    const int64_t row_stride = shape.rank() >= 2 && shape.dim(-2) != 1 ? shape.dim(-1) : 0;
    const float beta = params_.is_gemm ? params_.beta : 1;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < s.g.n; ++i) addend[r * s.g.n + i] = beta * FloatAt(args.in[2], r * row_stride + i * col_stride);
    }
    if (s.addend_is_row) {
      base->bias = addend;
    } else {
      base->residual = addend;
      base->residual_f32 = true;
    }
  }

  void Batches(const RunArgs& args, const State& s, gemm::Bf16Gemm product, hw::Team& team, std::byte* scratch, int64_t begin,
               int64_t end) const {
    const Geometry& g = s.g;
    const auto* residual = static_cast<const std::byte*>(product.residual);
    auto* y = static_cast<std::byte*>(args.out[0].data);
    int64_t have_b = -1;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t ia = OperandBatch(g.batch_dims, g.a_batch, i);
      const int64_t ib = OperandBatch(g.batch_dims, g.b_batch, i);
      product.a = Offset(args.in[0], ia * g.m * g.k);
      product.c = y + i * g.m * g.n * (product.c_f32 ? 4 : 2);
      if (residual != nullptr) product.residual = residual + i * g.m * g.n * (product.residual_f32 ? 4 : 2);
      if (params_.trans_a) {
        std::byte* to = scratch + s.pack_bytes;
        if (product.a_f32) {
          TransposeA(static_cast<const float*>(product.a), g, reinterpret_cast<float*>(to), team);
        } else {
          TransposeA(static_cast<const uint16_t*>(product.a), g, reinterpret_cast<uint16_t*>(to), team);
        }
        product.a = to;
      }
      if (packed_ != nullptr) {
        product.b = static_cast<const uint16_t*>(packed_->data()) + ib * gemm::Bf16PackedElements(g.k, g.n);
      } else {
        auto* to = reinterpret_cast<uint16_t*>(scratch);
        if (ib != have_b) PackB(reinterpret_cast<const uint16_t*>(Offset(args.in[1], ib * g.k * g.n)), g, to, team);
        product.b = to;
        have_b = ib;
      }
      gemm::RunBf16(kernels_, product, scratch + s.pack_bytes + s.a_bytes, team);
    }
  }

  void PackB(const uint16_t* b, const Geometry& g, uint16_t* to, hw::Team& team) const {
    const int64_t each = std::max<int64_t>(1, gemm::Bf16PanelElements(g.k));
    team.ParallelFor(gemm::Bf16Panels(g.n), std::max<int64_t>(1, kCopyGrain / each), [&](int64_t p0, int64_t p1, int) {
      gemm::PackBf16(kernels_, b, g.k, g.n, params_.trans_b ? 1 : g.n, params_.trans_b ? g.k : 1, to, p0, p1);
    });
  }

  Params params_;
  const gemm::Bf16Kernels& kernels_;
  int threads_;
  std::shared_ptr<Buffer> packed_;
};

Result<std::unique_ptr<Kernel>> Make(const Problem& problem, hw::IsaMask isa) {
  TENON_ASSIGN_OR_RETURN(Params p, ParseParams(problem.op, problem.attrs));
  auto kernel = std::make_unique<Bf16>(std::move(p), gemm::SelectBf16(isa), problem.threads);
  if (problem.IsConst(1)) TENON_RETURN_IF_ERROR(kernel->PackConstant(problem));
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace

Refusal CanBf16(const Problem& problem) {
  if (problem.in[1].dtype != DType::kBF16) return kRefuseDType;
  for (const ValueInfo& v : problem.in) {
    if (v.present && v.dtype != DType::kBF16 && v.dtype != DType::kF32) return kRefuseDType;
  }
  return nullptr;
}
Result<std::unique_ptr<Kernel>> MakeBf16Amx(const Problem& problem) {
  return Make(problem, gemm::kNeedsAmx);
}
Result<std::unique_ptr<Kernel>> MakeBf16Avx512Bf16(const Problem& problem) {
  return Make(problem, gemm::kNeedsAvx512Bf16);
}
Result<std::unique_ptr<Kernel>> MakeBf16Avx512(const Problem& problem) {
  return Make(problem, hw::kAvx2 | hw::kAvx512);
}
Result<std::unique_ptr<Kernel>> MakeBf16Avx2(const Problem& problem) {
  return Make(problem, hw::kAvx2);
}
Result<std::unique_ptr<Kernel>> MakeBf16Portable(const Problem& problem) {
  return Make(problem, hw::kBaseline);
}

}  // namespace tenon::kernels::matmul
