// DequantizeLinear to f32 with a scale for each block along an axis, as the weights of language models have it.
#include <algorithm>

#include "kernels/kernel_util.h"
#include "kernels/quantize/quantize.h"

namespace tenon::kernels::quantize {
namespace {

constexpr int64_t kGrain = 16384;

// Elements [at, at + n) of x, packed `kBits` each, with one scale and zero point: each value is looked up.
template <int kBits, bool kSigned>
void LookUp(const uint8_t* x, int64_t at, int64_t n, float scale, int32_t zero, float* y) {
  constexpr int kValues = 1 << kBits, kPerByte = 8 / kBits;
  float table[kValues];
  for (int v = 0; v < kValues; ++v) {
    table[v] = static_cast<float>((kSigned && v >= kValues / 2 ? v - kValues : v) - zero) * scale;
  }
  const auto one = [&](int64_t i) { return table[(x[(at + i) / kPerByte] >> ((at + i) % kPerByte * kBits)) & (kValues - 1)]; };
  int64_t i = 0;
  for (; i < n && (at + i) % kPerByte != 0; ++i) y[i] = one(i);
  for (; i + kPerByte <= n; i += kPerByte) {
    const unsigned byte = x[(at + i) / kPerByte];
    for (int k = 0; k < kPerByte; ++k) y[i + k] = table[(byte >> (k * kBits)) & (kValues - 1)];
  }
  for (; i < n; ++i) y[i] = one(i);
}

template <typename T>
void Scale(const T* x, int64_t at, int64_t n, float scale, int32_t zero, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(x[at + i] - zero) * scale;
}

void Block(DType t, const void* x, int64_t at, int64_t n, float scale, int32_t zero, float* y) {
  const auto* bytes = static_cast<const uint8_t*>(x);
  switch (t) {
    case DType::kU2: return LookUp<2, false>(bytes, at, n, scale, zero, y);
    case DType::kI2: return LookUp<2, true>(bytes, at, n, scale, zero, y);
    case DType::kU4: return LookUp<4, false>(bytes, at, n, scale, zero, y);
    case DType::kI4: return LookUp<4, true>(bytes, at, n, scale, zero, y);
    case DType::kI8: return Scale(static_cast<const int8_t*>(x), at, n, scale, zero, y);
    default: return Scale(bytes, at, n, scale, zero, y);
  }
}

class Blocks final : public Kernel {
 public:
  explicit Blocks(LinearParams p) : p_(p) {}

  Status Run(const RunArgs& args) const override {
    const View &x = args.in[0], zero = args.Has(2) ? args.in[2] : View{};
    TENON_ASSIGN_OR_RETURN(const Granularity g, ResolveGranularity(p_, x.shape, args.in[1].shape));
    const float* scale = args.in[1].Data<float>();
    float* y = args.out[0].Data<float>();
    const auto zero_at = [&](int64_t i) { return zero.present() ? LoadInt(zero.dtype, zero.data, i) : 0; };
    const int64_t row = g.extent * g.inner;
    args.team.ParallelFor(g.outer, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, row)), [&](int64_t b, int64_t e, int) {
      for (int64_t o = b; o < e; ++o) {
        // With inner axes neighbours have scales of their own: blocks of one element.
        const int64_t step = g.inner == 1 ? g.block : 1;
        for (int64_t a = 0; a < g.extent; a += step) {
          for (int64_t i = 0; i < g.inner; ++i) {
            const int64_t s = g.ScaleIndex(o, a, i), at = (o * g.extent + a) * g.inner + i;
            Block(x.dtype, x.data, at, std::min(step, g.extent - a), scale[s], zero_at(s), y + at);
          }
        }
      }
    });
    return Status::Ok();
  }

 private:
  LinearParams p_;
};

bool Served(DType t) {
  return t == DType::kU8 || t == DType::kI8 || t == DType::kU4 || t == DType::kI4 || t == DType::kU2 || t == DType::kI2;
}

}  // namespace

Refusal CanBlocks(const Problem& p) {
  if (p.attrs.Int("block_size", 0) <= 0) return kRefuseAttribute;
  return Served(p.in[0].dtype) && p.in[1].dtype == DType::kF32 && p.out[0].dtype == DType::kF32 ? nullptr : kRefuseDType;
}

Result<std::unique_ptr<Kernel>> MakeBlocks(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(const LinearParams p, ParseLinear(problem.op, problem.attrs));
  return std::unique_ptr<Kernel>(new Blocks(p));
}

}  // namespace tenon::kernels::quantize
