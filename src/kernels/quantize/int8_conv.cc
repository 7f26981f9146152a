// ConvInteger, QLinearConv and QuantizedConv with constant weights, on the byte products of gemm/.
//
// The product reads bytes of channels-last pictures where they lie. Where it cannot (floats, channels first, padding) the part of
// the input that is read is first laid out as such a picture, with the zero point around it.
#include <algorithm>
#include <cstring>

#include "kernels/conv/plane.h"
#include "kernels/kernel_util.h"
#include "kernels/quantize/int8.h"
#include "kernels/quantize/picture.h"
#include "kernels/quantize/terms.h"

namespace tenon::kernels::quantize {
namespace {

using conv::Plane;

int64_t RoundUp(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

// How the taps of a window are told to the product.
enum class Cut {
  kTaps,  // one by one
  kLines,  // a line of the window is one run
  kWhole,  // the window is laid out as one run
};

struct State final : ShapeState {
  conv::Geometry g;
  Plane plane;  // with the picture as its input: no padding
  Picture picture;
  bool copied = false;
  bool turn_out = false;  // Y is made channels last and turned
  gemm::Int8Walk walk;
  gemm::Int8Product product;
  std::vector<int64_t> offsets;  // of the runs of a window
  int64_t run = 0;
  size_t picture_bytes = 0, y_bytes = 0, residual_bytes = 0;
};

// A run of bytes that may be read and written up to the next 16: short ones are not worth a call.
inline void CopyRun(const uint8_t* from, int64_t run, uint8_t* to) {
  for (int64_t i = 0; i < run; i += 16) std::memcpy(to + i, from + i, 16);
}

class Windows final : public gemm::Int8Gather {
 public:
  Windows(const State& s, int64_t row_bytes) : s_(s), row_bytes_(row_bytes) {}

  void Fill(const uint8_t* a, int64_t group, int64_t first, int64_t rows, uint8_t* to) const override {
    const Plane& p = s_.plane;
    const int64_t run = s_.run;
    int64_t w = first % p.out[2], h = first / p.out[2] % p.out[1], d = first / (p.out[2] * p.out[1]) % p.out[0];
    int64_t n = first / p.out_pixels();
    for (int64_t r = 0; r < rows; ++r, to += row_bytes_) {
      const uint8_t* from =
          a + (((n * p.in[0] + d * p.stride[0]) * p.in[1] + h * p.stride[1]) * p.in[2] + w * p.stride[2]) * p.c + group * p.icg();
      uint8_t* run_to = to;
      for (int64_t offset : s_.offsets) {
        if (s_.copied)
          CopyRun(from + offset, run, run_to);
        else
          std::memcpy(run_to, from + offset, static_cast<size_t>(run));
        run_to += run;
      }
      if (++w < p.out[2]) continue;
      w = 0;
      if (++h < p.out[1]) continue;
      h = 0;
      if (++d < p.out[0]) continue;
      d = 0;
      ++n;
    }
  }

 private:
  const State& s_;
  int64_t row_bytes_;
};

class Int8Conv final : public Kernel {
 public:
  Int8Conv(std::string_view op, hw::IsaMask isa, int threads)
      : fused_(IsFused(op)),
        linear_(LinearInputsOf(op)),
        isa_(isa),
        kernels_(gemm::SelectInt8(isa)),
        threads_(std::max(1, threads)) {}

  Status Prepare(const Problem& problem) {
    TENON_ASSIGN_OR_RETURN(params_, conv::ParseParams(fused_ ? "FusedConv" : "Conv", problem.attrs));
    if (fused_) {
      TENON_ASSIGN_OR_RETURN(terms_, ParseFused(problem.attrs));
    }
    const View& w = *problem.in[W()].data;
    const Shape& s = w.shape;
    if (s[0] % params_.group != 0) return BadInput("weights of shape {} in {} groups", s.ToString(), params_.group);
    const int64_t taps = s.Product(2, s.rank()), line = s.dim(-1), icg = s[1];
    cut_ = params_.group == 1 && params_.dilation(s.rank() - 3) == 1 ? Cut::kLines : Cut::kTaps;
    // Short runs leave most of a step of depth empty.
    const int64_t run = cut_ == Cut::kLines ? line * icg : icg;
    if (RoundUp(run, kernels_.k_unit) * (taps * icg / run) * 10 > RoundUp(taps * icg, kernels_.k_unit) * 13) cut_ = Cut::kWhole;
    gemm::Int8Weights b;
    b.b = w.Data<uint8_t>();
    b.is_unsigned = w.dtype == DType::kU8;
    b.groups = params_.group;
    b.n = s[0] / params_.group;
    b.n_stride = icg * taps;
    b.group_stride = b.n * b.n_stride;
    b.inner = icg;
    b.inner_stride = taps;
    b.outer_stride = 1;
    b.outer = cut_ == Cut::kWhole ? taps : cut_ == Cut::kLines ? line : 1;
    b.taps = taps / b.outer;
    b.tap_stride = b.outer;
    TENON_ASSIGN_OR_RETURN(packed_, gemm::Int8Packed::Make(kernels_, b));
    return Status::Ok();
  }

  Result<Configured> Configure(std::span<const View> in, std::span<const View> out) const override {
    auto s = std::make_unique<State>();
    TENON_ASSIGN_OR_RETURN(s->g, conv::Resolve(params_, in[0].shape, in[W()].shape));
    if (s->g.spatial > 3) return Unsupported("convolution over {} spatial axes; at most 3", s->g.spatial);
    const Plane given(s->g);
    Plane& p = s->plane;
    p = given;
    const bool wide = kernels_.begin != nullptr;
    const bool subsampled = wide && given.taps() == 1 && given.stride[1] * given.stride[2] > 1;
    s->picture = Picture(given, !params_.nhwc, in[0].dtype, subsampled);
    for (int i = 0; i < 3; ++i) {
      p.in[i] = s->picture.extent(i);
      p.pad[i] = 0;
      if (subsampled) p.stride[i] = 1;
    }
    s->copied = !s->picture.in_place();
    if (!s->copied) {
      for (int i = 0; i < 3; ++i) p.in[i] = given.in[i];
    }
    MakeRuns(s.get());
    MakeWalk(s.get());
    const int64_t channels = p.oc;
    const int64_t input = p.n * p.in_pixels() * p.c;
    s->product = gemm::Int8Product(kernels_, isa_, packed_, s->walk, s->walk.copies ? std::vector<int64_t>{0} : s->offsets,
                                   s->walk.copies ? p.n * p.out_pixels() * packed_.taps() * packed_.depth() : input, threads_);
    if (s->copied) s->picture_bytes = static_cast<size_t>(RoundUp(input + s->product.reach() + 64, 64));
    const int64_t size = DTypeBits(out[0].dtype) / 8;
    s->turn_out = !params_.nhwc && channels != 1 && p.out_pixels() != 1;
    if (s->turn_out) {
      s->y_bytes = static_cast<size_t>(RoundUp(s->g.y.num_elements() * size, 64));
      if (fused_ && in.size() > kFusedResidual && in[kFusedResidual].present()) {
        s->residual_bytes = static_cast<size_t>(RoundUp(static_cast<int64_t>(in[kFusedResidual].bytes()), 64));
      }
    }
    const size_t bytes = ColumnBytes(channels) + s->picture_bytes + s->y_bytes + s->residual_bytes + s->product.scratch_bytes();
    return Configured{std::move(s), bytes};
  }

  Status Run(const RunArgs& args) const override {
    const auto& s = static_cast<const State&>(*args.state);
    if (s.g.y.num_elements() == 0) return Status::Ok();
    Result<Terms> resolved = fused_ ? TermsOf(terms_, args, s.plane.oc) : TermsOf(linear_, args, s.plane.oc);
    if (!resolved.ok()) return std::move(resolved).TakeStatus();
    const Terms& terms = *resolved;
    TENON_RETURN_IF_ERROR(CheckConvTerms(terms, fused_, linear_, args, s.plane.oc));
    std::byte* columns = args.scratch;
    auto* picture = reinterpret_cast<uint8_t*>(columns + ColumnBytes(s.plane.oc));
    std::byte* y = reinterpret_cast<std::byte*>(picture) + s.picture_bytes;
    std::byte* residual = y + s.y_bytes;
    std::byte* rest = residual + s.residual_bytes;
    gemm::Int8Operands o;
    o.a = args.in[0].Data<uint8_t>();
    o.a_end = o.a + args.in[0].bytes();
    if (s.copied) {
      s.picture.Fill(args.in[0].data, terms.x, isa_, picture, args.team);
      o.a = picture;
      o.a_end = picture + s.picture_bytes;
    }
    o.group_step = s.plane.icg();
    const Windows windows(s, packed_.taps() * packed_.stored_depth());
    o.gather = &windows;
    void* y_at = args.out[0].data;
    const void* residual_at = terms.residual_view.data;
    const int64_t pixels = s.plane.out_pixels();
    if (s.turn_out) {
      y_at = y;
      if (residual_at != nullptr && !terms.residual_is_row) {
        TurnImages(residual_at, s.plane.n, s.plane.oc, pixels, DTypeBits(terms.residual_view.dtype) / 8, residual, args.team);
        residual_at = residual;
      }
    }
    Bind(terms, kernels_.flips_signed, packed_.sums(), packed_.taps() * packed_.depth(), y_at, residual_at, columns, &o);
    s.product.Run(packed_, o, rest, args.team);
    if (s.turn_out) {
      TurnImages(y, s.plane.n, pixels, s.plane.oc, DTypeBits(args.out[0].dtype) / 8, args.out[0].data, args.team);
    }
    return Status::Ok();
  }

  uint32_t InPlaceInputs() const override { return fused_ ? 1U << kFusedResidual : 0; }
  size_t PackedBytes() const override { return packed_.bytes(); }
  bool ConsumedConstant(size_t i) const override { return i == W(); }

 private:
  size_t W() const { return fused_ ? kFusedW : linear_.w; }

  void MakeRuns(State* s) const {
    const Plane& p = s->plane;
    const bool lines = p.group == 1 && p.dilation[2] == 1;
    s->run = lines ? p.kernel[2] * p.c : p.icg();
    for (int64_t d = 0; d < p.kernel[0]; ++d) {
      for (int64_t h = 0; h < p.kernel[1]; ++h) {
        for (int64_t w = 0; w < (lines ? 1 : p.kernel[2]); ++w) {
          s->offsets.push_back(((d * p.dilation[0] * p.in[1] + h * p.dilation[1]) * p.in[2] + w * p.dilation[2]) * p.c);
        }
      }
    }
  }

  // Rows of A: whole pictures, pictures with the columns that padding added (computed and dropped), lines, or windows laid out:
  // where they must be, and where the tiles of the others would be more by a tenth.
  void MakeWalk(State* s) const {
    const Plane& p = s->plane;
    gemm::Int8Walk& walk = s->walk;
    const gemm::Int8Panels panels(kernels_, packed_.n());
    const int64_t tall = panels.count == 0 ? 1 : kernels_.max_rows[panels.vectors(0)];
    const auto tiles = [&](int64_t rows) { return (rows + tall - 1) / tall; };
    const int64_t image = p.in_pixels() * p.c;
    const int64_t all = p.n * p.out_pixels();
    walk.row_stride = p.stride[2] * p.c;
    walk.copies = cut_ == Cut::kWhole;
    const bool pointwise = p.taps() == 1 && p.stride[0] * p.stride[1] * p.stride[2] == 1 && p.in_pixels() == p.out_pixels();
    if (walk.copies || pointwise) {
      walk.rows = walk.pitch = walk.valid = all;
      if (all == 0) walk.planes = 0, walk.rows = walk.pitch = 1;
      return;
    }
    const int64_t joined = (p.out[1] - 1) * p.in[2] + p.out[2];
    const int64_t by_line = p.out[1] * tiles(p.out[2]);
    const bool may_join = p.stride[1] == 1 && p.stride[2] == 1;
    const int64_t tiled = p.n * p.out[0] * (may_join ? std::min(tiles(joined), by_line) : by_line);
    if (kernels_.begin == nullptr && s->run == packed_.stored_depth() && tiles(all) * 11 < tiled * 10) {
      walk.copies = true;
      walk.rows = walk.pitch = walk.valid = all;
      return;
    }
    if (may_join && tiles(joined) < by_line) {
      walk.planes = p.n * p.out[0];
      walk.rows = joined;
      walk.pitch = p.in[2];
      walk.valid = p.out[2];
      walk.extents[0] = p.out[0];
      walk.plane_strides[0] = image;
      walk.plane_strides[1] = p.stride[0] * p.in[1] * p.in[2] * p.c;
      return;
    }
    walk.planes = p.n * p.out[0] * p.out[1];
    walk.rows = walk.pitch = walk.valid = p.out[2];
    walk.extents[0] = p.out[0];
    walk.extents[1] = p.out[1];
    walk.plane_strides[0] = image;
    walk.plane_strides[1] = p.stride[0] * p.in[1] * p.in[2] * p.c;
    walk.plane_strides[2] = p.stride[1] * p.in[2] * p.c;
  }

  bool fused_;
  LinearInputs linear_;
  conv::Params params_;
  FusedParams terms_;
  hw::IsaMask isa_;
  const gemm::Int8Kernels& kernels_;
  int threads_;
  Cut cut_ = Cut::kTaps;
  gemm::Int8Packed packed_;
};

}  // namespace

Refusal CanInt8Conv(const Problem& problem) {
  const size_t w = IsFused(problem.op) ? kFusedW : LinearInputsOf(problem.op).w;
  if (!problem.IsConst(w)) return kRefuseWeightsNotConstant;
  const int rank = problem.in[w].data->shape.rank();
  if (rank < 3 || rank > 5) return kRefuseRank;
  return problem.in[w].data->num_elements() == 0 ? kRefuseSize : nullptr;
}

Result<std::unique_ptr<Kernel>> MakeInt8ConvOn(const Problem& problem, hw::IsaMask isa) {
  auto kernel = std::make_unique<Int8Conv>(problem.op, isa, problem.threads);
  TENON_RETURN_IF_ERROR(kernel->Prepare(problem));
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace tenon::kernels::quantize
