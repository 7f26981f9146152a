#include "media/ffmpeg.h"

#include <dlfcn.h>

#include <algorithm>
#include <string>

namespace tenon::media {
namespace {

// A library of the major version whose headers this was compiled with.
class Library {
 public:
  Library(const char* name, int major) : file_(fmt::format("lib{}.so.{}", name, major)) {
    handle_ = dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) status_ = Unsupported("pictures need FFmpeg's {}; {}", file_, dlerror());
  }

  template <typename Function>
  void Find(const char* name, Function* function) {
    if (!status_.ok()) return;
    *function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (*function == nullptr) status_ = Unsupported("pictures need FFmpeg; {} has no {}", file_, name);
  }
  const Status& status() const { return status_; }

 private:
  std::string file_;
  void* handle_ = nullptr;   // for the rest of the process
  Status status_;
};

#define TENON_FIND(library, table, name) library.Find(#name, &(table)->name)

Status Load(Ffmpeg* f) {
  Library util("avutil", LIBAVUTIL_VERSION_MAJOR), codec("avcodec", LIBAVCODEC_VERSION_MAJOR),
      format("avformat", LIBAVFORMAT_VERSION_MAJOR);
  TENON_FIND(util, f, av_frame_alloc);
  TENON_FIND(util, f, av_frame_free);
  TENON_FIND(util, f, av_log_set_level);
  TENON_FIND(codec, f, av_new_packet);
  TENON_FIND(codec, f, av_packet_alloc);
  TENON_FIND(codec, f, av_packet_free);
  TENON_FIND(codec, f, av_packet_unref);
  TENON_FIND(codec, f, avcodec_alloc_context3);
  TENON_FIND(codec, f, avcodec_find_decoder);
  TENON_FIND(codec, f, avcodec_free_context);
  TENON_FIND(codec, f, avcodec_open2);
  TENON_FIND(codec, f, avcodec_parameters_to_context);
  TENON_FIND(codec, f, avcodec_receive_frame);
  TENON_FIND(codec, f, avcodec_send_packet);
  TENON_FIND(format, f, av_find_best_stream);
  TENON_FIND(format, f, av_read_frame);
  TENON_FIND(format, f, avformat_close_input);
  TENON_FIND(format, f, avformat_find_stream_info);
  TENON_FIND(format, f, avformat_open_input);
  for (const Library* l : {&util, &codec, &format}) TENON_RETURN_IF_ERROR(l->status());
  f->av_log_set_level(AV_LOG_QUIET);
  return Status::Ok();
}

struct Swscale {
  decltype(&::sws_getContext) sws_getContext;
  decltype(&::sws_scale) sws_scale;
  decltype(&::sws_freeContext) sws_freeContext;
};

// Apart from the others, which bring a hundred libraries that scaling does not need.
Status Load(Swscale* s) {
  Library scale("swscale", LIBSWSCALE_VERSION_MAJOR);
  TENON_FIND(scale, s, sws_getContext);
  TENON_FIND(scale, s, sws_scale);
  TENON_FIND(scale, s, sws_freeContext);
  return scale.status();
}

#undef TENON_FIND

template <typename Table>
Result<const Table*> LoadOnce() {
  static Table table{};
  static const Status status = Load(&table);
  if (!status.ok()) return status;
  return &table;
}

}  // namespace

Result<const Ffmpeg*> LoadFfmpeg() {
  return LoadOnce<Ffmpeg>();
}

Result<Picture> ToRgb24(const uint8_t* const planes[], const int strides[], int format, int width, int height, int out_width,
                        int out_height, int flags) {
  TENON_ASSIGN_OR_RETURN(const Swscale* s, LoadOnce<Swscale>());
  const std::unique_ptr<SwsContext, decltype(s->sws_freeContext)> scaler(
      s->sws_getContext(width, height, static_cast<AVPixelFormat>(format), out_width, out_height, AV_PIX_FMT_RGB24, flags,
                        nullptr, nullptr, nullptr),
      s->sws_freeContext);
  if (scaler == nullptr) return Unsupported("pixel format {} cannot be converted to RGB of {}x{}", format, out_width, out_height);
  // swscale writes whole vectors: rows of the temporary are padded, then packed.
  const int row = (out_width * 3 + 63) / 64 * 64;
  std::vector<uint8_t> padded(static_cast<size_t>(row) * static_cast<size_t>(out_height) + 64);
  uint8_t* const to[4] = {padded.data(), nullptr, nullptr, nullptr};
  const int to_strides[4] = {row, 0, 0, 0};
  if (s->sws_scale(scaler.get(), planes, strides, 0, height, to, to_strides) != out_height) return Internal("swscale failed");
  Picture out{out_width, out_height, {}};
  out.pixels.resize(static_cast<size_t>(out_width) * static_cast<size_t>(out_height) * 3);
  for (int y = 0; y < out_height; ++y) {
    std::copy_n(padded.data() + static_cast<size_t>(y) * static_cast<size_t>(row), out_width * 3,
                out.pixels.data() + static_cast<size_t>(y) * static_cast<size_t>(out_width) * 3);
  }
  return out;
}

}  // namespace tenon::media
