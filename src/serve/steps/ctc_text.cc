// probabilities of a recognition model -> texts, and how sure the model is of them.
#include "serve/steps/line_rows.h"
#include "tenon/media.h"

namespace tenon::serve {
namespace {

class CtcTextStep final : public Step {
 public:
  explicit CtcTextStep(std::vector<std::string> characters) : characters_(std::move(characters)) {}

  Result<std::vector<HostTensor>> Run(const std::vector<HostTensor>& inputs, StepContext& context) const override {
    TENON_ASSIGN_OR_RETURN(const auto rows, RowsInOrder(inputs[0], inputs[1], 3, "probabilities"));
    TENON_ASSIGN_OR_RETURN(HostTensor scores, NewTensor(DType::kF32, {static_cast<int64_t>(rows.size())}, context));
    std::vector<std::string> texts;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].shape[1] < 1) return Usage("probabilities; no classes");
      TextLine line = ReadCtc(rows[i].data, rows[i].shape[0], rows[i].shape[1], characters_);
      MutableData<float>(scores)[i] = line.score;
      texts.push_back(std::move(line.text));
    }
    return std::vector<HostTensor>{FromStrings(std::move(texts)), std::move(scores)};
  }

 private:
  std::vector<std::string> characters_;
};

}  // namespace

const StepKind& Kind_ctc_text() {
  static const StepKind kKind = {
      "ctc_text",
      {{"probabilities", DType::kF32, "rows,steps,classes", true}, {"order", DType::kI64, "n", false, true}},
      {{"text", DType::kString, "n"}, {"scores", DType::kF32, "n"}},
      [](Parameters& p) -> Result<std::unique_ptr<Step>> {
        std::string list;
        for (const std::string& line : p.Lines("characters")) list += line + "\n";
        if (list.empty()) list = p.Metadata("character");
        if (list.empty())
          return BadInput(
              "no characters; 'characters: FILE', or 'model: NAME' of one whose metadata has "
              "'character', is expected");
        return NewStep<CtcTextStep>(CtcCharacters(list));
      }};
  return kKind;
}

}  // namespace tenon::serve
