#include "serve/steps/text_input.h"

namespace tenon::serve {

void WriteBgr(const Picture& picture, int columns, float* out) {
  const auto width = static_cast<size_t>(picture.width), row = static_cast<size_t>(columns);
  const size_t plane = row * static_cast<size_t>(picture.height);
  for (size_t y = 0; y < static_cast<size_t>(picture.height); ++y) {
    const uint8_t* from = picture.pixels.data() + y * width * 3;
    for (size_t x = 0; x < width; ++x) {
      for (size_t c = 0; c < 3; ++c) out[c * plane + y * row + x] = static_cast<float>(from[x * 3 + 2 - c]) / 127.5f - 1.0f;
    }
  }
}

}  // namespace tenon::serve
