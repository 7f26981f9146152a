// ArrayFeatureExtractor, Binarizer, FeatureVectorizer, Imputer, Normalizer, Scaler.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/element.h"
#include "kernels/kernel_util.h"
#include "kernels/ml/ml.h"

namespace tenon::kernels::ml {
namespace {

constexpr int64_t kGrain = 16384;   // elements of simple work for one thread

// Rank 1 is one row; of higher ranks the second axis holds the features, as in ONNX Runtime.
int64_t FeatureAxis(const Shape& shape) {
  return shape.rank() == 0 ? 1 : shape.rank() == 1 ? shape[0] : shape[1];
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
    if (x.dtype == DType::kString) {
      Copy(x.Data<std::string>(), index.Data<int64_t>(), rows, width, n, args.out[0].Data<std::string>());
      return {};
    }
    DispatchDType<TENON_NUMERIC_TYPES, bool>(x.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      Copy(x.Data<T>(), index.Data<int64_t>(), rows, width, n, args.out[0].Data<T>());
    });
    return {};
  }

 private:
  template <typename T>
  static void Copy(const T* x, const int64_t* index, int64_t rows, int64_t width, int64_t n, T* y) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < n; ++i) *y++ = x[r * width + index[i]];
    }
  }
};

class Binarizer final : public Kernel {
 public:
  explicit Binarizer(float threshold) : threshold_(threshold) {}
  Status Run(const RunArgs& args) const override {
    const View& x = args.in[0];
    if (x.dtype == DType::kF32) {
      args.team.ParallelFor(x.num_elements(), kGrain, [&](int64_t begin, int64_t end, int) {
        const float* from = x.Data<float>();
        float* to = args.out[0].Data<float>();
        for (int64_t i = begin; i < end; ++i) to[i] = from[i] > threshold_ ? 1.0f : 0.0f;
      });
      return {};
    }
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      StoreDouble(x.dtype, args.out[0].data, i, LoadDouble(x.dtype, x.data, i) > static_cast<double>(threshold_) ? 1 : 0);
    }
    return {};
  }
  uint32_t InPlaceInputs() const override { return 1; }

 private:
  float threshold_;
};

class Scaler final : public Kernel {
 public:
  Scaler(std::vector<float> offset, std::vector<float> scale) : offset_(std::move(offset)), scale_(std::move(scale)) {}
  Status Run(const RunArgs& args) const override {
    const View& x = args.in[0];
    const int64_t width = FeatureAxis(x.shape);
    for (const auto* v : {&offset_, &scale_}) {
      if (v->size() > 1 && static_cast<int64_t>(v->size()) != width) {
        return BadInput("{} offsets and {} scales for {} features; one or as many needed", offset_.size(), scale_.size(), width);
      }
    }
    DispatchDType<TENON_NUMERIC_TYPES, bool>(x.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      // Doubles are scaled as doubles and rounded once; all others as f32.
      using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
      Scale<T, Wide>(x.Data<T>(), args.out[0].Data<float>(), x.num_elements(), width, args.team);
    });
    return {};
  }

 private:
  template <typename T, typename Wide>
  void Scale(const T* from, float* to, int64_t n, int64_t width, hw::Team& team) const {
    const bool one_offset = offset_.size() < 2, one_scale = scale_.size() < 2;
    const float offset = offset_.empty() ? 0 : offset_[0], scale = scale_.empty() ? 1 : scale_[0];
    team.ParallelFor(n, kGrain, [&](int64_t begin, int64_t end, int) {
      int64_t c = width > 0 ? begin % width : 0;
      for (int64_t i = begin; i < end; ++i) {
        const auto at = static_cast<size_t>(c);
        to[i] = static_cast<float>((static_cast<Wide>(from[i]) - (one_offset ? offset : offset_[at])) *
                                   (one_scale ? scale : scale_[at]));
        if (++c == width) c = 0;
      }
    });
  }

  std::vector<float> offset_, scale_;
};

enum class Norm { kMax, kL1, kL2 };

class Normalizer final : public Kernel {
 public:
  explicit Normalizer(Norm norm) : norm_(norm) {}
  Status Run(const RunArgs& args) const override {
    const View& x = args.in[0];
    const int64_t width = x.shape.rank() == 0 ? 1 : x.shape.dim(-1);
    if (width == 0) return {};
    DispatchDType<TENON_NUMERIC_TYPES, bool>(x.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      args.team.ParallelFor(x.num_elements() / width, kGrain / width + 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t r = begin; r < end; ++r) Row(x.Data<T>() + r * width, width, args.out[0].Data<float>() + r * width);
      });
    });
    return {};
  }

 private:
  // A row of size zero is copied. MAX is the greatest value and not the greatest magnitude, and L2 divides squares before the
  // root is taken: as ONNX Runtime has both.
  template <typename T>
  void Row(const T* from, int64_t n, float* to) const {
    float size = norm_ == Norm::kMax ? std::numeric_limits<float>::lowest() : 0;
    for (int64_t i = 0; i < n; ++i) {
      const auto v = static_cast<float>(from[i]);
      size = norm_ == Norm::kMax ? std::max(size, v) : size + (norm_ == Norm::kL1 ? std::abs(v) : Square(from[i]));
    }
    for (int64_t i = 0; i < n; ++i) {
      const auto v = static_cast<float>(from[i]);
      if (size == 0) {
        to[i] = v;
      } else if (norm_ == Norm::kL2) {
        const float root = std::sqrt(Square(from[i]) / size);
        to[i] = v < 0 ? -root : root;
      } else {
        to[i] = v / size;
      }
    }
  }
  template <typename T>
  static float Square(T v) {
    if constexpr (std::is_same_v<T, double> || std::is_integral_v<T>) {
      return static_cast<float>(static_cast<double>(v) * static_cast<double>(v));
    } else {
      return static_cast<float>(v) * static_cast<float>(v);
    }
  }

  Norm norm_;
};

// Values equal to `replaced` (NaN: all NaNs) become the one of their feature, or the first of `values`.
class Imputer final : public Kernel {
 public:
  Imputer(std::vector<double> values, std::vector<int64_t> ints, double replaced, int64_t replaced_int)
      : values_(std::move(values)), ints_(std::move(ints)), replaced_(replaced), replaced_int_(replaced_int) {}
  Status Run(const RunArgs& args) const override {
    const View& x = args.in[0];
    const int64_t width = FeatureAxis(x.shape);
    DispatchDType<TENON_NUMERIC_TYPES, bool>(x.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (std::is_integral_v<T>) {
        Fill(x.Data<T>(), args.out[0].Data<T>(), x.num_elements(), ints_, width,
             [&](T v) { return static_cast<int64_t>(v) == replaced_int_; });
      } else {
        const bool nan = std::isnan(replaced_);
        Fill(x.Data<T>(), args.out[0].Data<T>(), x.num_elements(), values_, width,
             [&](T v) { return nan ? std::isnan(LoadF(v)) : LoadF(v) == replaced_; });
      }
    });
    return {};
  }
  uint32_t InPlaceInputs() const override { return 1; }

 private:
  template <typename T, typename V, typename F>
  static void Fill(const T* from, T* to, int64_t n, const std::vector<V>& values, int64_t width, F&& is_missing) {
    const bool each = static_cast<int64_t>(values.size()) == width;
    for (int64_t i = 0; i < n; ++i) {
      if (!is_missing(from[i])) {
        to[i] = from[i];
      } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
        to[i] = T(static_cast<float>(values[each ? static_cast<size_t>(i % width) : 0]));
      } else {
        to[i] = static_cast<T>(values[each ? static_cast<size_t>(i % width) : 0]);
      }
    }
  }

  std::vector<double> values_;
  std::vector<int64_t> ints_;
  double replaced_;
  int64_t replaced_int_;
};

// Inputs side by side as f32, each cut or padded with zeros to its number of features.
class FeatureVectorizer final : public Kernel {
 public:
  explicit FeatureVectorizer(std::vector<int64_t> widths) : widths_(std::move(widths)) {}
  Status Run(const RunArgs& args) const override {
    const int64_t rows = args.out[0].shape[0], total = args.out[0].shape[1];
    std::fill_n(args.out[0].Data<float>(), rows * total, 0.0f);
    int64_t at = 0;
    for (size_t i = 0; i < args.in.size(); ++i) {
      const View& x = args.in[i];
      const Matrix m = AsMatrix(x.shape);
      const int64_t width = widths_.empty() ? m.columns : widths_[i];
      if (m.rows != rows) return BadInput("input {} has {} rows and input 0 {}", i, m.rows, rows);
      DispatchDType<TENON_NUMERIC_TYPES, bool>(x.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        for (int64_t r = 0; r < rows; ++r) {
          const T* from = x.Data<T>() + r * m.columns;
          float* to = args.out[0].Data<float>() + r * total + at;
          for (int64_t c = 0; c < std::min(width, m.columns); ++c) to[c] = static_cast<float>(from[c]);
        }
      });
      at += width;
    }
    return {};
  }

 private:
  std::vector<int64_t> widths_;
};

}  // namespace

Status InferArrayFeatureExtractor(const ShapeArgs& args) {
  const DType t = args.in[0].dtype;
  if (t != DType::kUndefined && t != DType::kString && t != DType::kBool && !IsPlainNumeric(t))
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

Status InferScaler(const ShapeArgs& args) {
  const size_t offsets = args.attrs.Floats("offset").size(), scales = args.attrs.Floats("scale").size();
  if (offsets > 1 && scales > 1 && offsets != scales)
    return BadInput("{} offsets and {} scales; equal numbers needed", offsets, scales);
  return InferToFloat(args);
}

Status InferImputer(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(InferSameNumeric(args));
  const size_t floats = args.attrs.Floats("imputed_value_floats").size(), ints = args.attrs.Ints("imputed_value_int64s").size();
  if ((floats == 0) == (ints == 0)) {
    return BadInput("{} imputed_value_floats and {} imputed_value_int64s; one of the two lists needed", floats, ints);
  }
  const DType t = args.in[0].dtype;
  if (t != DType::kUndefined && IsFloat(t) != (floats != 0)) {
    return BadInput("X is {} and the imputed values are {}", DTypeName(t), floats != 0 ? "floats" : "integers");
  }
  return {};
}

Status InferFeatureVectorizer(const ShapeArgs& args) {
  const auto widths = args.attrs.Ints("inputdimensions");
  if (!widths.empty() && widths.size() != args.in.size()) {
    return BadInput("{} inputs and {} inputdimensions; equal numbers needed", args.in.size(), widths.size());
  }
  Dim total(0);
  for (size_t i = 0; i < args.in.size(); ++i) {
    if (!args.in[i].present) return BadInput("input {} is absent", i);
    TENON_RETURN_IF_ERROR(CheckNumeric(args.in[i]));
    if (!widths.empty()) {
      if (widths[i] < 0 || widths[i] > int64_t{1} << 32) return BadInput("inputdimensions holds {}", widths[i]);
      total = total + Dim(widths[i]);
      continue;
    }
    const SymShape& x = args.in[i].shape;
    Dim width = x.has_rank() && x.rank() > 0 ? Dim(1) : Dim::Unknown();
    for (int a = x.rank() == 1 ? 0 : 1; a < x.rank(); ++a) width = width * x[a];
    total = total + width;
  }
  const SymShape& x = args.in[0].shape;
  if (x.has_rank() && x.rank() == 0) return BadInput("input 0 is a scalar; at least one axis needed");
  SetOutput(args, 0, DType::kF32, SymShape({!x.has_rank() ? Dim::Unknown() : x.rank() == 1 ? Dim(1) : x[0], total}));
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
Result<std::unique_ptr<Kernel>> MakeImputer(const Problem& p) {
  const auto floats = p.attrs.Floats("imputed_value_floats");
  return std::unique_ptr<Kernel>(new Imputer({floats.begin(), floats.end()}, p.attrs.Ints("imputed_value_int64s"),
                                             static_cast<double>(p.attrs.Float("replaced_value_float", 0)),
                                             p.attrs.Int("replaced_value_int64", 0)));
}
Result<std::unique_ptr<Kernel>> MakeFeatureVectorizer(const Problem& p) {
  return std::unique_ptr<Kernel>(new FeatureVectorizer(p.attrs.Ints("inputdimensions")));
}

}  // namespace tenon::kernels::ml
