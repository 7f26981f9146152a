// Categories and maps: LabelEncoder, CategoryMapper, OneHotEncoder, ZipMap, DictVectorizer, CastMap.
//
// A map is two tensors here, its keys and its values (the importer makes two inputs of one that is a map); what ZipMap makes,
// a map for each row, is the tensor of values.
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>

#include "kernels/element.h"
#include "kernels/kernel_util.h"
#include "kernels/ml/ml.h"

namespace tenon::kernels::ml {
namespace {

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

struct Table {
  Tensor keys, values;
};

Result<Table> LoadLabelEncoder(const Attrs& attrs, DType input) {
  Table t;
  if (const auto classes = attrs.Strings("classes_strings"); !classes.empty()) {   // ai.onnx.ml 1: strings and their numbers
    std::vector<int64_t> numbers;
    for (size_t i = 0; i < classes.size(); ++i) numbers.push_back(static_cast<int64_t>(i));
    const Shape shape{static_cast<int64_t>(classes.size())};
    t = {Tensor::FromStrings(shape, classes), Tensor::FromVector<int64_t>(shape, numbers)};
    if (input == DType::kI64) std::swap(t.keys, t.values);
    return t;
  }
  TENON_ASSIGN_OR_RETURN(t.keys, Column(attrs, "keys"));
  TENON_ASSIGN_OR_RETURN(t.values, Column(attrs, "values"));
  return t;
}

Result<Table> LoadCategoryMapper(const Attrs& attrs, DType input) {
  const auto ints = attrs.Ints("cats_int64s");
  const auto strings = attrs.Strings("cats_strings");
  if (ints.size() != strings.size())
    return BadInput("{} cats_int64s and {} cats_strings; equal numbers needed", ints.size(), strings.size());
  const Shape shape{static_cast<int64_t>(ints.size())};
  Table t{Tensor::FromStrings(shape, strings), Tensor::FromVector<int64_t>(shape, ints)};
  if (input == DType::kI64) std::swap(t.keys, t.values);
  return t;
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

// Numbers are keys by their bits; NaNs are equal, and so are both zeros.
uint64_t Key(const View& v, int64_t i) {
  uint64_t key = 0;
  if (IsPlainFloat(v.dtype)) {
    double d = LoadDouble(v.dtype, v.data, i);
    if (std::isnan(d)) d = std::numeric_limits<double>::quiet_NaN();
    if (d == 0) d = 0;
    std::memcpy(&key, &d, sizeof key);
    return key;
  }
  const size_t size = DTypeBytes(v.dtype, 1);
  std::memcpy(&key, v.Data<char>() + static_cast<size_t>(i) * size, size);
  return key;
}

// Number of the first equal key, or -1.
class Index {
 public:
  explicit Index(const View& keys) {
    for (int64_t i = 0; i < keys.num_elements(); ++i) {
      if (keys.dtype == DType::kString) {
        strings_.emplace(keys.Data<std::string>()[i], i);
      } else {
        numbers_.emplace(Key(keys, i), i);
      }
    }
  }
  int64_t Find(const View& x, int64_t i) const {
    if (x.dtype == DType::kString) return At(strings_, x.Data<std::string>()[i]);
    return At(numbers_, Key(x, i));
  }
  int64_t FindInt(int64_t v) const { return At(numbers_, static_cast<uint64_t>(v)); }

 private:
  template <typename M, typename K>
  static int64_t At(const M& m, const K& key) {
    const auto it = m.find(key);
    return it == m.end() ? -1 : it->second;
  }
  std::unordered_map<std::string, int64_t> strings_;
  std::unordered_map<uint64_t, int64_t> numbers_;
};

void CopyElement(const View& from, int64_t i, const MutView& to, int64_t j) {
  if (from.dtype == DType::kString) {
    to.Data<std::string>()[j] = from.Data<std::string>()[i];
    return;
  }
  const size_t size = DTypeBytes(from.dtype, 1);
  std::memcpy(to.Data<char>() + static_cast<size_t>(j) * size, from.Data<char>() + static_cast<size_t>(i) * size, size);
}

class LabelEncoder final : public Kernel {
 public:
  LabelEncoder(const Tensor& keys, Tensor values, Tensor fallback)
      : index_(keys.view()), values_(std::move(values)), default_(std::move(fallback)) {}
  Status Run(const RunArgs& args) const override {
    const View values = values_.view(), fallback = default_.view();
    for (int64_t i = 0; i < args.in[0].num_elements(); ++i) {
      const int64_t at = index_.Find(args.in[0], i);
      at < 0 ? CopyElement(fallback, 0, args.out[0], i) : CopyElement(values, at, args.out[0], i);
    }
    return {};
  }

 private:
  Index index_;
  Tensor values_, default_;
};

Result<Tensor> Categories(const Attrs& attrs) {
  const auto ints = attrs.Ints("cats_int64s");
  auto strings = attrs.Strings("cats_strings");
  if (ints.empty() == strings.empty())
    return BadInput("{} cats_int64s and {} cats_strings; one of the two lists needed", ints.size(), strings.size());
  if (!ints.empty()) return Tensor::FromVector<int64_t>({static_cast<int64_t>(ints.size())}, ints);
  const auto n = static_cast<int64_t>(strings.size());
  return Tensor::FromStrings({n}, std::move(strings));
}

class OneHotEncoder final : public Kernel {
 public:
  OneHotEncoder(const Tensor& categories, bool zeros)
      : index_(categories.view()), count_(categories.shape().num_elements()), zeros_(zeros) {}
  Status Run(const RunArgs& args) const override {
    const View& x = args.in[0];
    float* y = args.out[0].Data<float>();
    std::fill_n(y, args.out[0].num_elements(), 0.0f);
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const int64_t at = Category(x, i);
      if (at >= 0) {
        y[i * count_ + at] = 1;
      } else if (!zeros_) {
        return BadInput("element {} is none of the {} categories, and zeros is 0", i, count_);
      }
    }
    return {};
  }

 private:
  int64_t Category(const View& x, int64_t i) const {
    if (x.dtype == DType::kString || x.dtype == DType::kI64) return index_.Find(x, i);
    const double v = LoadDouble(x.dtype, x.data, i);   // truncated, as in ONNX Runtime
    if (!(std::abs(v) < 9.2e18)) return -1;
    return index_.FindInt(static_cast<int64_t>(v));
  }

  Index index_;
  int64_t count_;
  bool zeros_;
};

class ZipMap final : public Kernel {
 public:
  Status Run(const RunArgs& args) const override {   // only where the runtime does not alias
    if (args.out[0].data != args.in[0].data) std::memmove(args.out[0].data, args.in[0].data, args.in[0].bytes());
    return {};
  }
};

Status CheckMap(const ShapeArgs& args, DType keys) {
  if (args.in[0].dtype != DType::kUndefined && args.in[0].dtype != keys) {
    return BadInput("keys are {}; {} needed", DTypeName(args.in[0].dtype), DTypeName(keys));
  }
  return {};
}

class DictVectorizer final : public Kernel {
 public:
  explicit DictVectorizer(Tensor vocabulary) : vocabulary_(std::move(vocabulary)) {}
  Status Run(const RunArgs& args) const override {
    const View &keys = args.in[0], &values = args.in[1];
    if (keys.num_elements() != values.num_elements()) {
      return BadInput("a map of {} keys and {} values", keys.num_elements(), values.num_elements());
    }
    const Index index(keys);
    const View vocabulary = vocabulary_.view();
    if (values.dtype == DType::kString) {
      for (int64_t i = 0; i < vocabulary.num_elements(); ++i) args.out[0].Data<std::string>()[i].clear();
    } else {
      std::memset(args.out[0].data, 0, args.out[0].bytes());
    }
    for (int64_t i = 0; i < vocabulary.num_elements(); ++i) {
      const int64_t at = index.Find(vocabulary, i);
      if (at >= 0) CopyElement(values, at, args.out[0], i);
    }
    return {};
  }

 private:
  Tensor vocabulary_;
};

Result<Tensor> Vocabulary(const Attrs& attrs) {
  const auto ints = attrs.Ints("int64_vocabulary");
  auto strings = attrs.Strings("string_vocabulary");
  if (!ints.empty() && !strings.empty()) return BadInput("int64_vocabulary and string_vocabulary are both given");
  const auto n = static_cast<int64_t>(ints.size() + strings.size());
  if (!attrs.Has("string_vocabulary")) return Tensor::FromVector<int64_t>({n}, ints);
  return Tensor::FromStrings({n}, std::move(strings));
}

// The number that a text begins with; nullopt where it begins with none.
std::optional<double> NumberOf(const std::string& text) {
  char* end = nullptr;
  const double v = std::strtod(text.c_str(), &end);
  return end == text.c_str() ? std::nullopt : std::optional(v);
}

class CastMap final : public Kernel {
 public:
  explicit CastMap(bool sparse) : sparse_(sparse) {}
  Status Run(const RunArgs& args) const override {
    const View &keys = args.in[0], &values = args.in[1];
    if (keys.num_elements() != values.num_elements()) {
      return BadInput("a map of {} keys and {} values", keys.num_elements(), values.num_elements());
    }
    std::map<int64_t, int64_t> sorted;   // key to place of its value
    for (int64_t i = 0; i < keys.num_elements(); ++i) sorted.emplace(keys.Data<int64_t>()[i], i);
    if (sparse_ && !sorted.empty() && sorted.begin()->first < 0)
      return BadInput("key {} of a sparse map is negative", sorted.begin()->first);
    const int64_t n = sparse_ ? args.out[0].shape[1] : static_cast<int64_t>(sorted.size());
    TENON_ASSIGN_OR_RETURN(const MutView out, TakeOutput(args, 0, {1, n}));
    if (sparse_) {
      for (int64_t i = 0; i < n; ++i) Pad(out, i);
    }
    int64_t next = 0;
    for (const auto& [key, place] : sorted) {
      const int64_t to = sparse_ ? key : next++;
      if (to < n) TENON_RETURN_IF_ERROR(Store(values, place, out, to));
    }
    return {};
  }

 private:
  static void Pad(const MutView& out, int64_t i) {
    if (out.dtype == DType::kString) {
      out.Data<std::string>()[i] = "0.f";   // sic: what ONNX Runtime writes
    } else {
      StoreDouble(out.dtype, out.data, i, 0);
    }
  }
  static Status Store(const View& values, int64_t from, const MutView& out, int64_t to) {
    const bool text = values.dtype == DType::kString;
    if (out.dtype == DType::kString) {
      out.Data<std::string>()[to] = text ? values.Data<std::string>()[from] : fmt::format("{:.6f}", values.Data<float>()[from]);
      return {};
    }
    const auto v = text ? NumberOf(values.Data<std::string>()[from]) : std::optional<double>(values.Data<float>()[from]);
    if (!v) return BadInput("value '{}' is not a number", values.Data<std::string>()[from]);
    StoreDouble(out.dtype, out.data, to, *v);
    return {};
  }

  bool sparse_;
};

Status InferTable(const ShapeArgs& args, const Result<Table>& table) {
  if (!table.ok()) return table.status();
  const Tensor &keys = table->keys, &values = table->values;
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

}  // namespace

Status InferLabelEncoder(const ShapeArgs& args) {
  return InferTable(args, LoadLabelEncoder(args.attrs, args.in[0].dtype));
}

Status InferCategoryMapper(const ShapeArgs& args) {
  return InferTable(args, LoadCategoryMapper(args.attrs, args.in[0].dtype));
}

Status InferOneHotEncoder(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const Tensor categories, Categories(args.attrs));
  const bool strings = categories.dtype() == DType::kString;
  const DType t = args.in[0].dtype;
  if (t != DType::kUndefined && (strings ? t != DType::kString : !IsPlainNumeric(t))) {
    return BadInput("X is {} and the categories are {}", DTypeName(t), DTypeName(categories.dtype()));
  }
  SymShape y = args.in[0].shape;
  if (y.has_rank() && y.rank() >= kMaxRank) return BadInput("X has shape {}; rank below {} needed", y.ToString(), kMaxRank);
  if (y.has_rank()) y.dims().emplace_back(categories.shape().num_elements());
  SetOutput(args, 0, DType::kF32, std::move(y));
  return {};
}

Status InferZipMap(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const int64_t labels, CountLabels(args.attrs, "classlabels_int64s"));
  const SymShape& x = args.in[0].shape;
  if (x.has_rank() && (x.rank() < 1 || x.rank() > 2))
    return BadInput("X has shape {}; [rows, classes] or [classes] needed", x.ToString());
  if (x.has_rank() && x[x.rank() - 1].is_const() && !x[x.rank() - 1].Is(labels)) {
    return BadInput("X has shape {} for {} class labels", x.ToString(), labels);
  }
  return InferSame(args);
}

Status InferDictVectorizer(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const Tensor vocabulary, Vocabulary(args.attrs));
  TENON_RETURN_IF_ERROR(CheckMap(args, vocabulary.dtype()));
  const DType t = args.in[1].dtype;
  if (t != DType::kUndefined && t != DType::kString && !IsPlainNumeric(t)) return BadInput("values are {}", DTypeName(t));
  SetOutput(args, 0, t, SymShape({Dim(1), Dim(vocabulary.shape().num_elements())}));
  return {};
}

Status InferCastMap(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(CheckMap(args, DType::kI64));
  const DType t = args.in[1].dtype;
  if (t != DType::kUndefined && t != DType::kString && t != DType::kF32)
    return BadInput("values are {}; string or float32 needed", DTypeName(t));
  const std::string to = args.attrs.String("cast_to", "TO_FLOAT"), form = args.attrs.String("map_form", "DENSE");
  if (to != "TO_FLOAT" && to != "TO_STRING" && to != "TO_INT64")
    return BadInput("cast_to '{}'; allowed: TO_FLOAT, TO_STRING, TO_INT64", to);
  if (form != "DENSE" && form != "SPARSE") return BadInput("map_form '{}'; allowed: DENSE, SPARSE", form);
  const int64_t width = args.attrs.Int("max_map", 1);
  if (form == "SPARSE" && (width < 0 || width > int64_t{1} << 32)) return BadInput("max_map {}; allowed: 0 to 2^32", width);
  const DType out = to == "TO_FLOAT" ? DType::kF32 : to == "TO_STRING" ? DType::kString : DType::kI64;
  SetOutput(args, 0, out, SymShape({Dim(1), form == "SPARSE" ? Dim(width) : Dim::Unknown()}));
  return {};
}

Result<std::unique_ptr<Kernel>> MakeLabelEncoder(const Problem& p) {
  TENON_ASSIGN_OR_RETURN(Table t, LoadLabelEncoder(p.attrs, p.in[0].dtype));
  TENON_ASSIGN_OR_RETURN(Tensor fallback, Default(p.attrs, t.values.dtype()));
  return std::unique_ptr<Kernel>(new LabelEncoder(t.keys, std::move(t.values), std::move(fallback)));
}
Result<std::unique_ptr<Kernel>> MakeCategoryMapper(const Problem& p) {
  TENON_ASSIGN_OR_RETURN(Table t, LoadCategoryMapper(p.attrs, p.in[0].dtype));
  TENON_ASSIGN_OR_RETURN(Tensor fallback, Default(p.attrs, t.values.dtype()));
  return std::unique_ptr<Kernel>(new LabelEncoder(t.keys, std::move(t.values), std::move(fallback)));
}
Result<std::unique_ptr<Kernel>> MakeOneHotEncoder(const Problem& p) {
  TENON_ASSIGN_OR_RETURN(const Tensor categories, Categories(p.attrs));
  return std::unique_ptr<Kernel>(new OneHotEncoder(categories, p.attrs.Int("zeros", 1) != 0));
}
Result<std::unique_ptr<Kernel>> MakeZipMap(const Problem& /*p*/) {
  return std::unique_ptr<Kernel>(new ZipMap());
}
Result<std::unique_ptr<Kernel>> MakeDictVectorizer(const Problem& p) {
  TENON_ASSIGN_OR_RETURN(Tensor vocabulary, Vocabulary(p.attrs));
  return std::unique_ptr<Kernel>(new DictVectorizer(std::move(vocabulary)));
}
Result<std::unique_ptr<Kernel>> MakeCastMap(const Problem& p) {
  return std::unique_ptr<Kernel>(new CastMap(p.attrs.String("map_form", "DENSE") == "SPARSE"));
}

}  // namespace tenon::kernels::ml
