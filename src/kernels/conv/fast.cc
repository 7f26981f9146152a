// The f32 rows of Conv and FusedConv for any window, stride, dilation and group: implicit matrix product, channels last.
// Plain channels-first tensors are turned into scratch and back, image by image.
#include <algorithm>

#include "base/dtype.h"
#include "kernels/conv/implicit.h"
#include "kernels/refusals.h"

namespace tenon::kernels::conv {
namespace {

int64_t Align(int64_t floats) { return (floats + 15) / 16 * 16; }

struct State final : ShapeState {
  Geometry g;
  Plane plane;          // of one image when channels come first
  Implicit implicit;
  bool pointwise = false;
  bool turn_in = false;
  bool turn_out = false;
  int64_t weight_floats = 0;   // scratch for weights known at run time only
  int64_t x_floats = 0;
  int64_t y_floats = 0;
};

class Fast final : public Kernel {
 public:
  Fast(Params params, const gemm::MicroKernels& kernels, int threads)
      : params_(std::move(params)), kernels_(kernels), threads_(threads) {}

  Status PackConstant(const View& w) {
    const Shape& s = w.shape;
    const int64_t taps = s.Product(2, s.rank());
    if (s[0] % params_.group != 0) return BadInput("weights of shape {} in {} groups", s.ToString(), params_.group);
    const int64_t floats = PackedWeightFloats(kernels_, s[0], s[1], taps, params_.group);
    packed_ = Buffer::Allocate(static_cast<size_t>(floats) * sizeof(float));
    if (packed_ == nullptr) return ResourceLimit("no memory for {} packed weights", floats);
    PackWeights(kernels_, w.Data<float>(), s[0], s[1], taps, params_.group, static_cast<float*>(packed_->data()));
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
      if (s->turn_in) s->x_floats = Align(s->g.c * s->g.in_pixels());
      if (s->turn_out) s->y_floats = Align(s->g.oc * s->g.out_pixels());
    }
    if (packed_ == nullptr) {
      s->weight_floats = Align(PackedWeightFloats(kernels_, s->g.oc, s->g.icg(), s->g.taps(), s->g.group));
    }
    s->pointwise = s->plane.pointwise() && s->g.group == 1;
    s->implicit = Implicit(kernels_, s->plane, threads_);
    const size_t bytes = static_cast<size_t>(s->weight_floats + s->x_floats + s->y_floats) * sizeof(float) +
                         (s->pointwise ? 0 : s->implicit.scratch_bytes());
    return Configured{std::move(s), bytes};
  }

  Status Run(const RunArgs& args) const override {
    const auto& s = static_cast<const State&>(*args.state);
    auto* weights = reinterpret_cast<float*>(args.scratch);
    float* x = weights + s.weight_floats;
    float* y = x + s.x_floats;
    auto* rest = reinterpret_cast<std::byte*>(y + s.y_floats);
    Implicit::Operands o{};
    o.packed = packed_ != nullptr ? static_cast<const float*>(packed_->data()) : weights;
    if (packed_ == nullptr) {
      PackWeights(kernels_, args.in[1].Data<float>(), s.g.oc, s.g.icg(), s.g.taps(), s.g.group, weights);
    }
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

  size_t PackedBytes() const override { return packed_ ? packed_->bytes() : 0; }
  bool ConsumedConstant(size_t i) const override { return i == 1 && packed_ != nullptr; }

 private:
  void Convolve(const State& s, const Implicit::Operands& o, std::byte* scratch, hw::Team& team) const {
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
  const gemm::MicroKernels& kernels_;
  int threads_;
  std::shared_ptr<Buffer> packed_;
};

Result<std::unique_ptr<Kernel>> Make(const Problem& problem, hw::IsaMask isa) {
  TENON_ASSIGN_OR_RETURN(Params p, ParseParams(problem.op, problem.attrs));
  auto kernel = std::make_unique<Fast>(std::move(p), gemm::Select(isa), problem.threads);
  if (problem.IsConst(1)) TENON_RETURN_IF_ERROR(kernel->PackConstant(*problem.in[1].data));
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace

Result<std::unique_ptr<Kernel>> MakeAvx512(const Problem& problem) { return Make(problem, hw::kAvx2 | hw::kAvx512); }
Result<std::unique_ptr<Kernel>> MakeAvx2(const Problem& problem) { return Make(problem, hw::kAvx2); }
Result<std::unique_ptr<Kernel>> MakePortable(const Problem& problem) { return Make(problem, hw::kBaseline); }

}  // namespace tenon::kernels::conv
