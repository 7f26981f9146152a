#include "media/preprocess.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>

#include "base/mapped_file.h"

namespace tenon::media {
namespace {

constexpr int kMaxExtent = 1 << 16;

Status Wrong(const std::string& key, const YAML::Node& value, const char* allowed) {
  std::string text = YAML::Dump(value);
  std::replace(text.begin(), text.end(), '\n', ' ');
  constexpr size_t kMaxShown = 60;
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
  return BadInput("'{}' is {}; allowed: {}", key, text, allowed);
}

Status ReadExtent(const std::string& key, const YAML::Node& value, int* out) {
  int n = 0;
  if (!value.IsScalar() || !YAML::convert<int>::decode(value, n) || n < 1 || n > kMaxExtent)
    return Wrong(key, value, "a number of pixels, 1 to 65536");
  *out = n;
  return Status::Ok();
}

Status ReadNumber(const std::string& key, const YAML::Node& value, double* out) {
  double v = 0;
  if (!value.IsScalar() || !YAML::convert<double>::decode(value, v) || !std::isfinite(v)) return Wrong(key, value, "a number");
  *out = v;
  return Status::Ok();
}

Status ReadChannels(const std::string& key, const YAML::Node& value, std::array<double, 3>* out) {
  if (value.IsScalar()) {
    TENON_RETURN_IF_ERROR(ReadNumber(key, value, &(*out)[0]));
    out->fill((*out)[0]);
    return Status::Ok();
  }
  if (!value.IsSequence() || (value.size() != 1 && value.size() != 3))
    return Wrong(key, value, "a number, or one for each of 3 channels");
  for (size_t i = 0; i < 3; ++i) TENON_RETURN_IF_ERROR(ReadNumber(key, value[value.size() == 1 ? 0 : i], &(*out)[i]));
  return Status::Ok();
}

// {width: ..., height: ...} and, where allowed, {value: ...}.
Status ReadSize(const std::string& key, const YAML::Node& value, int* width, int* height, double* fill) {
  if (!value.IsMap())
    return Wrong(key, value, fill != nullptr ? "{width: W, height: H, value: V}" : "a number, or {width: W, height: H}");
  for (const auto& entry : value) {
    const std::string name = entry.first.Scalar();
    const std::string where = key + "." + name;
    if (name == "width") {
      TENON_RETURN_IF_ERROR(ReadExtent(where, entry.second, width));
    } else if (name == "height") {
      TENON_RETURN_IF_ERROR(ReadExtent(where, entry.second, height));
    } else if (name == "value" && fill != nullptr) {
      TENON_RETURN_IF_ERROR(ReadNumber(where, entry.second, fill));
    } else {
      return BadInput("unknown key '{}'; allowed: width, height{}", where, fill != nullptr ? ", value" : "");
    }
  }
  return Status::Ok();
}

Status ReadKey(const std::string& key, const YAML::Node& value, Preprocess* p) {
  if (key == "resize") {
    return value.IsScalar() ? ReadExtent(key, value, &p->resize_shorter)
                            : ReadSize(key, value, &p->resize_width, &p->resize_height, nullptr);
  }
  if (key == "crop") {
    if (!value.IsScalar()) return ReadSize(key, value, &p->crop_width, &p->crop_height, nullptr);
    TENON_RETURN_IF_ERROR(ReadExtent(key, value, &p->crop_width));
    p->crop_height = p->crop_width;
    return Status::Ok();
  }
  if (key == "pad") return ReadSize(key, value, &p->pad_width, &p->pad_height, &p->pad_value);
  if (key == "scale") return ReadNumber(key, value, &p->scale);
  if (key == "mean") return ReadChannels(key, value, &p->mean);
  if (key == "std") {
    TENON_RETURN_IF_ERROR(ReadChannels(key, value, &p->std));
    return std::count(p->std.begin(), p->std.end(), 0.0) > 0 ? Wrong(key, value, "numbers other than 0") : Status::Ok();
  }
  const std::string word = value.IsScalar() ? value.Scalar() : "";
  if (key == "color_format") {
    if (word != "RGB" && word != "BGR" && word != "GRAY") return Wrong(key, value, "RGB, BGR, GRAY");
    p->color = word == "RGB" ? ColorFormat::kRgb : word == "BGR" ? ColorFormat::kBgr : ColorFormat::kGray;
    return Status::Ok();
  }
  if (key == "layout") {
    if (word != "NCHW" && word != "NHWC") return Wrong(key, value, "NCHW, NHWC");
    p->channels_last = word == "NHWC";
    return Status::Ok();
  }
  return BadInput("unknown key '{}'; allowed: resize, crop, pad, color_format, scale, mean, std, layout", key);
}

int Scaled(int extent, double factor) {
  return std::clamp(static_cast<int>(std::lround(extent * factor)), 1, kMaxExtent);
}

struct Extent {
  int width = 0;
  int height = 0;
};

Extent ResizedExtent(Extent in, const Preprocess& p) {
  Extent out{p.resize_width, p.resize_height};
  if (p.resize_shorter > 0) {
    const double factor = static_cast<double>(p.resize_shorter) / std::min(in.width, in.height);
    out = {Scaled(in.width, factor), Scaled(in.height, factor)};
  } else if (out.width > 0 && out.height == 0) {
    out.height = Scaled(in.height, static_cast<double>(out.width) / in.width);
  } else if (out.height > 0 && out.width == 0) {
    out.width = Scaled(in.width, static_cast<double>(out.height) / in.height);
  }
  return out.width == 0 ? in : out;
}

// Where the prepared picture's pixels come from.
struct Window {
  int left = 0;
  int top = 0;
  int width = 0;     // taken from the picture
  int height = 0;
  int full_width = 0;   // with what is padded
  int full_height = 0;
};

Result<Window> WindowOf(Extent in, const Preprocess& p) {
  Window w{0, 0, in.width, in.height, 0, 0};
  if (p.crop_width > in.width || p.crop_height > in.height)
    return BadInput("crop to {}x{} of a picture of {}x{}", p.crop_width, p.crop_height, in.width, in.height);
  if (p.crop_width > 0) w.left = (in.width - p.crop_width) / 2, w.width = p.crop_width;
  if (p.crop_height > 0) w.top = (in.height - p.crop_height) / 2, w.height = p.crop_height;
  w.full_width = p.pad_width > 0 ? p.pad_width : w.width;
  w.full_height = p.pad_height > 0 ? p.pad_height : w.height;
  // What does not fit in the padded size is cut.
  w.width = std::min(w.width, w.full_width);
  w.height = std::min(w.height, w.full_height);
  return w;
}

double Level(const uint8_t* rgb, int channel, ColorFormat color) {
  if (color == ColorFormat::kGray) return 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
  return rgb[color == ColorFormat::kBgr ? 2 - channel : channel];
}

template <typename T>
T Element(double v) {
  if constexpr (std::is_same_v<T, uint8_t>) {
    return static_cast<uint8_t>(std::clamp(std::nearbyint(v), 0.0, 255.0));
  } else {
    return static_cast<T>(static_cast<float>(v));
  }
}

}  // namespace

Result<Preprocess> ParsePreprocess(const std::string& text) try {
  const YAML::Node root = YAML::Load(text);
  if (!root.IsMap()) return BadInput("not a list of 'key: value'");
  Preprocess p;
  for (const auto& entry : root) {
    if (!entry.first.IsScalar()) return BadInput("a key is no word");
    TENON_RETURN_IF_ERROR(ReadKey(entry.first.Scalar(), entry.second, &p));
  }
  return p;
} catch (const YAML::Exception& e) {
  return BadInput("line {}: {}", e.mark.line + 1, e.msg);
}

Result<Preprocess> ReadPreprocess(const std::string& path) {
  constexpr uint64_t kMaxBytes = 1 << 20;
  TENON_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxBytes));
  auto p = ParsePreprocess(text);
  if (p.ok()) return p;
  return std::move(p).TakeStatus().Within(fmt::format("'{}'", path));
}

Result<uint64_t> PreparedBytes(int width, int height, const Preprocess& p, DType dtype) {
  const Extent resized = ResizedExtent({width, height}, p);
  TENON_ASSIGN_OR_RETURN(const Window w, WindowOf(resized, p));
  const uint64_t picture = uint64_t{3} * static_cast<uint64_t>(resized.width) * static_cast<uint64_t>(resized.height);
  const int64_t elements = int64_t{p.color == ColorFormat::kGray ? 1 : 3} * w.full_width * w.full_height;
  return picture + DTypeBytes(dtype, elements);
}

Result<Tensor> Prepare(PictureView in, const Preprocess& p, DType dtype) {
  Picture resized;
  const Extent extent = ResizedExtent({in.width, in.height}, p);
  if (extent.width != in.width || extent.height != in.height) {
    TENON_ASSIGN_OR_RETURN(resized, Resize(in, extent.width, extent.height));
    in = resized;
  }
  TENON_ASSIGN_OR_RETURN(const Window w, WindowOf({in.width, in.height}, p));
  const int channels = p.color == ColorFormat::kGray ? 1 : 3;
  const Shape shape =
      p.channels_last ? Shape{1, w.full_height, w.full_width, channels} : Shape{1, channels, w.full_height, w.full_width};
  TENON_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(dtype, shape));
  const int64_t plane = int64_t{w.full_height} * w.full_width;
  const bool known = DispatchDType<float, Half, BFloat16, uint8_t>(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* data = out.MutableData<T>();
    for (int c = 0; c < channels; ++c) {
      const auto i = static_cast<size_t>(c);
      for (int64_t at = 0; at < plane; ++at) {
        const auto y = static_cast<int>(at / w.full_width);
        const auto x = static_cast<int>(at % w.full_width);
        double level = p.pad_value;
        if (y < w.height && x < w.width)
          level = Level(
              in.pixels + (static_cast<size_t>(y + w.top) * static_cast<size_t>(in.width) + static_cast<size_t>(x + w.left)) * 3,
              c, p.color);
        data[p.channels_last ? at * channels + c : c * plane + at] = Element<T>((level * p.scale - p.mean[i]) / p.std[i]);
      }
    }
  });
  if (!known) return Unsupported("pictures as {}; allowed: float32, float16, bfloat16, uint8", DTypeName(dtype));
  return out;
}

}  // namespace tenon::media
