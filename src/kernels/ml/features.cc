// ArrayFeatureExtractor, Binarizer, Scaler, Normalizer, LabelEncoder, LinearRegressor.
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "kernels/element.h"
#include "kernels/kernel_util.h"
#include "kernels/ml/ml.h"

namespace tenon::kernels::ml {
namespace {

Status CheckNumeric(const ValueInfo& v) {
  if (v.dtype == DType::kUndefined || IsPlainNumeric(v.dtype)) return {};
  return BadInput("input is {}; a plain numeric type needed", DTypeName(v.dtype));
}

class ArrayFeatureExtractor final : public Kernel {
 public:
  Status Run(const RunArgs& args) const override {
    const View &x = args.in[0], &index = args.in[1];
    const int64_t width = x.shape.rank() == 0 ? 1 : x.shape.dim(-1);
    const int64_t rows = width == 0 ? 0 : x.num_elements() / width;
    const int64_t n = index.num_elements();
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = index.Data<int64_t>()[i];
      if (at < 0 || at >= width) return BadInput("index {}; input 1; allowed: 0 to {}", at, width - 1);
    }
    const bool strings = x.dtype == DType::kString;
    const size_t size = strings ? 0 : DTypeBytes(x.dtype, 1);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < n; ++i) {
        const int64_t from = r * width + index.Data<int64_t>()[i], to = r * n + i;
        if (strings) {
          args.out[0].Data<std::string>()[to] = x.Data<std::string>()[from];
        } else {
          std::memcpy(args.out[0].Data<char>() + static_cast<size_t>(to) * size,
                      x.Data<char>() + static_cast<size_t>(from) * size, size);
        }
      }
    }
    return {};
  }
};

class Binarizer final : public Kernel {
 public:
  explicit Binarizer(float threshold) : threshold_(threshold) {}
  Status Run(const RunArgs& args) const override {
    const View& x = args.in[0];
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      StoreDouble(x.dtype, args.out[0].data, i, LoadDouble(x.dtype, x.data, i) > threshold_ ? 1 : 0);
    }
    return {};
  }

 private:
  double threshold_;
};

class Scaler final : public Kernel {
 public:
  Scaler(std::vector<float> offset, std::vector<float> scale) : offset_(std::move(offset)), scale_(std::move(scale)) {}
  Status Run(const RunArgs& args) const override {
    const View& x = args.in[0];
    const int64_t width = x.shape.rank() == 0 ? 1 : x.shape.dim(-1);
    for (const auto* v : {&offset_, &scale_}) {
      if (v->size() > 1 && static_cast<int64_t>(v->size()) != width) {
        return BadInput("{} offsets and {} scales for {} features; one or as many needed", offset_.size(), scale_.size(), width);
      }
    }
    const auto at = [](const std::vector<float>& v, int64_t c, float none) {
      return static_cast<double>(v.empty() ? none : v.size() == 1 ? v[0] : v[static_cast<size_t>(c)]);
    };
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const int64_t c = i % width;
      args.out[0].Data<float>()[i] = static_cast<float>((LoadDouble(x.dtype, x.data, i) - at(offset_, c, 0)) * at(scale_, c, 1));
    }
    return {};
  }

 private:
  std::vector<float> offset_, scale_;
};

enum class Norm { kMax, kL1, kL2 };

class Normalizer final : public Kernel {
 public:
  explicit Normalizer(Norm norm) : norm_(norm) {}
  Status Run(const RunArgs& args) const override {
    const View& x = args.in[0];
    const int64_t width = x.shape.rank() == 0 ? 1 : x.shape.dim(-1);
    for (int64_t base = 0; width > 0 && base < x.num_elements(); base += width) {
      double size = 0;
      for (int64_t i = base; i < base + width; ++i) {
        const double v = std::abs(LoadDouble(x.dtype, x.data, i));
        size = norm_ == Norm::kMax ? std::max(size, v) : size + (norm_ == Norm::kL1 ? v : v * v);
      }
      if (norm_ == Norm::kL2) size = std::sqrt(size);
      size = std::max(size, 1e-30);
      for (int64_t i = base; i < base + width; ++i)
        args.out[0].Data<float>()[i] = static_cast<float>(LoadDouble(x.dtype, x.data, i) / size);
    }
    return {};
  }

 private:
  Norm norm_;
};

// One column of LabelEncoder's table: attribute lists or a tensor, as a tensor of one type.
Result<Tensor> Column(const Attrs& attrs, const std::string& prefix) {
  if (const Tensor* t = attrs.GetTensor(prefix + "_tensor")) return *t;
  if (attrs.Has(prefix + "_strings")) {
    auto v = attrs.Strings(prefix + "_strings");
    const auto n = static_cast<int64_t>(v.size());
    return Tensor::FromStrings({n}, std::move(v));
  }
  if (attrs.Has(prefix + "_int64s")) {
    const auto v = attrs.Ints(prefix + "_int64s");
    return Tensor::FromVector<int64_t>({static_cast<int64_t>(v.size())}, v);
  }
  if (attrs.Has(prefix + "_floats")) {
    const auto v = attrs.Floats(prefix + "_floats");
    return Tensor::FromVector<float>({static_cast<int64_t>(v.size())}, v);
  }
  return BadInput("no {}_strings, {}_int64s, {}_floats or {}_tensor given", prefix, prefix, prefix, prefix);
}

Result<Tensor> Default(const Attrs& attrs, DType t) {
  if (const Tensor* given = attrs.GetTensor("default_tensor")) {
    if (given->dtype() != t || given->shape().num_elements() != 1)
      return BadInput("default_tensor is {}; one {} needed", DTypeName(given->dtype()), DTypeName(t));
    return *given;
  }
  if (t == DType::kString) return Tensor::FromStrings({1}, {attrs.String("default_string", "_Unused")});
  TENON_ASSIGN_OR_RETURN(Tensor out, Tensor::Zeros(t, {1}));
  if (t == DType::kI64) {
    *out.MutableData<int64_t>() = attrs.Int("default_int64", -1);
  } else {
    StoreDouble(t, out.mutable_data(), 0, t == DType::kF32 ? attrs.Float("default_float", -0.0f) : IsFloat(t) ? -0.0 : -1.0);
  }
  return out;
}

// The bytes that tell one key from another: NaNs are equal, and so are both zeros.
std::string Key(const View& v, int64_t i) {
  if (v.dtype == DType::kString) return v.Data<std::string>()[i];
  if (IsPlainFloat(v.dtype)) {
    double d = LoadDouble(v.dtype, v.data, i);
    if (std::isnan(d)) return "nan";
    if (d == 0) d = 0;
    return std::string(reinterpret_cast<const char*>(&d), sizeof d);
  }
  const size_t size = DTypeBytes(v.dtype, 1);
  return std::string(v.Data<char>() + static_cast<size_t>(i) * size, size);
}

class LabelEncoder final : public Kernel {
 public:
  LabelEncoder(const Tensor& keys, Tensor values, Tensor fallback) : values_(std::move(values)), default_(std::move(fallback)) {
    for (int64_t i = 0; i < keys.shape().num_elements(); ++i) index_[Key(keys.view(), i)] = i;  // the last of equal keys counts
  }
  Status Run(const RunArgs& args) const override {
    for (int64_t i = 0; i < args.in[0].num_elements(); ++i) {
      const auto it = index_.find(Key(args.in[0], i));
      const Tensor& from = it == index_.end() ? default_ : values_;
      const int64_t at = it == index_.end() ? 0 : it->second;
      if (from.dtype() == DType::kString) {
        args.out[0].Data<std::string>()[i] = from.Data<std::string>()[at];
        continue;
      }
      const size_t size = DTypeBytes(from.dtype(), 1);
      std::memcpy(args.out[0].Data<char>() + static_cast<size_t>(i) * size, from.Data<char>() + static_cast<size_t>(at) * size,
                  size);
    }
    return {};
  }

 private:
  std::unordered_map<std::string, int64_t> index_;
  Tensor values_, default_;
};

class LinearRegressor final : public Kernel {
 public:
  LinearRegressor(std::vector<float> w, std::vector<float> b, int64_t targets, PostTransform post)
      : w_(std::move(w)), b_(std::move(b)), targets_(targets), post_(post) {}
  Status Run(const RunArgs& args) const override {
    const View& x = args.in[0];
    const int64_t width = static_cast<int64_t>(w_.size()) / targets_;
    if (x.shape.dim(-1) != width)
      return BadInput("{} features for {} coefficients and {} targets", x.shape.dim(-1), w_.size(), targets_);
    std::vector<double> scores(static_cast<size_t>(targets_));
    for (int64_t r = 0; r < args.out[0].shape[0]; ++r) {
      for (int64_t t = 0; t < targets_; ++t) {
        double sum = b_.empty() ? 0 : b_[static_cast<size_t>(t)];
        for (int64_t c = 0; c < width; ++c)
          sum += LoadDouble(x.dtype, x.data, r * width + c) * w_[static_cast<size_t>(t * width + c)];
        scores[static_cast<size_t>(t)] = sum;
      }
      Apply(post_, scores.data(), targets_);
      for (int64_t t = 0; t < targets_; ++t)
        args.out[0].Data<float>()[r * targets_ + t] = static_cast<float>(scores[static_cast<size_t>(t)]);
    }
    return {};
  }

 private:
  std::vector<float> w_, b_;
  int64_t targets_;
  PostTransform post_;
};

}  // namespace

Status InferArrayFeatureExtractor(const ShapeArgs& args) {
  const DType t = args.in[0].dtype;
  if (t != DType::kUndefined && t != DType::kString && !IsPlainNumeric(t))
    return BadInput("X is {}; a plain type needed", DTypeName(t));
  if (args.in[1].dtype != DType::kUndefined && args.in[1].dtype != DType::kI64)
    return BadInput("Y is {}; int64 needed", DTypeName(args.in[1].dtype));
  const SymShape& x = args.in[0].shape;
  if (!x.has_rank()) {
    SetOutput(args, 0, t, SymShape());
    return {};
  }
  if (x.rank() == 0) return BadInput("X is a scalar; at least one axis needed");
  std::vector<Dim> y = x.dims();
  y.back() = args.in[1].shape.NumElements();
  if (y.size() == 1) y.insert(y.begin(), Dim(1));
  SetOutput(args, 0, t, SymShape(std::move(y)));
  return {};
}

Status InferSameNumeric(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(CheckNumeric(args.in[0]));
  return InferSame(args);
}

Status InferToFloat(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(CheckNumeric(args.in[0]));
  SetOutput(args, 0, DType::kF32, args.in[0].shape);
  return {};
}

Status InferLabelEncoder(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const Tensor keys, Column(args.attrs, "keys"));
  TENON_ASSIGN_OR_RETURN(const Tensor values, Column(args.attrs, "values"));
  if (keys.shape().num_elements() != values.shape().num_elements()) {
    return BadInput("{} keys and {} values; equal numbers needed", keys.shape().num_elements(), values.shape().num_elements());
  }
  for (const Tensor* t : {&keys, &values}) {
    if (t->dtype() != DType::kString && !IsPlainNumeric(t->dtype()))
      return BadInput("{} as keys or values", DTypeName(t->dtype()));
  }
  if (args.in[0].dtype != DType::kUndefined && args.in[0].dtype != keys.dtype()) {
    return BadInput("X is {} and the keys {}; equal types needed", DTypeName(args.in[0].dtype), DTypeName(keys.dtype()));
  }
  SetOutput(args, 0, values.dtype(), args.in[0].shape);
  return {};
}

Status InferLinearRegressor(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(CheckNumeric(args.in[0]));
  const int64_t targets = args.attrs.Int("targets", 1);
  const auto w = static_cast<int64_t>(args.attrs.Floats("coefficients").size());
  const auto b = static_cast<int64_t>(args.attrs.Floats("intercepts").size());
  if (targets < 1 || w == 0 || w % targets != 0 || (b != 0 && b != targets)) {
    return BadInput("{} coefficients and {} intercepts for {} targets", w, b, targets);
  }
  const SymShape& x = args.in[0].shape;
  if (x.has_rank() && x.rank() != 2) return BadInput("X has shape {}; [rows, features] needed", x.ToString());
  SetOutput(args, 0, DType::kF32, SymShape({x.has_rank() ? x[0] : Dim::Unknown(), Dim(targets)}));
  return {};
}

Result<std::unique_ptr<Kernel>> MakeArrayFeatureExtractor(const Problem& /*p*/) {
  return std::unique_ptr<Kernel>(new ArrayFeatureExtractor());
}
Result<std::unique_ptr<Kernel>> MakeBinarizer(const Problem& p) {
  return std::unique_ptr<Kernel>(new Binarizer(p.attrs.Float("threshold", 0)));
}
Result<std::unique_ptr<Kernel>> MakeScaler(const Problem& p) {
  return std::unique_ptr<Kernel>(new Scaler(p.attrs.Floats("offset"), p.attrs.Floats("scale")));
}
Result<std::unique_ptr<Kernel>> MakeNormalizer(const Problem& p) {
  const std::string norm = p.attrs.String("norm", "MAX");
  if (norm != "MAX" && norm != "L1" && norm != "L2") return BadInput("norm '{}'; allowed: MAX, L1, L2", norm);
  return std::unique_ptr<Kernel>(new Normalizer(norm == "MAX" ? Norm::kMax : norm == "L1" ? Norm::kL1 : Norm::kL2));
}
Result<std::unique_ptr<Kernel>> MakeLabelEncoder(const Problem& p) {
  TENON_ASSIGN_OR_RETURN(const Tensor keys, Column(p.attrs, "keys"));
  TENON_ASSIGN_OR_RETURN(Tensor values, Column(p.attrs, "values"));
  TENON_ASSIGN_OR_RETURN(Tensor fallback, Default(p.attrs, values.dtype()));
  return std::unique_ptr<Kernel>(new LabelEncoder(keys, std::move(values), std::move(fallback)));
}
Result<std::unique_ptr<Kernel>> MakeLinearRegressor(const Problem& p) {
  TENON_ASSIGN_OR_RETURN(const PostTransform post, PostTransformFromName(p.attrs.String("post_transform", "NONE")));
  return std::unique_ptr<Kernel>(
      new LinearRegressor(p.attrs.Floats("coefficients"), p.attrs.Floats("intercepts"), p.attrs.Int("targets", 1), post));
}

}  // namespace tenon::kernels::ml
