// RoiAlign by averages on f32. A bin's samples form a grid, and bilinear weights and the test for "outside" are products over the
// axes, so a bin is (row weights) * picture * (column weights): each axis' weights are made once a roi and serve all channels.
#include <algorithm>
#include <cmath>

#include "kernels/kernel_util.h"
#include "kernels/pool/pool.h"
#include "kernels/resize/inner.h"

namespace tenon::kernels::pool {
namespace {

constexpr size_t kMaxScratch = size_t{1} << 26;

// Of each bin along one axis: the pixels that its samples touch, with their summed weights.
struct AxisWeights {
  int64_t cap = 0;  // pixels of a bin at most
  int32_t* count;  // [bins]
  int32_t* index;  // [bins][cap]
  float* weight;  // [bins][cap]
  int32_t first = 0, last = -1;  // pixels touched by any bin
};

struct Layout {
  size_t bins[2], pixels[2];  // height, width
  size_t ints() const { return bins[0] * (1 + pixels[0]) + bins[1] * (1 + pixels[1]); }
  size_t floats() const { return bins[0] * pixels[0] + bins[1] * pixels[1]; }
  size_t dense() const { return std::max(pixels[0], pixels[1]); }
  // Counts and indices, weights, one axis' sums with marks, and a row of the picture for each thread.
  size_t bytes(int threads) const {
    return (dense() + 1) * 2 * sizeof(double) + (ints() + floats() + pixels[1] * static_cast<size_t>(threads) + 16) * 4;
  }
  bool fits(int threads) const {
    for (int a = 0; a < 2; ++a) {
      if (bins[a] > kMaxScratch || pixels[a] > kMaxScratch || bins[a] * (pixels[a] + 1) > kMaxScratch) return false;
    }
    return bytes(threads) <= kMaxScratch;
  }
};

Layout LayoutOf(const RoiAlignParams& params, const Shape& x) {
  return {{static_cast<size_t>(params.height), static_cast<size_t>(params.width)},
          {static_cast<size_t>(x[2]), static_cast<size_t>(x[3])}};
}

// `samples` positions a bin from `corner` on; `dense` and `touched` have a place for each of `length` pixels and are zero.
void FillAxis(double corner, double bin, double samples, int64_t bins, int64_t length, double* dense, double* touched,
              AxisWeights* a) {
  const int64_t count = samples > 0 ? static_cast<int64_t>(samples) : 0;
  a->first = static_cast<int32_t>(length), a->last = -1;
  for (int64_t b = 0; b < bins; ++b) {
    int64_t low = length, high = -1;
    for (int64_t s = 0; s < count; ++s) {
      double v = corner + static_cast<double>(b) * bin + (static_cast<double>(s) + 0.5) * bin / samples;
      if (!(v >= -1 && v <= static_cast<double>(length))) continue;
      v = std::max(v, 0.0);
      const int64_t i = std::min(static_cast<int64_t>(v), length - 1), next = std::min(i + 1, length - 1);
      const double part = i == next ? 0 : v - static_cast<double>(i);
      dense[i] += 1 - part;
      dense[next] += part;
      touched[i] = touched[next] = 1;
      low = std::min(low, i), high = std::max(high, next);
    }
    int32_t n = 0;
    for (int64_t i = low; i <= high; ++i) {
      if (touched[i] == 0) continue;
      a->index[b * a->cap + n] = static_cast<int32_t>(i);
      a->weight[b * a->cap + n++] = static_cast<float>(dense[i] / static_cast<double>(count));
      dense[i] = touched[i] = 0;
    }
    a->count[b] = n;
    if (n > 0) a->first = std::min(a->first, static_cast<int32_t>(low)), a->last = std::max(a->last, static_cast<int32_t>(high));
  }
}

class RoiAlignFast final : public Kernel {
 public:
  RoiAlignFast(const RoiAlignParams& params, const resize::ResizeInner* inner, int threads)
      : params_(params), inner_(inner), threads_(std::max(1, threads)) {}

  Result<Configured> Configure(std::span<const View> in, std::span<const View> /*out*/) const override {
    Configured c;
    if (in[0].shape.rank() != 4) return c;  // refused by Run
    const Layout layout = LayoutOf(params_, in[0].shape);
    if (layout.fits(threads_)) c.scratch_bytes = layout.bytes(threads_);
    return c;
  }

  Status Run(const RunArgs& args) const override {
    TENON_RETURN_IF_ERROR(CheckRoiAlign(args));
    const View& x = args.in[0];
    const Layout layout = LayoutOf(params_, x.shape);
    if (!layout.fits(threads_)) return RunRoiAlign(params_, args);
    const int64_t count = args.in[1].shape[0], channels = x.shape[1], height = x.shape[2], width = x.shape[3];
    TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, {count, channels, params_.height, params_.width}));
    auto* dense = reinterpret_cast<double*>(args.scratch);
    double* touched = dense + layout.dense();
    auto* ints = reinterpret_cast<int32_t*>(touched + layout.dense());
    auto* floats = reinterpret_cast<float*>(ints + layout.ints());
    std::fill(dense, dense + 2 * layout.dense(), 0.0);
    AxisWeights axes[2];
    for (int a = 0; a < 2; ++a) {
      axes[a].cap = x.shape[2 + a];
      axes[a].count = ints;
      axes[a].index = ints + layout.bins[a];
      axes[a].weight = floats;
      ints += layout.bins[a] * (1 + layout.pixels[a]);
      floats += layout.bins[a] * layout.pixels[a];
    }
    float* rows = floats;
    for (int64_t r = 0; r < count; ++r) {
      TENON_ASSIGN_OR_RETURN(const RoiGrid g, ResolveRoi(params_, args, r));
      FillAxis(g.y, g.bin_h, g.grid_h, params_.height, height, dense, touched, &axes[0]);
      FillAxis(g.x, g.bin_w, g.grid_w, params_.width, width, dense, touched, &axes[1]);
      const int64_t work = channels * params_.height * (params_.width + 8) * 8;
      const int64_t grain = args.team.size() > threads_ ? channels : std::max<int64_t>(1, channels * 16384 / (work + 1));
      args.team.ParallelFor(channels, grain, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t c = begin; c < end; ++c) {
          Plane(x.Data<float>() + (g.batch * channels + c) * height * width, width, axes[0], axes[1], rows + thread * width,
                y.Data<float>() + (r * channels + c) * params_.height * params_.width);
        }
      });
    }
    return {};
  }

 private:
  void Plane(const float* x, int64_t width, const AxisWeights& h, const AxisWeights& w, float* row, float* y) const {
    const int64_t span = w.last - w.first + 1;
    for (int64_t p = 0; p < params_.height; ++p, y += params_.width) {
      if (h.count[p] == 0 || span <= 0) {
        std::fill(y, y + params_.width, 0.0f);
        continue;
      }
      inner_->blend(x + w.first, width, h.index + p * h.cap, h.weight + p * h.cap, h.count[p], row, span);
      for (int64_t q = 0; q < params_.width; ++q) {
        const int32_t* index = w.index + q * w.cap;
        const float* weight = w.weight + q * w.cap;
        float sum = 0;
        for (int32_t k = 0; k < w.count[q]; ++k) sum += weight[k] * row[index[k] - w.first];
        y[q] = sum;
      }
    }
  }

  RoiAlignParams params_;
  const resize::ResizeInner* inner_;
  int threads_;
};

Result<std::unique_ptr<Kernel>> MakeWith(const Problem& problem, const resize::ResizeInner& inner) {
  TENON_ASSIGN_OR_RETURN(const RoiAlignParams params, ParseRoiAlign(problem.op, problem.attrs));
  return std::unique_ptr<Kernel>(std::make_unique<RoiAlignFast>(params, &inner, problem.threads));
}

}  // namespace

Refusal CanRoiAlignF32(const Problem& p) {
  return p.attrs.String("mode", "avg") == "avg" ? RequireF32First(p) : kRefuseAttribute;
}
Result<std::unique_ptr<Kernel>> MakeRoiAlignAvx2(const Problem& problem) {
  return MakeWith(problem, resize::kResizeAvx2);
}
Result<std::unique_ptr<Kernel>> MakeRoiAlignAvx512(const Problem& problem) {
  return MakeWith(problem, resize::kResizeAvx512);
}

}  // namespace tenon::kernels::pool
