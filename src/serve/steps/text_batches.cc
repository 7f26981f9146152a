// pictures of lines -> inputs of models for lines: of one height, those of similar width together.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "serve/steps/step.h"
#include "serve/steps/text_input.h"

namespace tenon::serve {
namespace {

double Ratio(media::PictureView v) {
  return static_cast<double>(v.width) / v.height;
}

class TextBatchesStep final : public Step {
 public:
  TextBatchesStep(int height, int least_width, int most_width, int rows)
      : height_(height), least_width_(least_width), most_width_(most_width), rows_(static_cast<size_t>(rows)) {}

  Result<std::vector<HostTensor>> Run(const std::vector<HostTensor>& inputs, StepContext& context) const override {
    const std::span<const HostTensor> crops = AsList(inputs[0]);
    std::vector<media::PictureView> views;
    for (const HostTensor& t : crops) {
      TENON_ASSIGN_OR_RETURN(const media::PictureView v, AsPicture(t, "crops"));
      views.push_back(v);
    }
    std::vector<int64_t> order(views.size());
    std::iota(order.begin(), order.end(), 0);
    const auto view = [&](int64_t i) { return views[static_cast<size_t>(i)]; };
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return Ratio(view(a)) < Ratio(view(b)); });
    std::vector<HostTensor> batches;
    for (size_t begin = 0; begin < order.size(); begin += rows_) {
      const size_t end = std::min(begin + rows_, order.size());
      const double widest = height_ * Ratio(view(order[end - 1]));
      const int columns = static_cast<int>(std::clamp<double>(widest, least_width_, most_width_));
      TENON_ASSIGN_OR_RETURN(HostTensor x,
                             NewTensor(DType::kF32, {static_cast<int64_t>(end - begin), 3, height_, columns}, context));
      float* to = MutableData<float>(x);
      for (size_t i = begin; i < end; ++i, to += int64_t{3} * height_ * columns) {
        TENON_RETURN_IF_ERROR(context.poll());
        const double width = std::ceil(height_ * Ratio(view(order[i])));
        WriteBgr(media::ResizeLinear(view(order[i]), static_cast<int>(std::clamp<double>(width, 1, columns)), height_), columns,
                 to);
      }
      batches.push_back(std::move(x));
    }
    TENON_ASSIGN_OR_RETURN(HostTensor indices, NewTensor(DType::kI64, {static_cast<int64_t>(order.size())}, context));
    std::copy(order.begin(), order.end(), MutableData<int64_t>(indices));
    return std::vector<HostTensor>{FromList(std::move(batches)), std::move(indices)};
  }

 private:
  int height_;
  int least_width_;
  int most_width_;
  size_t rows_;
};

}  // namespace

const StepKind& Kind_text_batches() {
  static const StepKind kKind = {"text_batches",
                                 {{"crops", DType::kU8, "height,width,3", true}},
                                 {{"x", DType::kF32, "rows,3,height,width", true}, {"order", DType::kI64, "n"}},
                                 [](Parameters& p) -> Result<std::unique_ptr<Step>> {
                                   constexpr int kHeight = 48, kWidth = 320, kMostWidth = 4096, kRows = 6;
                                   const int height = p.Integer("height", kHeight, 1, 1024);
                                   const int least = p.Integer("least_width", kWidth, 1, 1 << 14);
                                   const int most = p.Integer("most_width", kMostWidth, 1, 1 << 14);
                                   const int rows = p.Integer("rows", kRows, 1, 256);
                                   if (most < least) return BadInput("most_width is {}; least_width is {}", most, least);
                                   return NewStep<TextBatchesStep>(height, least, most, rows);
                                 }};
  return kKind;
}

}  // namespace tenon::serve
