// bytes of a picture file -> its pixels.
#include "media/decode.h"
#include "serve/steps/step.h"

namespace tenon::serve {
namespace {

class DecodePictureStep final : public Step {
 public:
  explicit DecodePictureStep(int64_t most_pixels) : most_pixels_(most_pixels) {}

  Result<std::vector<HostTensor>> Run(const std::vector<HostTensor>& inputs, StepContext& context) const override {
    const HostTensor& t = inputs[0];
    if (t.dtype != DType::kU8 && t.dtype != DType::kString) return Usage("bytes; UINT8 or BYTES is expected");
    if (t.dtype == DType::kString && t.strings.size() != 1) return Usage("bytes; {} elements; one is expected", t.strings.size());
    std::span<const uint8_t> bytes(Data<uint8_t>(t), t.dtype == DType::kU8 ? t.bytes : 0);
    if (t.dtype == DType::kString) bytes = {reinterpret_cast<const uint8_t*>(t.strings[0].data()), t.strings[0].size()};
    constexpr int64_t kBytesPerPixel = 8;   // the decoder's frame and ours
    const auto most =
        std::min(most_pixels_, static_cast<int64_t>(std::min<uint64_t>(context.bytes_left, INT64_MAX)) / kBytesPerPixel);
    TENON_ASSIGN_OR_RETURN(Picture picture, media::DecodePicture(bytes, most));
    TENON_ASSIGN_OR_RETURN(HostTensor pixels, FromPicture(std::move(picture), context));
    return std::vector<HostTensor>{std::move(pixels)};
  }

 private:
  int64_t most_pixels_;
};

}  // namespace

const StepKind& Kind_decode_picture() {
  static const StepKind kKind = {"decode_picture",
                                 {{"bytes", DType::kU8, "bytes"}},
                                 {{"picture", DType::kU8, "height,width,3"}},
                                 [](Parameters& p) -> Result<std::unique_ptr<Step>> {
                                   constexpr int kMegapixels = 40;
                                   const int most = p.Integer("megapixels", kMegapixels, 1, 256);
                                   return NewStep<DecodePictureStep>(int64_t{most} * 1000000);
                                 }};
  return kKind;
}

}  // namespace tenon::serve
