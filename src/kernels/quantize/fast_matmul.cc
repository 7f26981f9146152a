// MatMulInteger and QLinearMatMul with constant B of rank 2: u8 x s8 tiles, exact in int32.
//
// int8 A is read as a + 128 (uint8) and uint8 B as b - 128 (int8), which only shifts their zero points. Then
//   sum (a - za)(b - zb) = sum a b - za sum b - zb sum a + k za zb
// with the column sums of B made once and the row sums of A made in each run.
#include <algorithm>
#include <cstring>

#include "kernels/kernel_util.h"
#include "kernels/quantize/matmul.h"
#include "kernels/quantize/simd.h"

namespace tenon::kernels::quantize {
namespace {

int64_t RoundUp(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

int64_t RowsOf(const Shape& a) {
  return a.Product(0, a.rank() - 1);
}

class FastMatMul final : public Kernel {
 public:
  FastMatMul(MatMulInputs m, const Simd& simd) : m_(m), simd_(simd) {}

  Status Prepare(const Problem& problem) {
    const View& b = *problem.in[m_.b].data;
    k_ = b.shape[0];
    n_ = b.shape[1];
    groups_ = (k_ + 3) / 4;
    const int64_t columns = simd_.columns;
    panels_ = (n_ + columns - 1) / columns;
    packed_ = Buffer::Allocate(static_cast<size_t>(panels_ * groups_ * columns * 4));
    if (packed_ == nullptr) return ResourceLimit("no memory for packed weights");
    std::memset(packed_->data(), 0, packed_->bytes());
    sums_.assign(static_cast<size_t>(panels_ * columns), 0);
    flip_b_ = b.dtype == DType::kU8;
    auto* to = static_cast<int8_t*>(packed_->data());
    for (int64_t k = 0; k < k_; ++k) {
      for (int64_t j = 0; j < n_; ++j) {
        const int32_t v = LoadInt(b.dtype, b.data, k * n_ + j) - (flip_b_ ? 128 : 0);
        to[((j / columns * groups_ + k / 4) * columns + j % columns) * 4 + k % 4] = static_cast<int8_t>(v);
        sums_[static_cast<size_t>(j)] += static_cast<uint32_t>(v);
      }
    }
    return {};
  }

  Result<Configured> Configure(std::span<const View> in, std::span<const View> /*out*/) const override {
    const int64_t rows = RowsOf(in[m_.a].shape);
    Configured c;
    c.scratch_bytes =
        static_cast<size_t>(RoundUp(rows * groups_ * 4, 64) + RoundUp(rows * 4, 64) + RoundUp(panels_ * simd_.columns * 8, 64));
    return c;
  }

  Status Run(const RunArgs& args) const override;

  size_t PackedBytes() const override { return packed_->bytes() + sums_.size() * sizeof(uint32_t); }
  bool ConsumedConstant(size_t i) const override { return i == m_.b; }

 private:
  struct Call;
  void Block(const Call& call, int64_t row, int count, int64_t panel) const;

  MatMulInputs m_;
  const Simd& simd_;
  int64_t k_ = 0, n_ = 0, groups_ = 0, panels_ = 0;
  bool flip_b_ = false;
  std::shared_ptr<Buffer> packed_;
  std::vector<uint32_t> sums_;   // of each column of B as packed
};

// What one run works with.
struct FastMatMul::Call {
  const RunArgs& args;
  int64_t rows;
  bool flip_a;
  const uint8_t* a;         // [rows][groups * 4]
  const uint32_t* a_sums;
  const int32_t* b_zero;    // of each column, as packed
  const float* b_scale;     // of each column
  View a_zero, a_scale, y_scale, y_zero;
  PerLine az, as, ys, yz;   // over all rows of A
};

void FastMatMul::Block(const Call& call, int64_t row, int count, int64_t panel) const {
  const int columns = simd_.columns;
  alignas(64) int32_t c[kMaxTileRows * kMaxTileColumns];
  const int64_t stride = groups_ * 4;
  simd_.tile(count, call.a + row * stride, stride, groups_,
             static_cast<const int8_t*>(packed_->data()) + panel * groups_ * columns * 4, c);
  const int64_t first = panel * columns;
  const int64_t width = std::min<int64_t>(columns, n_ - first);
  MutView& y = call.args.out[0];
  for (int i = 0; i < count; ++i) {
    const int64_t r = row + i;
    const int32_t given = call.a_zero.present() ? LoadInt(call.a_zero.dtype, call.a_zero.data, call.az.Index(0, r)) : 0;
    const auto za = static_cast<uint32_t>(given + (call.flip_a ? 128 : 0));
    int32_t* sum = c + i * columns;
    simd_.correct(sum, width, call.b_zero + first, sums_.data() + first, call.a_sums[r] - static_cast<uint32_t>(k_) * za, za,
                  nullptr);
    if (!m_.requantize) {
      std::memcpy(y.Data<int32_t>() + r * n_ + first, sum, static_cast<size_t>(width) * sizeof(int32_t));
      continue;
    }
    simd_.requantize(sum, width, LoadFloat(call.a_scale.dtype, call.a_scale.data, call.as.Index(0, r)), call.b_scale + first,
                     LoadFloat(call.y_scale.dtype, call.y_scale.data, call.ys.Index(0, r)),
                     LoadInt(call.y_zero.dtype, call.y_zero.data, call.yz.Index(0, r)), y.dtype == DType::kI8,
                     y.Data<uint8_t>() + r * n_ + first);
  }
}

Status FastMatMul::Run(const RunArgs& args) const {
  const View& a = args.in[m_.a];
  const int64_t rows = RowsOf(a.shape);
  const auto in = [&](size_t i) { return i != 0 && args.Has(i) ? args.in[i] : View{}; };
  const int64_t stride = groups_ * 4;
  auto* bytes = reinterpret_cast<uint8_t*>(args.scratch);
  auto* a_sums = reinterpret_cast<uint32_t*>(bytes + RoundUp(rows * stride, 64));
  auto* b_zero = reinterpret_cast<int32_t*>(reinterpret_cast<uint8_t*>(a_sums) + RoundUp(rows * 4, 64));
  auto* b_scale = reinterpret_cast<float*>(b_zero + panels_ * simd_.columns);
  Call call{args,    rows,          a.dtype == DType::kI8, bytes,          a_sums,       b_zero,
            b_scale, in(m_.a_zero), in(m_.a_scale),        in(m_.y_scale), in(m_.y_zero)};
  TENON_ASSIGN_OR_RETURN(call.az, ResolvePerLine(call.a_zero, "a_zero_point", 1, rows));
  TENON_ASSIGN_OR_RETURN(call.as, ResolvePerLine(call.a_scale, "a_scale", 1, rows));
  TENON_ASSIGN_OR_RETURN(call.ys, ResolvePerLine(call.y_scale, "y_scale", 1, rows));
  TENON_ASSIGN_OR_RETURN(call.yz, ResolvePerLine(call.y_zero, "y_zero_point", 1, rows));
  const View bz = in(m_.b_zero), bs = in(m_.b_scale);
  TENON_ASSIGN_OR_RETURN(const PerLine bzl, ResolvePerLine(bz, "b_zero_point", 1, n_));
  TENON_ASSIGN_OR_RETURN(const PerLine bsl, ResolvePerLine(bs, "b_scale", 1, n_));
  for (int64_t j = 0; j < n_; ++j) {
    b_zero[j] = (bz.present() ? LoadInt(bz.dtype, bz.data, bzl.Index(0, j)) : 0) - (flip_b_ ? 128 : 0);
    b_scale[j] = bs.present() ? LoadFloat(bs.dtype, bs.data, bsl.Index(0, j)) : 1;
  }
  args.team.ParallelFor(rows, std::max<int64_t>(1, 65536 / std::max<int64_t>(1, k_)), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      a_sums[r] = simd_.flip_and_sum(a.Data<uint8_t>() + r * k_, k_, call.flip_a ? 0x80 : 0, bytes + r * stride);
      for (int64_t k = k_; k < stride; ++k) bytes[r * stride + k] = 0;
    }
  });
  const int64_t blocks = (rows + simd_.rows - 1) / simd_.rows;
  const int64_t work = simd_.rows * simd_.columns * std::max<int64_t>(1, k_);
  // Panel by panel, so that a thread keeps its panel of B in cache while rows go by.
  args.team.ParallelFor(panels_ * blocks, std::max<int64_t>(1, (1 << 19) / work), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i % blocks * simd_.rows;
      Block(call, row, static_cast<int>(std::min<int64_t>(simd_.rows, rows - row)), i / blocks);
    }
  });
  return {};
}

Result<std::unique_ptr<Kernel>> MakeOn(const Problem& problem, const Simd& simd) {
  auto kernel = std::make_unique<FastMatMul>(InputsOf(problem.op), simd);
  TENON_RETURN_IF_ERROR(kernel->Prepare(problem));
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace

Refusal CanFastMatMul(const Problem& problem) {
  const MatMulInputs m = InputsOf(problem.op);
  if (!problem.IsConst(m.b)) return kRefuseWeightsNotConstant;
  const SymShape& a = problem.in[m.a].shape;
  if (problem.in[m.b].data->shape.rank() != 2 || !a.has_rank() || a.rank() < 2) return kRefuseRank;
  if (problem.in[m.b].data->num_elements() == 0) return kRefuseSize;
  // Quantities per row of a batch with fewer elements than rows need the general index.
  const auto lone = [&](size_t i) {
    return i == 0 || !problem.Has(i) || (problem.in[i].shape.has_rank() && problem.in[i].shape.NumElements().Is(1));
  };
  const bool simple = lone(m.a_zero) && lone(m.a_scale) && lone(m.y_scale) && lone(m.y_zero);
  if (!simple && a.rank() != 2) return kRefuseLayout;
  return nullptr;
}

Result<std::unique_ptr<Kernel>> MakeMatMulAvx2(const Problem& p) {
  return MakeOn(p, kSimdAvx2);
}
Result<std::unique_ptr<Kernel>> MakeMatMulVnni(const Problem& p) {
  return MakeOn(p, kSimdAvx512Vnni);
}

}  // namespace tenon::kernels::quantize
