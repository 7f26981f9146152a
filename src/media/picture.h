// Pictures by FFmpeg's libraries: decode (PNG, JPEG, BMP, WebP, ...) and resize.
#ifndef TENON_MEDIA_PICTURE_H_
#define TENON_MEDIA_PICTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace tenon::media {

/// 8 bits a channel, interleaved, rows from the top: pixels[(y * width + x) * 3 + c], c in order R, G, B.
struct Picture {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> pixels;
};

/// The first picture in a file. kBadInput: missing or damaged; kResourceLimit: more than 2^28 pixels.
Result<Picture> ReadPicture(const std::string& path);

/// Bilinear resize to width x height (both >= 1).
Result<Picture> Resize(const Picture& picture, int width, int height);

}  // namespace tenon::media

#endif  // TENON_MEDIA_PICTURE_H_
