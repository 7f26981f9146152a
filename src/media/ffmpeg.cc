#include "media/ffmpeg.h"

#include <algorithm>

namespace tenon::media {

Result<Picture> ToRgb24(const uint8_t* const planes[], const int strides[], int format, int width, int height, int out_width,
                        int out_height, int flags) {
  const Owned<SwsContext> scaler(sws_getContext(width, height, static_cast<AVPixelFormat>(format), out_width, out_height,
                                                AV_PIX_FMT_RGB24, flags, nullptr, nullptr, nullptr));
  if (scaler == nullptr) return Unsupported("pixel format {} cannot be converted to RGB of {}x{}", format, out_width, out_height);
  // swscale writes whole vectors: rows of the temporary are padded, then packed.
  const int row = (out_width * 3 + 63) / 64 * 64;
  std::vector<uint8_t> padded(static_cast<size_t>(row) * static_cast<size_t>(out_height) + 64);
  uint8_t* const to[4] = {padded.data(), nullptr, nullptr, nullptr};
  const int to_strides[4] = {row, 0, 0, 0};
  if (sws_scale(scaler.get(), planes, strides, 0, height, to, to_strides) != out_height) return Internal("swscale failed");
  Picture out{out_width, out_height, {}};
  out.pixels.resize(static_cast<size_t>(out_width) * static_cast<size_t>(out_height) * 3);
  for (int y = 0; y < out_height; ++y) {
    std::copy_n(padded.data() + static_cast<size_t>(y) * static_cast<size_t>(row), out_width * 3,
                out.pixels.data() + static_cast<size_t>(y) * static_cast<size_t>(out_width) * 3);
  }
  return out;
}

}  // namespace tenon::media
