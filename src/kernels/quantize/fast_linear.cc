// QuantizeLinear and DequantizeLinear between f32 and bytes, and DynamicQuantizeLinear, on vectors.
#include <algorithm>

#include "kernels/kernel_util.h"
#include "kernels/quantize/quantize.h"
#include "kernels/quantize/simd.h"

namespace tenon::kernels::quantize {
namespace {

constexpr int64_t kGrain = 16384;

class FastLinear final : public Kernel {
 public:
  FastLinear(LinearParams p, const Simd& simd) : p_(p), simd_(simd) {}

  Status Run(const RunArgs& args) const override {
    TENON_ASSIGN_OR_RETURN(const Granularity g, ResolveGranularity(p_, args.in[0].shape, args.in[1].shape));
    const float* scale = args.in[1].Data<float>();
    const View zero = args.Has(2) ? args.in[2] : View{};
    const auto zero_at = [&](int64_t i) { return zero.present() ? LoadInt(zero.dtype, zero.data, i) : 0; };
    if (g.kind == Granularity::Kind::kTensor) {
      args.team.ParallelFor(g.inner, kGrain, [&](int64_t b, int64_t e, int) { Part(args, b, e - b, scale[0], zero_at(0)); });
      return {};
    }
    if (g.inner == 1) {   // a scale for each element of a row
      const auto* z = zero.Data<uint8_t>();
      args.team.ParallelFor(g.outer, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, g.extent)),
                            [&](int64_t b, int64_t e, int) {
                              for (int64_t o = b; o < e; ++o) Row(args, o * g.extent, g.extent, scale, z);
                            });
      return {};
    }
    args.team.ParallelFor(g.outer * g.extent, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, g.inner)),
                          [&](int64_t b, int64_t e, int) {
                            for (int64_t r = b; r < e; ++r)
                              Part(args, r * g.inner, g.inner, scale[r % g.extent], zero_at(r % g.extent));
                          });
    return {};
  }

 private:
  bool Signed(const RunArgs& args) const { return (p_.quantize ? args.out[0].dtype : args.in[0].dtype) == DType::kI8; }

  void Part(const RunArgs& args, int64_t at, int64_t n, float scale, int32_t zero) const {
    if (p_.quantize) {
      simd_.quantize(args.in[0].Data<float>() + at, n, scale, zero, Signed(args), args.out[0].Data<uint8_t>() + at);
    } else {
      simd_.dequantize(args.in[0].Data<uint8_t>() + at, n, scale, zero, Signed(args), args.out[0].Data<float>() + at);
    }
  }

  void Row(const RunArgs& args, int64_t at, int64_t n, const float* scale, const void* zero) const {
    if (p_.quantize) {
      simd_.quantize_each(args.in[0].Data<float>() + at, n, scale, zero, Signed(args), args.out[0].Data<uint8_t>() + at);
    } else {
      simd_.dequantize_each(args.in[0].Data<uint8_t>() + at, n, scale, zero, Signed(args), args.out[0].Data<float>() + at);
    }
  }

  LinearParams p_;
  const Simd& simd_;
};

class FastDynamic final : public Kernel {
 public:
  FastDynamic(const Simd& simd, int threads) : simd_(simd), threads_(threads) {}

  Result<Configured> Configure(std::span<const View> /*in*/, std::span<const View> /*out*/) const override {
    Configured c;
    c.scratch_bytes = static_cast<size_t>(threads_) * 2 * sizeof(float);
    return c;
  }

  Status Run(const RunArgs& args) const override {
    const float* x = args.in[0].Data<float>();
    const int64_t n = args.in[0].num_elements();
    auto* ranges = reinterpret_cast<float*>(args.scratch);
    std::fill(ranges, ranges + 2 * threads_, 0.0f);
    const int64_t grain = args.team.size() <= threads_ ? kGrain : std::max<int64_t>(n, 1);
    args.team.ParallelFor(n, grain,
                          [&](int64_t b, int64_t e, int t) { simd_.min_max(x + b, e - b, ranges + 2 * t, ranges + 2 * t + 1); });
    float low = 0, high = 0;
    for (int t = 0; t < threads_; ++t) {
      low = std::min(low, ranges[2 * t]);
      high = std::max(high, ranges[2 * t + 1]);
    }
    const float scale = (high == low ? 1.0f : high - low) / 255.0f;
    const int32_t zero = RoundSaturate(-low / scale, 0, 0, 255);
    args.team.ParallelFor(n, kGrain, [&](int64_t b, int64_t e, int) {
      simd_.quantize(x + b, e - b, scale, zero, false, args.out[0].Data<uint8_t>() + b);
    });
    if (Wants(args.out, 1)) *args.out[1].Data<float>() = scale;
    if (Wants(args.out, 2)) *args.out[2].Data<uint8_t>() = static_cast<uint8_t>(zero);
    return {};
  }

 private:
  const Simd& simd_;
  int threads_;
};

Result<std::unique_ptr<Kernel>> MakeLinearOn(const Problem& problem, const Simd& simd) {
  TENON_ASSIGN_OR_RETURN(const LinearParams p, ParseLinear(problem.op, problem.attrs));
  return std::unique_ptr<Kernel>(new FastLinear(p, simd));
}

}  // namespace

Refusal CanFastLinear(const Problem& problem) {
  const auto p = ParseLinear(problem.op, problem.attrs);
  if (!p.ok() || p->block_size != 0) return kRefuseAttribute;
  if (p->precision != DType::kUndefined && p->precision != DType::kF32) return kRefuseAttribute;
  const DType bytes = p->quantize ? problem.out[0].dtype : problem.in[0].dtype;
  const DType floats = p->quantize ? problem.in[0].dtype : problem.out[0].dtype;
  const bool served = (bytes == DType::kU8 || bytes == DType::kI8) && floats == DType::kF32 && problem.in[1].dtype == DType::kF32;
  return served ? nullptr : kRefuseDType;
}

Result<std::unique_ptr<Kernel>> MakeLinearAvx2(const Problem& p) {
  return MakeLinearOn(p, kSimdAvx2);
}
Result<std::unique_ptr<Kernel>> MakeLinearVnni(const Problem& p) {
  return MakeLinearOn(p, kSimdAvx512Vnni);
}
Result<std::unique_ptr<Kernel>> MakeDynamicAvx2(const Problem& p) {
  return std::unique_ptr<Kernel>(new FastDynamic(kSimdAvx2, std::max(1, p.threads)));
}
Result<std::unique_ptr<Kernel>> MakeDynamicVnni(const Problem& p) {
  return std::unique_ptr<Kernel>(new FastDynamic(kSimdAvx512Vnni, std::max(1, p.threads)));
}

}  // namespace tenon::kernels::quantize
