#include "cli/inputs.h"

#include <filesystem>
#include <random>

#include "base/dim_value.h"
#include "base/dtype.h"
#include "base/mapped_file.h"
#include "cli/model_options.h"
#include "media/npy.h"
#include "runtime/host_tensor.h"
#include "tenon/media.h"

namespace tenon::cli {
namespace {

namespace fs = std::filesystem;

// Sub-byte and raw arrays take the model's type.
Result<Tensor> Adapt(const media::NpyArray& array, const TensorInfo& info) {
  const Tensor& t = array.tensor;
  const int bits = DTypeBits(info.dtype);
  if (array.raw && bits == DTypeBits(t.dtype())) return Tensor(info.dtype, t.shape(), t.buffer());
  if (t.dtype() == DType::kI32 && info.dtype == DType::kI64) {   // as ids are often kept
    TENON_ASSIGN_OR_RETURN(Tensor wide, Tensor::Allocate(DType::kI64, t.shape()));
    for (int64_t i = 0; i < t.shape().num_elements(); ++i) wide.MutableData<int64_t>()[i] = t.Data<int32_t>()[i];
    return wide;
  }
  if (bits != 0 && bits < 8 && (t.dtype() == DType::kU8 || t.dtype() == DType::kI8)) {
    TENON_ASSIGN_OR_RETURN(Tensor packed, Tensor::Zeros(info.dtype, t.shape()));
    const int per_byte = 8 / bits;
    for (int64_t i = 0; i < t.shape().num_elements(); ++i) {
      const int value = t.Data<uint8_t>()[i] & ((1 << bits) - 1);
      packed.MutableData<uint8_t>()[i / per_byte] |= static_cast<uint8_t>(value << (i % per_byte * bits));
    }
    return packed;
  }
  return t;
}

Result<Tensor> ReadBinary(const std::string& path, const TensorInfo& info, const Shape& shape) {
  const size_t want = DTypeBytes(info.dtype, shape.num_elements());
  TENON_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  if (file->size() != want) {
    return BadInput("'{}' has {} bytes; input '{}' of shape {} has {}", path, file->size(), info.name, shape.ToString(), want);
  }
  TENON_ASSIGN_OR_RETURN(Tensor t, Tensor::Allocate(info.dtype, shape));
  TENON_RETURN_IF_ERROR(file->ReadAt(0, t.mutable_data(), want));
  return t;
}

// [1,3,H,W] or [1,H,W,3], f32 scaled to 0..1 or u8 as it is.
Result<Tensor> FromPicture(const std::string& path, const TensorInfo& info, const std::optional<Shape>& wish) {
  TENON_ASSIGN_OR_RETURN(Picture picture, ReadPicture(path));
  const bool last = info.dims.size() == 4 && info.dims[3] == "3";
  if (info.dims.size() != 4 || (!last && info.dims[1] != "3") || (info.dtype != DType::kF32 && info.dtype != DType::kU8)) {
    return Usage("input '{}' takes no picture: it must be float32 or uint8 [n,3,h,w] or [n,h,w,3]", info.name);
  }
  const auto extent = [&](int axis, int own) {
    if (wish) return static_cast<int>((*wish)[axis]);
    const auto fixed = FixedExtent(info.dims[static_cast<size_t>(axis)]);
    return fixed ? static_cast<int>(*fixed) : own;
  };
  const int h = extent(last ? 1 : 2, picture.height);
  const int w = extent(last ? 2 : 3, picture.width);
  if (h != picture.height || w != picture.width) {
    TENON_ASSIGN_OR_RETURN(picture, ResizePicture(picture, w, h));
  }
  const Shape shape = last ? Shape{1, h, w, 3} : Shape{1, 3, h, w};
  TENON_ASSIGN_OR_RETURN(Tensor t, Tensor::Allocate(info.dtype, shape));
  const int64_t plane = int64_t{h} * w;
  for (int64_t p = 0; p < plane; ++p) {
    for (int64_t c = 0; c < 3; ++c) {
      const uint8_t v = picture.pixels[static_cast<size_t>(p * 3 + c)];
      const int64_t to = last ? p * 3 + c : c * plane + p;
      if (info.dtype == DType::kF32) {
        t.MutableData<float>()[to] = static_cast<float>(v) / 255.0f;
      } else {
        t.MutableData<uint8_t>()[to] = v;
      }
    }
  }
  return t;
}

Result<Tensor> MakeUp(const std::string& kind, const TensorInfo& info, const Shape& shape) {
  TENON_ASSIGN_OR_RETURN(Tensor t, Tensor::Zeros(info.dtype, shape));
  if (kind == "zeros" || info.dtype == DType::kString) return t;
  std::mt19937 random(42);
  std::uniform_real_distribution<float> uniform(0.0f, 1.0f);
  const auto next = [&] { return kind == "ones" ? 1.0f : uniform(random); };
  const int64_t n = shape.num_elements();
  const bool filled = DispatchDType<TENON_FLOAT_TYPES, TENON_INT_TYPES>(info.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < n; ++i) {
      // Random integers are 0 or 1: valid as masks, token types and indices of anything.
      if constexpr (std::is_integral_v<T>) {
        t.MutableData<T>()[i] = static_cast<T>(next() >= 0.5f);
      } else {
        t.MutableData<T>()[i] = static_cast<T>(next());
      }
    }
  });
  if (!filled && info.dtype == DType::kBool) {
    for (int64_t i = 0; i < n; ++i) t.MutableData<uint8_t>()[i] = next() >= 0.5f ? 1 : 0;
  }
  return t;
}

Result<std::map<std::string, std::string>> ParsePairs(const std::vector<std::string>& texts, const char* flag,
                                                      const Session& session) {
  std::map<std::string, std::string> pairs;
  for (const std::string& text : texts) {
    // Input names may hold '=': take the longest that is one.
    size_t cut = std::string::npos;
    for (const TensorInfo& info : session.inputs()) {
      if (text.size() > info.name.size() && text.starts_with(info.name) && text[info.name.size()] == '=' &&
          (cut == std::string::npos || info.name.size() > cut)) {
        cut = info.name.size();
      }
    }
    if (cut == std::string::npos) {
      std::string known;
      for (const TensorInfo& info : session.inputs()) known += (known.empty() ? "'" : ", '") + info.name + "'";
      if (text.find('=') == std::string::npos) return Usage("{} '{}'; allowed: NAME=VALUE", flag, text);
      return Usage("{} '{}'; unknown input '{}'; the model takes {}", flag, text, text.substr(0, text.find('=')), known);
    }
    if (!pairs.emplace(text.substr(0, cut), text.substr(cut + 1)).second)
      return Usage("{} for '{}' is given twice", flag, text.substr(0, cut));
  }
  return pairs;
}

class Loader {
 public:
  Loader(int64_t batch, const Context& context) : batch_(batch), context_(context) {}

  Result<HostTensor> Load(const TensorInfo& info, const std::string* value, const std::string* shape_text) {
    if (info.is_sequence && (value == nullptr || !value->ends_with(".npy"))) {
      return Unsupported("input '{}' is a sequence or an optional; allowed here: one .npy file, its only element", info.name);
    }
    std::optional<Shape> wish;
    if (shape_text != nullptr) {
      TENON_ASSIGN_OR_RETURN(const auto dims, ParseShape(*shape_text, fmt::format("input '{}'", info.name)));
      auto shape = CheckedShape(dims);
      if (!shape.ok()) return Usage("shape '{}' of input '{}'; {}", *shape_text, info.name, shape.status().message());
      wish = *shape;
    }
    const std::string kind = value != nullptr ? *value : "random";
    if (kind == "random" || kind == "zeros" || kind == "ones") {
      TENON_ASSIGN_OR_RETURN(const Shape shape, ShapeFor(info, wish));
      TENON_ASSIGN_OR_RETURN(const Tensor t, MakeUp(kind, info, shape));
      return runtime::ToHost(info.name, t);
    }
    const std::string extension = fs::path(kind).extension().string();
    if (extension == ".npy") {
      TENON_ASSIGN_OR_RETURN(const media::NpyArray array, media::ReadNpy(kind));
      TENON_ASSIGN_OR_RETURN(const Tensor t, Adapt(array, info));
      if (wish && !(t.shape() == *wish)) {
        return Usage("input '{}'; '{}' holds shape {}, --shape says {}", info.name, kind, t.shape().ToString(), wish->ToString());
      }
      return runtime::ToHost(info.name, t);
    }
    if (extension == ".bin" || extension == ".raw") {
      TENON_ASSIGN_OR_RETURN(const Shape shape, ShapeFor(info, wish));
      TENON_ASSIGN_OR_RETURN(const Tensor t, ReadBinary(kind, info, shape));
      return runtime::ToHost(info.name, t);
    }
    TENON_ASSIGN_OR_RETURN(const Tensor t, FromPicture(kind, info, wish));
    return runtime::ToHost(info.name, t);
  }

 private:
  Result<Shape> ShapeFor(const TensorInfo& info, const std::optional<Shape>& wish) {
    if (!info.has_rank && !wish) return Usage("input '{}' has no declared rank; give --shape {}=...", info.name, info.name);
    Shape shape;
    std::string free;
    if (wish) {
      shape = *wish;
    } else {
      if (info.dims.size() > static_cast<size_t>(kMaxRank))
        return Unsupported("input '{}' has rank {}", info.name, info.dims.size());
      for (size_t i = 0; i < info.dims.size(); ++i) {
        const auto fixed = FixedExtent(info.dims[i]);
        // One symbol has one value in all inputs.
        if (!fixed && i > 0) free += (free.empty() ? "" : ", ") + info.dims[i];
        shape.push_back(fixed ? *fixed : Known(info.dims[i]));
      }
    }
    if (batch_ > 0 && shape.rank() > 0 && !(info.has_rank && !info.dims.empty() && FixedExtent(info.dims[0]))) shape[0] = batch_;
    if (info.has_rank) {
      for (size_t i = 0; i < info.dims.size() && i < static_cast<size_t>(shape.rank()); ++i)
        symbols_[info.dims[i]] = shape[static_cast<int>(i)];
    }
    if (!free.empty() && batch_ >= 0)
      context_.Note(
          fmt::format("input '{}' runs with shape {}; --shape {}=... sets {}", info.name, shape.ToString(), info.name, free));
    return shape;
  }

  int64_t Known(const std::string& symbol) const {
    const auto it = symbols_.find(symbol);
    return it == symbols_.end() ? 1 : it->second;
  }

  int64_t batch_;
  const Context& context_;
  std::map<std::string, int64_t> symbols_;
};

}  // namespace

void InputOptions::Add(CLI::App& app) {
  app.add_option("--input", inputs, "NAME=FILE.npy | FILE.bin | picture | random | zeros | ones (repeatable)");
  app.add_option("--shape", shapes, "NAME=1x3x224x224, for inputs that are not files with a shape (repeatable)");
}

Result<std::vector<HostTensor>> InputOptions::Load(const Session& session, int64_t batch, const Context& context) const {
  TENON_ASSIGN_OR_RETURN(const auto values, ParsePairs(inputs, "--input", session));
  TENON_ASSIGN_OR_RETURN(const auto shape_texts, ParsePairs(shapes, "--shape", session));
  Loader loader(batch, context);
  const auto find = [](const std::map<std::string, std::string>& map, const std::string& name) {
    const auto it = map.find(name);
    return it == map.end() ? nullptr : &it->second;
  };
  // Inputs with a given shape first: they settle symbols for the others.
  std::vector<HostTensor> tensors(session.inputs().size());
  for (const bool shaped : {true, false}) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const TensorInfo& info = session.inputs()[i];
      if ((find(shape_texts, info.name) != nullptr) != shaped) continue;
      TENON_ASSIGN_OR_RETURN(tensors[i], loader.Load(info, find(values, info.name), find(shape_texts, info.name)));
    }
  }
  return tensors;
}

}  // namespace tenon::cli
