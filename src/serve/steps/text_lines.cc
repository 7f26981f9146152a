// texts, scores, boxes on the page -> those that are sure enough, their boxes in pixels of the picture.
#include <algorithm>

#include "serve/steps/step.h"

namespace tenon::serve {
namespace {

class TextLinesStep final : public Step {
 public:
  explicit TextLinesStep(float threshold) : threshold_(threshold) {}

  Result<std::vector<HostTensor>> Run(const std::vector<HostTensor>& inputs, StepContext& context) const override {
    const HostTensor &text = inputs[0], &scores = inputs[1], &boxes = inputs[2], &frame = inputs[3];
    const auto n = static_cast<int64_t>(text.strings.size());
    TENON_RETURN_IF_ERROR(ExpectShape(scores, {n}, "scores"));
    TENON_RETURN_IF_ERROR(ExpectShape(boxes, {n, 4, 2}, "boxes"));
    TENON_RETURN_IF_ERROR(ExpectShape(frame, {5}, "frame"));
    std::vector<size_t> kept;
    for (size_t i = 0; i < text.strings.size(); ++i) {
      if (Data<float>(scores)[i] >= threshold_) kept.push_back(i);
    }
    const auto m = static_cast<int64_t>(kept.size());
    TENON_ASSIGN_OR_RETURN(HostTensor out_scores, NewTensor(DType::kF32, {m}, context));
    TENON_ASSIGN_OR_RETURN(HostTensor out_boxes, NewTensor(DType::kF32, {m, 4, 2}, context));
    std::vector<std::string> texts;
    const float* f = Data<float>(frame);   // as text_page writes it
    float* corner = MutableData<float>(out_boxes);
    for (size_t i = 0; i < kept.size(); ++i) {
      texts.push_back(text.strings[kept[i]]);
      MutableData<float>(out_scores)[i] = Data<float>(scores)[kept[i]];
      const float* from = Data<float>(boxes) + kept[i] * 8;
      for (size_t c = 0; c < 4; ++c) {
        *corner++ = std::min(std::max(from[2 * c] * f[0], 0.0f), f[3]);
        *corner++ = std::min(std::max((from[2 * c + 1] - f[2]) * f[1], 0.0f), f[4]);
      }
    }
    return std::vector<HostTensor>{FromStrings(std::move(texts)), std::move(out_boxes), std::move(out_scores)};
  }

 private:
  float threshold_;
};

}  // namespace

const StepKind& Kind_text_lines() {
  static const StepKind kKind = {
      "text_lines",
      {{"text", DType::kString, "n"}, {"scores", DType::kF32, "n"}, {"boxes", DType::kF32, "n,4,2"}, {"frame", DType::kF32, "5"}},
      {{"text", DType::kString, "n"}, {"boxes", DType::kF32, "n,4,2"}, {"scores", DType::kF32, "n"}},
      [](Parameters& p) -> Result<std::unique_ptr<Step>> {
        return NewStep<TextLinesStep>(static_cast<float>(p.Number("threshold", 0.5, 0, 1)));
      }};
  return kKind;
}

}  // namespace tenon::serve
