// The f32 rows: packed B (once when constant, else into scratch), the shared micro-kernels, epilogue in the tile.
#include <algorithm>

#include "base/dtype.h"
#include "kernels/gemm/gemm.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/transpose_a.h"
#include "kernels/refusals.h"

namespace tenon::kernels::matmul {
namespace {

struct State final : ShapeState {
  Geometry g;
  bool direct = false;          // read row-major B where it lies
  int slots = 1;                // batches in flight, each with its own scratch
  int64_t pack_floats = 0;      // per slot
  int64_t a_floats = 0;         // per slot, A transposed
  int64_t addend_floats = 0;    // Gemm's C, scaled and broadcast
  bool addend_is_row = false;
};

class Fast final : public Kernel {
 public:
  Fast(Params params, const gemm::MicroKernels& kernels, int threads)
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
    const int64_t each = gemm::PackedFloats(kernels_, k, n);
    const auto fill = [&](void* to) {
      for (int64_t i = 0; i < matrices; ++i) {
        gemm::Pack(kernels_, b.Data<float>() + i * k * n, k, n, params_.trans_b ? 1 : n, params_.trans_b ? k : 1, params_.alpha,
                   static_cast<float*>(to) + i * each);
      }
    };
    TENON_ASSIGN_OR_RETURN(packed_, PackedWeights(problem, static_cast<size_t>(each * matrices) * sizeof(float), fill));
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
    const int64_t max_rows = kernels_.max_rows[1];
    state->direct = packed_ == nullptr && !params_.trans_b && params_.alpha == 1 && g.n % kernels_.lanes == 0 && g.m <= max_rows;
    state->slots = static_cast<int>(std::clamp<int64_t>(g.batch, 1, threads_));
    if (packed_ == nullptr && !state->direct) state->pack_floats = gemm::AlignFloats(gemm::PackedFloats(kernels_, g.k, g.n));
    if (params_.trans_a) state->a_floats = gemm::AlignFloats(g.m * g.k);
    const int64_t floats = state->slots * (state->pack_floats + state->a_floats) + state->addend_floats;
    return Configured{std::move(state), static_cast<size_t>(floats) * sizeof(float)};
  }

  Status Run(const RunArgs& args) const override {
    const auto& s = static_cast<const State&>(*args.state);
    const Geometry& g = s.g;
    auto* scratch = reinterpret_cast<float*>(args.scratch);
    float* addend = scratch + s.slots * (s.pack_floats + s.a_floats);
    gemm::Gemm base;
    base.m = g.m;
    base.n = g.n;
    base.k = g.k;
    base.a_stride = g.k;
    base.c_stride = g.n;
    base.residual_stride = g.n;
    base.activation = params_.activation;
    BindAddends(args, s, addend, &base);
    if (g.batch >= 2 && s.slots > 1 && g.batch >= threads_) {
      args.team.ParallelFor(s.slots, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t slot = begin; slot < end; ++slot) {
          hw::Team one(1);
          Batches(args, s, base, one, scratch + slot * (s.pack_floats + s.a_floats), g.batch * slot / s.slots,
                  g.batch * (slot + 1) / s.slots);
        }
      });
    } else {
      Batches(args, s, base, args.team, scratch, 0, g.batch);
    }
    return Status::Ok();
  }

  /// The residual: each of its elements is read just before the result at its place is written.
  uint32_t InPlaceInputs() const override { return 1U << 3; }
  size_t PackedBytes() const override { return packed_ ? packed_->bytes() : 0; }
  bool ConsumedConstant(size_t i) const override { return i == 1 && packed_ != nullptr; }

 private:
  Status ConfigureAddends(std::span<const View> in, State* s) const {
    const Geometry& g = s->g;
    if (in.size() > 3 && in[3].present() && !(in[3].shape == g.y)) {
      return BadInput("residual of shape {}; {} is needed", in[3].shape.ToString(), g.y.ToString());
    }
    if (in.size() <= 2 || !in[2].present()) return Status::Ok();
    const Shape& c = in[2].shape;
    if (!params_.is_gemm) {
      if (c.rank() == 1 && c[0] == g.n) return Status::Ok();
      return BadInput("bias of shape {}; [{}] is needed", c.ToString(), g.n);
    }
    bool fits = c.rank() <= 2;
    for (int i = 1; fits && i <= c.rank(); ++i) fits = c.dim(-i) == 1 || c.dim(-i) == (i == 1 ? g.n : g.m);
    if (!fits) return BadInput("C of shape {}; it must broadcast to {}", c.ToString(), g.y.ToString());
    s->addend_is_row = c.rank() < 2 || c.dim(-2) == 1;
    const bool whole = c.num_elements() == (s->addend_is_row ? g.n : g.m * g.n);
    if (params_.beta != 1 || !whole) s->addend_floats = gemm::AlignFloats(s->addend_is_row ? g.n : g.m * g.n);
    return Status::Ok();
  }

  void BindAddends(const RunArgs& args, const State& s, float* addend, gemm::Gemm* base) const {
    if (args.Has(3)) base->residual = args.in[3].Data<float>();
    if (!args.Has(2)) return;
    const float* c = args.in[2].Data<float>();
    if (s.addend_floats > 0) {
      const Shape& shape = args.in[2].shape;
      const int64_t rows = s.addend_is_row ? 1 : s.g.m;
      const int64_t col_stride = shape.rank() >= 1 && shape.dim(-1) != 1 ? 1 : 0;
      const int64_t row_stride = shape.rank() >= 2 && shape.dim(-2) != 1 ? shape.dim(-1) : 0;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < s.g.n; ++i) addend[r * s.g.n + i] = params_.beta * c[r * row_stride + i * col_stride];
      }
      c = addend;
    }
    if (params_.is_gemm && !s.addend_is_row) {
      base->residual = c;
    } else {
      base->bias = c;
    }
  }

  void Batches(const RunArgs& args, const State& s, gemm::Gemm product, hw::Team& team, float* scratch, int64_t begin,
               int64_t end) const {
    const Geometry& g = s.g;
    const float* residual = product.residual;
    int64_t have_b = -1;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t ia = OperandBatch(g.batch_dims, g.a_batch, i);
      const int64_t ib = OperandBatch(g.batch_dims, g.b_batch, i);
      product.a = args.in[0].Data<float>() + ia * g.m * g.k;
      product.c = args.out[0].Data<float>() + i * g.m * g.n;
      if (residual != nullptr) product.residual = residual + i * g.m * g.n;
      if (params_.trans_a) {
        float* rows = scratch + s.pack_floats;
        TransposeA(product.a, g, rows, team);
        product.a = rows;
      }
      if (packed_ != nullptr) {
        product.b = static_cast<const float*>(packed_->data()) + ib * gemm::PackedFloats(kernels_, g.k, g.n);
      } else if (s.direct) {
        product.b = args.in[1].Data<float>() + ib * g.k * g.n;
        product.b_stride = g.n;
      } else if (ib != have_b) {
        PackB(args.in[1].Data<float>() + ib * g.k * g.n, g, scratch, team);
        product.b = scratch;
        have_b = ib;
      }
      gemm::RunParallel(kernels_, product, team);
    }
  }

  void PackB(const float* b, const Geometry& g, float* to, hw::Team& team) const {
    const gemm::Panels panels(kernels_, g.n);
    const int64_t each = std::max<int64_t>(1, g.k * kernels_.lanes * kernels_.max_vectors);
    team.ParallelFor(panels.count, std::max<int64_t>(1, kCopyGrain / each), [&](int64_t p0, int64_t p1, int) {
      gemm::PackPanels(kernels_, b, g.k, g.n, params_.trans_b ? 1 : g.n, params_.trans_b ? g.k : 1, params_.alpha, to, p0, p1);
    });
  }

  Params params_;
  const gemm::MicroKernels& kernels_;
  int threads_;
  std::shared_ptr<Buffer> packed_;
};

Result<std::unique_ptr<Kernel>> Make(const Problem& problem, hw::IsaMask isa) {
  TENON_ASSIGN_OR_RETURN(Params p, ParseParams(problem.op, problem.attrs));
  auto kernel = std::make_unique<Fast>(std::move(p), gemm::Select(isa), problem.threads);
  if (problem.IsConst(1)) TENON_RETURN_IF_ERROR(kernel->PackConstant(problem));
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace

Refusal CanF32(const Problem& problem) {
  return problem.in[0].dtype == DType::kF32 && problem.in[1].dtype != DType::kBF16 ? nullptr : kRefuseDType;
}
Result<std::unique_ptr<Kernel>> MakeAvx512(const Problem& problem) {
  return Make(problem, hw::kAvx2 | hw::kAvx512);
}
Result<std::unique_ptr<Kernel>> MakeAvx2(const Problem& problem) {
  return Make(problem, hw::kAvx2);
}
Result<std::unique_ptr<Kernel>> MakePortable(const Problem& problem) {
  return Make(problem, hw::kBaseline);
}

}  // namespace tenon::kernels::matmul
