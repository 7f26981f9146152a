#include "serve/steps/text_geometry.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon::serve {
namespace {

double Cross(Point o, Point a, Point b) {
  return (a.x - o.x) * (b.y - o.y) - (a.y - o.y) * (b.x - o.x);
}

double Dot(Point a, Point b) {
  return a.x * b.x + a.y * b.y;
}

// The rectangle with one side along `axis`.
TurnedRect RectAlong(const std::vector<Point>& hull, Point axis) {
  const Point across{-axis.y, axis.x};
  double lo_u = std::numeric_limits<double>::max(), hi_u = -lo_u, lo_v = lo_u, hi_v = hi_u;
  for (Point p : hull) {
    const double u = Dot(p, axis), v = Dot(p, across);
    lo_u = std::min(lo_u, u), hi_u = std::max(hi_u, u);
    lo_v = std::min(lo_v, v), hi_v = std::max(hi_v, v);
  }
  const double u = (lo_u + hi_u) / 2, v = (lo_v + hi_v) / 2;
  return {{u * axis.x + v * across.x, u * axis.y + v * across.y}, axis, hi_u - lo_u, hi_v - lo_v};
}

}  // namespace

Quad TurnedRect::Corners() const {
  const Point across{-axis.y, axis.x};
  const auto corner = [&](double u, double v) {
    return Point{center.x + u * width / 2 * axis.x + v * height / 2 * across.x,
                 center.y + u * width / 2 * axis.y + v * height / 2 * across.y};
  };
  return {corner(-1, -1), corner(1, -1), corner(1, 1), corner(-1, 1)};
}

std::vector<Point> ConvexHull(std::vector<Point>& points) {
  std::sort(points.begin(), points.end(), [](Point a, Point b) { return a.x < b.x || (a.x == b.x && a.y < b.y); });
  std::vector<Point> hull;
  const auto grow = [&](Point p, size_t floor) {
    while (hull.size() >= floor + 2 && Cross(hull[hull.size() - 2], hull.back(), p) <= 0) hull.pop_back();
    hull.push_back(p);
  };
  for (Point p : points) grow(p, 0);
  const size_t lower = hull.size() - 1;
  for (auto p = points.rbegin() + 1; p < points.rend(); ++p) grow(*p, lower);
  if (hull.size() > 1) hull.pop_back();   // the first again
  return hull;
}

TurnedRect MinAreaRect(std::vector<Point>& points) {
  const std::vector<Point> hull = ConvexHull(points);
  TurnedRect best = RectAlong(hull, {1, 0});
  double least = hull.size() < 2 ? 0 : std::numeric_limits<double>::max();
  for (size_t i = 0; i < hull.size() && hull.size() > 1; ++i) {
    const Point a = hull[i], b = hull[(i + 1) % hull.size()];
    const double length = std::hypot(b.x - a.x, b.y - a.y);
    if (length == 0) continue;
    const TurnedRect rect = RectAlong(hull, {(b.x - a.x) / length, (b.y - a.y) / length});
    if (rect.width * rect.height >= least) continue;
    least = rect.width * rect.height;
    best = rect;
  }
  return best;
}

Quad OrderCorners(Quad c) {
  std::stable_sort(c.begin(), c.end(), [](Point a, Point b) { return a.x < b.x; });
  if (c[1].y < c[0].y) std::swap(c[0], c[1]);
  if (c[3].y < c[2].y) std::swap(c[2], c[3]);
  return {c[0], c[2], c[3], c[1]};
}

double MeanInside(const float* map, int width, int height, const Quad& quad) {
  double sum = 0;
  int64_t count = 0;
  const auto by_y = [](Point a, Point b) { return a.y < b.y; };
  const auto [top, bottom] = std::minmax_element(quad.begin(), quad.end(), by_y);
  const int first = static_cast<int>(std::clamp(std::ceil(top->y), 0.0, static_cast<double>(height)));
  const int last = static_cast<int>(std::clamp(std::floor(bottom->y), -1.0, height - 1.0));
  for (int y = first; y <= last; ++y) {
    double left = std::numeric_limits<double>::max(), right = -left;
    for (size_t i = 0; i < quad.size(); ++i) {
      const Point a = quad[i], b = quad[(i + 1) % quad.size()];
      if (y < std::min(a.y, b.y) || y > std::max(a.y, b.y)) continue;
      const double x = a.y == b.y ? a.x : a.x + (y - a.y) * (b.x - a.x) / (b.y - a.y);
      left = std::min({left, x, a.y == b.y ? b.x : x});
      right = std::max({right, x, a.y == b.y ? b.x : x});
    }
    const int from = static_cast<int>(std::clamp(std::round(left), 0.0, static_cast<double>(width)));
    const int to = static_cast<int>(std::clamp(std::round(right), -1.0, width - 1.0));
    const float* row = map + static_cast<ptrdiff_t>(y) * width;
    for (int x = from; x <= to; ++x) sum += row[x];
    count += std::max(0, to - from + 1);
  }
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

std::vector<std::vector<Point>> TouchingSets(const std::vector<uint8_t>& on, int width, int height, size_t most) {
  // Runs of pixels in each row; a run joins the sets of those it touches in the row above.
  struct Run {
    int y, first, last;
    size_t parent;
  };
  std::vector<Run> runs;
  const auto root = [&](size_t i) {
    while (runs[i].parent != i) i = runs[i].parent = runs[runs[i].parent].parent;
    return i;
  };
  size_t above = 0;   // first run of the row above
  for (int y = 0; y < height; ++y) {
    const size_t row = runs.size();
    size_t touching = above;
    for (int x = 0; x < width; ++x) {
      if (on[static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)] == 0) continue;
      const int first = x;
      while (x + 1 < width && on[static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x) + 1] != 0) ++x;
      const size_t self = runs.size();
      runs.push_back({y, first, x, self});
      while (touching < row && runs[touching].last < first - 1) ++touching;
      for (size_t t = touching; t < row && runs[t].first <= x + 1; ++t) {
        const size_t a = root(t), b = root(self);
        runs[std::max(a, b)].parent = std::min(a, b);
      }
    }
    above = row;
  }
  std::vector<size_t> index(runs.size(), SIZE_MAX);
  std::vector<std::vector<Point>> sets;
  for (size_t i = 0; i < runs.size(); ++i) {
    const size_t r = root(i);
    if (index[r] == SIZE_MAX) {
      if (sets.size() == most) continue;
      index[r] = sets.size();
      sets.emplace_back();
    }
    const double y = runs[i].y;
    sets[index[r]].push_back({static_cast<double>(runs[i].first), y});
    if (runs[i].last > runs[i].first) sets[index[r]].push_back({static_cast<double>(runs[i].last), y});
  }
  return sets;
}

}  // namespace tenon::serve
