// What the files of this folder share of FFmpeg: its functions, owners of its objects, and swscale. Its libraries are loaded when
// a picture first needs them: with the hundred that they bring they cost every start 30 ms and several megabytes otherwise.
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

/// Functions of libavutil, libavcodec and libavformat under their own names.
struct Ffmpeg {
  decltype(&::av_frame_alloc) av_frame_alloc;
  decltype(&::av_frame_free) av_frame_free;
  decltype(&::av_log_set_level) av_log_set_level;
  decltype(&::av_new_packet) av_new_packet;
  decltype(&::av_packet_alloc) av_packet_alloc;
  decltype(&::av_packet_free) av_packet_free;
  decltype(&::av_packet_unref) av_packet_unref;
  decltype(&::avcodec_alloc_context3) avcodec_alloc_context3;
  decltype(&::avcodec_find_decoder) avcodec_find_decoder;
  decltype(&::avcodec_free_context) avcodec_free_context;
  decltype(&::avcodec_open2) avcodec_open2;
  decltype(&::avcodec_parameters_to_context) avcodec_parameters_to_context;
  decltype(&::avcodec_receive_frame) avcodec_receive_frame;
  decltype(&::avcodec_send_packet) avcodec_send_packet;
  decltype(&::av_find_best_stream) av_find_best_stream;
  decltype(&::av_read_frame) av_read_frame;
  decltype(&::avformat_close_input) avformat_close_input;
  decltype(&::avformat_find_stream_info) avformat_find_stream_info;
  decltype(&::avformat_open_input) avformat_open_input;
};

/// Loaded at the first call, never unloaded; keeps FFmpeg's own log quiet. kUnsupported: the libraries that Tenon was built with
/// are not there.
Result<const Ffmpeg*> LoadFfmpeg();

struct FreeFfmpeg {
  void operator()(AVFormatContext* p) const { Loaded().avformat_close_input(&p); }
  void operator()(AVCodecContext* p) const { Loaded().avcodec_free_context(&p); }
  void operator()(AVFrame* p) const { Loaded().av_frame_free(&p); }
  void operator()(AVPacket* p) const { Loaded().av_packet_free(&p); }

 private:
  static const Ffmpeg& Loaded() { return **LoadFfmpeg(); }  // who made *p has loaded it
};
template <typename T>
using Owned = std::unique_ptr<T, FreeFfmpeg>;

/// Pixels of any format as RGB of `out_width` x `out_height`; `flags` as for sws_getContext. kUnsupported: no such conversion, or
/// no libswscale.
Result<Picture> ToRgb24(const uint8_t* const planes[], const int strides[], int format, int width, int height, int out_width,
                        int out_height, int flags);

}  // namespace tenon::media

#endif  // TENON_MEDIA_FFMPEG_H_
