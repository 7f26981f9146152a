#include "kernels/conv/windows.h"

#include <algorithm>
#include <cstring>

namespace tenon::kernels::conv {

struct WindowRows::At {
  int64_t w, h, d, n;
};

WindowRows::WindowRows(const gemm::Bf16Kernels& kernels, const Plane& plane, const void* x, bool f32, int64_t first_channel)
    : kernels_(kernels),
      p_(plane),
      x_(static_cast<const std::byte*>(x) + first_channel * (f32 ? 4 : 2)),
      f32_(f32),
      whole_lines_(plane.group == 1 && plane.dilation[2] == 1),
      w_lo_((plane.pad[2] + plane.stride[2] - 1) / plane.stride[2]),
      bytes_(kernels.a_f32 ? 4 : 2) {
  const int64_t room = plane.in[2] + plane.pad[2] - (plane.kernel[2] - 1) * plane.dilation[2] - 1;
  w_hi_ = room < 0 ? 0 : std::min(plane.out[2], room / plane.stride[2] + 1);
}

// Outputs of the line from `at` on whose windows lie inside the picture and are a few whole runs.
int64_t WindowRows::Stretch(const At& at) const {
  const int64_t h0 = at.h * p_.stride[1] - p_.pad[1];
  const bool inside = h0 >= 0 && h0 + (p_.kernel[1] - 1) * p_.dilation[1] < p_.in[1];
  return whole_lines_ && p_.kernel[0] == 1 && p_.pad[0] == 0 && inside && at.w >= w_lo_ ? std::max<int64_t>(0, w_hi_ - at.w) : 0;
}

void WindowRows::Inner(const At& at, int64_t count, std::byte* to, int64_t stride, int64_t padded) const {
  const int64_t line = (at.n * p_.in[0] + at.d * p_.stride[0]) * p_.in[1] + at.h * p_.stride[1] - p_.pad[1];
  const int64_t first = (line * p_.in[2] + at.w * p_.stride[2] - p_.pad[2]) * p_.c;
  gemm::Bf16Windows v;
  v.from = x_ + first * (f32_ ? 4 : 2);
  v.from_f32 = f32_;
  v.n = p_.kernel[2] * p_.c;
  v.runs = p_.kernel[1];
  v.run_step = p_.dilation[1] * p_.in[2] * p_.c;
  v.windows = count;
  v.window_step = p_.stride[2] * p_.c;
  v.to = to;
  v.to_stride = stride;
  v.padded = padded;
  kernels_.windows(v);
}

// Within the line, or to the next.
void WindowRows::Advance(At* at, int64_t pixels) const {
  at->w += pixels;
  if (at->w < p_.out[2]) return;
  at->w = 0;
  if (++at->h < p_.out[1]) return;
  at->h = 0;
  if (++at->d < p_.out[0]) return;
  at->d = 0;
  ++at->n;
}

std::byte* WindowRows::Zeros(std::byte* to, int64_t count) const {
  std::memset(to, 0, static_cast<size_t>(count * bytes_));
  return to + count * bytes_;
}

std::byte* WindowRows::Runs(int64_t offset, int64_t n, int64_t runs, int64_t step, std::byte* to) const {
  kernels_.windows({x_ + offset * (f32_ ? 4 : 2), f32_, n, runs, step, 1, 0, to, 0, 0});
  return to + n * runs * bytes_;
}

// The window's part of the line whose first pixel is at `offset`, beginning at column w0, which may lie outside.
std::byte* WindowRows::Line(int64_t offset, int64_t w0, std::byte* to) const {
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

std::byte* WindowRows::Window(const At& at, std::byte* to) const {
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

void WindowRows::Fill(const void* context, int64_t row, int64_t count, void* to, int64_t stride) {
  const auto& self = *static_cast<const WindowRows*>(context);
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
  const int64_t padded = (k + gemm::kBf16Depth - 1) / gemm::kBf16Depth * gemm::kBf16Depth;
  auto* out = static_cast<std::byte*>(to);
  for (int64_t r = 0; r < count;) {
    std::byte* first = out + r * stride * self.bytes_;
    const int64_t stretch = std::min(count - r, self.Stretch(at));
    if (stretch > 0) {
      self.Inner(at, stretch, first, stride, padded);
    } else {
      std::byte* end = self.Window(at, first);
      if (padded > k) self.Zeros(end, padded - k);
    }
    const int64_t done = std::max<int64_t>(1, stretch);
    self.Advance(&at, done);
    r += done;
  }
}

}  // namespace tenon::kernels::conv
