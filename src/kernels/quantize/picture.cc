#include "kernels/quantize/picture.h"

#include <algorithm>
#include <cstring>

#include "kernels/quantize/terms.h"

namespace tenon::kernels::quantize {
namespace {

constexpr int64_t kGrain = 32 * 1024;   // bytes worth another thread
constexpr int64_t kBlock = 32;

template <typename T>
void Turn(const T* from, int64_t rows, int64_t cols, int64_t r0, int64_t r1, T* to) {
  for (int64_t c0 = 0; c0 < cols; c0 += kBlock) {
    const int64_t c1 = std::min(cols, c0 + kBlock);
    for (int64_t r = r0; r < r1; ++r) {
      for (int64_t c = c0; c < c1; ++c) to[c * rows + r] = from[r * cols + c];
    }
  }
}

template <typename T>
void TurnAll(const void* from, int64_t images, int64_t rows, int64_t cols, void* to, hw::Team& team) {
  const int64_t blocks = (rows + kBlock - 1) / kBlock;
  team.ParallelFor(
      images * blocks, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, kBlock * cols)), [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t image = i / blocks * rows * cols;
          const int64_t r = i % blocks * kBlock;
          Turn(static_cast<const T*>(from) + image, rows, cols, r, std::min(rows, r + kBlock), static_cast<T*>(to) + image);
        }
      });
}

}  // namespace

Picture::Picture(const conv::Plane& plane, bool channels_first, DType type, bool subsampled)
    : p_(plane), channels_first_(channels_first && plane.c != 1 && plane.in_pixels() != 1), type_(type) {
  bool inside = true;
  for (int i = 0; i < 3; ++i) {
    if (subsampled) step_[i] = p_.stride[i];
    const int64_t stride = subsampled ? 1 : p_.stride[i];
    extents_[i] = p_.out[i] == 0 ? 0 : (p_.out[i] - 1) * stride + (p_.kernel[i] - 1) * p_.dilation[i] + 1;
    inside = inside && p_.pad[i] == 0 && extents_[i] <= p_.in[i];
  }
  in_place_ = inside && !channels_first_ && !subsampled && type != DType::kF32;
}

void Picture::Line(const std::byte* x, const Grid& grid, hw::IsaMask isa, int64_t line, uint8_t* to) const {
  const int64_t h = line % extents_[1] * step_[1] - p_.pad[1];
  const int64_t d = line / extents_[1] % extents_[0] * step_[0] - p_.pad[0];
  const int64_t n = line / (extents_[1] * extents_[0]);
  const auto zero = static_cast<uint8_t>(grid.zero);
  const auto bytes = [&](int64_t pixels) { return static_cast<size_t>(pixels * p_.c); };
  if (d < 0 || d >= p_.in[0] || h < 0 || h >= p_.in[1] || p_.in[2] == 0) {
    std::memset(to, zero, bytes(extents_[2]));
    return;
  }
  // Columns [first, last) of the line fall inside.
  const int64_t first = std::min(extents_[2], std::max<int64_t>(0, (p_.pad[2] + step_[2] - 1) / step_[2]));
  const int64_t last = std::clamp((p_.in[2] + p_.pad[2] - 1) / step_[2] + 1, first, extents_[2]);
  std::memset(to, zero, bytes(first));
  std::memset(to + last * p_.c, zero, bytes(extents_[2] - last));
  const int64_t size = type_ == DType::kF32 ? 4 : 1;
  const int64_t column = first * step_[2] - p_.pad[2];
  uint8_t* at = to + first * p_.c;
  const int64_t count = last - first;
  if (channels_first_) {
    const int64_t pixels = p_.in_pixels();
    const std::byte* from = x + (n * p_.c * pixels + (d * p_.in[1] + h) * p_.in[2] + column) * size;
    constexpr int64_t kRow = 256;
    uint8_t row[kRow];
    for (int64_t c = 0; c < p_.c; ++c, from += pixels * size) {
      for (int64_t i = 0; i < count;) {
        const int64_t part = std::min((kRow - 1) / step_[2] + 1, count - i);
        QuantizeRow(from + i * step_[2] * size, type_, grid, (part - 1) * step_[2] + 1, isa, row);
        for (int64_t k = 0; k < part; ++k) at[(i + k) * p_.c + c] = row[k * step_[2]];
        i += part;
      }
    }
    return;
  }
  const std::byte* from = x + (((n * p_.in[0] + d) * p_.in[1] + h) * p_.in[2] + column) * p_.c * size;
  if (step_[2] == 1) {
    QuantizeRow(from, type_, grid, count * p_.c, isa, at);
    return;
  }
  for (int64_t i = 0; i < count; ++i) QuantizeRow(from + i * step_[2] * p_.c * size, type_, grid, p_.c, isa, at + i * p_.c);
}

void Picture::Fill(const void* x, const Grid& grid, hw::IsaMask isa, uint8_t* to, hw::Team& team) const {
  const int64_t lines = p_.n * extents_[0] * extents_[1];
  const int64_t line_bytes = extents_[2] * p_.c;
  team.ParallelFor(lines, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, line_bytes)), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) Line(static_cast<const std::byte*>(x), grid, isa, i, to + i * line_bytes);
  });
}

void TurnImages(const void* from, int64_t images, int64_t rows, int64_t cols, int size, void* to, hw::Team& team) {
  if (size == 1)
    TurnAll<uint8_t>(from, images, rows, cols, to, team);
  else if (size == 2)
    TurnAll<uint16_t>(from, images, rows, cols, to, team);
  else
    TurnAll<uint32_t>(from, images, rows, cols, to, team);
}

}  // namespace tenon::kernels::quantize
