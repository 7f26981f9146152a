#include "tenon/media.h"

#include <algorithm>
#include <memory>

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/imgutils.h>
#include <libswscale/swscale.h>
}

#include "base/mapped_file.h"
#include "base/status.h"
#include "media/decode.h"

namespace tenon {
namespace {

using media::kMaxPixels;

struct FreeFormat {
  void operator()(AVFormatContext* p) const { avformat_close_input(&p); }
};
struct FreeCodec {
  void operator()(AVCodecContext* p) const { avcodec_free_context(&p); }
};
struct FreeFrame {
  void operator()(AVFrame* p) const { av_frame_free(&p); }
};
struct FreePacket {
  void operator()(AVPacket* p) const { av_packet_free(&p); }
};
struct FreeScaler {
  void operator()(SwsContext* p) const { sws_freeContext(p); }
};

Result<Picture> Resize(const Picture& in, int out_width, int out_height) {
  Picture out{out_width, out_height, {}};
  // swscale writes whole vectors: rows of the temporary are padded, then packed.
  const int row = (out_width * 3 + 63) / 64 * 64;
  std::vector<uint8_t> padded(static_cast<size_t>(row) * static_cast<size_t>(out_height) + 64);
  std::unique_ptr<SwsContext, FreeScaler> scaler(sws_getContext(in.width, in.height, AV_PIX_FMT_RGB24, out_width, out_height,
                                                                AV_PIX_FMT_RGB24, SWS_BILINEAR | SWS_ACCURATE_RND, nullptr,
                                                                nullptr, nullptr));
  if (scaler == nullptr) return Internal("swscale does not resize to {}x{}", out_width, out_height);
  const uint8_t* const data[4] = {in.pixels.data(), nullptr, nullptr, nullptr};
  const int stride[4] = {in.width * 3, 0, 0, 0};
  uint8_t* const planes[4] = {padded.data(), nullptr, nullptr, nullptr};
  const int strides[4] = {row, 0, 0, 0};
  if (sws_scale(scaler.get(), data, stride, 0, in.height, planes, strides) != out_height) return Internal("swscale failed");
  out.pixels.resize(static_cast<size_t>(out_width) * static_cast<size_t>(out_height) * 3);
  for (int y = 0; y < out_height; ++y) {
    std::copy_n(padded.data() + static_cast<size_t>(y) * static_cast<size_t>(row), out_width * 3,
                out.pixels.data() + static_cast<size_t>(y) * static_cast<size_t>(out_width) * 3);
  }
  return out;
}

// Other formats and films: whatever FFmpeg finds in the file.
Result<Picture> Decode(const std::string& path) {
  av_log_set_level(AV_LOG_QUIET);
  AVFormatContext* raw = nullptr;
  // "file:" keeps names with a colon from being taken for a protocol.
  if (avformat_open_input(&raw, ("file:" + path).c_str(), nullptr, nullptr) < 0)
    return BadInput("not a picture that can be read");
  std::unique_ptr<AVFormatContext, FreeFormat> format(raw);
  if (avformat_find_stream_info(format.get(), nullptr) < 0) return BadInput("damaged picture");
  const AVCodec* codec = nullptr;
  const int stream = av_find_best_stream(format.get(), AVMEDIA_TYPE_VIDEO, -1, -1, &codec, 0);
  if (stream < 0 || codec == nullptr) return BadInput("holds no picture");
  std::unique_ptr<AVCodecContext, FreeCodec> decoder(avcodec_alloc_context3(codec));
  if (decoder == nullptr || avcodec_parameters_to_context(decoder.get(), format->streams[stream]->codecpar) < 0) {
    return BadInput("damaged picture");
  }
  decoder->max_pixels = kMaxPixels;
  decoder->thread_count = 1;
  if (avcodec_open2(decoder.get(), codec, nullptr) < 0) return BadInput("damaged picture");
  std::unique_ptr<AVPacket, FreePacket> packet(av_packet_alloc());
  std::unique_ptr<AVFrame, FreeFrame> frame(av_frame_alloc());
  if (packet == nullptr || frame == nullptr) return ResourceLimit("out of memory");
  bool more = true;
  while (more) {
    more = av_read_frame(format.get(), packet.get()) >= 0;
    if (more && packet->stream_index != stream) {
      av_packet_unref(packet.get());
      continue;
    }
    avcodec_send_packet(decoder.get(), more ? packet.get() : nullptr);
    av_packet_unref(packet.get());
    if (avcodec_receive_frame(decoder.get(), frame.get()) >= 0) {
      return media::ToRgb(*frame);
    }
  }
  return BadInput("damaged picture");
}

}  // namespace

Result<Picture> ReadPicture(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(file->data()), file->size());
  auto picture = media::IsKnownPicture(bytes) ? media::DecodePicture(bytes) : Decode(path);
  if (picture.ok()) return picture;
  return std::move(picture).TakeStatus().Within(fmt::format("'{}'", path));
}

Result<Picture> ResizePicture(const Picture& picture, int width, int height) {
  if (width < 1 || height < 1 || int64_t{width} * height > kMaxPixels) return Usage("cannot resize to {}x{}", width, height);
  return Resize(picture, width, height);
}

}  // namespace tenon
