// Geometry of text regions: rectangles around sets of pixels, means inside them.
#ifndef TENON_SERVE_STEPS_TEXT_GEOMETRY_H_
#define TENON_SERVE_STEPS_TEXT_GEOMETRY_H_

#include <vector>

#include "media/warp.h"

namespace tenon::serve {

using media::Point;
using media::Quad;

/// A rectangle at any angle.
struct TurnedRect {
  Point center;
  Point axis{1, 0};    ///< direction of `width`, of length 1
  double width = 0;
  double height = 0;
  double ShorterSide() const { return width < height ? width : height; }
  Quad Corners() const;
};

/// The hull, counter-clockwise in a system whose y grows upwards; sorts `points`.
std::vector<Point> ConvexHull(std::vector<Point>& points);

/// The rectangle of least area around all; `points` is not empty.
TurnedRect MinAreaRect(std::vector<Point>& points);

/// Corners from the top left on, clockwise: the two leftmost first, each pair by height.
Quad OrderCorners(Quad corners);

/// Mean of `map` (rows of `width` values) over the pixels inside or on the border of `quad`, as far as they are inside the map;
/// 0 when there are none.
double MeanInside(const float* map, int width, int height, const Quad& quad);

/// Sets of `on` pixels that touch, corners included, each as the first and last pixel of its rows; the first `most` of them by
/// rows from the top.
std::vector<std::vector<Point>> TouchingSets(const std::vector<uint8_t>& on, int width, int height, size_t most);

}  // namespace tenon::serve

#endif  // TENON_SERVE_STEPS_TEXT_GEOMETRY_H_
