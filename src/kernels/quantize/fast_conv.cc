// ConvInteger and QLinearConv with constant weights: patches of a block of output pixels are laid out as rows and multiplied by
// the packed weights with the byte tiles of fast_matmul.cc (see there for the zero points). Padding is the zero point, so it adds
// nothing.
#include <algorithm>
#include <cstring>

#include "kernels/kernel_util.h"
#include "kernels/quantize/conv.h"
#include "kernels/quantize/simd.h"

namespace tenon::kernels::quantize {
namespace {

constexpr int64_t kTilesPerBlock = 4;

int64_t RoundUp(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

class FastConv final : public Kernel {
 public:
  FastConv(conv::Params p, ConvInputs c, const Simd& simd, int threads)
      : p_(std::move(p)), c_(c), simd_(simd), threads_(threads) {}

  Status Prepare(const Problem& problem) {
    const View& w = *problem.in[c_.w].data;
    oc_ = w.shape[0];
    k_ = w.shape.Product(1, w.shape.rank());
    if (oc_ % p_.group != 0) return BadInput("{} output channels in {} groups", oc_, p_.group);
    ocg_ = oc_ / p_.group;
    groups_ = (k_ + 3) / 4;
    const int64_t columns = simd_.columns;
    panels_ = (ocg_ + columns - 1) / columns;
    packed_ = Buffer::Allocate(static_cast<size_t>(p_.group * panels_ * groups_ * columns * 4));
    if (packed_ == nullptr) return ResourceLimit("no memory for packed weights");
    std::memset(packed_->data(), 0, packed_->bytes());
    sums_.assign(static_cast<size_t>(oc_), 0);
    flip_w_ = w.dtype == DType::kU8;
    auto* to = static_cast<int8_t*>(packed_->data());
    for (int64_t oc = 0; oc < oc_; ++oc) {
      const int64_t j = oc % ocg_;
      const int64_t panel = oc / ocg_ * panels_ + j / columns;
      for (int64_t k = 0; k < k_; ++k) {
        const int32_t v = LoadInt(w.dtype, w.data, oc * k_ + k) - (flip_w_ ? 128 : 0);
        to[((panel * groups_ + k / 4) * columns + j % columns) * 4 + k % 4] = static_cast<int8_t>(v);
        sums_[static_cast<size_t>(oc)] += static_cast<uint32_t>(v);
      }
    }
    return {};
  }

  Result<Configured> Configure(std::span<const View> /*in*/, std::span<const View> /*out*/) const override {
    Configured c;
    c.scratch_bytes = static_cast<size_t>(RoundUp(oc_ * 8, 64) + threads_ * PatchBytes());
    return c;
  }

  Status Run(const RunArgs& args) const override;

  size_t PackedBytes() const override { return packed_->bytes() + sums_.size() * sizeof(uint32_t); }
  bool ConsumedConstant(size_t i) const override { return i == c_.w; }

 private:
  struct Call {
    const RunArgs& args;
    const conv::Geometry& g;
    int32_t x_zero;  // of x as given
    uint8_t flip;  // 0x80 when x is int8
    const int32_t* w_zero;  // of each output channel, as packed
    const float* w_scale;
    float x_scale, y_scale;
    int32_t y_zero;
    const int32_t* bias;
  };

  int64_t BlockRows() const { return kTilesPerBlock * simd_.rows; }
  int64_t PatchBytes() const { return RoundUp(BlockRows() * groups_ * 4, 64); }
  void Gather(const Call& call, int64_t n, int64_t group, int64_t pixel, uint8_t* row) const;
  void Block(const Call& call, int64_t n, int64_t group, int64_t first, int64_t count, uint8_t* patches) const;

  conv::Params p_;
  ConvInputs c_;
  const Simd& simd_;
  int threads_;
  int64_t oc_ = 0, ocg_ = 0, k_ = 0, groups_ = 0, panels_ = 0;
  bool flip_w_ = false;
  std::shared_ptr<Buffer> packed_;
  std::vector<uint32_t> sums_;  // of each output channel's weights as packed
};

// One row: the patch of `pixel` in weight order (channel, then taps), as uint8.
void FastConv::Gather(const Call& call, int64_t n, int64_t group, int64_t pixel, uint8_t* row) const {
  const conv::Geometry& g = call.g;
  const int last = g.spatial - 1;
  int64_t at[conv::kMaxSpatial];
  int64_t rest = pixel;
  for (int d = last; d >= 0; --d) {
    at[d] = rest % g.out[d] * g.stride[d] - g.pad[d];
    rest /= g.out[d];
  }
  const auto pad = static_cast<uint8_t>(static_cast<uint8_t>(call.x_zero) ^ call.flip);
  const int64_t width = g.kernel[last], lines = g.taps() / width, pixels = g.in_pixels();
  const uint8_t* plane = call.args.in[c_.x].Data<uint8_t>() + (n * g.c + group * g.icg()) * pixels;
  uint8_t* to = row;
  for (int64_t c = 0; c < g.icg(); ++c, plane += pixels) {
    for (int64_t line = 0; line < lines; ++line) {
      int64_t base = 0, scale = g.in[last], tap = line;
      bool inside = true;
      for (int d = last - 1; d >= 0; --d) {
        const int64_t p = at[d] + tap % g.kernel[d] * g.dilation[d];
        tap /= g.kernel[d];
        inside = inside && p >= 0 && p < g.in[d];
        base += p * scale;
        scale *= g.in[d];
      }
      for (int64_t t = 0; t < width; ++t) {
        const int64_t p = at[last] + t * g.dilation[last];
        *to++ = inside && p >= 0 && p < g.in[last] ? static_cast<uint8_t>(plane[base + p] ^ call.flip) : pad;
      }
    }
  }
  for (int64_t k = k_; k < groups_ * 4; ++k) *to++ = 0;
}

void FastConv::Block(const Call& call, int64_t n, int64_t group, int64_t first, int64_t count, uint8_t* patches) const {
  const int64_t stride = groups_ * 4, pixels = call.g.out_pixels();
  const int columns = simd_.columns;
  uint32_t row_sums[kTilesPerBlock * kMaxTileRows];
  for (int64_t i = 0; i < count; ++i) {
    Gather(call, n, group, first + i, patches + i * stride);
    uint8_t* const patch = patches + i * stride;
    row_sums[i] = simd_.flip_and_sum(patch, k_, 0, patch);
  }
  alignas(64) int32_t c[kMaxTileRows * kMaxTileColumns];
  uint8_t bytes[kMaxTileColumns];
  const auto zx = static_cast<uint32_t>(call.x_zero + (call.flip != 0 ? 128 : 0));
  MutView& y = call.args.out[0];
  for (int64_t panel = 0; panel < panels_; ++panel) {
    const int8_t* weights = static_cast<const int8_t*>(packed_->data()) + (group * panels_ + panel) * groups_ * columns * 4;
    const int64_t oc = group * ocg_ + panel * columns;
    const int64_t width = std::min<int64_t>(columns, ocg_ - panel * columns);
    for (int64_t i = 0; i < count; i += simd_.rows) {
      const int rows = static_cast<int>(std::min<int64_t>(simd_.rows, count - i));
      simd_.tile(rows, patches + i * stride, stride, groups_, weights, c);
      for (int r = 0; r < rows; ++r) {
        int32_t* sum = c + r * columns;
        const uint32_t centred = row_sums[i + r] - static_cast<uint32_t>(k_) * zx;
        simd_.correct(sum, width, call.w_zero + oc, sums_.data() + oc, centred, zx,
                      call.bias != nullptr ? call.bias + oc : nullptr);
        const int64_t to = (n * oc_ + oc) * pixels + first + i + r;
        if (!c_.requantize) {
          for (int64_t j = 0; j < width; ++j) y.Data<int32_t>()[to + j * pixels] = sum[j];
          continue;
        }
        simd_.requantize(sum, width, call.x_scale, call.w_scale + oc, call.y_scale, call.y_zero, y.dtype == DType::kI8, bytes);
        for (int64_t j = 0; j < width; ++j) y.Data<uint8_t>()[to + j * pixels] = bytes[j];
      }
    }
  }
}

Status FastConv::Run(const RunArgs& args) const {
  TENON_ASSIGN_OR_RETURN(const conv::Geometry g, conv::Resolve(p_, args.in[c_.x].shape, args.in[c_.w].shape));
  const auto in = [&](size_t i) { return i != 0 && args.Has(i) ? args.in[i] : View{}; };
  const View x_zero = in(c_.x_zero), w_zero = in(c_.w_zero), w_scale = in(c_.w_scale), y_zero = in(c_.y_zero), bias = in(c_.bias);
  TENON_RETURN_IF_ERROR(CheckPerChannel(w_zero, "w_zero_point", oc_));
  TENON_RETURN_IF_ERROR(CheckPerChannel(w_scale, "w_scale", oc_));
  for (size_t i : {c_.x_zero, c_.x_scale, c_.y_scale, c_.y_zero})
    TENON_RETURN_IF_ERROR(CheckPerChannel(in(i), "a scale or zero point", 1));
  auto* wz = reinterpret_cast<int32_t*>(args.scratch);
  auto* ws = reinterpret_cast<float*>(wz + oc_);
  for (int64_t oc = 0; oc < oc_; ++oc) {
    wz[oc] = (w_zero.present() ? LoadInt(w_zero.dtype, w_zero.data, ChannelIndex(w_zero, oc)) : 0) - (flip_w_ ? 128 : 0);
    ws[oc] = w_scale.present() ? w_scale.Data<float>()[ChannelIndex(w_scale, oc)] : 1;
  }
  const Call call{args,
                  g,
                  x_zero.present() ? LoadInt(x_zero.dtype, x_zero.data, 0) : 0,
                  static_cast<uint8_t>(args.in[c_.x].dtype == DType::kI8 ? 0x80 : 0),
                  wz,
                  ws,
                  c_.requantize ? *in(c_.x_scale).Data<float>() : 1,
                  c_.requantize ? *in(c_.y_scale).Data<float>() : 1,
                  y_zero.present() ? LoadInt(y_zero.dtype, y_zero.data, 0) : 0,
                  bias.present() ? bias.Data<int32_t>() : nullptr};
  const int64_t pixels = g.out_pixels();
  const int64_t blocks = (pixels + BlockRows() - 1) / BlockRows();
  const int64_t all = g.n * p_.group * blocks;
  const int64_t grain =
      args.team.size() <= threads_ ? std::max<int64_t>(1, (1 << 17) / std::max<int64_t>(1, BlockRows() * k_ * ocg_)) : all;
  auto* patches = reinterpret_cast<uint8_t*>(args.scratch) + RoundUp(oc_ * 8, 64);
  args.team.ParallelFor(all, grain, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % blocks * BlockRows();
      Block(call, i / blocks / p_.group, i / blocks % p_.group, first, std::min(BlockRows(), pixels - first),
            patches + thread * PatchBytes());
    }
  });
  return {};
}

Result<std::unique_ptr<Kernel>> MakeOn(const Problem& problem, const Simd& simd) {
  TENON_ASSIGN_OR_RETURN(conv::Params p, conv::ParseParams("Conv", problem.attrs));
  auto kernel = std::make_unique<FastConv>(std::move(p), ConvInputsOf(problem.op), simd, std::max(1, problem.threads));
  TENON_RETURN_IF_ERROR(kernel->Prepare(problem));
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace

Refusal CanFastConv(const Problem& problem) {
  const size_t w = ConvInputsOf(problem.op).w;
  if (!problem.IsConst(w)) return kRefuseWeightsNotConstant;
  if (problem.in[w].data->shape.rank() < 3) return kRefuseRank;
  return problem.in[w].data->num_elements() == 0 ? kRefuseSize : nullptr;
}

Result<std::unique_ptr<Kernel>> MakeConvAvx2(const Problem& p) {
  return MakeOn(p, kSimdAvx2);
}
Result<std::unique_ptr<Kernel>> MakeConvVnni(const Problem& p) {
  return MakeOn(p, kSimdAvx512Vnni);
}

}  // namespace tenon::kernels::quantize
