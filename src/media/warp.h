// Resizing and cutting of pictures as OpenCV does it, which is what models for text were trained with.
#ifndef TENON_MEDIA_WARP_H_
#define TENON_MEDIA_WARP_H_

#include <array>
#include <cstdint>

#include "tenon/media.h"

namespace tenon::media {

/// Pixels of somebody else: RGB, rows without gaps.
struct PictureView {
  int width = 0;
  int height = 0;
  const uint8_t* pixels = nullptr;
  PictureView() = default;
  PictureView(int w, int h, const uint8_t* p) : width(w), height(h), pixels(p) {}
  PictureView(const Picture& p) : width(p.width), height(p.height), pixels(p.pixels.data()) {}  // NOLINT: a view of it
};

struct Point {
  double x = 0;
  double y = 0;
};
/// Corners from the top left on, clockwise.
using Quad = std::array<Point, 4>;

/// Bilinear between the four nearest pixels, none of them left out nor averaged. `in` is not empty; width, height >= 1.
Picture ResizeLinear(PictureView in, int width, int height);

/// The part of `in` inside `quad`, straightened to width x height by a bicubic perspective transform; beyond the border the
/// nearest pixel counts.
Picture CropQuad(PictureView in, const Quad& quad, int width, int height);

/// A quarter turn against the clock, and half a turn.
Picture TurnLeft(PictureView in);
Picture TurnAround(PictureView in);

}  // namespace tenon::media

#endif  // TENON_MEDIA_WARP_H_
