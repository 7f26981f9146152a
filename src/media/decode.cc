#include "media/decode.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "media/ffmpeg.h"

namespace tenon::media {
namespace {

AVCodecID CodecOf(std::span<const uint8_t> bytes) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 16));
  using namespace std::string_view_literals;
  static constexpr std::pair<std::string_view, AVCodecID> kHeads[] = {
      {"\xFF\xD8\xFF"sv, AV_CODEC_ID_MJPEG},
      {"\x89PNG\r\n\x1A\n"sv, AV_CODEC_ID_PNG},
      {"BM"sv, AV_CODEC_ID_BMP},
      {"II*\0"sv, AV_CODEC_ID_TIFF},
      {"MM\0*"sv, AV_CODEC_ID_TIFF},
      {"\xFF\x4F\xFF\x51"sv, AV_CODEC_ID_JPEG2000},
      {"\0\0\0\x0CjP  \r\n"sv, AV_CODEC_ID_JPEG2000},
      {"P1"sv, AV_CODEC_ID_PBM},
      {"P4"sv, AV_CODEC_ID_PBM},
      {"P2"sv, AV_CODEC_ID_PGM},
      {"P5"sv, AV_CODEC_ID_PGM},
      {"P3"sv, AV_CODEC_ID_PPM},
      {"P6"sv, AV_CODEC_ID_PPM},
      {"P7"sv, AV_CODEC_ID_PAM},
  };
  for (const auto& [magic, codec] : kHeads) {
    if (head.starts_with(magic)) return codec;
  }
  return head.starts_with("RIFF") && head.size() >= 12 && head.substr(8, 4) == "WEBP" ? AV_CODEC_ID_WEBP : AV_CODEC_ID_NONE;
}

// Formats that need no arithmetic.
bool CopyRgb(const AVFrame& frame, Picture* out) {
  const bool grey = frame.format == AV_PIX_FMT_GRAY8;
  if (!grey && frame.format != AV_PIX_FMT_RGB24) return false;
  uint8_t* to = out->pixels.data();
  for (int y = 0; y < frame.height; ++y) {
    const uint8_t* from = frame.data[0] + static_cast<ptrdiff_t>(y) * frame.linesize[0];
    if (!grey) to = std::copy_n(from, frame.width * 3, to);
    for (int x = 0; grey && x < frame.width; ++x) to = std::fill_n(to, 3, from[x]);
  }
  return true;
}

// Extents in a PNG file's first chunk; a decoder that stops at its limit does not say that this is why.
int64_t PngPixels(std::span<const uint8_t> bytes) {
  constexpr size_t kWidth = 16, kHeight = 20;
  if (bytes.size() < kHeight + 4) return 0;
  const auto number = [&](size_t at) {
    return uint64_t{bytes[at]} << 24 | uint64_t{bytes[at + 1]} << 16 | uint64_t{bytes[at + 2]} << 8 | bytes[at + 3];
  };
  return static_cast<int64_t>(number(kWidth) & INT32_MAX) * static_cast<int64_t>(number(kHeight) & INT32_MAX);
}

}  // namespace

bool IsKnownPicture(std::span<const uint8_t> bytes) {
  return CodecOf(bytes) != AV_CODEC_ID_NONE;
}

Result<Picture> ToRgb(const AVFrame& frame) {
  if (frame.width < 1 || frame.height < 1) return BadInput("damaged picture");
  if (int64_t{frame.width} * frame.height > kMaxPixels) return ResourceLimit("{}x{} pixels", frame.width, frame.height);
  Picture out{frame.width, frame.height, {}};
  out.pixels.resize(static_cast<size_t>(frame.width) * static_cast<size_t>(frame.height) * 3);
  if (CopyRgb(frame, &out)) return out;
  return ToRgb24(frame.data, frame.linesize, frame.format, frame.width, frame.height, frame.width, frame.height,
                 SWS_BILINEAR | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT);
}

Result<Picture> DecodePicture(std::span<const uint8_t> bytes, int64_t most) {
  const AVCodecID id = CodecOf(bytes);
  if (id == AV_CODEC_ID_NONE || bytes.size() > INT32_MAX - AV_INPUT_BUFFER_PADDING_SIZE) {
    return BadInput("not a JPEG, JPEG 2000, PNG, BMP, TIFF, WebP or PNM picture");
  }
  most = std::min(most, kMaxPixels);
  if (id == AV_CODEC_ID_MJPEG) return DecodeJpeg(bytes, most);
  if (id == AV_CODEC_ID_PNG && PngPixels(bytes) > most)
    return ResourceLimit("a picture of {} pixels; {} are allowed", PngPixels(bytes), most);
  TENON_ASSIGN_OR_RETURN(const Ffmpeg* f, LoadFfmpeg());
  const AVCodec* codec = f->avcodec_find_decoder(id);
  if (codec == nullptr) return Unsupported("FFmpeg was built without the decoder for this format");
  Owned<AVCodecContext> decoder(f->avcodec_alloc_context3(codec));
  Owned<AVPacket> packet(f->av_packet_alloc());
  Owned<AVFrame> frame(f->av_frame_alloc());
  if (decoder == nullptr || packet == nullptr || frame == nullptr) return ResourceLimit("out of memory");
  decoder->max_pixels = most;
  decoder->thread_count = 1;
  if (f->avcodec_open2(decoder.get(), codec, nullptr) < 0) return Internal("the decoder does not open");
  if (f->av_new_packet(packet.get(), static_cast<int>(bytes.size())) < 0) return ResourceLimit("out of memory");
  std::memcpy(packet->data, bytes.data(), bytes.size());
  if (f->avcodec_send_packet(decoder.get(), packet.get()) < 0) return BadInput("damaged picture");
  f->avcodec_send_packet(decoder.get(), nullptr);
  if (f->avcodec_receive_frame(decoder.get(), frame.get()) < 0)
    return BadInput("damaged picture, or one of more than {} pixels", most);
  if (id == AV_CODEC_ID_WEBP && frame->width > 0 && frame->height > 0 && int64_t{frame->width} * frame->height <= kMaxPixels) {
    Picture out{frame->width, frame->height, {}};
    out.pixels.resize(static_cast<size_t>(frame->width) * static_cast<size_t>(frame->height) * 3);
    if (WebpToRgb(*frame, &out)) return out;
  }
  return ToRgb(*frame);
}

}  // namespace tenon::media
