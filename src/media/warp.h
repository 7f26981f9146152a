// Resizing and cutting of pictures as OpenCV does it, which is what models for text were trained with.
#ifndef TENON_MEDIA_WARP_H_
#define TENON_MEDIA_WARP_H_

#include <array>

#include "media/picture_view.h"

namespace tenon::media {

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
