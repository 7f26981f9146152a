// VP8 in WebP to RGB: FFmpeg decodes the planes, the rest is bit for bit as libwebp does it.
#include <algorithm>

extern "C" {
#include <libavutil/frame.h>
#include <libavutil/pixfmt.h>
}

#include "media/decode.h"

namespace tenon::media {
namespace {

const uint8_t* Row(const AVFrame& f, int plane, int y) {
  return f.data[plane] + static_cast<ptrdiff_t>(y) * f.linesize[plane];
}

uint8_t Clamp(int v) {
  return static_cast<uint8_t>(std::clamp(v, 0, 255));
}

// libwebp, dsp/yuv.h: 14 bits, 6 after the point in the end.
void WebpPixel(int y, int u, int v, uint8_t* out) {
  const auto part = [](int value, int factor) { return value * factor >> 8; };
  const int luma = part(y, 19077);
  out[0] = Clamp((luma + part(v, 26149) - 14234) >> 6);
  out[1] = Clamp((luma - part(u, 6419) - part(v, 13320) + 8708) >> 6);
  out[2] = Clamp((luma + part(u, 33050) - 17685) >> 6);
}

// libwebp, dsp/upsampling.c: one chroma sample of row `near`, weights 9 3 3 1 of it and its neighbours towards `far` and
// sideways, rounded in two steps.
int WebpChroma(const uint8_t* near, const uint8_t* far, int x, int width) {
  const int self = x >> 1;
  const int side = (x & 1) != 0 ? self + 1 : self - 1;
  if (side < 0 || (x == width - 1 && side >= (width + 1) >> 1)) return (3 * near[self] + far[self] + 2) >> 2;
  const int sum = near[self] + near[side] + far[self] + far[side] + 8;
  return (((sum + 2 * (near[side] + far[self])) >> 3) + near[self]) >> 1;
}

}  // namespace

bool WebpToRgb(const AVFrame& frame, Picture* out) {
  if (frame.format != AV_PIX_FMT_YUV420P && frame.format != AV_PIX_FMT_YUVA420P) return false;
  const int chroma_height = (frame.height + 1) >> 1;
  uint8_t* to = out->pixels.data();
  for (int y = 0; y < frame.height; ++y) {
    const int near = y >> 1;
    const int far = std::clamp((y & 1) != 0 ? near + 1 : near - 1, 0, chroma_height - 1);
    for (int x = 0; x < frame.width; ++x, to += 3) {
      WebpPixel(Row(frame, 0, y)[x], WebpChroma(Row(frame, 1, near), Row(frame, 1, far), x, frame.width),
                WebpChroma(Row(frame, 2, near), Row(frame, 2, far), x, frame.width), to);
    }
  }
  return true;
}

}  // namespace tenon::media
