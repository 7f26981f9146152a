// scores of classes -> the best few of each row, by name.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "serve/steps/step.h"

namespace tenon::serve {
namespace {

class TopLabelsStep final : public Step {
 public:
  TopLabelsStep(int count, bool softmax, std::vector<std::string> labels)
      : count_(count), softmax_(softmax), labels_(std::move(labels)) {}

  Result<std::vector<HostTensor>> Run(const std::vector<HostTensor>& inputs, StepContext& context) const override {
    const HostTensor& t = inputs[0];
    TENON_RETURN_IF_ERROR(ExpectShape(t, {-1, -1}, "scores"));
    const int64_t rows = t.shape[0], classes = t.shape[1], k = std::min<int64_t>(count_, classes);
    TENON_ASSIGN_OR_RETURN(HostTensor scores, NewTensor(DType::kF32, {rows, k}, context));
    TENON_RETURN_IF_ERROR(context.Take(static_cast<uint64_t>(classes) * sizeof(int64_t), "an order of classes"));
    std::vector<std::string> names;
    std::vector<int64_t> order(static_cast<size_t>(classes));
    for (int64_t r = 0; r < rows && k > 0; ++r) {
      const float* p = Data<float>(t) + r * classes;
      std::iota(order.begin(), order.end(), 0);
      const auto key = [&](int64_t i) { return std::isnan(p[i]) ? -INFINITY : p[i]; };
      std::partial_sort(order.begin(), order.begin() + k, order.end(),
                        [&](int64_t a, int64_t b) { return key(a) > key(b) || (key(a) == key(b) && a < b); });
      double sum = 0;
      for (int64_t i = 0; softmax_ && i < classes; ++i) sum += std::exp(static_cast<double>(p[i]) - p[order[0]]);
      for (int64_t i = 0; i < k; ++i) {
        const int64_t c = order[static_cast<size_t>(i)];
        const bool known = c < static_cast<int64_t>(labels_.size());
        names.push_back(known ? labels_[static_cast<size_t>(c)] : std::to_string(c));
        const double v = softmax_ ? std::exp(static_cast<double>(p[c]) - p[order[0]]) / sum : static_cast<double>(p[c]);
        MutableData<float>(scores)[r * k + i] = static_cast<float>(v);
      }
    }
    HostTensor labels = FromStrings(std::move(names));
    labels.shape = {rows, k};
    return std::vector<HostTensor>{std::move(labels), std::move(scores)};
  }

 private:
  int count_;
  bool softmax_;
  std::vector<std::string> labels_;
};

}  // namespace

const StepKind& Kind_top_labels() {
  static const StepKind kKind = {"top_labels",
                                 {{"scores", DType::kF32, "rows,classes"}},
                                 {{"labels", DType::kString, "rows,best"}, {"scores", DType::kF32, "rows,best"}},
                                 [](Parameters& p) -> Result<std::unique_ptr<Step>> {
                                   constexpr int kCount = 5;
                                   const int count = p.Integer("count", kCount, 1, 1000);
                                   const bool softmax = p.Flag("softmax", false);
                                   return NewStep<TopLabelsStep>(count, softmax, p.Lines("labels"));
                                 }};
  return kKind;
}

}  // namespace tenon::serve
