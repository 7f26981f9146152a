// The bf16 rows of Conv and FusedConv, channels last: one product of gemm/bf16.h a group, whose rows are the pixels themselves
// (1 x 1 windows) or windows copied block by block. Channels-first tensors are turned into scratch and back, image by image.
#include "kernels/gemm/bf16.h"

#include <algorithm>

#include "base/dtype.h"
#include "kernels/conv/plane.h"
#include "kernels/conv/windows.h"
#include "kernels/gemm/rows.h"
#include "kernels/refusals.h"

namespace tenon::kernels::conv {
namespace {

constexpr int64_t kTurnGrain = 16 * 1024;  // elements worth another thread

bool IsF32(const View& v) {
  return v.dtype == DType::kF32;
}
int64_t BytesOf(const View& v) {
  return IsF32(v) ? 4 : 2;
}
size_t AlignBytes(int64_t bytes) {
  return static_cast<size_t>((bytes + 63) / 64 * 64);
}

// to[c][r] = from[r][c].
template <typename T>
void TurnTyped(const T* from, int64_t rows, int64_t cols, T* to, hw::Team& team) {
  constexpr int64_t kBlock = 32;
  const int64_t blocks = (rows + kBlock - 1) / kBlock;
  team.ParallelFor(blocks, std::max<int64_t>(1, kTurnGrain / (kBlock * cols + 1)), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t r1 = std::min(rows, (i + 1) * kBlock);
      for (int64_t c = 0; c < cols; ++c) {
        for (int64_t r = i * kBlock; r < r1; ++r) to[c * rows + r] = from[r * cols + c];
      }
    }
  });
}
void Turn(const void* from, int64_t rows, int64_t cols, bool f32, void* to, hw::Team& team) {
  if (f32) {
    TurnTyped(static_cast<const uint32_t*>(from), rows, cols, static_cast<uint32_t*>(to), team);
  } else {
    TurnTyped(static_cast<const uint16_t*>(from), rows, cols, static_cast<uint16_t*>(to), team);
  }
}

struct State final : ShapeState {
  Geometry g;
  Plane plane;   // of one image when channels come first
  bool pointwise = false;
  size_t weight_bytes = 0;     // scratch for weights known at run time only: reordered, then packed
  size_t packed_bytes = 0;
  size_t bias_bytes = 0;       // bias as f32
  size_t x_bytes = 0, residual_bytes = 0, y_bytes = 0;   // channels last, when they are not so outside
};

class Bf16Conv final : public Kernel {
 public:
  Bf16Conv(Params params, const gemm::Bf16Kernels& kernels, int threads)
      : params_(std::move(params)), kernels_(kernels), threads_(threads) {}

  Status PackConstant(const Problem& problem) {
    const View& w = *problem.in[1].data;
    const Shape& s = w.shape;
    const int64_t taps = s.Product(2, s.rank());
    if (s[0] % params_.group != 0) return BadInput("weights of shape {} in {} groups", s.ToString(), params_.group);
    auto reordered = Buffer::Allocate(static_cast<size_t>(s.num_elements()) * 2);
    const int64_t elements = PackedElements(s[0], s[1], taps);
    if (reordered == nullptr) return ResourceLimit("no memory for {} packed weights", elements);
    const auto fill = [&](void* to) {
      hw::Team one(1);
      PackInto(static_cast<const uint16_t*>(w.data), s[0], s[1], taps, static_cast<uint16_t*>(reordered->data()),
               static_cast<uint16_t*>(to), one);
    };
    TENON_ASSIGN_OR_RETURN(packed_, PackedWeights(problem, static_cast<size_t>(elements) * 2, fill));
    return Status::Ok();
  }

  Result<Configured> Configure(std::span<const View> in, std::span<const View> out) const override {
    auto s = std::make_unique<State>();
    TENON_ASSIGN_OR_RETURN(s->g, Resolve(params_, in[0].shape, in[1].shape));
    const Geometry& g = s->g;
    TENON_RETURN_IF_ERROR(CheckAddends(g, in));
    if (g.spatial > 3) return Unsupported("convolution over {} spatial axes; at most 3", g.spatial);
    s->plane = Plane(g);
    if (!params_.nhwc) {
      s->plane.n = 1;
      if (g.c != 1 && g.in_pixels() != 1) s->x_bytes = AlignBytes(g.c * g.in_pixels() * BytesOf(in[0]));
      if (g.oc != 1 && g.out_pixels() != 1) {
        s->y_bytes = AlignBytes(g.oc * g.out_pixels() * BytesOf(out[0]));
        if (in.size() > 3 && in[3].present()) s->residual_bytes = AlignBytes(g.oc * g.out_pixels() * BytesOf(in[3]));
      }
    }
    s->pointwise = s->plane.pointwise() && g.group == 1;
    if (packed_ == nullptr) {
      s->weight_bytes = AlignBytes(in[1].shape.num_elements() * 2);
      s->packed_bytes = AlignBytes(PackedElements(g.oc, g.icg(), g.taps()) * 2);
    }
    if (in.size() > 2 && in[2].present() && !IsF32(in[2])) s->bias_bytes = AlignBytes(g.oc * 4);
    const size_t product = gemm::Bf16ScratchBytes(kernels_, s->plane.n * g.out_pixels(), g.taps() * g.icg(), threads_);
    const size_t bytes =
        s->weight_bytes + s->packed_bytes + s->bias_bytes + s->x_bytes + s->residual_bytes + s->y_bytes + product;
    return Configured{std::move(s), bytes};
  }

  Status Run(const RunArgs& args) const override {
    const auto& s = static_cast<const State&>(*args.state);
    std::byte* weights = args.scratch;
    std::byte* bias = weights + s.weight_bytes + s.packed_bytes;
    std::byte* x = bias + s.bias_bytes;
    std::byte* residual = x + s.x_bytes;
    std::byte* y = residual + s.residual_bytes;
    std::byte* rest = y + s.y_bytes;
    gemm::Bf16Gemm base;
    base.bias = Bias(args, s, reinterpret_cast<float*>(bias));
    base.b = packed_ != nullptr ? static_cast<const uint16_t*>(packed_->data()) : PackNow(args, s, weights);
    base.a_f32 = IsF32(args.in[0]);
    base.c_f32 = args.out[0].dtype == DType::kF32;
    base.residual_f32 = args.Has(3) && IsF32(args.in[3]);
    base.activation = params_.activation;
    const int64_t images = params_.nhwc ? 1 : s.g.n;
    const int64_t x_image = s.g.c * s.g.in_pixels() * BytesOf(args.in[0]);
    const int64_t pixels = s.g.out_pixels();
    for (int64_t i = 0; i < images; ++i) {
      base.a = static_cast<const std::byte*>(args.in[0].data) + i * x_image;
      std::byte* final_y = static_cast<std::byte*>(args.out[0].data) + i * s.g.oc * pixels * (base.c_f32 ? 4 : 2);
      base.c = s.y_bytes > 0 ? y : final_y;
      if (args.Has(3)) {
        base.residual = static_cast<const std::byte*>(args.in[3].data) + i * s.g.oc * pixels * (base.residual_f32 ? 4 : 2);
      }
      if (s.x_bytes > 0) {
        Turn(base.a, s.g.c, s.g.in_pixels(), base.a_f32, x, args.team);
        base.a = x;
      }
      if (s.residual_bytes > 0) {
        Turn(base.residual, s.g.oc, pixels, base.residual_f32, residual, args.team);
        base.residual = residual;
      }
      Convolve(s, base, rest, args.team);
      if (s.y_bytes > 0) Turn(y, pixels, s.g.oc, base.c_f32, final_y, args.team);
    }
    return Status::Ok();
  }

  /// The residual: each of its elements is read just before the result at its place is written.
  uint32_t InPlaceInputs() const override { return 1U << 3; }
  size_t PackedBytes() const override { return packed_ ? packed_->bytes() : 0; }
  bool ConsumedConstant(size_t i) const override { return i == 1 && packed_ != nullptr; }

 private:
  int64_t PackedElements(int64_t oc, int64_t icg, int64_t taps) const {
    return params_.group * gemm::Bf16PackedElements(icg * taps, oc / params_.group);
  }

  // Weights [oc][icg][taps] go to `reordered` as [oc][taps][icg], then to panels, one set a group.
  void PackInto(const uint16_t* w, int64_t oc, int64_t icg, int64_t taps, uint16_t* reordered, uint16_t* to,
                hw::Team& team) const {
    const int64_t k = icg * taps;
    const int64_t ocg = oc / params_.group;
    const int64_t panels = gemm::Bf16Panels(ocg);
    const int64_t grain = std::max<int64_t>(1, kTurnGrain / (k * gemm::kBf16Panel + 1));
    team.ParallelFor(params_.group * panels, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t g = i / panels;
        const int64_t p = i % panels;
        const int64_t first = g * ocg + p * gemm::kBf16Panel;
        const int64_t last = std::min((g + 1) * ocg, first + gemm::kBf16Panel);
        for (int64_t o = first; o < last; ++o) {
          for (int64_t t = 0; t < taps; ++t) {
            for (int64_t c = 0; c < icg; ++c) reordered[o * k + t * icg + c] = w[o * k + c * taps + t];
          }
        }
        gemm::PackBf16(kernels_, reordered + g * ocg * k, k, ocg, 1, k, to + g * gemm::Bf16PackedElements(k, ocg), p, p + 1);
      }
    });
  }

  const uint16_t* PackNow(const RunArgs& args, const State& s, std::byte* scratch) const {
    auto* to = reinterpret_cast<uint16_t*>(scratch + s.weight_bytes);
    PackInto(static_cast<const uint16_t*>(args.in[1].data), s.g.oc, s.g.icg(), s.g.taps(), reinterpret_cast<uint16_t*>(scratch),
             to, args.team);
    return to;
  }

  static const float* Bias(const RunArgs& args, const State& s, float* scratch) {
    if (!args.Has(2)) return nullptr;
    if (s.bias_bytes == 0) return args.in[2].Data<float>();
    for (int64_t i = 0; i < s.g.oc; ++i) scratch[i] = static_cast<float>(args.in[2].Data<BFloat16>()[i]);
    return scratch;
  }

  // All images of `base.a`, channels last.
  void Convolve(const State& s, const gemm::Bf16Gemm& base, std::byte* scratch, hw::Team& team) const {
    const Plane& p = s.plane;
    for (int64_t g = 0; g < p.group; ++g) {
      gemm::Bf16Gemm product = base;
      product.m = p.n * p.out_pixels();
      product.n = p.ocg();
      product.k = p.taps() * p.icg();
      product.b = base.b + g * gemm::Bf16PackedElements(product.k, product.n);
      product.a_stride = p.c;
      product.c_stride = product.residual_stride = p.oc;
      product.c = static_cast<std::byte*>(base.c) + g * p.ocg() * (base.c_f32 ? 4 : 2);
      if (base.bias != nullptr) product.bias = base.bias + g * p.ocg();
      if (base.residual != nullptr) {
        product.residual = static_cast<const std::byte*>(base.residual) + g * p.ocg() * (base.residual_f32 ? 4 : 2);
      }
      const WindowRows windows(kernels_, p, base.a, base.a_f32, g * p.icg());
      if (!s.pointwise) {
        product.fill = WindowRows::Fill;
        product.fill_context = &windows;
      }
      gemm::RunBf16(kernels_, product, scratch, team);
    }
  }

  Params params_;
  const gemm::Bf16Kernels& kernels_;
  int threads_;
  std::shared_ptr<Buffer> packed_;
};

Result<std::unique_ptr<Kernel>> Make(const Problem& problem, hw::IsaMask isa) {
  TENON_ASSIGN_OR_RETURN(Params p, ParseParams(problem.op, problem.attrs));
  auto kernel = std::make_unique<Bf16Conv>(std::move(p), gemm::SelectBf16(isa), problem.threads);
  if (problem.IsConst(1)) TENON_RETURN_IF_ERROR(kernel->PackConstant(problem));
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace

Refusal CanBf16(const Problem& problem) {
  if (problem.in[1].dtype != DType::kBF16) return kRefuseDType;
  for (const ValueInfo& v : problem.in) {
    if (v.present && v.dtype != DType::kBF16 && v.dtype != DType::kF32) return kRefuseDType;
  }
  return CheckFastRank(problem);
}
Result<std::unique_ptr<Kernel>> MakeBf16Amx(const Problem& p) {
  return Make(p, gemm::kNeedsAmx);
}
Result<std::unique_ptr<Kernel>> MakeBf16Avx512Bf16(const Problem& p) {
  return Make(p, gemm::kNeedsAvx512Bf16);
}
Result<std::unique_ptr<Kernel>> MakeBf16Avx512(const Problem& p) {
  return Make(p, hw::kAvx2 | hw::kAvx512);
}
Result<std::unique_ptr<Kernel>> MakeBf16Avx2(const Problem& p) {
  return Make(p, hw::kAvx2);
}
Result<std::unique_ptr<Kernel>> MakeBf16Portable(const Problem& p) {
  return Make(p, hw::kBaseline);
}

}  // namespace tenon::kernels::conv
