// Pictures in memory to pixels, with the very values that the reference decoders of each format give (libjpeg, libpng, libwebp,
// OpenJPEG for lossless files): ImageDecoder of ONNX is defined by them, and so are the pictures that models were trained on.
#ifndef TENON_MEDIA_DECODE_H_
#define TENON_MEDIA_DECODE_H_

#include <cstdint>
#include <span>

#include "base/status.h"
#include "tenon/media.h"

struct AVFrame;

namespace tenon::media {

/// Most pixels of a picture that is decoded.
inline constexpr int64_t kMaxPixels = int64_t{1} << 28;

/// True when the first bytes are those of a format that DecodePicture reads: JPEG, JPEG 2000, PNG, BMP, TIFF, WebP, PNM.
bool IsKnownPicture(std::span<const uint8_t> bytes);

/// The first picture; alpha is dropped, grey becomes r = g = b. kBadInput: none of the formats, or damaged; kResourceLimit: more
/// than `most` pixels, told before memory is taken.
Result<Picture> DecodePicture(std::span<const uint8_t> bytes, int64_t most = kMaxPixels);

/// A decoded frame of any format that FFmpeg has, as RGB.
Result<Picture> ToRgb(const AVFrame& frame);
/// By libjpeg, whose transform and upsampling are what everybody else decodes with.
Result<Picture> DecodeJpeg(std::span<const uint8_t> bytes, int64_t most);
/// VP8 in WebP, 4:2:0 of limited range, upsampled and converted as libwebp does by default. False when the frame is of another
/// kind. `out` has the frame's size.
bool WebpToRgb(const AVFrame& frame, Picture* out);

}  // namespace tenon::media

#endif  // TENON_MEDIA_DECODE_H_
