#include "tenon/media.h"

#include <algorithm>
#include "base/mapped_file.h"
#include "base/status.h"
#include "media/decode.h"
#include "media/ffmpeg.h"
#include "media/picture_view.h"

namespace tenon {
namespace {

using media::kMaxPixels;
using media::Owned;

// Other formats and films: whatever FFmpeg finds in the file.
Result<Picture> Decode(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const media::Ffmpeg* f, media::LoadFfmpeg());
  AVFormatContext* raw = nullptr;
  // "file:" keeps names with a colon from being taken for a protocol.
  if (f->avformat_open_input(&raw, ("file:" + path).c_str(), nullptr, nullptr) < 0)
    return BadInput("not a picture that can be read");
  Owned<AVFormatContext> format(raw);
  if (f->avformat_find_stream_info(format.get(), nullptr) < 0) return BadInput("damaged picture");
  const AVCodec* codec = nullptr;
  const int stream = f->av_find_best_stream(format.get(), AVMEDIA_TYPE_VIDEO, -1, -1, &codec, 0);
  if (stream < 0 || codec == nullptr) return BadInput("holds no picture");
  Owned<AVCodecContext> decoder(f->avcodec_alloc_context3(codec));
  if (decoder == nullptr || f->avcodec_parameters_to_context(decoder.get(), format->streams[stream]->codecpar) < 0) {
    return BadInput("damaged picture");
  }
  decoder->max_pixels = kMaxPixels;
  decoder->thread_count = 1;
  if (f->avcodec_open2(decoder.get(), codec, nullptr) < 0) return BadInput("damaged picture");
  Owned<AVPacket> packet(f->av_packet_alloc());
  Owned<AVFrame> frame(f->av_frame_alloc());
  if (packet == nullptr || frame == nullptr) return ResourceLimit("out of memory");
  bool more = true;
  while (more) {
    more = f->av_read_frame(format.get(), packet.get()) >= 0;
    if (more && packet->stream_index != stream) {
      f->av_packet_unref(packet.get());
      continue;
    }
    f->avcodec_send_packet(decoder.get(), more ? packet.get() : nullptr);
    f->av_packet_unref(packet.get());
    if (f->avcodec_receive_frame(decoder.get(), frame.get()) >= 0) {
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
  return media::Resize(picture, width, height);
}

Result<Picture> media::Resize(PictureView in, int width, int height) {
  if (width < 1 || height < 1 || int64_t{width} * height > kMaxPixels) return Usage("cannot resize to {}x{}", width, height);
  const uint8_t* const planes[4] = {in.pixels, nullptr, nullptr, nullptr};
  const int strides[4] = {in.width * 3, 0, 0, 0};
  return ToRgb24(planes, strides, AV_PIX_FMT_RGB24, in.width, in.height, width, height, SWS_BILINEAR | SWS_ACCURATE_RND);
}

}  // namespace tenon
