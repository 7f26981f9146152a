// page and boxes -> a straightened picture of each line; lines that run from top to bottom are turned.
#include <algorithm>
#include <cmath>

#include "serve/steps/step.h"

namespace tenon::serve {
namespace {

constexpr double kUpright = 1.5;   // higher than so many widths: from top to bottom

Result<media::Quad> QuadAt(const float* corners, media::PictureView page) {
  media::Quad quad;
  for (size_t i = 0; i < quad.size(); ++i) {
    quad[i] = {corners[2 * i], corners[2 * i + 1]};
    const bool inside = quad[i].x >= 0 && quad[i].y >= 0 && quad[i].x <= page.width && quad[i].y <= page.height;
    if (!inside) return Usage("boxes; a corner at ({}, {}); the page is {}x{}", quad[i].x, quad[i].y, page.width, page.height);
  }
  return quad;
}

class TextCropsStep final : public Step {
 public:
  Result<std::vector<HostTensor>> Run(const std::vector<HostTensor>& inputs, StepContext& context) const override {
    TENON_ASSIGN_OR_RETURN(const media::PictureView page, AsPicture(inputs[0], "page"));
    TENON_RETURN_IF_ERROR(ExpectShape(inputs[1], {-1, 4, 2}, "boxes"));
    std::vector<HostTensor> crops;
    for (int64_t i = 0; i < inputs[1].shape[0]; ++i) {
      TENON_RETURN_IF_ERROR(context.poll());
      TENON_ASSIGN_OR_RETURN(const media::Quad q, QuadAt(Data<float>(inputs[1]) + 8 * i, page));
      const auto side = [&](size_t a, size_t b) { return std::hypot(q[a].x - q[b].x, q[a].y - q[b].y); };
      const int width = std::max(1, static_cast<int>(std::max(side(0, 1), side(2, 3))));
      const int height = std::max(1, static_cast<int>(std::max(side(0, 3), side(1, 2))));
      const uint64_t bytes = uint64_t{3} * static_cast<uint64_t>(width) * static_cast<uint64_t>(height);
      if (bytes > context.bytes_left)
        return ResourceLimit("crops; {} bytes; {} are left for this request", bytes, context.bytes_left);
      Picture crop = media::CropQuad(page, q, width, height);
      if (height >= kUpright * width) crop = media::TurnLeft(crop);
      TENON_ASSIGN_OR_RETURN(HostTensor t, FromPicture(std::move(crop), context));
      crops.push_back(std::move(t));
    }
    return std::vector<HostTensor>{FromList(std::move(crops))};
  }
};

}  // namespace

const StepKind& Kind_text_crops() {
  static const StepKind kKind = {"text_crops",
                                 {{"page", DType::kU8, "page_height,page_width,3"}, {"boxes", DType::kF32, "n,4,2"}},
                                 {{"crops", DType::kU8, "height,width,3", true}},
                                 [](Parameters&) -> Result<std::unique_ptr<Step>> { return NewStep<TextCropsStep>(); }};
  return kKind;
}

}  // namespace tenon::serve
