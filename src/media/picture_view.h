// Pictures that lie in somebody else's memory.
#ifndef TENON_MEDIA_PICTURE_VIEW_H_
#define TENON_MEDIA_PICTURE_VIEW_H_

#include <cstdint>

#include "tenon/media.h"

namespace tenon::media {

/// Pixels of somebody else: RGB, rows without gaps.
struct PictureView {
  int width = 0;
  int height = 0;
  const uint8_t* pixels = nullptr;
  PictureView() = default;
  PictureView(int w, int h, const uint8_t* p) : width(w), height(h), pixels(p) {}
  PictureView(const Picture& p) : width(p.width), height(p.height), pixels(p.pixels.data()) {}  // NOLINT: a view of it
};

/// ResizePicture of a view.
Result<Picture> Resize(PictureView picture, int width, int height);

}  // namespace tenon::media

#endif  // TENON_MEDIA_PICTURE_VIEW_H_
