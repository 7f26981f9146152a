#include "kernels/conv/windows.h"

#include <algorithm>
#include <cstring>

namespace tenon::kernels::conv {

struct Bf16Windows::At {
  int64_t w, h, d, n;
};

Bf16Windows::Bf16Windows(const gemm::Bf16Kernels& kernels, const Plane& plane, const void* x, bool f32, int64_t first_channel)
    : kernels_(kernels),
      p_(plane),
      x_(static_cast<const std::byte*>(x) + first_channel * (f32 ? 4 : 2)),
      f32_(f32),
      whole_lines_(plane.group == 1 && plane.dilation[2] == 1),
      bytes_(kernels.a_f32 ? 4 : 2) {}

void Bf16Windows::Advance(At* at) const {
  if (++at->w < p_.out[2]) return;
  at->w = 0;
  if (++at->h < p_.out[1]) return;
  at->h = 0;
  if (++at->d < p_.out[0]) return;
  at->d = 0;
  ++at->n;
}

std::byte* Bf16Windows::Zeros(std::byte* to, int64_t count) const {
  std::memset(to, 0, static_cast<size_t>(count * bytes_));
  return to + count * bytes_;
}

std::byte* Bf16Windows::Runs(int64_t offset, int64_t n, int64_t runs, int64_t step, std::byte* to) const {
  kernels_.convert_runs(x_ + offset * (f32_ ? 4 : 2), f32_, n, runs, step, to);
  return to + n * runs * bytes_;
}

// The window's part of the line whose first pixel is at `offset`, beginning at column w0, which may lie outside.
std::byte* Bf16Windows::Line(int64_t offset, int64_t w0, std::byte* to) const {
  const int64_t icg = p_.icg();
  const int64_t step = p_.dilation[2];
  // Kernel positions [lo, hi) fall inside the line.
  const int64_t lo = std::clamp<int64_t>(w0 < 0 ? (-w0 + step - 1) / step : 0, 0, p_.kernel[2]);
  const int64_t hi = std::clamp<int64_t>(w0 < p_.in[2] ? (p_.in[2] - w0 + step - 1) / step : 0, lo, p_.kernel[2]);
  if (lo > 0) to = Zeros(to, lo * icg);
  if (hi > lo) {
    const int64_t from = offset + (w0 + lo * step) * p_.c;
    to = whole_lines_ ? Runs(from, (hi - lo) * icg, 1, 0, to) : Runs(from, icg, hi - lo, step * p_.c, to);
  }
  if (hi < p_.kernel[2]) to = Zeros(to, (p_.kernel[2] - hi) * icg);
  return to;
}

std::byte* Bf16Windows::Window(const At& at, std::byte* to) const {
  const int64_t w0 = at.w * p_.stride[2] - p_.pad[2];
  const int64_t h0 = at.h * p_.stride[1] - p_.pad[1];
  const int64_t d0 = at.d * p_.stride[0] - p_.pad[0];
  const int64_t line_values = p_.in[2] * p_.c;
  const bool inner =
      whole_lines_ && w0 >= 0 && w0 + p_.kernel[2] <= p_.in[2] && h0 >= 0 && h0 + (p_.kernel[1] - 1) * p_.dilation[1] < p_.in[1];
  for (int64_t d = 0; d < p_.kernel[0]; ++d) {
    const int64_t id = d0 + d * p_.dilation[0];
    if (id < 0 || id >= p_.in[0]) {
      to = Zeros(to, p_.kernel[1] * p_.kernel[2] * p_.icg());
      continue;
    }
    const int64_t picture = (at.n * p_.in[0] + id) * p_.in[1] * line_values;
    if (inner) {
      to = Runs(picture + h0 * line_values + w0 * p_.c, p_.kernel[2] * p_.c, p_.kernel[1], p_.dilation[1] * line_values, to);
      continue;
    }
    for (int64_t h = 0; h < p_.kernel[1]; ++h) {
      const int64_t ih = h0 + h * p_.dilation[1];
      const bool inside = ih >= 0 && ih < p_.in[1];
      to = inside ? Line(picture + ih * line_values, w0, to) : Zeros(to, p_.kernel[2] * p_.icg());
    }
  }
  return to;
}

void Bf16Windows::Fill(const void* context, int64_t row, int64_t count, void* to, int64_t stride) {
  const auto& self = *static_cast<const Bf16Windows*>(context);
  const Plane& p = self.p_;
  At at;
  int64_t pixel = row;
  at.w = pixel % p.out[2];
  pixel /= p.out[2];
  at.h = pixel % p.out[1];
  pixel /= p.out[1];
  at.d = pixel % p.out[0];
  at.n = pixel / p.out[0];
  const int64_t k = p.taps() * p.icg();
  const int64_t padding = (k + gemm::kBf16Depth - 1) / gemm::kBf16Depth * gemm::kBf16Depth - k;
  auto* out = static_cast<std::byte*>(to);
  for (int64_t r = 0; r < count; ++r, self.Advance(&at)) {
    std::byte* end = self.Window(at, out + r * stride * self.bytes_);
    if (padding > 0) self.Zeros(end, padding);
  }
}

}  // namespace tenon::kernels::conv
