// JPEG by libjpeg, with its defaults: the slow integer transform and smooth ("fancy") chroma upsampling.
#include <csetjmp>
#include <cstdio>
#include <vector>

#include <jerror.h>
#include <jpeglib.h>

#include "media/decode.h"

namespace tenon::media {
namespace {

// A file may ask for any number of passes over the picture.
constexpr int kMaxScans = 500;

struct Errors {
  jpeg_error_mgr base;
  jmp_buf jump;
  bool truncated;
};
Errors& ErrorsOf(j_common_ptr common) {
  return *reinterpret_cast<Errors*>(common->err);
}
[[noreturn]] void Fail(j_common_ptr common) {
  longjmp(ErrorsOf(common).jump, 1);
}
void Note(j_common_ptr common, int level) {
  if (level < 0 && common->err->msg_code == JWRN_JPEG_EOF) ErrorsOf(common).truncated = true;
}
void Quiet(j_common_ptr /*common*/) {}
void CountScans(j_common_ptr common) {
  if (reinterpret_cast<j_decompress_ptr>(common)->input_scan_number > kMaxScans) Fail(common);
}

// Four inks, inverted in files that Adobe's programs write.
void InksToRgb(const uint8_t* in, int width, bool inverted, uint8_t* out) {
  for (int x = 0; x < width; ++x, in += 4) {
    const int paper = inverted ? in[3] : 255 - in[3];
    for (int c = 0; c < 3; ++c) {
      const int ink = (inverted ? 255 - in[c] : in[c]) * paper + 128;
      *out++ = static_cast<uint8_t>(paper - ((ink + (ink >> 8)) >> 8));
    }
  }
}

enum class Outcome { kDone, kDamaged, kTooLarge };

// Everything with a destructor is the caller's: longjmp passes over this function.
Outcome Decode(std::span<const uint8_t> bytes, int64_t most, jpeg_decompress_struct* c, Errors* errors, std::vector<uint8_t>* row,
               Picture* out) {
  if (setjmp(errors->jump) != 0) return Outcome::kDamaged;
  jpeg_create_decompress(c);
  jpeg_progress_mgr progress{};
  progress.progress_monitor = CountScans;
  c->progress = &progress;
  jpeg_mem_src(c, bytes.data(), bytes.size());
  jpeg_read_header(c, TRUE);
  if (int64_t{c->image_width} * c->image_height > most) return Outcome::kTooLarge;
  const bool inks = c->jpeg_color_space == JCS_CMYK || c->jpeg_color_space == JCS_YCCK;
  c->out_color_space = inks ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(c);
  out->width = static_cast<int>(c->output_width);
  out->height = static_cast<int>(c->output_height);
  out->pixels.resize(size_t{c->output_width} * c->output_height * 3);
  row->resize(size_t{c->output_width} * 4);
  while (c->output_scanline < c->output_height) {
    uint8_t* to = out->pixels.data() + size_t{c->output_scanline} * c->output_width * 3;
    JSAMPROW target = inks ? row->data() : to;
    jpeg_read_scanlines(c, &target, 1);
    if (inks) InksToRgb(row->data(), out->width, c->saw_Adobe_marker != 0, to);
  }
  jpeg_finish_decompress(c);
  return errors->truncated ? Outcome::kDamaged : Outcome::kDone;
}

}  // namespace

Result<Picture> DecodeJpeg(std::span<const uint8_t> bytes, int64_t most) {
  Errors errors{};
  jpeg_decompress_struct c{};
  c.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = Fail;
  errors.base.emit_message = Note;
  errors.base.output_message = Quiet;
  Picture out;
  std::vector<uint8_t> row;
  const Outcome outcome = Decode(bytes, most, &c, &errors, &row, &out);
  jpeg_destroy_decompress(&c);
  if (outcome == Outcome::kTooLarge)
    return ResourceLimit("a picture of {}x{} pixels; {} are allowed", c.image_width, c.image_height, most);
  if (outcome == Outcome::kDamaged) return BadInput("damaged picture");
  return out;
}

}  // namespace tenon::media
