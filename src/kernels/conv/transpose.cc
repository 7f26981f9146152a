// The f32 rows of ConvTranspose and FusedConvTranspose, channels last, one line of outputs after another.
//
// Kernel row kh brings input line h to output line h * stride - pad + kh * dilation, and kernel column kw brings its pixels to
// every stride-th output pixel: each is a matrix product whose rows of C lie stride * oc apart, added to what is there. When the
// kernel is as wide as the stride and nothing is cropped, all kernel columns are one product with kw * oc columns; and where
// that would be a few columns only, so are all kernel rows, whose columns then go to lines of outputs of their own.
#include <algorithm>

#include "base/dtype.h"
#include "kernels/conv/plane.h"
#include "kernels/gemm/gemm.h"
#include "kernels/refusals.h"

namespace tenon::kernels::conv {
namespace {

constexpr int64_t kLineWork = 64 * 1024;  // multiply-adds worth another thread

struct State final : ShapeState {
  Geometry g;
  Plane plane;
  bool merged = false;
  bool thin = false;
  bool turn_in = false;
  bool turn_out = false;
  int64_t weight_floats = 0;
  int64_t bias_floats = 0;
  int64_t x_floats = 0;
  int64_t y_floats = 0;
  int64_t line_floats = 0;   // of each thread, when thin
};

struct Operands {
  const float* x;
  const float* packed;
  const float* bias;       // [oc], repeated for all columns when merged; never null
  const float* residual;
  float* y;
  float* lines;
};

class Transposed final : public Kernel {
 public:
  Transposed(Params params, const gemm::MicroKernels& kernels, int threads)
      : params_(std::move(params)), kernels_(kernels), threads_(std::max(1, threads)) {}

  Status PackConstant(const View& w) {
    const Shape& s = w.shape;
    if (s[0] % params_.group != 0) return BadInput("weights of shape {} in {} groups", s.ToString(), params_.group);
    const int64_t kw = s.dim(-1);
    const int64_t taps = s.Product(2, s.rank());
    const int last = s.rank() - 3;
    can_merge_ = params_.group == 1 && kw > 1 && kw == params_.stride(last) && params_.dilation(last) == 1 && NothingCropped();
    const int64_t kh = s.rank() == 4 ? s[2] : 1;
    thin_ =
        can_merge_ && s.rank() == 4 && kh == params_.stride(0) && params_.dilation(0) == 1 && kh * kw * s[1] <= kernels_.lanes;
    const int64_t together = thin_ ? kh * kw : kw;
    const int64_t floats = WeightFloats(can_merge_, s[0], s[1], taps, together);
    packed_ = Buffer::Allocate(static_cast<size_t>(floats) * sizeof(float));
    if (packed_ == nullptr) return ResourceLimit("no memory for {} packed weights", floats);
    auto* to = static_cast<float*>(packed_->data());
    if (!can_merge_) {
      PackTaps(w.Data<float>(), s[0], s[1], taps, to);
      return Status::Ok();
    }
    std::vector<float> merged(static_cast<size_t>(s[0] * together * s[1]));
    for (int64_t t = 0; t < taps / together; ++t) {
      for (int64_t c = 0; c < s[0]; ++c) {
        for (int64_t k = 0; k < together; ++k) {
          for (int64_t o = 0; o < s[1]; ++o) {
            merged[static_cast<size_t>((c * together + k) * s[1] + o)] =
                w.Data<float>()[(c * s[1] + o) * taps + t * together + k];
          }
        }
      }
      gemm::Pack(kernels_, merged.data(), s[0], together * s[1], together * s[1], 1, 1,
                 to + t * gemm::PackedFloats(kernels_, s[0], together * s[1]));
    }
    return Status::Ok();
  }

  Result<Configured> Configure(std::span<const View> in, std::span<const View> /*out*/) const override {
    auto s = std::make_unique<State>();
    TENON_ASSIGN_OR_RETURN(s->g, Resolve(params_, in[0].shape, in[1].shape));
    TENON_RETURN_IF_ERROR(CheckAddends(s->g, in));
    if (s->g.spatial > 3) return Unsupported("transposed convolution over {} spatial axes; at most 3", s->g.spatial);
    s->plane = Plane(s->g);
    const Plane& p = s->plane;
    s->merged = can_merge_;
    CHECK(!s->merged || (p.pad[2] == 0 && p.out[2] == p.in[2] * p.stride[2]));  // NothingCropped
    if (!params_.nhwc) {
      s->plane.n = 1;
      s->turn_in = s->g.c != 1 && s->g.in_pixels() != 1;
      s->turn_out = s->g.oc != 1 && s->g.out_pixels() != 1;
      if (s->turn_in) s->x_floats = gemm::AlignFloats(s->g.c * s->g.in_pixels());
      if (s->turn_out) s->y_floats = gemm::AlignFloats(s->g.oc * s->g.out_pixels());
    }
    s->thin = thin_;
    s->bias_floats = gemm::AlignFloats(p.oc * Together(p));
    if (s->thin) s->line_floats = gemm::AlignFloats(p.in[2] * p.oc * Together(p));
    if (packed_ == nullptr) s->weight_floats = gemm::AlignFloats(WeightFloats(false, p.c, p.ocg(), p.taps(), p.kernel[2]));
    const int64_t floats = s->weight_floats + s->bias_floats + s->x_floats + s->y_floats + threads_ * s->line_floats;
    return Configured{std::move(s), static_cast<size_t>(floats) * sizeof(float)};
  }

  Status Run(const RunArgs& args) const override {
    const auto& s = static_cast<const State&>(*args.state);
    if (s.g.y.num_elements() == 0) return Status::Ok();
    auto* weights = reinterpret_cast<float*>(args.scratch);
    float* bias = weights + s.weight_floats;
    float* x = bias + s.bias_floats;
    float* y = x + s.x_floats;
    if (packed_ == nullptr) PackTaps(args.in[1].Data<float>(), s.g.c, s.g.ocg(), s.g.taps(), weights);
    for (int64_t i = 0; i < Together(s.plane); ++i) {
      for (int64_t o = 0; o < s.g.oc; ++o) bias[i * s.g.oc + o] = args.Has(2) ? args.in[2].Data<float>()[o] : 0;
    }
    Operands o{};
    o.packed = packed_ != nullptr ? static_cast<const float*>(packed_->data()) : weights;
    o.bias = bias;
    o.lines = y + s.y_floats;
    const int64_t x_image = s.g.c * s.g.in_pixels();
    const int64_t y_image = s.g.oc * s.g.out_pixels();
    for (int64_t i = 0; i < (params_.nhwc ? 1 : s.g.n); ++i) {
      o.x = args.in[0].Data<float>() + i * x_image;
      o.y = args.out[0].Data<float>() + i * y_image;
      o.residual = args.Has(3) ? args.in[3].Data<float>() + i * y_image : nullptr;
      float* final_y = o.y;
      if (s.turn_in) {
        Transpose(o.x, 1, s.g.c, s.g.in_pixels(), x, args.team);
        o.x = x;
      }
      if (s.turn_out) {
        o.y = y;
        if (o.residual != nullptr) {
          Transpose(o.residual, 1, s.g.oc, s.g.out_pixels(), y, args.team);
          o.residual = y;
        }
      }
      s.thin ? ThinLines(s, o, args.team) : Lines(s, o, args.team);
      if (s.turn_out) Transpose(y, 1, s.g.out_pixels(), s.g.oc, final_y, args.team);
    }
    return Status::Ok();
  }

  /// The residual: each of its elements is read just before the result at its place is written.
  uint32_t InPlaceInputs() const override { return 1U << 3; }
  size_t PackedBytes() const override { return packed_ ? packed_->bytes() : 0; }
  bool ConsumedConstant(size_t i) const override { return i == 1 && packed_ != nullptr; }

 private:
  // True when the attributes leave no way to crop or extend the result.
  bool NothingCropped() const {
    const auto zero = [](const std::vector<int64_t>& v) {
      return std::all_of(v.begin(), v.end(), [](int64_t x) { return x == 0; });
    };
    const bool pads = params_.auto_pad == AutoPad::kValid || (params_.auto_pad == AutoPad::kNotSet && zero(params_.pads));
    return pads && zero(params_.output_padding) && params_.output_shape.empty();
  }

  int64_t WeightFloats(bool merged, int64_t c, int64_t ocg, int64_t taps, int64_t kw) const {
    if (merged) return taps / kw * gemm::PackedFloats(kernels_, c, kw * ocg);
    return params_.group * taps * gemm::PackedFloats(kernels_, c / params_.group, ocg);
  }

  // One matrix [icg, ocg] per group and tap.
  void PackTaps(const float* w, int64_t c, int64_t ocg, int64_t taps, float* to) const {
    const int64_t icg = c / params_.group;
    for (int64_t g = 0; g < params_.group; ++g) {
      for (int64_t t = 0; t < taps; ++t) {
        gemm::Pack(kernels_, w + g * icg * ocg * taps + t, icg, ocg, ocg * taps, taps, 1, to);
        to += gemm::PackedFloats(kernels_, icg, ocg);
      }
    }
  }

  // Kernel positions of one product.
  int64_t Together(const Plane& p) const { return thin_ ? p.kernel[1] * p.kernel[2] : can_merge_ ? p.kernel[2] : 1; }

  // Each line of inputs in one product, whose columns are shared out to the lines of outputs.
  void ThinLines(const State& s, const Operands& o, hw::Team& team) const {
    const Plane& p = s.plane;
    const int64_t lines = p.n * p.in[1];
    const int64_t columns = Together(p) * p.oc, run = p.kernel[2] * p.oc, width = p.in[2] * run;
    const int64_t work = std::max<int64_t>(1, p.in[2] * columns * p.c);
    // Scratch was sized for the threads that make() was told of.
    const int64_t grain = team.size() > threads_ ? lines : std::max<int64_t>(1, kLineWork / work);
    team.ParallelFor(lines, grain, [&](int64_t begin, int64_t end, int thread) {
      float* tmp = o.lines + thread * s.line_floats;
      for (int64_t line = begin; line < end; ++line) {
        gemm::Gemm g = Product(p.in[2], columns, p.c, o.x + line * p.in[2] * p.c, tmp, columns);
        g.b = o.packed;
        g.bias = o.bias;
        gemm::Run(kernels_, g);
        for (int64_t kh = 0; kh < p.kernel[1]; ++kh) {
          const int64_t at = (line * p.kernel[1] + kh) * width;
          float* y = o.y + at;
          const float* residual = o.residual != nullptr ? o.residual + at : nullptr;   // may be y
          for (int64_t w = 0; w < p.in[2]; ++w) {
            const float* from = tmp + w * columns + kh * run;
            for (int64_t i = 0; i < run; ++i) y[w * run + i] = residual != nullptr ? from[i] + residual[w * run + i] : from[i];
          }
          if (!params_.activation.is_identity()) kernels_.activate(params_.activation, y, 1, width, 0);
        }
      }
    });
  }

  void Lines(const State& s, const Operands& o, hw::Team& team) const {
    const Plane& p = s.plane;
    const int64_t lines = p.n * p.out[0] * p.out[1];
    const int64_t work = std::max<int64_t>(1, p.in[2] * p.kernel[2] * p.icg() * p.oc);
    team.ParallelFor(lines, std::max<int64_t>(1, kLineWork / work), [&](int64_t begin, int64_t end, int) {
      for (int64_t line = begin; line < end; ++line) Line(s, o, line);
    });
  }

  // Source line on axis i for output index `out` and kernel index `tap`; -1 when none.
  static int64_t Source(const Plane& p, int i, int64_t out, int64_t tap) {
    const int64_t at = out + p.pad[i] - tap * p.dilation[i];
    if (at < 0 || at % p.stride[i] != 0) return -1;
    return at / p.stride[i] < p.in[i] ? at / p.stride[i] : -1;
  }

  void Line(const State& s, const Operands& o, int64_t line) const {
    const Plane& p = s.plane;
    const int64_t oh = line % p.out[1];
    const int64_t od = line / p.out[1] % p.out[0];
    const int64_t image = line / p.out[1] / p.out[0];
    const int64_t width = p.out[2] * p.oc;
    float* y = o.y + line * width;
    const float* residual = o.residual != nullptr ? o.residual + line * width : nullptr;
    int hits = 0;
    for (int64_t kd = 0; kd < p.kernel[0]; ++kd) {
      for (int64_t kh = 0; kh < p.kernel[1]; ++kh) hits += Source(p, 0, od, kd) >= 0 && Source(p, 1, oh, kh) >= 0 ? 1 : 0;
    }
    const bool at_once = s.merged && hits == 1;
    // Rows of a tile that are shorter than a vector are activated as a line.
    const bool activate_at_once = at_once && p.kernel[2] * p.oc >= kernels_.lanes;
    if (!at_once) Start(p, o.bias, residual, y);
    for (int64_t kd = 0; kd < p.kernel[0]; ++kd) {
      for (int64_t kh = 0; kh < p.kernel[1]; ++kh) {
        const int64_t d = Source(p, 0, od, kd);
        const int64_t h = Source(p, 1, oh, kh);
        if (d < 0 || h < 0) continue;
        const float* x = o.x + ((image * p.in[0] + d) * p.in[1] + h) * p.in[2] * p.c;
        const int64_t tap = kd * p.kernel[1] + kh;
        if (s.merged) {
          gemm::Gemm g = Product(p.in[2], p.kernel[2] * p.oc, p.c, x, y, p.kernel[2] * p.oc);
          g.b = o.packed + tap * gemm::PackedFloats(kernels_, g.k, g.n);
          if (at_once) {
            g.bias = o.bias;
            g.residual = residual;
            if (activate_at_once) g.activation = params_.activation;
          } else {
            g.residual = y;
          }
          gemm::Run(kernels_, g);
        } else {
          for (int64_t kw = 0; kw < p.kernel[2]; ++kw) Column(p, o, x, y, tap * p.kernel[2] + kw, kw);
        }
      }
    }
    if (!activate_at_once && !params_.activation.is_identity()) kernels_.activate(params_.activation, y, 1, width, 0);
  }

  gemm::Gemm Product(int64_t m, int64_t n, int64_t k, const float* x, float* y, int64_t c_stride) const {
    gemm::Gemm g;
    g.m = m;
    g.n = n;
    g.k = k;
    g.a = x;
    g.a_stride = k;
    g.c = y;
    g.c_stride = c_stride;
    g.residual_stride = c_stride;
    return g;
  }

  static void Start(const Plane& p, const float* bias, const float* residual, float* y) {
    for (int64_t w = 0; w < p.out[2]; ++w, y += p.oc) {
      if (residual != nullptr) {
        for (int64_t c = 0; c < p.oc; ++c) y[c] = residual[c] + bias[c];
        residual += p.oc;
      } else {
        for (int64_t c = 0; c < p.oc; ++c) y[c] = bias[c];
      }
    }
  }

  // Adds kernel column kw: input pixels [lo, hi) go to outputs w * stride + offset.
  void Column(const Plane& p, const Operands& o, const float* x, float* y, int64_t tap, int64_t kw) const {
    const int64_t offset = kw * p.dilation[2] - p.pad[2];
    const int64_t stride = p.stride[2];
    const int64_t lo = offset < 0 ? (-offset + stride - 1) / stride : 0;
    const int64_t hi = std::min(p.in[2], p.out[2] - 1 - offset < 0 ? 0 : (p.out[2] - 1 - offset) / stride + 1);
    if (lo >= hi) return;
    const int64_t icg = p.icg();
    const int64_t ocg = p.ocg();
    for (int64_t g = 0; g < p.group; ++g) {
      gemm::Gemm m =
          Product(hi - lo, ocg, icg, x + lo * p.c + g * icg, y + (lo * stride + offset) * p.oc + g * ocg, stride * p.oc);
      m.a_stride = p.c;
      m.b = o.packed + (g * p.taps() + tap) * gemm::PackedFloats(kernels_, icg, ocg);
      m.residual = m.c;
      gemm::Run(kernels_, m);
    }
  }

  Params params_;
  const gemm::MicroKernels& kernels_;
  int threads_;
  bool can_merge_ = false;
  bool thin_ = false;   // implies can_merge_
  std::shared_ptr<Buffer> packed_;
};

Result<std::unique_ptr<Kernel>> Make(const Problem& problem, hw::IsaMask isa) {
  TENON_ASSIGN_OR_RETURN(Params p, ParseParams(problem.op, problem.attrs));
  auto kernel = std::make_unique<Transposed>(std::move(p), gemm::Select(isa), problem.threads);
  if (problem.IsConst(1)) TENON_RETURN_IF_ERROR(kernel->PackConstant(*problem.in[1].data));
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace

Result<std::unique_ptr<Kernel>> MakeTransposedAvx512(const Problem& p) {
  return Make(p, hw::kAvx2 | hw::kAvx512);
}
Result<std::unique_ptr<Kernel>> MakeTransposedAvx2(const Problem& p) {
  return Make(p, hw::kAvx2);
}
Result<std::unique_ptr<Kernel>> MakeTransposedPortable(const Problem& p) {
  return Make(p, hw::kBaseline);
}

}  // namespace tenon::kernels::conv
