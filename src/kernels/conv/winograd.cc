#include "kernels/conv/winograd.h"

#include <algorithm>
#include <numbers>
#include <vector>

namespace tenon::kernels::conv {
namespace {

constexpr int kPoints = 36;
// Transformed input and output of a block of tiles: half of an L2 cache of 2 MiB.
constexpr int64_t kBlockFloats = 256 * 1024;
// Transformed weights are read again for every block of tiles: beyond this they come from memory and the gain is gone.
constexpr int64_t kMaxWeights = 24 * 1024;
constexpr int64_t kMinTiles = 24;
constexpr int64_t kMinChannels = 16;

// Rows of G for the points 0, +-1/sqrt(2), +-sqrt(2), infinity.
constexpr double kRoot = std::numbers::sqrt2;
constexpr double kG[6][3] = {{1, 0, 0},
                             {-2.0 / 3, -kRoot / 3, -1.0 / 3},
                             {-2.0 / 3, kRoot / 3, -1.0 / 3},
                             {1.0 / 6, kRoot / 6, 1.0 / 3},
                             {1.0 / 6, -kRoot / 6, 1.0 / 3},
                             {0, 0, 1}};

}  // namespace

bool Winograd::Worth(const Plane& p) {
  if (p.group != 1 || p.in[0] != 1 || p.kernel[0] != 1 || p.out[0] != 1) return false;
  for (int i = 1; i < 3; ++i) {
    if (p.kernel[i] != 3 || p.stride[i] != 1 || p.dilation[i] != 1) return false;
  }
  if (p.c < kMinChannels || p.oc < kMinChannels || p.c * p.oc > kMaxWeights) return false;
  return (p.out[1] + 3) / 4 * ((p.out[2] + 3) / 4) >= kMinTiles && p.out[1] >= 8 && p.out[2] >= 8;
}

int64_t PackedWinogradFloats(const gemm::MicroKernels& kernels, int64_t oc, int64_t c) {
  return kPoints * gemm::PackedFloats(kernels, c, oc);
}

void PackWinograd(const gemm::MicroKernels& kernels, const float* w, int64_t oc, int64_t c, float* packed) {
  // U = G g G^T per (oc, c), summed in double; then one packed matrix a point.
  std::vector<float> u(static_cast<size_t>(kPoints * c * oc));
  for (int64_t i = 0; i < oc * c; ++i) {
    const float* g = w + i * 9;
    double t[6][3];
    for (int a = 0; a < 6; ++a) {
      for (int b = 0; b < 3; ++b) t[a][b] = kG[a][0] * g[b] + kG[a][1] * g[3 + b] + kG[a][2] * g[6 + b];
    }
    for (int a = 0; a < 6; ++a) {
      for (int b = 0; b < 6; ++b) {
        u[static_cast<size_t>((a * 6 + b) * oc * c + i)] =
            static_cast<float>(t[a][0] * kG[b][0] + t[a][1] * kG[b][1] + t[a][2] * kG[b][2]);
      }
    }
  }
  for (int64_t point = 0; point < kPoints; ++point) {
    gemm::Pack(kernels, u.data() + point * oc * c, c, oc, 1, c, 1, packed + point * gemm::PackedFloats(kernels, c, oc));
  }
}

Winograd::Winograd(const gemm::MicroKernels& kernels, const WinogradKernels& transforms, const Plane& plane, int threads)
    : kernels_(&kernels), transforms_(&transforms), p_(plane), threads_(std::max(1, threads)) {
  tiles_h_ = (p_.out[1] + 3) / 4;
  tiles_w_ = (p_.out[2] + 3) / 4;
  tiles_ = p_.n * tiles_h_ * tiles_w_;
  if (tiles_ == 0) return;
  const int64_t fit = std::clamp<int64_t>(kBlockFloats / (kPoints * (p_.c + p_.oc)), 12, 96);
  // As many equal blocks as fill all threads evenly.
  const int64_t blocks = (tiles_ + fit * threads_ - 1) / (fit * threads_) * threads_;
  block_ = (tiles_ + blocks - 1) / blocks;
  slot_floats_ = static_cast<size_t>((block_ * kPoints * (p_.c + p_.oc) + 15) / 16 * 16);
}

void Winograd::RunBlock(const Implicit::Operands& o, const gemm::Clamp& clamp, int64_t begin, int64_t end, float* scratch) const {
  const int64_t count = end - begin;
  float* v = scratch;
  float* m = scratch + block_ * kPoints * p_.c;
  WinogradInput in{};
  in.row_step = p_.in[2] * p_.c;
  in.pixel_step = p_.c;
  in.channels = p_.c;
  in.point_step = count * p_.c;
  for (int64_t t = 0; t < count; ++t) {
    const int64_t w = (begin + t) % tiles_w_ * 4 - p_.pad[2];
    const int64_t h = (begin + t) / tiles_w_ % tiles_h_ * 4 - p_.pad[1];
    const int64_t image = (begin + t) / tiles_w_ / tiles_h_;
    in.i0 = std::clamp<int64_t>(-h, 0, 6);
    in.i1 = std::clamp<int64_t>(p_.in[1] - h, 0, 6);
    in.j0 = std::clamp<int64_t>(-w, 0, 6);
    in.j1 = std::clamp<int64_t>(p_.in[2] - w, 0, 6);
    in.x = o.x + ((image * p_.in[1] + h) * p_.in[2] + w) * p_.c;
    in.v = v + t * p_.c;
    transforms_->input(in);
  }
  gemm::Gemm g;
  g.m = count;
  g.n = p_.oc;
  g.k = p_.c;
  g.a_stride = p_.c;
  g.c_stride = p_.oc;
  for (int64_t point = 0; point < kPoints; ++point) {
    g.a = v + point * count * p_.c;
    g.b = o.packed + point * gemm::PackedFloats(*kernels_, p_.c, p_.oc);
    g.c = m + point * count * p_.oc;
    gemm::Run(*kernels_, g);
  }
  WinogradOutput out{};
  out.point_step = count * p_.oc;
  out.channels = p_.oc;
  out.bias = o.bias;
  out.row_step = p_.out[2] * p_.oc;
  out.pixel_step = p_.oc;
  out.lo = clamp.lo;
  out.hi = clamp.hi;
  for (int64_t t = 0; t < count; ++t) {
    const int64_t w = (begin + t) % tiles_w_ * 4;
    const int64_t h = (begin + t) / tiles_w_ % tiles_h_ * 4;
    const int64_t image = (begin + t) / tiles_w_ / tiles_h_;
    const int64_t at = ((image * p_.out[1] + h) * p_.out[2] + w) * p_.oc;
    out.rows = std::min<int64_t>(4, p_.out[1] - h);
    out.columns = std::min<int64_t>(4, p_.out[2] - w);
    out.m = m + t * p_.oc;
    out.y = o.y + at;
    out.residual = o.residual != nullptr ? o.residual + at : nullptr;
    transforms_->output(out);
    if (clamp.needs_rest) kernels_->activate(clamp.rest, out.y, out.rows, out.columns * p_.oc, out.row_step);
  }
}

void Winograd::Run(const Implicit::Operands& o, const gemm::Activation& activation, std::byte* scratch, hw::Team& team) const {
  const gemm::Clamp clamp(activation);
  const int64_t blocks = (tiles_ + block_ - 1) / block_;
  const int64_t parts = std::min<int64_t>(std::min(threads_, team.size()), blocks);
  team.ParallelFor(parts, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t part = begin; part < end; ++part) {
      float* slot = reinterpret_cast<float*>(scratch) + part * static_cast<int64_t>(slot_floats_);
      for (int64_t b = blocks * part / parts; b < blocks * (part + 1) / parts; ++b) {
        RunBlock(o, clamp, b * block_, std::min(tiles_, (b + 1) * block_), slot);
      }
    }
  });
}

}  // namespace tenon::kernels::conv
