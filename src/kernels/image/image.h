// ImageDecoder: the bytes of a picture file to pixels (media/decode.h).
//
//   encoded_stream uint8 [bytes] -> image uint8 [height, width, channels]; channels 3 (RGB, BGR) or 1 (Grayscale)
// Attribute pixel_format: "RGB" (default), "BGR", "Grayscale" (ITU-R BT.601 luma of the RGB values).
// A stream that cannot be decoded gives an empty image, [0, 0, channels], as ONNX asks.
#ifndef TENON_KERNELS_IMAGE_IMAGE_H_
#define TENON_KERNELS_IMAGE_IMAGE_H_

#include "kernels/kernel.h"

namespace tenon::kernels::image {

std::span<const OpKernels> Operators();

enum class PixelFormat { kRgb, kBgr, kGrayscale };
Result<PixelFormat> ParseFormat(std::string_view op, const Attrs& attrs);

}  // namespace tenon::kernels::image

#endif  // TENON_KERNELS_IMAGE_IMAGE_H_
