// boxes and scores of a detector -> the best boxes that do not overlap much.
#include <algorithm>
#include <numeric>

#include "serve/steps/step.h"

namespace tenon::serve {
namespace {

struct Candidate {
  float x0, y0, x1, y1, score;
  int64_t label;
};

float Overlap(const Candidate& a, const Candidate& b) {
  const float w = std::min(a.x1, b.x1) - std::max(a.x0, b.x0), h = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  if (!(w > 0 && h > 0)) return 0;
  const float both = w * h;
  return both / ((a.x1 - a.x0) * (a.y1 - a.y0) + (b.x1 - b.x0) * (b.y1 - b.y0) - both);
}

class NmsStep final : public Step {
 public:
  NmsStep(float overlap, float threshold, int most, bool centered)
      : overlap_(overlap), threshold_(threshold), most_(static_cast<size_t>(most)), centered_(centered) {}

  // boxes [n, 4]; scores [n, classes].
  Result<std::vector<HostTensor>> Run(const std::vector<HostTensor>& inputs, StepContext& context) const override {
    const HostTensor &boxes = inputs[0], &scores = inputs[1];
    TENON_RETURN_IF_ERROR(ExpectShape(boxes, {-1, 4}, "boxes"));
    TENON_RETURN_IF_ERROR(ExpectShape(scores, {boxes.shape[0], -1}, "scores"));
    std::vector<Candidate> all = Candidates(boxes, scores);
    std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
    constexpr size_t kMostCompared = 10000;   // of a map of thousands of boxes the rest is noise
    all.resize(std::min(all.size(), kMostCompared));
    std::vector<Candidate> kept;
    for (const Candidate& c : all) {
      if (kept.size() == most_) break;
      TENON_RETURN_IF_ERROR(context.poll());
      const bool covered = std::any_of(kept.begin(), kept.end(),
                                       [&](const Candidate& k) { return k.label == c.label && Overlap(k, c) > overlap_; });
      if (!covered) kept.push_back(c);
    }
    const auto m = static_cast<int64_t>(kept.size());
    TENON_ASSIGN_OR_RETURN(HostTensor out_boxes, NewTensor(DType::kF32, {m, 4}, context));
    TENON_ASSIGN_OR_RETURN(HostTensor out_scores, NewTensor(DType::kF32, {m}, context));
    TENON_ASSIGN_OR_RETURN(HostTensor labels, NewTensor(DType::kI64, {m}, context));
    for (size_t i = 0; i < kept.size(); ++i) {
      const Candidate& c = kept[i];
      float* to = MutableData<float>(out_boxes) + 4 * i;
      to[0] = c.x0, to[1] = c.y0, to[2] = c.x1, to[3] = c.y1;
      MutableData<float>(out_scores)[i] = c.score;
      MutableData<int64_t>(labels)[i] = c.label;
    }
    return std::vector<HostTensor>{std::move(out_boxes), std::move(out_scores), std::move(labels)};
  }

 private:
  std::vector<Candidate> Candidates(const HostTensor& boxes, const HostTensor& scores) const {
    std::vector<Candidate> all;
    const int64_t classes = scores.shape[1];
    for (int64_t i = 0; i < boxes.shape[0]; ++i) {
      const float* b = Data<float>(boxes) + 4 * i;
      const float* s = Data<float>(scores) + classes * i;
      const int64_t best = classes > 0 ? std::max_element(s, s + classes) - s : 0;
      if (classes == 0 || !(s[best] >= threshold_)) continue;
      if (centered_) {
        all.push_back({b[0] - b[2] / 2, b[1] - b[3] / 2, b[0] + b[2] / 2, b[1] + b[3] / 2, s[best], best});
      } else {
        all.push_back({b[0], b[1], b[2], b[3], s[best], best});
      }
    }
    return all;
  }

  float overlap_;
  float threshold_;
  size_t most_;
  bool centered_;
};

}  // namespace

const StepKind& Kind_nms() {
  static const StepKind kKind = {"nms",
                                 {{"boxes", DType::kF32, "candidates,4"}, {"scores", DType::kF32, "candidates,classes"}},
                                 {{"boxes", DType::kF32, "n,4"}, {"scores", DType::kF32, "n"}, {"labels", DType::kI64, "n"}},
                                 [](Parameters& p) -> Result<std::unique_ptr<Step>> {
                                   const auto overlap = static_cast<float>(p.Number("overlap", 0.45, 0, 1));
                                   const auto threshold = static_cast<float>(p.Number("threshold", 0.25, 0, 1));
                                   return NewStep<NmsStep>(overlap, threshold, p.Integer("most", 300, 1, 10000),
                                                           p.Flag("centered", false));
                                 }};
  return kKind;
}

}  // namespace tenon::serve
