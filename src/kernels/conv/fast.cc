// The f32 rows of Conv and FusedConv, channels last: depthwise line by line, 3 x 3 windows by Winograd where that pays,
// everything else as an implicit matrix product.
// Plain channels-first tensors are turned into scratch and back, image by image.
#include <algorithm>

#include "base/dtype.h"
#include "kernels/conv/depthwise_lines.h"
#include "kernels/conv/implicit.h"
#include "kernels/conv/winograd.h"
#include "kernels/refusals.h"

namespace tenon::kernels::conv {
namespace {

enum class Engine { kImplicit, kDepthwise, kWinograd };

const WinogradKernels& SelectWinograd(hw::IsaMask isa) {
#if defined(__x86_64__)
  if (hw::Covers(isa, hw::kAvx512)) return kWinogradAvx512;
  if (hw::Covers(isa, hw::kAvx2)) return kWinogradAvx2;
#endif
  (void)isa;
  return kWinogradPortable;
}

struct State final : ShapeState {
  Geometry g;
  Plane plane;          // of one image when channels come first
  Implicit implicit;
  Winograd winograd;
  bool use_winograd = false;
  bool pointwise = false;
  bool turn_in = false;
  bool turn_out = false;
  int64_t weight_floats = 0;   // scratch for weights known at run time only
  int64_t x_floats = 0;
  int64_t y_floats = 0;
};

class Fast final : public Kernel {
 public:
  Fast(Params params, Engine engine, hw::IsaMask isa, int threads)
      : params_(std::move(params)),
        engine_(engine),
        kernels_(gemm::Select(isa)),
        depthwise_(SelectDepthwise(isa)),
        transforms_(SelectWinograd(isa)),
        threads_(threads) {}

  Status PackConstant(const Problem& problem) {
    const View& w = *problem.in[1].data;
    const Shape& s = w.shape;
    const int64_t taps = s.Product(2, s.rank());
    if (s[0] % params_.group != 0) return BadInput("weights of shape {} in {} groups", s.ToString(), params_.group);
    const int64_t floats = WeightFloats(s[0], s[1], taps);
    const auto fill = [&](void* to) { PackInto(w.Data<float>(), s[0], s[1], taps, static_cast<float*>(to)); };
    TENON_ASSIGN_OR_RETURN(packed_, PackedWeights(problem, static_cast<size_t>(floats) * sizeof(float), fill));
    return Status::Ok();
  }

  Status PackForWinograd(const Problem& problem) {
    const View& w = *problem.in[1].data;
    const int64_t floats = PackedWinogradFloats(kernels_, w.shape[0], w.shape[1]);
    const auto fill = [&](void* to) { PackWinograd(kernels_, w.Data<float>(), w.shape[0], w.shape[1], static_cast<float*>(to)); };
    TENON_ASSIGN_OR_RETURN(winograd_, PackedWeights(problem, static_cast<size_t>(floats) * sizeof(float), fill));
    return Status::Ok();
  }

  Result<Configured> Configure(std::span<const View> in, std::span<const View> /*out*/) const override {
    auto s = std::make_unique<State>();
    TENON_ASSIGN_OR_RETURN(s->g, Resolve(params_, in[0].shape, in[1].shape));
    TENON_RETURN_IF_ERROR(CheckAddends(s->g, in));
    if (s->g.spatial > 3) return Unsupported("convolution over {} spatial axes; at most 3", s->g.spatial);
    s->plane = Plane(s->g);
    if (!params_.nhwc) {
      s->plane.n = 1;
      s->turn_in = s->g.c != 1 && s->g.in_pixels() != 1;
      s->turn_out = s->g.oc != 1 && s->g.out_pixels() != 1;
      if (s->turn_in) s->x_floats = gemm::AlignFloats(s->g.c * s->g.in_pixels());
      if (s->turn_out) s->y_floats = gemm::AlignFloats(s->g.oc * s->g.out_pixels());
    }
    s->use_winograd = winograd_ != nullptr && (packed_ == nullptr || Winograd::Worth(s->plane));
    if (packed_ == nullptr && !s->use_winograd)
      s->weight_floats = gemm::AlignFloats(WeightFloats(s->g.oc, s->g.icg(), s->g.taps()));
    s->pointwise = s->plane.pointwise() && s->g.group == 1;
    if (engine_ == Engine::kDepthwise) {
      if (s->g.group != s->g.c || s->g.oc != s->g.c || s->plane.kernel[0] != 1) {
        return Unsupported("convolution of {} channels in {} groups: {}", s->g.c, s->g.group, kRefuseSize);
      }
    } else if (s->use_winograd) {
      s->winograd = Winograd(kernels_, transforms_, s->plane, threads_);
    } else if (!s->pointwise) {
      s->implicit = Implicit(kernels_, s->plane, threads_);
    }
    const size_t bytes = static_cast<size_t>(s->weight_floats + s->x_floats + s->y_floats) * sizeof(float) +
                         (s->use_winograd ? s->winograd.scratch_bytes()
                          : s->pointwise  ? 0
                                          : s->implicit.scratch_bytes());
    return Configured{std::move(s), bytes};
  }

  Status Run(const RunArgs& args) const override {
    const auto& s = static_cast<const State&>(*args.state);
    auto* weights = reinterpret_cast<float*>(args.scratch);
    float* x = weights + s.weight_floats;
    float* y = x + s.x_floats;
    auto* rest = reinterpret_cast<std::byte*>(y + s.y_floats);
    Implicit::Operands o{};
    const Buffer* packed = s.use_winograd ? winograd_.get() : packed_.get();
    o.packed = packed != nullptr ? static_cast<const float*>(packed->data()) : weights;
    if (packed == nullptr) PackInto(args.in[1].Data<float>(), s.g.oc, s.g.icg(), s.g.taps(), weights);
    o.bias = args.Has(2) ? args.in[2].Data<float>() : nullptr;
    const int64_t images = params_.nhwc ? 1 : s.g.n;
    const int64_t x_image = s.g.c * s.g.in_pixels();
    const int64_t y_image = s.g.oc * s.g.out_pixels();
    for (int64_t i = 0; i < images; ++i) {
      o.x = args.in[0].Data<float>() + i * x_image;
      o.y = args.out[0].Data<float>() + i * y_image;
      o.residual = args.Has(3) ? args.in[3].Data<float>() + i * y_image : nullptr;
      if (s.turn_in) {
        Transpose(o.x, 1, s.g.c, s.g.in_pixels(), x, args.team);
        o.x = x;
      }
      float* final_y = o.y;
      if (s.turn_out) {
        o.y = y;
        if (o.residual != nullptr) {
          Transpose(o.residual, 1, s.g.oc, s.g.out_pixels(), y, args.team);
          o.residual = y;
        }
      }
      Convolve(s, o, rest, args.team);
      if (s.turn_out) Transpose(y, 1, s.g.out_pixels(), s.g.oc, final_y, args.team);
    }
    return Status::Ok();
  }

  /// The residual: each of its elements is read just before the result at its place is written.
  uint32_t InPlaceInputs() const override { return 1U << 3; }
  size_t PackedBytes() const override { return (packed_ ? packed_->bytes() : 0) + (winograd_ ? winograd_->bytes() : 0); }
  bool ConsumedConstant(size_t i) const override { return i == 1 && (packed_ != nullptr || winograd_ != nullptr); }

 private:
  int64_t WeightFloats(int64_t oc, int64_t icg, int64_t taps) const {
    if (engine_ == Engine::kDepthwise) return gemm::PackedFloats(kernels_, taps, oc);
    return PackedWeightFloats(kernels_, oc, icg, taps, params_.group);
  }

  void PackInto(const float* w, int64_t oc, int64_t icg, int64_t taps, float* to) const {
    if (engine_ == Engine::kDepthwise) {
      kernels_.pack_panel(w, taps, oc, 1, taps, 1, to, gemm::PackedFloats(kernels_, 1, oc));
    } else {
      PackWeights(kernels_, w, oc, icg, taps, params_.group, to);
    }
  }

  void Depthwise(const State& s, const Implicit::Operands& o, hw::Team& team) const {
    const Plane& p = s.plane;
    const DepthwiseActivation activation(params_.activation);
    const int64_t lines = p.n * p.out[0] * p.out[1];
    const DepthwiseCut cut(p, kernels_.lanes);
    team.ParallelFor(lines, cut.line_grain, [&](int64_t begin, int64_t end, int) {
      DepthwiseLine d = DepthwiseLineFor<float>(p, activation, gemm::PackedFloats(kernels_, 1, p.c));
      d.y_step = p.c;
      d.y_f32 = true;
      for (int64_t strip = 0; strip < p.out[2]; strip += cut.columns) {
        d.begin = strip;
        d.end = std::min(p.out[2], strip + cut.columns);
        for (int64_t c = 0; c < p.c; c += cut.channels) {
          d.channels = std::min(cut.channels, p.c - c);
          d.bias = o.bias != nullptr ? o.bias + c : nullptr;
          for (int64_t line = begin; line < end; ++line) {
            BindDepthwise(p, o.x, o.packed, o.residual, line, c, &d);
            float* y = o.y + (line * p.out[2] + strip) * p.c + c;
            d.y = y;
            depthwise_.f32(d);
            if (activation.needs_rest) kernels_.activate(activation.clamp.rest, y, d.end - d.begin, d.channels, p.c);
          }
        }
      }
    });
  }

  void Convolve(const State& s, const Implicit::Operands& o, std::byte* scratch, hw::Team& team) const {
    if (engine_ == Engine::kDepthwise) {
      Depthwise(s, o, team);
      return;
    }
    if (s.use_winograd) {
      s.winograd.Run(o, params_.activation, scratch, team);
      return;
    }
    if (!s.pointwise) {
      s.implicit.Run(o, params_.activation, scratch, team);
      return;
    }
    gemm::Gemm g;
    g.m = s.plane.n * s.plane.out_pixels();
    g.n = s.g.oc;
    g.k = s.g.c;
    g.a = o.x;
    g.a_stride = g.k;
    g.b = o.packed;
    g.c = o.y;
    g.c_stride = g.n;
    g.bias = o.bias;
    g.residual = o.residual;
    g.residual_stride = g.n;
    g.activation = params_.activation;
    gemm::RunParallel(kernels_, g, team);
  }

  Params params_;
  Engine engine_;
  const gemm::MicroKernels& kernels_;
  const DepthwiseKernels& depthwise_;
  const WinogradKernels& transforms_;
  int threads_;
  std::shared_ptr<Buffer> packed_;
  std::shared_ptr<Buffer> winograd_;   // with it, packed_ is for the shapes that Winograd does not serve
};

Result<std::unique_ptr<Kernel>> Make(const Problem& problem, Engine engine, hw::IsaMask isa) {
  TENON_ASSIGN_OR_RETURN(Params p, ParseParams(problem.op, problem.attrs));
  auto kernel = std::make_unique<Fast>(std::move(p), engine, isa, problem.threads);
  const bool winograd = engine == Engine::kWinograd;
  if (winograd) TENON_RETURN_IF_ERROR(kernel->PackForWinograd(problem));
  if (problem.IsConst(1) && !(winograd && problem.in[0].shape.is_const())) {
    TENON_RETURN_IF_ERROR(kernel->PackConstant(problem));
  }
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace

Refusal CanDepthwise(const Problem& problem) {
  if (const Refusal refusal = CanFast(problem)) return refusal;
  return CheckOneEach(problem);
}

Refusal CheckOneEach(const Problem& problem) {
  const SymShape& w = problem.in[1].shape;
  if (!w.has_rank() || !w[0].is_const() || !w[1].is_const()) return kRefuseShapeUnknown;
  const bool one_each = w[1].Is(1) && w[0].Is(problem.attrs.Int("group", 1)) && !w[0].Is(1);
  return one_each && (w.rank() < 5 || w[2].Is(1)) ? nullptr : kRefuseSize;
}

Refusal CanWinograd(const Problem& problem) {
  if (const Refusal refusal = CanFast(problem)) return refusal;
  if (!problem.IsConst(1)) return kRefuseWeightsNotConstant;
  if (problem.attrs.Int("exact", 0) != 0) return kRefuseInexact;
  auto params = ParseParams(problem.op, problem.attrs);
  if (!params.ok()) return kRefuseAttribute;
  // Extents that are not known yet are taken as large: Configure has both ways then.
  SymShape x = problem.in[0].shape;
  const Shape& w = problem.in[1].data->shape;
  if (w.rank() != 4) return kRefuseRank;
  if (!x.has_rank()) return kRefuseShapeUnknown;
  for (int i = 0; i < x.rank(); ++i) {
    const bool channel = i == (params->nhwc ? x.rank() - 1 : 1);
    if (!x[i].is_const()) x[i] = channel ? w[1] * params->group : 64;
  }
  auto geometry = Resolve(*params, *x.ToShape(), w);
  return geometry.ok() && Winograd::Worth(Plane(*geometry)) ? nullptr : kRefuseSize;
}

Result<std::unique_ptr<Kernel>> MakeAvx512(const Problem& p) {
  return Make(p, Engine::kImplicit, hw::kAvx2 | hw::kAvx512);
}
Result<std::unique_ptr<Kernel>> MakeAvx2(const Problem& p) {
  return Make(p, Engine::kImplicit, hw::kAvx2);
}
Result<std::unique_ptr<Kernel>> MakePortable(const Problem& p) {
  return Make(p, Engine::kImplicit, hw::kBaseline);
}
Result<std::unique_ptr<Kernel>> MakeDepthwiseAvx512(const Problem& p) {
  return Make(p, Engine::kDepthwise, hw::kAvx2 | hw::kAvx512);
}
Result<std::unique_ptr<Kernel>> MakeDepthwiseAvx2(const Problem& p) {
  return Make(p, Engine::kDepthwise, hw::kAvx2);
}
Result<std::unique_ptr<Kernel>> MakeDepthwisePortable(const Problem& p) {
  return Make(p, Engine::kDepthwise, hw::kBaseline);
}
Result<std::unique_ptr<Kernel>> MakeWinogradAvx512(const Problem& p) {
  return Make(p, Engine::kWinograd, hw::kAvx2 | hw::kAvx512);
}
Result<std::unique_ptr<Kernel>> MakeWinogradAvx2(const Problem& p) {
  return Make(p, Engine::kWinograd, hw::kAvx2);
}
Result<std::unique_ptr<Kernel>> MakeWinogradPortable(const Problem& p) {
  return Make(p, Engine::kWinograd, hw::kBaseline);
}

}  // namespace tenon::kernels::conv
