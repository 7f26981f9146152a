// Pictures in, and text out of them: what image models are fed with and give. Decoded by FFmpeg's libraries (PNG, JPEG, BMP,
// WebP, ...).
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

/// A line of text as a recognition model reads it.
struct TextLine {
  std::string text;
  float score = 0;  ///< mean probability of its characters; 0 when there are none
};

/// Texts of a CTC model's classes: the blank, one for each line of `list` (metadata "character" of PP-OCR models), the space.
std::vector<std::string> CtcCharacters(const std::string& list);

/// The most probable class of each of `steps` rows of `classes` >= 1 probabilities; repeats, blanks (class 0) and classes beyond
/// `characters` dropped.
TextLine ReadCtc(const float* probabilities, int64_t steps, int64_t classes, const std::vector<std::string>& characters);

}  // namespace tenon

#endif  // TENON_MEDIA_H_
