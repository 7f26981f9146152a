#include "media/warp.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tenon::media {
namespace {

Picture NewPicture(int width, int height) {
  Picture out{width, height, {}};
  out.pixels.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  return out;
}

const uint8_t* At(PictureView in, int x, int y) {
  return in.pixels + (static_cast<size_t>(y) * static_cast<size_t>(in.width) + static_cast<size_t>(x)) * 3;
}

// Two neighbours of an output position and the weight of the second.
struct Tap {
  int first;
  int second;
  float weight;
};

std::vector<Tap> Taps(int from, int to) {
  std::vector<Tap> taps(static_cast<size_t>(to));
  const double scale = static_cast<double>(from) / to;
  for (int i = 0; i < to; ++i) {
    const double at = std::clamp((i + 0.5) * scale - 0.5, 0.0, static_cast<double>(from - 1));
    const int first = static_cast<int>(at);
    taps[static_cast<size_t>(i)] = {first, std::min(first + 1, from - 1), static_cast<float>(at - first)};
  }
  return taps;
}

uint8_t Level(float v) {
  return static_cast<uint8_t>(std::clamp(v + 0.5f, 0.0f, 255.0f));
}

// Weights of the four pixels around, the first at -1; OpenCV's cubic.
std::array<float, 4> Cubic(float t) {
  constexpr float a = -0.75f;
  const float s = t + 1, u = 1 - t;
  const float w0 = ((a * s - 5 * a) * s + 8 * a) * s - 4 * a;
  const float w1 = ((a + 2) * t - (a + 3)) * t * t + 1;
  const float w2 = ((a + 2) * u - (a + 3)) * u * u + 1;
  return {w0, w1, w2, 1 - w0 - w1 - w2};
}

void Sample(PictureView in, double x, double y, uint8_t* out) {
  // Far outside all is border; this also keeps the conversions in range.
  x = std::clamp(x, -4.0, in.width + 4.0);
  y = std::clamp(y, -4.0, in.height + 4.0);
  const double left = std::floor(x), top = std::floor(y);
  const auto wx = Cubic(static_cast<float>(x - left));
  const auto wy = Cubic(static_cast<float>(y - top));
  float sum[3] = {0, 0, 0};
  for (int j = 0; j < 4; ++j) {
    const int row = std::clamp(static_cast<int>(top) - 1 + j, 0, in.height - 1);
    for (int i = 0; i < 4; ++i) {
      const uint8_t* p = At(in, std::clamp(static_cast<int>(left) - 1 + i, 0, in.width - 1), row);
      const float w = wx[static_cast<size_t>(i)] * wy[static_cast<size_t>(j)];
      for (int c = 0; c < 3; ++c) sum[c] += w * p[c];
    }
  }
  for (int c = 0; c < 3; ++c) out[c] = Level(sum[c]);
}

// From the unit square to a quad: x = (a u + b v + c) / (g u + h v + 1), and y alike.
struct Projection {
  double a, b, c, d, e, f, g, h;
  explicit Projection(const Quad& q) {
    const double dx1 = q[1].x - q[2].x, dx2 = q[3].x - q[2].x, dx3 = q[0].x - q[1].x + q[2].x - q[3].x;
    const double dy1 = q[1].y - q[2].y, dy2 = q[3].y - q[2].y, dy3 = q[0].y - q[1].y + q[2].y - q[3].y;
    const double det = dx1 * dy2 - dx2 * dy1;
    g = det == 0 ? 0 : (dx3 * dy2 - dx2 * dy3) / det;
    h = det == 0 ? 0 : (dx1 * dy3 - dx3 * dy1) / det;
    a = q[1].x - q[0].x + g * q[1].x;
    b = q[3].x - q[0].x + h * q[3].x;
    c = q[0].x;
    d = q[1].y - q[0].y + g * q[1].y;
    e = q[3].y - q[0].y + h * q[3].y;
    f = q[0].y;
  }
};

}  // namespace

Picture ResizeLinear(PictureView in, int width, int height) {
  Picture out = NewPicture(width, height);
  const std::vector<Tap> columns = Taps(in.width, width);
  const std::vector<Tap> rows = Taps(in.height, height);
  uint8_t* to = out.pixels.data();
  for (const Tap& row : rows) {
    for (const Tap& column : columns) {
      const uint8_t* p00 = At(in, column.first, row.first);
      const uint8_t* p01 = At(in, column.second, row.first);
      const uint8_t* p10 = At(in, column.first, row.second);
      const uint8_t* p11 = At(in, column.second, row.second);
      for (int c = 0; c < 3; ++c) {
        const float upper = static_cast<float>(p00[c]) + column.weight * static_cast<float>(p01[c] - p00[c]);
        const float lower = static_cast<float>(p10[c]) + column.weight * static_cast<float>(p11[c] - p10[c]);
        *to++ = Level(upper + row.weight * (lower - upper));
      }
    }
  }
  return out;
}

Picture CropQuad(PictureView in, const Quad& quad, int width, int height) {
  Picture out = NewPicture(width, height);
  const Projection p(quad);
  uint8_t* to = out.pixels.data();
  for (int y = 0; y < height; ++y) {
    const double v = static_cast<double>(y) / height;
    for (int x = 0; x < width; ++x, to += 3) {
      const double u = static_cast<double>(x) / width;
      const double w = p.g * u + p.h * v + 1;
      const double scale = std::abs(w) < 1e-9 ? 0 : 1 / w;
      Sample(in, (p.a * u + p.b * v + p.c) * scale, (p.d * u + p.e * v + p.f) * scale, to);
    }
  }
  return out;
}

Picture TurnLeft(PictureView in) {
  Picture out = NewPicture(in.height, in.width);
  uint8_t* to = out.pixels.data();
  for (int y = 0; y < out.height; ++y) {
    for (int x = 0; x < out.width; ++x) to = std::copy_n(At(in, in.width - 1 - y, x), 3, to);
  }
  return out;
}

Picture TurnAround(PictureView in) {
  Picture out = NewPicture(in.width, in.height);
  uint8_t* to = out.pixels.data();
  for (int y = in.height - 1; y >= 0; --y) {
    for (int x = in.width - 1; x >= 0; --x) to = std::copy_n(At(in, x, y), 3, to);
  }
  return out;
}

}  // namespace tenon::media
