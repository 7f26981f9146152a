// The bf16 rows of depthwise convolutions, channels last: sums in f32, rounded as they are stored, or pieces of lines in f32 that
// are activated and narrowed while they are in the L1 cache. Weights become f32 when they are packed.
#include <algorithm>

#include "base/dtype.h"
#include "kernels/conv/depthwise_lines.h"
#include "kernels/gemm/bf16.h"
#include "kernels/gemm/gemm.h"
#include "kernels/refusals.h"

namespace tenon::kernels::conv {
namespace {

constexpr int64_t kGrain = 16 * 1024;  // elements worth another thread

struct State final : ShapeState {
  Geometry g;
  Plane plane;
  int64_t weight_floats = 0;  // scratch for weights known at run time only
  int64_t bias_floats = 0;
  int64_t x_floats = 0;  // room for x in bf16 when it is f32
  int64_t line_floats = 0;  // of each thread
};

class DepthwiseBf16 final : public Kernel {
 public:
  DepthwiseBf16(Params params, hw::IsaMask isa, int threads)
      : params_(std::move(params)),
        kernels_(gemm::Select(isa)),
        bf16_(gemm::SelectBf16(isa)),
        depthwise_(SelectDepthwise(isa)),
        threads_(std::max(1, threads)) {}

  Status PackConstant(const View& w) {
    const int64_t taps = w.shape.Product(2, w.shape.rank());
    packed_ = Buffer::Allocate(static_cast<size_t>(gemm::PackedFloats(kernels_, taps, w.shape[0])) * sizeof(float));
    if (packed_ == nullptr) return ResourceLimit("no memory for {} packed weights", w.shape.num_elements());
    PackInto(w.Data<BFloat16>(), w.shape[0], taps, static_cast<float*>(packed_->data()));
    return Status::Ok();
  }

  Result<Configured> Configure(std::span<const View> in, std::span<const View> out) const override {
    auto s = std::make_unique<State>();
    TENON_ASSIGN_OR_RETURN(s->g, Resolve(params_, in[0].shape, in[1].shape));
    const Geometry& g = s->g;
    TENON_RETURN_IF_ERROR(CheckAddends(g, in));
    if (g.spatial > 3) return Unsupported("convolution over {} spatial axes; at most 3", g.spatial);
    s->plane = Plane(g);
    if (g.group != g.c || g.oc != g.c || s->plane.kernel[0] != 1) {
      return Unsupported("convolution of {} channels in {} groups: {}", g.c, g.group, kRefuseSize);
    }
    if (packed_ == nullptr) s->weight_floats = gemm::AlignFloats(gemm::PackedFloats(kernels_, g.taps(), g.oc));
    if (in.size() > 2 && in[2].present() && in[2].dtype != DType::kF32) s->bias_floats = gemm::AlignFloats(g.oc);
    if (in[0].dtype == DType::kF32) s->x_floats = gemm::AlignFloats((in[0].num_elements() + 32) / 2);
    const DepthwiseCut cut(s->plane, kernels_.lanes);
    if (out[0].dtype == DType::kBF16 && DepthwiseActivation(params_.activation).needs_rest) {
      s->line_floats = gemm::AlignFloats(std::min(cut.columns, g.out[g.spatial - 1]) * cut.channels + 32);
    }
    const int64_t floats = s->weight_floats + s->bias_floats + s->x_floats + threads_ * s->line_floats;
    return Configured{std::move(s), static_cast<size_t>(floats) * sizeof(float)};
  }

  Status Run(const RunArgs& args) const override {
    const auto& s = static_cast<const State&>(*args.state);
    auto* weights = reinterpret_cast<float*>(args.scratch);
    float* bias = weights + s.weight_floats;
    float* x = bias + s.bias_floats;
    Operands o{};
    o.packed = packed_ != nullptr ? static_cast<const float*>(packed_->data()) : weights;
    if (packed_ == nullptr) PackInto(args.in[1].Data<BFloat16>(), s.g.oc, s.g.taps(), weights);
    o.x = args.in[0].Data<uint16_t>();
    if (s.x_floats > 0) {
      auto* rounded = reinterpret_cast<uint16_t*>(x);
      Round(args.in[0], rounded, args.team);
      o.x = rounded;
    }
    if (args.Has(2)) o.bias = args.in[2].Data<float>();
    if (s.bias_floats > 0) {
      for (int64_t i = 0; i < s.g.oc; ++i) bias[i] = static_cast<float>(args.in[2].Data<BFloat16>()[i]);
      o.bias = bias;
    }
    o.residual = args.Has(3) ? args.in[3].Data<uint16_t>() : nullptr;
    o.y = args.out[0].data;
    o.lines = x + s.x_floats;
    Lines(s, o, args.out[0].dtype == DType::kF32, args.team);
    return Status::Ok();
  }

  /// The residual: each of its elements is read just before the result at its place is written.
  uint32_t InPlaceInputs() const override { return 1U << 3; }
  size_t PackedBytes() const override { return packed_ ? packed_->bytes() : 0; }
  bool ConsumedConstant(size_t i) const override { return i == 1 && packed_ != nullptr; }

 private:
  struct Operands {
    const uint16_t* x;
    const float* packed;
    const float* bias;
    const uint16_t* residual;
    void* y;
    float* lines;
  };

  void PackInto(const BFloat16* w, int64_t oc, int64_t taps, float* to) const {
    const int64_t step = gemm::PackedFloats(kernels_, 1, oc);
    for (int64_t t = 0; t < taps; ++t) {
      for (int64_t c = 0; c < step; ++c) to[t * step + c] = c < oc ? static_cast<float>(w[c * taps + t]) : 0.0F;
    }
  }

  void Round(const View& from, uint16_t* to, hw::Team& team) const {
    team.ParallelFor(from.num_elements(), kGrain,
                     [&](int64_t begin, int64_t end, int) { bf16_.narrow(from.Data<float>() + begin, end - begin, to + begin); });
  }

  void Lines(const State& s, const Operands& o, bool y_f32, hw::Team& team) const {
    const Plane& p = s.plane;
    const DepthwiseActivation activation(params_.activation);
    const int64_t lines = p.n * p.out[0] * p.out[1];
    const DepthwiseCut cut(p, kernels_.lanes);
    // Scratch was sized for the threads that make() was told of.
    const int64_t grain = team.size() > threads_ ? lines : cut.line_grain;
    team.ParallelFor(lines, grain, [&](int64_t begin, int64_t end, int thread) {
      auto d = DepthwiseLineFor<uint16_t>(p, activation, gemm::PackedFloats(kernels_, 1, p.c));
      for (int64_t strip = 0; strip < p.out[2]; strip += cut.columns) {
        d.begin = strip;
        d.end = std::min(p.out[2], strip + cut.columns);
        for (int64_t c = 0; c < p.c; c += cut.channels) {
          d.channels = std::min(cut.channels, p.c - c);
          d.bias = o.bias != nullptr ? o.bias + c : nullptr;
          for (int64_t line = begin; line < end; ++line) {
            BindDepthwise(p, o.x, o.packed, o.residual, line, c, &d);
            const int64_t at = (line * p.out[2] + strip) * p.c + c;
            if (!activation.needs_rest) {
              d.y = static_cast<std::byte*>(o.y) + at * (y_f32 ? 4 : 2);
              d.y_f32 = y_f32;
              d.y_step = p.c;
              depthwise_.bf16(d);
              continue;
            }
            float* y = y_f32 ? static_cast<float*>(o.y) + at : o.lines + thread * s.line_floats;
            d.y = y;
            d.y_f32 = true;
            d.y_step = y_f32 ? p.c : d.channels;
            depthwise_.bf16(d);
            kernels_.activate(activation.clamp.rest, y, d.end - d.begin, d.channels, d.y_step);
            if (!y_f32) Narrow(d, y, static_cast<uint16_t*>(o.y) + at, p.c);
          }
        }
      }
    });
  }

  void Narrow(const DepthwiseLineBf16& d, const float* from, uint16_t* y, int64_t y_step) const {
    const int64_t pixels = d.end - d.begin;
    for (int64_t i = 0; i < pixels; ++i) bf16_.narrow(from + i * d.channels, d.channels, y + i * y_step);
  }

  Params params_;
  const gemm::MicroKernels& kernels_;
  const gemm::Bf16Kernels& bf16_;
  const DepthwiseKernels& depthwise_;
  int threads_;
  std::shared_ptr<Buffer> packed_;
};

Result<std::unique_ptr<Kernel>> Make(const Problem& problem, hw::IsaMask isa) {
  TENON_ASSIGN_OR_RETURN(Params p, ParseParams(problem.op, problem.attrs));
  auto kernel = std::make_unique<DepthwiseBf16>(std::move(p), isa, problem.threads);
  if (problem.IsConst(1)) TENON_RETURN_IF_ERROR(kernel->PackConstant(*problem.in[1].data));
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace

Refusal CanDepthwiseBf16(const Problem& problem) {
  if (const Refusal refusal = CanBf16(problem)) return refusal;
  if (problem.attrs.String("data_layout", "NCHW") != "NHWC") return kRefuseLayout;
  if (problem.Has(3) && problem.in[3].dtype != DType::kBF16) return kRefuseDType;
  return CheckOneEach(problem);
}
Result<std::unique_ptr<Kernel>> MakeDepthwiseBf16Avx512Bf16(const Problem& p) {
  return Make(p, hw::kAvx2 | hw::kAvx512 | hw::kAvx512Bf16);
}
Result<std::unique_ptr<Kernel>> MakeDepthwiseBf16Avx512(const Problem& p) {
  return Make(p, hw::kAvx2 | hw::kAvx512);
}
Result<std::unique_ptr<Kernel>> MakeDepthwiseBf16Avx2(const Problem& p) {
  return Make(p, hw::kAvx2);
}
Result<std::unique_ptr<Kernel>> MakeDepthwiseBf16Portable(const Problem& p) {
  return Make(p, hw::kBaseline);
}

}  // namespace tenon::kernels::conv
