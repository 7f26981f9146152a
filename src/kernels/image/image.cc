#include "kernels/image/image.h"

#include <algorithm>

#include "kernels/kernel_util.h"
#include "media/decode.h"

namespace tenon::kernels::image {
namespace {

int64_t Channels(PixelFormat f) {
  return f == PixelFormat::kGrayscale ? 1 : 3;
}

Status Infer(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const PixelFormat format, ParseFormat("ImageDecoder", args.attrs));
  const ValueInfo& in = args.in[0];
  if (in.dtype != DType::kUndefined && in.dtype != DType::kU8) return BadInput("input is {}; uint8 needed", DTypeName(in.dtype));
  if (in.shape.has_rank() && in.shape.rank() != 1) return BadInput("input of shape {}; one axis needed", in.shape.ToString());
  SetOutput(args, 0, DType::kU8, SymShape({Dim::Unknown(), Dim::Unknown(), Dim(Channels(format))}));
  return {};
}

void Convert(const Picture& picture, PixelFormat format, uint8_t* out) {
  const size_t pixels = picture.pixels.size() / 3;
  const uint8_t* p = picture.pixels.data();
  for (size_t i = 0; i < pixels; ++i, p += 3) {
    switch (format) {
      case PixelFormat::kRgb: out = std::copy_n(p, 3, out); break;
      case PixelFormat::kBgr: out = std::reverse_copy(p, p + 3, out); break;
      case PixelFormat::kGrayscale:  // 0.299 R + 0.587 G + 0.114 B, rounded
        *out++ = static_cast<uint8_t>((p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16);
        break;
    }
  }
}

Status Run(const PixelFormat& format, const RunArgs& args) {
  const View& in = args.in[0];
  auto picture = media::DecodePicture({in.Data<uint8_t>(), static_cast<size_t>(in.num_elements())});
  if (!picture.ok() && picture.status().code() != Code::kBadInput) return picture.status();
  const Shape shape = picture.ok() ? Shape{picture->height, picture->width, Channels(format)} : Shape{0, 0, Channels(format)};
  TENON_ASSIGN_OR_RETURN(const MutView out, TakeOutput(args, 0, shape));
  if (picture.ok()) Convert(*picture, format, out.Data<uint8_t>());
  return {};
}

constexpr auto Make = MakeParam<PixelFormat, ParseFormat, Run>;

}  // namespace

Result<PixelFormat> ParseFormat(std::string_view /*op*/, const Attrs& attrs) {
  const std::string format = attrs.String("pixel_format", "RGB");
  if (format == "RGB") return PixelFormat::kRgb;
  if (format == "BGR") return PixelFormat::kBgr;
  if (format == "Grayscale") return PixelFormat::kGrayscale;
  return BadInput("pixel_format '{}'; allowed: RGB, BGR, Grayscale", format);
}

std::span<const OpKernels> Operators() {
  static const Row rows[] = {
#define KERNEL(name, needs, can, make) {name, needs, can, make},
#include "kernels/image/kernels.inc"
#undef KERNEL
  };
  static const OpKernels operators[] = {{"ImageDecoder", Infer, rows, 1, 1, 1, 1}};
  return operators;
}

}  // namespace tenon::kernels::image
