// map of a text detector (differentiable binarisation) -> boxes on the page, in reading order, and how sure the map is of them.
#include <algorithm>
#include <cmath>

#include "serve/steps/step.h"
#include "serve/steps/text_geometry.h"

namespace tenon::serve {
namespace {

constexpr double kLeastSide = 3;   // of a set of pixels on the map
constexpr double kLeastGrown = 5;

struct Box {
  Quad corners;
  float score = 0;
};

// From top to bottom; boxes of one line, which start within so many pixels of height, from left to right.
void SortForReading(std::vector<Box>* boxes) {
  constexpr double kSameLine = 10;
  const auto start = [](const Box& b) { return b.corners[0]; };
  std::stable_sort(boxes->begin(), boxes->end(), [&](const Box& a, const Box& b) {
    return start(a).y < start(b).y || (start(a).y == start(b).y && start(a).x < start(b).x);
  });
  for (size_t i = 1; i < boxes->size(); ++i) {
    for (size_t j = i; j > 0; --j) {
      Box &before = (*boxes)[j - 1], &after = (*boxes)[j];
      if (std::abs(start(after).y - start(before).y) >= kSameLine || start(after).x >= start(before).x) break;
      std::swap(before, after);
    }
  }
}

// Sides moved out in whole pixels, as the polygon clipper of PP-OCR does.
TurnedRect Grown(const TurnedRect& rect, double distance) {
  Quad corners = rect.Corners();
  for (Point& p : corners) p = {std::trunc(p.x), std::trunc(p.y)};
  std::vector<Point> points;
  for (size_t i = 0; i < corners.size(); ++i) {
    const Point a = corners[i], b = corners[(i + 1) % corners.size()];
    const double length = std::max(std::hypot(b.x - a.x, b.y - a.y), 1e-9);
    const Point out{(b.y - a.y) / length * distance, (a.x - b.x) / length * distance};
    points.push_back({std::nearbyint(a.x + out.x), std::nearbyint(a.y + out.y)});
    points.push_back({std::nearbyint(b.x + out.x), std::nearbyint(b.y + out.y)});
  }
  return MinAreaRect(points);
}

class TextBoxesStep final : public Step {
 public:
  TextBoxesStep(float threshold, double box_threshold, double grow, size_t most, bool dilate)
      : threshold_(threshold), box_threshold_(box_threshold), grow_(grow), most_(most), dilate_(dilate) {}

  Result<std::vector<HostTensor>> Run(const std::vector<HostTensor>& inputs, StepContext& context) const override {
    const HostTensor& map = inputs[0];
    TENON_RETURN_IF_ERROR(ExpectShape(map, {1, 1, -1, -1}, "map"));
    TENON_ASSIGN_OR_RETURN(const media::PictureView page, AsPicture(inputs[1], "page"));
    constexpr int64_t kMost = 1 << 16;
    if (map.shape[2] > kMost || map.shape[3] > kMost) return Usage("map; {}x{}; at most {}", map.shape[3], map.shape[2], kMost);
    const int height = static_cast<int>(map.shape[2]), width = static_cast<int>(map.shape[3]);
    TENON_RETURN_IF_ERROR(context.Take(map.bytes, "sets of pixels"));
    std::vector<Box> boxes;
    for (std::vector<Point>& set : TouchingSets(On(map, width, height), width, height, most_)) {
      TENON_RETURN_IF_ERROR(context.poll());
      Box box;
      if (BoxOf(set, Data<float>(map), width, height, page, &box)) boxes.push_back(box);
    }
    SortForReading(&boxes);
    const auto n = static_cast<int64_t>(boxes.size());
    TENON_ASSIGN_OR_RETURN(HostTensor corners, NewTensor(DType::kF32, {n, 4, 2}, context));
    TENON_ASSIGN_OR_RETURN(HostTensor scores, NewTensor(DType::kF32, {n}, context));
    float* to = MutableData<float>(corners);
    float* score = MutableData<float>(scores);
    for (const Box& b : boxes) {
      for (Point p : b.corners) *to++ = static_cast<float>(p.x), *to++ = static_cast<float>(p.y);
      *score++ = b.score;
    }
    return std::vector<HostTensor>{std::move(corners), std::move(scores)};
  }

 private:
  std::vector<uint8_t> On(const HostTensor& map, int width, int height) const {
    const size_t w = static_cast<size_t>(width), n = w * static_cast<size_t>(height);
    const float* p = Data<float>(map);
    std::vector<uint8_t> on(n);
    for (size_t i = 0; i < n; ++i) on[i] = p[i] > threshold_;
    if (!dilate_) return on;
    // A pixel is on when it or its neighbour to the left, above or between is.
    for (size_t y = static_cast<size_t>(height); y-- > 0;) {
      for (size_t x = w; x-- > 0;) {
        uint8_t& at = on[y * w + x];
        if (x > 0) at |= on[y * w + x - 1];
        if (y > 0) at |= on[(y - 1) * w + x];
        if (x > 0 && y > 0) at |= on[(y - 1) * w + x - 1];
      }
    }
    return on;
  }

  bool BoxOf(std::vector<Point>& set, const float* map, int width, int height, media::PictureView page, Box* box) const {
    TurnedRect rect = MinAreaRect(set);
    if (rect.ShorterSide() < kLeastSide) return false;
    Quad whole = rect.Corners();
    for (Point& p : whole) p = {std::trunc(p.x), std::trunc(p.y)};
    box->score = static_cast<float>(MeanInside(map, width, height, whole));
    if (!(box->score >= box_threshold_)) return false;
    // The map shows a shrunken text; each side moves out by area / perimeter of it times a factor.
    const double distance = rect.width * rect.height * grow_ / (2 * (rect.width + rect.height));
    rect = Grown(rect, distance);
    if (rect.ShorterSide() < kLeastGrown) return false;
    Quad corners = rect.Corners();
    for (Point& p : corners) {
      p.x = std::clamp(std::nearbyint(p.x / width * page.width), 0.0, page.width - 1.0);
      p.y = std::clamp(std::nearbyint(p.y / height * page.height), 0.0, page.height - 1.0);
    }
    box->corners = OrderCorners(corners);
    const auto side = [&](size_t a, size_t b) {
      return std::hypot(box->corners[a].x - box->corners[b].x, box->corners[a].y - box->corners[b].y);
    };
    return side(0, 1) >= kLeastSide + 1 && side(0, 3) >= kLeastSide + 1;
  }

  float threshold_;
  double box_threshold_;
  double grow_;
  size_t most_;
  bool dilate_;
};

}  // namespace

const StepKind& Kind_text_boxes() {
  static const StepKind kKind = {"text_boxes",
                                 {{"map", DType::kF32, "1,1,rows,columns"}, {"page", DType::kU8, "page_height,page_width,3"}},
                                 {{"boxes", DType::kF32, "n,4,2"}, {"scores", DType::kF32, "n"}},
                                 [](Parameters& p) -> Result<std::unique_ptr<Step>> {
                                   const auto threshold = static_cast<float>(p.Number("threshold", 0.3, 0, 1));
                                   const double box_threshold = p.Number("box_threshold", 0.5, 0, 1);
                                   const double grow = p.Number("grow", 1.6, 0, 10);
                                   const int most = p.Integer("most", 1000, 1, 10000);
                                   return NewStep<TextBoxesStep>(threshold, box_threshold, grow, static_cast<size_t>(most),
                                                                 p.Flag("dilate", true));
                                 }};
  return kKind;
}

}  // namespace tenon::serve
