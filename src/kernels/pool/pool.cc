// The table of pooling, and how its f32 rows cut the work for the team.
#include "kernels/pool/pool.h"

#include <algorithm>
#include <limits>

#include "kernels/float_io.h"
#include "kernels/kernel_util.h"
#include "kernels/reduce/reduce.h"
#include "kernels/through_f32.h"

namespace tenon::kernels::pool {
namespace {

constexpr int64_t kGrain = 16384;  // taps worth a thread

Refusal CanFloat(const Problem& p) {
  return IsPlainFloat(p.in[0].dtype) ? nullptr : kRefuseDType;
}
Refusal CanPoolReference(const Problem& p) {
  const DType t = p.in[0].dtype;
  const bool integer = p.op == "MaxPool" && (t == DType::kI8 || t == DType::kU8);
  return IsPlainFloat(t) || integer ? nullptr : kRefuseDType;
}
Refusal CanServe(const Problem& p, bool nhwc, DType dtype = DType::kF32) {
  if (p.in[0].dtype != dtype) return kRefuseDType;
  if (p.op == "LpPool") return kRefuseAttribute;
  if (Wants(p.out, 1)) return "Indices are not served";
  if ((p.attrs.String("data_layout", "NCHW") == "NHWC") != nhwc) return kRefuseLayout;
  return p.attrs.Ints("kernel_shape").size() <= (nhwc ? 2u : 3u) ? nullptr : kRefuseRank;
}
Refusal CanIndexedF32(const Problem& p) {
  if (p.in[0].dtype != DType::kF32) return kRefuseDType;
  if (p.op != "MaxPool" || !Wants(p.out, 1)) return "Indices are not asked for";
  if (p.attrs.String("data_layout", "NCHW") == "NHWC") return kRefuseLayout;
  return p.attrs.Ints("kernel_shape").size() <= 3 ? nullptr : kRefuseRank;
}
Refusal CanNhwcF32(const Problem& p) {
  return CanServe(p, true);
}
Refusal CanNhwcBf16(const Problem& p) {
  return CanServe(p, true, DType::kBF16);
}
Refusal CanNchwF32(const Problem& p) {
  return CanServe(p, false);
}
Refusal CanGlobalF32(const Problem& p) {
  return p.op == "GlobalLpPool" ? kRefuseAttribute : RequireF32First(p);
}

// [batch, channels, depth, height, width] of a run, missing spatial axes filled with 1 in front.
struct Geometry {
  Axis axes[3];
  MutView out;
  int64_t batch = 0, channels = 0;
};

Result<Geometry> Resolve(const PoolParams& params, const RunArgs& args) {
  Geometry g;
  const Shape& x = args.in[0].shape;
  const int missing = 3 - params.spatial;
  TENON_RETURN_IF_ERROR(ResolveAxes(params, x, g.axes + missing));
  TENON_ASSIGN_OR_RETURN(g.out, TakeOutput(args, 0, PooledShape(params, x, g.axes + missing)));
  g.batch = x[0];
  g.channels = params.nhwc ? x.dim(-1) : x[1];
  return g;
}

// One NCHW plane at a time: rows of the window are combined into a padded row, which the window then slides along.
template <const PoolInner* kInner>
class NchwKernel final : public Kernel {
 public:
  NchwKernel(PoolParams params, int threads) : params_(std::move(params)), threads_(std::max(1, threads)) {}
  static Result<std::unique_ptr<Kernel>> Make(const Problem& problem) {
    TENON_ASSIGN_OR_RETURN(PoolParams params, ParsePool(problem.op, problem.attrs));
    return std::unique_ptr<Kernel>(std::make_unique<NchwKernel>(std::move(params), problem.threads));
  }

  Result<Configured> Configure(std::span<const View> in, std::span<const View> /*out*/) const override {
    Axis axes[3];
    TENON_RETURN_IF_ERROR(ResolveAxes(params_, in[0].shape, axes));
    const Axis& w = axes[params_.spatial - 1];
    Configured c;
    c.scratch_bytes = sizeof(float) * static_cast<size_t>(w.out + (RowFloats(w) + w.out) * threads_);
    return c;
  }

  Status Run(const RunArgs& args) const override {
    TENON_ASSIGN_OR_RETURN(Geometry g, Resolve(params_, args));
    if (g.out.num_elements() == 0) return {};
    const Axis &d = g.axes[0], &h = g.axes[1], &w = g.axes[2];
    const bool max = params_.kind == Kind::kMax;
    auto* scale = reinterpret_cast<float*>(args.scratch);  // of each column; the rows' part follows in Plane
    for (int64_t o = 0; o < w.out; ++o) scale[o] = 1.0f / static_cast<float>(std::max<int64_t>(1, Count(w, o)));
    const int64_t taps = d.out * h.out * (w.in + w.out) * d.kernel * h.kernel;
    // Scratch was sized for the threads that make() was told of.
    const int64_t grain = args.team.size() > threads_ ? g.batch * g.channels : 1 + kGrain / std::max<int64_t>(1, taps);
    args.team.ParallelFor(g.batch * g.channels, grain, [&](int64_t begin, int64_t end, int thread) {
      float* row = scale + w.out + (RowFloats(w) + w.out) * thread;
      RowScale row_scale{scale, row + RowFloats(w)};
      std::fill(row, row + RowFloats(w), max ? -std::numeric_limits<float>::infinity() : 0.0f);
      for (int64_t p = begin; p < end; ++p) {
        Plane(g, args.in[0].Data<float>() + p * d.in * h.in * w.in, g.out.Data<float>() + p * d.out * h.out * w.out, row,
              &row_scale);
      }
    });
    return {};
  }

 private:
  static constexpr int64_t kSlack = 64;  // what slide() may read behind its last tap

  // Room for the row with its padding on both sides.
  static int64_t RowFloats(const Axis& w) { return w.pad_begin + std::max(w.in, (w.out - 1) * w.stride + w.extent()) + kSlack; }

  int64_t Count(const Axis& a, int64_t o) const {
    if (params_.count_include_pad) return a.PaddedTaps(o);
    int64_t first, last;
    a.Taps(o, &first, &last);
    return last - first;
  }

  // 1 / taps of each column for windows of `rows` rows: computed again only where `rows` changes, at the borders of a plane.
  struct RowScale {
    const float* one;  // for one row
    float* scratch;
    int64_t rows = 0;
    const float* For(int64_t wanted, int64_t n) {
      if (wanted == 1) return one;
      if (wanted != rows) {
        rows = wanted;
        for (int64_t i = 0; i < n; ++i) scratch[i] = one[i] / static_cast<float>(wanted);
      }
      return scratch;
    }
  };

  void Plane(const Geometry& g, const float* x, float* y, float* row, RowScale* scale) const {
    const Axis &d = g.axes[0], &h = g.axes[1], &w = g.axes[2];
    const bool max = params_.kind == Kind::kMax;
    for (int64_t od = 0; od < d.out; ++od) {
      for (int64_t oh = 0; oh < h.out; ++oh, y += w.out) {
        int64_t d0, d1, h0, h1;
        d.Taps(od, &d0, &d1);
        h.Taps(oh, &h0, &h1);
        bool first = true;
        for (int64_t kd = d0; kd < d1; ++kd) {
          for (int64_t kh = h0; kh < h1; ++kh) {
            const int64_t at = (d.start(od) + kd * d.dilation) * h.in + h.start(oh) + kh * h.dilation;
            kInner->accumulate(max, first, x + at * w.in, row + w.pad_begin, w.in);
            first = false;
          }
        }
        if (first) std::fill(y, y + w.out, max ? -std::numeric_limits<float>::infinity() : 0.0f);
        if (first) continue;
        const float* factor = max ? nullptr : scale->For(Count(d, od) * Count(h, oh), w.out);
        kInner->slide(max, row, y, w.out, w.kernel, w.stride, w.dilation, factor);
      }
    }
  }

  PoolParams params_;
  int threads_;
};

// -inf as an element.
constexpr float LeastOf(const float*) {
  return -std::numeric_limits<float>::infinity();
}
constexpr uint16_t LeastOf(const uint16_t*) {
  return F32ToBF16Bits(-std::numeric_limits<float>::infinity());
}

// E: float, or uint16_t for bf16.
template <const PoolInner* kInner, typename E>
Status RunNhwc(const PoolParams& params, const RunArgs& args) {
  TENON_ASSIGN_OR_RETURN(const Geometry g, Resolve(params, args));
  if (g.out.num_elements() == 0) return {};
  const Axis &h = g.axes[1], &w = g.axes[2];
  const bool max = params.kind == Kind::kMax;
  const int64_t c = g.channels;
  const int64_t taps = w.out * h.kernel * w.kernel * c;
  args.team.ParallelFor(g.batch * h.out, 1 + kGrain / taps, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t b = r / h.out, oh = r % h.out;
      const E* x = args.in[0].Data<E>() + b * h.in * w.in * c;
      E* y = g.out.Data<E>() + r * w.out * c;
      int64_t h0, h1, w0, w1;
      h.Taps(oh, &h0, &h1);
      for (int64_t ow = 0; ow < w.out; ++ow, y += c) {
        w.Taps(ow, &w0, &w1);
        const int64_t rows = h1 - h0, cols = w1 - w0;
        if (rows * cols == 0) {
          std::fill(y, y + c, max ? LeastOf(y) : E{0});
          continue;
        }
        const int64_t count = params.count_include_pad ? h.PaddedTaps(oh) * w.PaddedTaps(ow) : rows * cols;
        const E* first = x + ((h.start(oh) + h0 * h.dilation) * w.in + w.start(ow) + w0 * w.dilation) * c;
        const float scale = 1.0f / static_cast<float>(count);
        if constexpr (std::is_same_v<E, float>) {
          kInner->channels(max, first, rows, cols, h.dilation * w.in * c, w.dilation * c, c, scale, y);
        } else {
          kInner->channels_bf16(max, first, rows, cols, h.dilation * w.in * c, w.dilation * c, c, scale, y);
        }
      }
    }
  });
  return {};
}

// Taps [first, last) of a window along each of three axes.
struct TapRange {
  int64_t first[3], last[3];
  void Set(int axis, const Axis& a, int64_t o) {
    // Most windows lie inside; Taps divides.
    if (a.start(o) >= 0 && a.start(o) + a.extent() <= a.in) {
      first[axis] = 0, last[axis] = a.kernel;
    } else {
      a.Taps(o, &first[axis], &last[axis]);
    }
  }
};

// The maximum of one window and the tap it came from; without a tap -inf and -1. A NaN that is not the first tap loses. `start`:
// offset in the plane of the window's tap 0, which may lie outside.
float IndexedWindow(const Axis (&axes)[3], const TapRange& taps, int64_t start, const float* x, int64_t* index) {
  const Axis &d = axes[0], &h = axes[1], &w = axes[2];
  const int64_t slice = d.dilation * h.in * w.in, line = h.dilation * w.in, step = w.dilation;
  float acc = -std::numeric_limits<float>::infinity();
  int64_t from = -1;  // row-major
  if (taps.first[0] < taps.last[0] && taps.first[1] < taps.last[1] && taps.first[2] < taps.last[2]) {
    from = start + taps.first[0] * slice + taps.first[1] * line + taps.first[2] * step;
  }
  for (int64_t kd = taps.first[0]; kd < taps.last[0]; ++kd) {
    for (int64_t kh = taps.first[1]; kh < taps.last[1]; ++kh) {
      int64_t at = start + kd * slice + kh * line + taps.first[2] * step;
      for (int64_t kw = taps.first[2]; kw < taps.last[2]; ++kw, at += step) {
        const float v = x[at];
        from ^= (from ^ at) & -static_cast<int64_t>(v > acc);  // no branch: which tap wins cannot be foretold
        acc = v > acc ? v : acc;
      }
    }
  }
  *index = from;
  return acc;
}

int64_t ColumnMajor(const Geometry& g, int64_t index) {
  const Axis &d = g.axes[0], &h = g.axes[1], &w = g.axes[2];
  const int64_t iw = index % w.in, ih = index / w.in % h.in, id = index / w.in / h.in;
  return id + d.in * (ih + h.in * iw);
}

Status RunIndexed(const PoolParams& params, const RunArgs& args) {
  TENON_ASSIGN_OR_RETURN(const Geometry g, Resolve(params, args));
  TENON_ASSIGN_OR_RETURN(const MutView indices, TakeOutput(args, 1, g.out.shape));
  if (g.out.num_elements() == 0) return {};
  const Axis axes[3] = {g.axes[0], g.axes[1], g.axes[2]};
  const Axis &d = axes[0], &h = axes[1], &w = axes[2];
  const int64_t in_plane = d.in * h.in * w.in, out_plane = d.out * h.out * w.out;
  const int64_t taps = out_plane * d.kernel * h.kernel * w.kernel;
  args.team.ParallelFor(g.batch * g.channels, 1 + kGrain / 8 / taps, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p) {
      const float* x = args.in[0].Data<float>() + p * in_plane;
      float* y = g.out.Data<float>() + p * out_plane;
      int64_t* index = indices.Data<int64_t>() + p * out_plane;
      TapRange range;
      for (int64_t od = 0; od < d.out; ++od) {
        range.Set(0, d, od);
        for (int64_t oh = 0; oh < h.out; ++oh) {
          range.Set(1, h, oh);
          const int64_t row = (d.start(od) * h.in + h.start(oh)) * w.in;
          for (int64_t ow = 0; ow < w.out; ++ow, ++y, ++index) {
            range.Set(2, w, ow);
            *y = IndexedWindow(axes, range, row + w.start(ow), x, index);
            if (*index < 0) continue;
            *index = (params.column_major ? ColumnMajor(g, *index) : *index) + p * in_plane;
          }
        }
      }
    }
  });
  return {};
}

template <const reduce::ReduceInner* kInner>
Status RunGlobal(const GlobalParams& params, const RunArgs& args) {
  const Shape& s = args.in[0].shape;
  if (s.rank() < 2) return BadInput("x has rank {}; allowed: 2 or more", s.rank());
  if (s.num_elements() == 0) return RunGlobalReference(params, args);
  Shape shape = s;
  const int first = params.nhwc ? 1 : 2, last = params.nhwc ? s.rank() - 1 : s.rank();
  for (int i = first; i < last; ++i) shape[i] = 1;
  TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, shape));
  const reduce::Collapsed c{s.Product(0, first), s.Product(first, last), s.Product(last, s.rank())};
  const auto kind = params.kind == Kind::kMax ? reduce::Kind::kMax : reduce::Kind::kMean;
  reduce::ReduceF32(*kInner, kind, c, args.in[0].Data<float>(), y.Data<float>(), args.team);
  return {};
}

constexpr auto MakeNchwAvx2 = NchwKernel<&kPoolAvx2>::Make;
constexpr auto MakeNchwAvx512 = NchwKernel<&kPoolAvx512>::Make;
constexpr auto MakeNhwcAvx2 = MakeParam<PoolParams, ParsePool, RunNhwc<&kPoolAvx2, float>>;
constexpr auto MakeNhwcAvx512 = MakeParam<PoolParams, ParsePool, RunNhwc<&kPoolAvx512, float>>;
constexpr auto MakeIndexed = MakeParam<PoolParams, ParsePool, RunIndexed>;
constexpr auto MakeNhwcBf16Avx2 = MakeParam<PoolParams, ParsePool, RunNhwc<&kPoolAvx2, uint16_t>>;
constexpr auto MakeNhwcBf16Avx512 = MakeParam<PoolParams, ParsePool, RunNhwc<&kPoolAvx512, uint16_t>>;
constexpr auto MakeNhwcBytes = MakeParam<PoolParams, ParsePool, RunNhwcBytes>;
constexpr auto MakePoolReference = MakeParam<PoolParams, ParsePool, RunPoolReference>;
constexpr auto MakeGlobalAvx2 = MakeParam<GlobalParams, ParseGlobal, RunGlobal<&reduce::kReduceAvx2>>;
constexpr auto MakeGlobalAvx512 = MakeParam<GlobalParams, ParseGlobal, RunGlobal<&reduce::kReduceAvx512>>;
constexpr auto MakeGlobalReference = MakeParam<GlobalParams, ParseGlobal, RunGlobalReference>;
constexpr auto MakeUnpool = MakeParam<UnpoolParams, ParseUnpool, RunUnpool>;
constexpr auto MakeRoiPool = MakeParam<RoiPoolParams, ParseRoiPool, RunRoiPool>;
constexpr auto MakeRoiAlignMax = MakeParam<RoiAlignParams, ParseRoiAlign, RunRoiAlignMaxF32>;
constexpr auto MakeRoiAlign = MakeParam<RoiAlignParams, ParseRoiAlign, RunRoiAlign>;

constexpr GroupedRow kTable[] = {
#define KERNEL(group, name, isa, can, make) {group, {name, isa, can, make}},
#include "kernels/pool/kernels.inc"
#undef KERNEL
};

Status InferMaxPool(const ShapeArgs& args) {
  return InferPool(args, "MaxPool");
}
Status InferAveragePool(const ShapeArgs& args) {
  return InferPool(args, "AveragePool");
}
Status InferLpPool(const ShapeArgs& args) {
  return InferPool(args, "LpPool");
}

}  // namespace

std::span<const OpKernels> Operators() {
  static const std::vector<Row> pool = RowsOf(kTable, "Pool"), global = RowsOf(kTable, "Global"),
                                unpool = RowsOf(kTable, "Unpool"), roi_pool = RowsOf(kTable, "RoiPool"),
                                roi_align = RowsOf(kTable, "RoiAlign");
  static const OpKernels ops[] = {
      {"MaxPool", InferMaxPool, pool, 1, 1, 1, 2},  {"AveragePool", InferAveragePool, pool, 1, 1},
      {"LpPool", InferLpPool, pool, 1, 1},          {"GlobalAveragePool", InferGlobal, global, 1, 1},
      {"GlobalMaxPool", InferGlobal, global, 1, 1}, {"GlobalLpPool", InferGlobal, global, 1, 1},
      {"MaxUnpool", InferUnpool, unpool, 2, 3},     {"MaxRoiPool", InferRoiPool, roi_pool, 2, 2},
      {"RoiAlign", InferRoiAlign, roi_align, 3, 3},
  };
  return ops;
}

}  // namespace tenon::kernels::pool
