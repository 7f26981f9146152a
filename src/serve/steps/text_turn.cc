// pictures of lines and how likely each is upside down -> the same, upright.
#include "serve/steps/line_rows.h"

namespace tenon::serve {
namespace {

class TextTurnStep final : public Step {
 public:
  explicit TextTurnStep(float threshold) : threshold_(threshold) {}

  Result<std::vector<HostTensor>> Run(const std::vector<HostTensor>& inputs, StepContext& context) const override {
    TENON_ASSIGN_OR_RETURN(const auto rows, RowsInOrder(inputs[1], inputs[2], 2, "probabilities"));
    std::vector<HostTensor> crops(AsList(inputs[0]).begin(), AsList(inputs[0]).end());
    if (rows.size() != crops.size()) return Usage("probabilities; of {} lines; there are {}", rows.size(), crops.size());
    for (size_t i = 0; i < crops.size(); ++i) {
      if (rows[i].shape[0] != 2)
        return Usage("probabilities; {} classes; upright and upside down are expected", rows[i].shape[0]);
      const float* p = rows[i].data;
      if (!(p[1] > p[0] && p[1] > threshold_)) continue;
      TENON_ASSIGN_OR_RETURN(const media::PictureView v, AsPicture(crops[i], "crops"));
      TENON_ASSIGN_OR_RETURN(crops[i], FromPicture(media::TurnAround(v), context));
    }
    return std::vector<HostTensor>{FromList(std::move(crops))};
  }

 private:
  float threshold_;
};

}  // namespace

const StepKind& Kind_text_turn() {
  static const StepKind kKind = {"text_turn",
                                 {{"crops", DType::kU8, "height,width,3", true},
                                  {"probabilities", DType::kF32, "rows,2", true},
                                  {"order", DType::kI64, "n", false, true}},
                                 {{"crops", DType::kU8, "height,width,3", true}},
                                 [](Parameters& p) -> Result<std::unique_ptr<Step>> {
                                   return NewStep<TextTurnStep>(static_cast<float>(p.Number("threshold", 0.9, 0, 1)));
                                 }};
  return kKind;
}

}  // namespace tenon::serve
