// How pictures become a model's input: a small YAML or JSON file, applied in this order.
//
//   resize: 256                     shorter side to 256, the ratio kept
//   resize: {width: 224, height: 224}      (one of them alone keeps the ratio)
//   crop: 224                       the middle; or {width: 224, height: 224}
//   pad: {width: 320, height: 48, value: 0}   right and below, in levels 0..255
//   color_format: RGB               or BGR, GRAY (BT.601)
//   scale: 0.00392156862745098      levels 0..255 are multiplied by it; default 1
//   mean: [0.485, 0.456, 0.406]     then (level - mean) / std, a number for all channels or one each
//   std: [0.229, 0.224, 0.225]
//   layout: NCHW                    or NHWC
#ifndef TENON_MEDIA_PREPROCESS_H_
#define TENON_MEDIA_PREPROCESS_H_

#include <array>
#include <string>

#include "media/picture_view.h"
#include "tensor/tensor.h"

namespace tenon::media {

enum class ColorFormat { kRgb, kBgr, kGray };

struct Preprocess {
  int resize_shorter = 0;   ///< 0: not
  int resize_width = 0;
  int resize_height = 0;
  int crop_width = 0;
  int crop_height = 0;
  int pad_width = 0;
  int pad_height = 0;
  double pad_value = 0;
  ColorFormat color = ColorFormat::kRgb;
  double scale = 1;
  std::array<double, 3> mean{0, 0, 0};
  std::array<double, 3> std{1, 1, 1};
  bool channels_last = false;
};

/// kBadInput names the key, what it is and what is allowed.
Result<Preprocess> ParsePreprocess(const std::string& text);
Result<Preprocess> ReadPreprocess(const std::string& path);

/// Memory that Prepare takes for a picture of width x height; fails where it would for its extents.
Result<uint64_t> PreparedBytes(int width, int height, const Preprocess& steps, DType dtype);

/// One picture as [1, c, h, w] or [1, h, w, c] of f32, f16 or bf16, or of u8 (rounded, clamped).
Result<Tensor> Prepare(PictureView picture, const Preprocess& steps, DType dtype);

}  // namespace tenon::media

#endif  // TENON_MEDIA_PREPROCESS_H_
