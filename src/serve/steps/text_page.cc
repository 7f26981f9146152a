// picture -> a page that text is looked for on, and the detector's input: sides within limits, lines that fill the picture get
// room above and below.
#include <algorithm>
#include <cmath>

#include "serve/steps/step.h"
#include "serve/steps/text_input.h"

namespace tenon::serve {
namespace {

constexpr int kStride = 32;   // of the detector
constexpr int kLeastSide = 30;
constexpr int kLongest = 8;   // a page wider than so many heights gets room

int ToStride(double extent) {
  return std::max(1, static_cast<int>(std::nearbyint(extent / kStride))) * kStride;
}

media::PictureView Scaled(media::PictureView view, double ratio, Picture* memory) {
  *memory = media::ResizeLinear(view, ToStride(std::floor(view.width * ratio)), ToStride(std::floor(view.height * ratio)));
  return *memory;
}

class TextPageStep final : public Step {
 public:
  TextPageStep(int least_side, int most_side) : least_side_(least_side), most_side_(most_side) {}

  Result<std::vector<HostTensor>> Run(const std::vector<HostTensor>& inputs, StepContext& context) const override {
    TENON_ASSIGN_OR_RETURN(media::PictureView view, AsPicture(inputs[0], "picture"));
    const int raw_width = view.width, raw_height = view.height;
    constexpr int kMostRatio = 100;
    if (std::max(raw_width, raw_height) / kMostRatio > std::min(raw_width, raw_height))
      return Usage("picture; {}x{}; one side may be {} times the other", raw_width, raw_height, kMostRatio);
    Picture memory;
    const int longer = std::max(view.width, view.height);
    if (longer > most_side_) view = Scaled(view, static_cast<double>(most_side_) / longer, &memory);
    const int shorter = std::min(view.width, view.height);
    Picture grown;
    if (shorter < kLeastSide) view = Scaled(view, static_cast<double>(kLeastSide) / shorter, &grown);
    const double ratio_x = static_cast<double>(raw_width) / view.width, ratio_y = static_cast<double>(raw_height) / view.height;
    int top = 0;
    const bool wide = static_cast<double>(view.width) / view.height > kLongest;
    if (view.height <= kLeastSide || wide) top = std::abs(std::max(view.width / kLongest, kLeastSide) * 2 - view.height) / 2;
    Picture page{view.width, view.height + 2 * top, {}};
    const size_t row = static_cast<size_t>(page.width) * 3;
    page.pixels.resize(row * static_cast<size_t>(page.height));
    std::copy_n(view.pixels, row * static_cast<size_t>(view.height), page.pixels.begin() + static_cast<ptrdiff_t>(row) * top);
    TENON_RETURN_IF_ERROR(context.poll());
    TENON_ASSIGN_OR_RETURN(HostTensor x, DetectorInput(page, context));
    TENON_ASSIGN_OR_RETURN(HostTensor frame, NewTensor(DType::kF32, {5}, context));
    const float values[] = {static_cast<float>(ratio_x), static_cast<float>(ratio_y), static_cast<float>(top),
                            static_cast<float>(raw_width), static_cast<float>(raw_height)};
    std::copy(std::begin(values), std::end(values), MutableData<float>(frame));
    TENON_ASSIGN_OR_RETURN(HostTensor pixels, FromPicture(std::move(page), context));
    return std::vector<HostTensor>{std::move(pixels), std::move(frame), std::move(x)};
  }

 private:
  Result<HostTensor> DetectorInput(const Picture& page, StepContext& context) const {
    const int shorter = std::min(page.width, page.height);
    const double ratio = shorter < least_side_ ? static_cast<double>(least_side_) / shorter : 1.0;
    const int width = ToStride(std::floor(page.width * ratio)), height = ToStride(std::floor(page.height * ratio));
    TENON_RETURN_IF_ERROR(context.Take(uint64_t{3} * static_cast<uint64_t>(width) * static_cast<uint64_t>(height), "a picture"));
    TENON_ASSIGN_OR_RETURN(HostTensor x, NewTensor(DType::kF32, {1, 3, height, width}, context));
    WriteBgr(media::ResizeLinear(page, width, height), width, MutableData<float>(x));
    return x;
  }

  int least_side_;
  int most_side_;
};

}  // namespace

const StepKind& Kind_text_page() {
  static const StepKind kKind = {
      "text_page",
      {{"picture", DType::kU8, "height,width,3"}},
      {{"page", DType::kU8, "page_height,page_width,3"}, {"frame", DType::kF32, "5"}, {"x", DType::kF32, "1,3,rows,columns"}},
      [](Parameters& p) -> Result<std::unique_ptr<Step>> {
        constexpr int kSide = 736, kMostSide = 2000, kBound = 8192;
        const int least = p.Integer("least_side", kSide, kStride, kBound);
        return NewStep<TextPageStep>(least, p.Integer("most_side", kMostSide, kStride, kBound));
      }};
  return kKind;
}

}  // namespace tenon::serve
