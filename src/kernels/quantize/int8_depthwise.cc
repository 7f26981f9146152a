// Depthwise ConvInteger, QLinearConv and QuantizedConv: one channel in and out per group. Weights are packed less their zero
// points, so that only the zero point of x is left, a term of the channel.
#include <algorithm>

#include "kernels/conv/plane.h"
#include "kernels/kernel_util.h"
#include "kernels/quantize/depthwise.h"
#include "kernels/quantize/int8.h"
#include "kernels/quantize/picture.h"
#include "kernels/quantize/terms.h"

namespace tenon::kernels::quantize {
namespace {

constexpr int64_t kStrip = 16, kBlock = 256;   // pixels and channels of sums that wait for what becomes of them
constexpr int64_t kLineWork = 64 * 1024;       // multiply-adds worth another thread

int64_t RoundUp(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

DepthwiseFunction Select(hw::IsaMask isa) {
#if defined(__x86_64__)
  if (hw::Covers(isa, hw::kAvx2 | hw::kAvx512 | hw::kAvx512Vnni)) return DepthwiseInt8Avx512Vnni;
  if (hw::Covers(isa, hw::kAvx2)) return DepthwiseInt8Avx2;
#endif
  (void)isa;
  return DepthwiseInt8Portable;
}

ColumnsFunction SelectColumns(hw::IsaMask isa, int64_t columns, int64_t stride) {
#if defined(__x86_64__)
  if (hw::Covers(isa, hw::kAvx2 | hw::kAvx512 | hw::kAvx512Vnni)) return ColumnsInt8Avx512Vnni(columns, stride);
#endif
  (void)isa, (void)columns, (void)stride;
  return nullptr;
}

ColumnsToBytes SelectToBytes(hw::IsaMask isa, int64_t columns, int64_t stride) {
#if defined(__x86_64__)
  if (hw::Covers(isa, hw::kAvx2 | hw::kAvx512 | hw::kAvx512Vnni)) return ColumnsToBytesAvx512Vnni(columns, stride);
#endif
  (void)isa, (void)columns, (void)stride;
  return nullptr;
}

struct State final : ShapeState {
  conv::Geometry g;
  conv::Plane plane;   // with the picture as its input
  Picture picture;
  bool copied = false, turn_out = false;
  std::vector<int64_t> offsets;
  size_t picture_bytes = 0, y_bytes = 0, residual_bytes = 0;
};

class Int8Depthwise final : public Kernel {
 public:
  Int8Depthwise(std::string_view op, hw::IsaMask isa)
      : fused_(IsFused(op)),
        linear_(LinearInputsOf(op)),
        isa_(isa),
        function_(Select(isa)),
        kernels_(gemm::SelectInt8(isa)),
        floats_(gemm::Select(isa)) {}

  Status Prepare(const Problem& problem) {
    TENON_ASSIGN_OR_RETURN(params_, conv::ParseParams(fused_ ? "FusedConv" : "Conv", problem.attrs));
    if (fused_) {
      TENON_ASSIGN_OR_RETURN(terms_, ParseFused(problem.attrs));
    }
    const View& w = *problem.in[W()].data;
    const size_t z = fused_ ? kFusedZero : linear_.w_zero;
    const View zero = problem.Has(z) ? *problem.in[z].data : View{};
    channels_ = w.shape[0];
    taps_ = w.shape.Product(2, w.shape.rank());
    if (zero.present() && zero.num_elements() != 1 && zero.num_elements() != channels_) {
      return BadInput("zero point of the weights of shape {}; 1 or {} elements needed", zero.shape.ToString(), channels_);
    }
    const int64_t step = RoundUp(channels_, kDepthwiseLanes);
    packed_.assign(static_cast<size_t>(step * taps_), 0);
    bool bytes = true;
    sums_.assign(static_cast<size_t>(channels_), 0);
    for (int64_t c = 0; c < channels_; ++c) {
      const int32_t zb = zero.present() ? LoadInt(zero.dtype, zero.data, zero.num_elements() == 1 ? 0 : c) : 0;
      for (int64_t t = 0; t < taps_; ++t) {
        const int32_t v = LoadInt(w.dtype, w.data, c * taps_ + t) - zb;
        packed_[static_cast<size_t>(t * step + c)] = v & 0xFFFF;
        sums_[static_cast<size_t>(c)] += v;
        bytes = bytes && v >= -128 && v <= 127;
      }
    }
    if (bytes && w.shape.rank() == 4) PrepareColumns(w.shape[2], w.shape[3], step);
    return Status::Ok();
  }

  Result<Configured> Configure(std::span<const View> in, std::span<const View> out) const override {
    auto s = std::make_unique<State>();
    TENON_ASSIGN_OR_RETURN(s->g, conv::Resolve(params_, in[0].shape, in[W()].shape));
    if (s->g.spatial > 3) return Unsupported("convolution over {} spatial axes; at most 3", s->g.spatial);
    const conv::Plane given(s->g);
    conv::Plane& p = s->plane;
    p = given;
    s->picture = Picture(given, !params_.nhwc, in[0].dtype, false);
    // Whole vectors of channels are read: those of the next pixel, or what lies behind the last one.
    s->copied = !s->picture.in_place() || p.c % kDepthwiseLanes != 0;
    if (s->copied) {
      for (int i = 0; i < 3; ++i) p.in[i] = s->picture.extent(i);
      s->picture_bytes = static_cast<size_t>(RoundUp(p.n * p.in_pixels() * p.c + 64, 64));
    }
    for (int64_t d = 0; d < p.kernel[0]; ++d) {
      for (int64_t h = 0; h < p.kernel[1]; ++h) {
        for (int64_t w = 0; w < p.kernel[2]; ++w) {
          s->offsets.push_back(((d * p.dilation[0] * p.in[1] + h * p.dilation[1]) * p.in[2] + w * p.dilation[2]) * p.c);
        }
      }
    }
    s->turn_out = !params_.nhwc && p.c != 1 && p.out_pixels() != 1;
    if (s->turn_out) {
      s->y_bytes = static_cast<size_t>(RoundUp(s->g.y.num_elements() * (DTypeBits(out[0].dtype) / 8), 64));
      if (fused_ && in.size() > kFusedResidual && in[kFusedResidual].present()) {
        s->residual_bytes = static_cast<size_t>(RoundUp(static_cast<int64_t>(in[kFusedResidual].bytes()), 64));
      }
    }
    const size_t bytes = ColumnBytes(channels_) + s->picture_bytes + s->y_bytes + s->residual_bytes;
    return Configured{std::move(s), bytes};
  }

  Status Run(const RunArgs& args) const override {
    const auto& s = static_cast<const State&>(*args.state);
    const conv::Plane& p = s.plane;
    if (s.g.y.num_elements() == 0) return Status::Ok();
    Result<Terms> resolved = fused_ ? TermsOf(terms_, args, channels_) : TermsOf(linear_, args, channels_);
    if (!resolved.ok()) return std::move(resolved).TakeStatus();
    Terms& terms = *resolved;
    TENON_RETURN_IF_ERROR(CheckConvTerms(terms, fused_, linear_, args, channels_));
    terms.w_zero = View{};   // taken off when the weights were packed
    terms.w_type = DType::kI8;
    auto* picture = reinterpret_cast<uint8_t*>(args.scratch + ColumnBytes(channels_));
    std::byte* y = reinterpret_cast<std::byte*>(picture) + s.picture_bytes;
    std::byte* residual = y + s.y_bytes;
    const uint8_t* x = args.in[0].Data<uint8_t>();
    if (s.copied) {
      s.picture.Fill(args.in[0].data, terms.x, isa_, picture, args.team);
      x = picture;
    }
    void* y_at = args.out[0].data;
    const void* residual_at = terms.residual_view.data;
    const int64_t pixels = p.out_pixels();
    if (s.turn_out) {
      y_at = y;
      if (residual_at != nullptr && !terms.residual_is_row) {
        TurnImages(residual_at, p.n, p.c, pixels, DTypeBits(terms.residual_view.dtype) / 8, residual, args.team);
        residual_at = residual;
      }
    }
    gemm::Int8Operands o;
    Bind(terms, false, sums_, taps_, y_at, residual_at, args.scratch, &o);
    const gemm::Clamp clamp(o.activation);
    o.finish.lo = clamp.lo;
    o.finish.hi = clamp.hi;
    const int64_t lines = p.n * p.out[0] * p.out[1];
    const int64_t work = std::max<int64_t>(1, p.out[2] * channels_ * taps_);
    const bool at_once = to_bytes_ != nullptr && !o.a_signed && !clamp.needs_rest && kernels_.in_steps != nullptr &&
                         kernels_.in_steps(o.finish) && !o.finish.through_grid && o.finish.residual == nullptr;
    const gemm::Int8Finish finish = gemm::Int8FinishOf(o.finish, clamp, 0, channels_);
    const Folded folded(finish, channels_, fold_);
    args.team.ParallelFor(lines, std::max<int64_t>(1, kLineWork / work), [&](int64_t begin, int64_t end, int) {
      for (int64_t line = begin; at_once && line < end; ++line) LineToBytes(s, x, finish, folded, line);
      if (at_once) return;
      for (int64_t c = 0; c < channels_; c += kBlock) {
        for (int64_t line = begin; line < end; ++line) Line(s, x, o, clamp, line, c);
      }
    });
    if (s.turn_out) TurnImages(y, p.n, pixels, p.c, DTypeBits(args.out[0].dtype) / 8, args.out[0].data, args.team);
    return Status::Ok();
  }

  uint32_t InPlaceInputs() const override { return fused_ ? 1U << kFusedResidual : 0; }
  size_t PackedBytes() const override { return packed_.size() * sizeof(int32_t) + quads_.size(); }
  bool ConsumedConstant(size_t i) const override { return i == W(); }

 private:
  size_t W() const { return fused_ ? kFusedW : linear_.w; }

  // Weights as DepthwiseColumns wants them, when the instruction set has what reads them.
  void PrepareColumns(int64_t rows, int64_t columns, int64_t step) {
    const int64_t stride = params_.stride(1);
    if (params_.dilation(1) != 1) return;
    columns_ = SelectColumns(isa_, columns, stride);
    if (columns_ == nullptr) return;
    to_bytes_ = SelectToBytes(isa_, columns, stride);
    rows_ = rows;
    block_bytes_ = (rows + 3) / 4 * columns * 4 * kColumnsBlock;
    const int64_t blocks = (channels_ + kColumnsBlock - 1) / kColumnsBlock;
    quads_.assign(static_cast<size_t>(blocks * block_bytes_), 0);
    if (stride == 1 && channels_ == kColumnsBlock / 2) {
      fold_ = 2;   // pairs of pixels lie two columns apart
      pairs_to_bytes_ = SelectToBytes(isa_, columns, 2);
    }
    for (int64_t c = 0; c < channels_ * fold_; ++c) {
      const int64_t in_block = c % kColumnsBlock, lane = in_block / 16, quad = in_block / 4 % 4, i = in_block % 4;
      for (int64_t h = 0; h < rows; ++h) {
        for (int64_t w = 0; w < columns; ++w) {
          const int64_t at = ((h / 4 * columns + w) * 4 + quad) * kColumnsBlock + 16 * lane + 4 * i + h % 4;
          const auto weight = static_cast<int16_t>(packed_[static_cast<size_t>((h * columns + w) * step + c % channels_)]);
          quads_[static_cast<size_t>(c / kColumnsBlock * block_bytes_ + at)] = static_cast<int8_t>(weight);
        }
      }
    }
  }

  // What lies under the first window of a line.
  const uint8_t* FirstOf(const State& s, const uint8_t* x, int64_t line) const {
    const conv::Plane& p = s.plane;
    const int64_t h = line % p.out[1], d = line / p.out[1] % p.out[0], n = line / (p.out[1] * p.out[0]);
    return x + ((n * p.in[0] + d * p.stride[0]) * p.in[1] + h * p.stride[1]) * p.in[2] * p.c;
  }

  // Of channels from c on; x, pixels and sums are left.
  DepthwiseColumns ColumnsFrom(const conv::Plane& p, int64_t c, int64_t channels) const {
    DepthwiseColumns columns{};
    columns.pixel_step = p.stride[2] * p.c;
    columns.row_step = p.dilation[1] * p.in[2] * p.c;
    columns.column_step = p.c;
    columns.rows = static_cast<int>(rows_);
    columns.w = quads_.data() + c / kColumnsBlock * block_bytes_;
    columns.channels = channels;
    return columns;
  }

  // What becomes of sums, for pairs of neighbouring pixels that fill a block together.
  struct Folded {
    Folded(const gemm::Int8Finish& finish, int64_t channels, int64_t fold) : f(finish) {
      if (fold == 1) return;
      for (int64_t i = 0; i < kColumnsBlock; ++i) {
        offset[i] = finish.offset[i % channels];
        scale[i] = finish.scale[i % channels];
        bias[i] = finish.bias != nullptr ? finish.bias[i % channels] : 0;
      }
      f.offset = offset;
      f.scale = scale;
      if (finish.bias != nullptr) f.bias = bias;
      f.n = kColumnsBlock;
      f.y_stride *= fold;
    }
    gemm::Int8Finish f;
    int32_t offset[kColumnsBlock];
    float scale[kColumnsBlock], bias[kColumnsBlock];
  };

  void LineToBytes(const State& s, const uint8_t* x, const gemm::Int8Finish& finish, const Folded& folded, int64_t line) const {
    const conv::Plane& p = s.plane;
    DepthwiseColumns columns = ColumnsFrom(p, 0, channels_);
    columns.x = FirstOf(s, x, line);
    const int64_t together = fold_ > 1 ? p.out[2] / fold_ : 0;
    gemm::Int8Finish f = finish;
    gemm::PointInt8Finish(finish, line * p.out[2], 0, &f);
    if (together > 0) {
      DepthwiseColumns wide = columns;
      wide.pixel_step *= fold_;
      wide.channels = kColumnsBlock;
      wide.pixels = together;
      gemm::Int8Finish g = folded.f;
      g.y = f.y;
      pairs_to_bytes_(wide, g);
    }
    const int64_t done = together * fold_;
    if (done == p.out[2]) return;
    columns.x += done * columns.pixel_step;
    columns.pixels = p.out[2] - done;
    gemm::PointInt8Finish(finish, line * p.out[2] + done, 0, &f);
    to_bytes_(columns, f);
  }

  void Line(const State& s, const uint8_t* x, const gemm::Int8Operands& o, const gemm::Clamp& clamp, int64_t line,
            int64_t c) const {
    alignas(64) int32_t sums[kStrip * kBlock];
    const conv::Plane& p = s.plane;
    DepthwiseStrip strip{};
    strip.is_signed = o.a_signed;
    strip.pixel_step = p.stride[2] * p.c;
    strip.offsets = s.offsets.data();
    strip.taps = taps_;
    strip.w = packed_.data() + c;
    strip.w_step = RoundUp(channels_, kDepthwiseLanes);
    strip.channels = std::min(kBlock, channels_ - c);
    strip.sums = sums;
    strip.sums_step = kBlock;
    DepthwiseColumns columns = ColumnsFrom(p, c, strip.channels);
    columns.sums = sums;
    columns.sums_step = kBlock;
    const uint8_t* first = FirstOf(s, x, line) + c;
    for (int64_t w = 0; w < p.out[2]; w += kStrip) {
      strip.x = columns.x = first + w * strip.pixel_step;
      strip.pixels = columns.pixels = std::min(kStrip, p.out[2] - w);
      if (columns_ != nullptr && !o.a_signed)
        columns_(columns);
      else
        function_(strip);
      gemm::FinishInt8(kernels_, floats_, o.finish, clamp, line * p.out[2] + w, strip.pixels, c, strip.channels, sums, kBlock);
    }
  }

  bool fused_;
  LinearInputs linear_;
  conv::Params params_;
  FusedParams terms_;
  hw::IsaMask isa_;
  DepthwiseFunction function_;
  const gemm::Int8Kernels& kernels_;
  const gemm::MicroKernels& floats_;
  int64_t channels_ = 0, taps_ = 0;
  std::vector<int32_t> packed_;
  ColumnsFunction columns_ = nullptr;   // serves unsigned x with quads_, and so does the next
  ColumnsToBytes to_bytes_ = nullptr, pairs_to_bytes_ = nullptr;
  std::vector<int8_t> quads_;
  int64_t rows_ = 0, block_bytes_ = 0;   // of a window; of the quads of a channel block
  int64_t fold_ = 1;   // pixels of a block: 2 where their channels fill it
  std::vector<int32_t> sums_;   // of each channel's weights less their zero point
};

}  // namespace

Refusal CanInt8Depthwise(const Problem& problem) {
  if (Refusal no = CanInt8Conv(problem)) return no;
  const bool fused = IsFused(problem.op);
  const Shape& w = problem.in[fused ? kFusedW : LinearInputsOf(problem.op).w].data->shape;
  if (w[1] != 1 || problem.attrs.Int("group", 1) != w[0] || w[0] == 1) return kRefuseSize;
  const size_t zero = fused ? kFusedZero : LinearInputsOf(problem.op).w_zero;
  return problem.Has(zero) && !problem.IsConst(zero) ? kRefuseWeightsNotConstant : nullptr;
}

Result<std::unique_ptr<Kernel>> MakeInt8DepthwiseOn(const Problem& problem, hw::IsaMask isa) {
  auto kernel = std::make_unique<Int8Depthwise>(problem.op, isa);
  TENON_RETURN_IF_ERROR(kernel->Prepare(problem));
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace tenon::kernels::quantize
