// Pictures in: what image models are fed with. Decoded by FFmpeg's libraries (PNG, JPEG, BMP, WebP, ...).
#ifndef TENON_MEDIA_H_
#define TENON_MEDIA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tenon/status.h"

namespace tenon {

/// 8 bits a channel, interleaved, rows from the top: pixels[(y * width + x) * 3 + c], c in order R, G, B.
struct Picture {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> pixels;
};

/// The first picture in a file. kBadInput: missing or damaged; kResourceLimit: more than 2^28 pixels.
Result<Picture> ReadPicture(const std::string& path);

/// Bilinear resize to width x height (both >= 1).
Result<Picture> ResizePicture(const Picture& picture, int width, int height);

}  // namespace tenon

#endif  // TENON_MEDIA_H_
