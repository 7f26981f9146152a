// ImageDecoder: formats written out by hand, pixel formats, streams that are no pictures.
#include "kernels/image/image.h"

#include "kernels/movement/testing.h"

namespace tenon::kernels::testing {
namespace {

using U = std::vector<uint8_t>;

Tensor Bytes(std::string_view text) {
  return Tensor::FromVector<uint8_t>(Shape{static_cast<int64_t>(text.size())}, U(text.begin(), text.end()));
}

// Two pixels, red over blue.
constexpr std::string_view kPpm("P6\n1 2\n255\n\xFF\x00\x00\x00\x00\xFF", 17);

TEST(ImageDecoder, GivesPixelsInTheOrderAsked) {
  const auto rgb = Eval("ImageDecoder", A(), {Bytes(kPpm)});
  EXPECT_EQ(rgb[0].shape(), Shape({2, 1, 3}));
  EXPECT_EQ(Values<uint8_t>(rgb[0]), (U{255, 0, 0, 0, 0, 255}));
  EXPECT_EQ(Values<uint8_t>(Eval("ImageDecoder", A("pixel_format", std::string("BGR")), {Bytes(kPpm)})[0]),
            (U{0, 0, 255, 255, 0, 0}));
  const auto grey = Eval("ImageDecoder", A("pixel_format", std::string("Grayscale")), {Bytes(kPpm)});
  EXPECT_EQ(grey[0].shape(), Shape({2, 1, 1}));
  EXPECT_EQ(Values<uint8_t>(grey[0]), (U{76, 29}));
}

TEST(ImageDecoder, DamagedStreamsGiveAnEmptyImage) {
  using namespace std::string_view_literals;
  for (const std::string_view bytes :
       {""sv, "not a picture"sv, "\xFF\xD8\xFF\xE0\x00"sv, "\x89PNG\r\n\x1A\n"sv, "BM"sv, "II*\0"sv, "RIFF\0\0\0\0WEBP"sv,
        "P6\n9999999 9999999\n255\n"sv, "\0\0\0\x0CjP  \r\n\x87\n"sv}) {
    const auto out = Eval("ImageDecoder", A(), {Bytes(bytes)});
    EXPECT_EQ(out[0].shape(), Shape({0, 0, 3})) << bytes.size();
  }
}

TEST(ImageDecoder, RefusesWhatIsNotAStream) {
  EXPECT_BAD_INPUT(TryEval("ImageDecoder", A("pixel_format", std::string("YUV")), {Bytes(kPpm)}), "pixel_format 'YUV'");
  EXPECT_BAD_INPUT(TryEval("ImageDecoder", A(), {Iota(Shape({3}))}), "uint8 needed");
  EXPECT_BAD_INPUT(TryEval("ImageDecoder", A(), {Of<uint8_t>({1, 1}, {1})}), "one axis needed");
}

}  // namespace
}  // namespace tenon::kernels::testing
