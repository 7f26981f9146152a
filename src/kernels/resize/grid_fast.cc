// GridSample on f32 pictures: the neighbours and weights of a block of points once, then every channel with them.
#include <algorithm>

#include "kernels/kernel_util.h"
#include "kernels/resize/resize.h"

namespace tenon::kernels::resize {
namespace {

constexpr int64_t kPoints = 128;  // of a block
constexpr int kMaxTaps = 16;      // cubic: 4 x 4

// The common case without the padding's rules: a linear position with both neighbours inside.
GridTaps Taps(const GridParams& params, const GridAxis& a, float n) {
  if (params.mode == Mode::kLinear) {
    const auto length = static_cast<double>(a.length);
    const double v = n;
    const double x = params.align_corners ? (v + 1) / 2 * (length - 1) : ((v + 1) * length - 1) / 2;
    if (x >= 0 && x < length - 1) {
      const auto low = static_cast<int64_t>(x);
      const double r = x - static_cast<double>(low);
      return {2, {low, low + 1}, {1 - r, r}};
    }
  }
  return TapsOf(params, a, n);
}

struct Block {
  int taps = 0;
  int32_t index[kMaxTaps * kPoints];
  float weight[kMaxTaps * kPoints];
};

// `grid`: (x, y) of n points.
void FillBlock(const GridParams& params, const GridAxis& height, const GridAxis& width, const float* grid, int64_t n, Block* b) {
  for (int64_t i = 0; i < n; ++i) {
    const GridTaps h = Taps(params, height, grid[2 * i + 1]);
    const GridTaps w = Taps(params, width, grid[2 * i]);
    b->taps = h.count * w.count;
    int64_t at = i;
    for (int y = 0; y < h.count; ++y) {
      for (int x = 0; x < w.count; ++x, at += n) {
        const bool inside = h.index[y] >= 0 && w.index[x] >= 0;
        b->index[at] = inside ? static_cast<int32_t>(h.index[y] * width.length + w.index[x]) : 0;
        b->weight[at] = inside ? static_cast<float>(h.weight[y] * w.weight[x]) : 0;
      }
    }
  }
}

}  // namespace

template <const ResizeInner* kInner>
Status RunGridFast(const GridParams& params, const RunArgs& args) {
  const View &x = args.in[0], &grid = args.in[1];
  // Other ranks and types, and what is wrong, go the plain way.
  const bool plain = x.shape.rank() != 4 || grid.shape.rank() != 4 || grid.dtype != DType::kF32 || grid.shape[0] != x.shape[0] ||
                     grid.shape[3] != 2 || x.num_elements() == 0 || grid.num_elements() == 0 ||
                     x.shape[2] * x.shape[3] > INT32_MAX;
  if (plain) return RunGridReference(params, args);
  TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, {x.shape[0], x.shape[1], grid.shape[1], grid.shape[2]}));
  const int64_t channels = x.shape[1], plane = x.shape[2] * x.shape[3], points = grid.shape[1] * grid.shape[2];
  const GridAxis height = MakeGridAxis(params, x.shape[2]), width = MakeGridAxis(params, x.shape[3]);
  const int64_t blocks = (points + kPoints - 1) / kPoints;
  const int64_t grain = std::max<int64_t>(1, 8192 / (kPoints * (channels + 4)));
  args.team.ParallelFor(x.shape[0] * blocks, grain, [&](int64_t begin, int64_t end, int) {
    Block block;
    for (int64_t k = begin; k < end; ++k) {
      const int64_t b = k / blocks, first = k % blocks * kPoints, n = std::min(kPoints, points - first);
      FillBlock(params, height, width, grid.Data<float>() + (b * points + first) * 2, n, &block);
      for (int64_t c = b * channels; c < (b + 1) * channels; ++c) {
        kInner->sample(x.Data<float>() + c * plane, block.index, block.weight, block.taps, y.Data<float>() + c * points + first,
                       n);
      }
    }
  });
  return {};
}

template Status RunGridFast<&kResizeAvx2>(const GridParams& params, const RunArgs& args);
template Status RunGridFast<&kResizeAvx512>(const GridParams& params, const RunArgs& args);

}  // namespace tenon::kernels::resize
