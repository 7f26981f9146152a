// What the files of this folder share of FFmpeg: owners of its objects, and swscale.
#ifndef TENON_MEDIA_FFMPEG_H_
#define TENON_MEDIA_FFMPEG_H_

#include <memory>

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswscale/swscale.h>
}

#include "base/status.h"
#include "tenon/media.h"

namespace tenon::media {

struct FreeFfmpeg {
  void operator()(AVFormatContext* p) const { avformat_close_input(&p); }
  void operator()(AVCodecContext* p) const { avcodec_free_context(&p); }
  void operator()(AVFrame* p) const { av_frame_free(&p); }
  void operator()(AVPacket* p) const { av_packet_free(&p); }
  void operator()(SwsContext* p) const { sws_freeContext(p); }
};
template <typename T>
using Owned = std::unique_ptr<T, FreeFfmpeg>;

/// Pixels of any format as RGB of `out_width` x `out_height`; `flags` as for sws_getContext. kUnsupported: no such conversion.
Result<Picture> ToRgb24(const uint8_t* const planes[], const int strides[], int format, int width, int height, int out_width,
                        int out_height, int flags);

}  // namespace tenon::media

#endif  // TENON_MEDIA_FFMPEG_H_
