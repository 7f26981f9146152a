// Samples that are lines of JSON: {"<input>": nested arrays, ..., "labels": ...}.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "guard/source.h"

namespace tenon::guard {
namespace {

using nlohmann::json;

// Extents of nested arrays; every part is checked against them while it is read.
Result<Shape> ShapeOf(const json& value) {
  std::vector<int64_t> dims;
  for (const json* v = &value; v->is_array(); v = &v->front()) {
    dims.push_back(static_cast<int64_t>(v->size()));
    if (dims.size() > static_cast<size_t>(kMaxRank)) return BadInput("arrays nested deeper than {}", kMaxRank);
    if (v->empty()) break;
  }
  return CheckedShape(dims);
}

template <typename F>
Status ForEach(const json& value, const Shape& shape, int axis, const F& f) {
  if (axis == shape.rank()) return value.is_array() ? BadInput("arrays of unequal depth") : f(value);
  if (!value.is_array() || static_cast<int64_t>(value.size()) != shape[axis]) return BadInput("arrays of unequal length");
  for (const json& part : value) TENON_RETURN_IF_ERROR(ForEach(part, shape, axis + 1, f));
  return Status::Ok();
}

// Of f64, i64, bool or string, as the text says; ToType makes the model's type of it.
Result<Tensor> ReadArray(const json& value) {
  TENON_ASSIGN_OR_RETURN(const Shape shape, ShapeOf(value));
  std::vector<double> floats;
  std::vector<int64_t> integers;
  std::vector<std::string> strings;
  bool all_integers = true;
  bool booleans = false;
  TENON_RETURN_IF_ERROR(ForEach(value, shape, 0, [&](const json& e) {
    if (e.is_string()) {
      strings.push_back(e.get<std::string>());
    } else if (e.is_number() || e.is_boolean()) {
      const bool fits = e.is_boolean() || (e.is_number_integer() && !(e.is_number_unsigned() && e.get<uint64_t>() > INT64_MAX));
      all_integers = all_integers && fits;
      booleans = booleans || e.is_boolean();
      integers.push_back(e.is_boolean() ? static_cast<int64_t>(e.get<bool>()) : fits ? e.get<int64_t>() : 0);
      floats.push_back(e.is_boolean() ? static_cast<double>(e.get<bool>()) : e.get<double>());
    } else {
      return BadInput("an element is {}; allowed: numbers, true, false, texts", e.type_name());
    }
    return Status::Ok();
  }));
  if (!strings.empty() && !floats.empty()) return BadInput("numbers and texts in one array");
  if (!strings.empty()) return Tensor::FromStrings(shape, std::move(strings));
  if (booleans) {
    TENON_ASSIGN_OR_RETURN(Tensor t, Tensor::Allocate(DType::kBool, shape));
    for (size_t i = 0; i < integers.size(); ++i) t.MutableData<uint8_t>()[i] = integers[i] != 0 ? 1 : 0;
    return t;
  }
  if (all_integers) return Tensor::FromVector<int64_t>(shape, integers);
  return Tensor::FromVector<double>(shape, floats);
}

class JsonLines final : public DataSet {
 public:
  JsonLines(std::string path, std::vector<TensorInfo> inputs) : path_(std::move(path)), inputs_(std::move(inputs)) {}

  Status Add(const std::string& file) {
    TENON_ASSIGN_OR_RETURN(auto mapped, MappedFile::Open(file));
    const auto* text = reinterpret_cast<const char*>(mapped->data());
    const size_t size = mapped->size();
    size_t number = 0;
    for (size_t begin = 0; begin < size;) {
      const auto* end = static_cast<const char*>(std::memchr(text + begin, '\n', size - begin));
      const size_t stop = end == nullptr ? size : static_cast<size_t>(end - text);
      ++number;
      const std::string_view line(text + begin, stop - begin);
      if (line.find_first_not_of(" \t\r") != std::string_view::npos) lines_.push_back({files_.size(), begin, stop, number});
      begin = stop + 1;
    }
    files_.push_back({file, std::move(mapped)});
    return Status::Ok();
  }

  /// Whether there are labels is told by the first line; all must agree.
  Status Start() {
    if (lines_.empty()) return BadInput("'{}'; holds no samples", path_);
    TENON_ASSIGN_OR_RETURN(const json first, ParseLine(0));
    labelled_ = LabelsOf(first) != nullptr;
    return Load(0).status();
  }

  size_t size() const override { return lines_.size(); }
  bool has_labels() const override { return labelled_; }

  Result<Sample> Load(size_t i) override {
    TENON_ASSIGN_OR_RETURN(const json line, ParseLine(i));
    Sample sample;
    sample.where = Where(i);
    for (const TensorInfo& info : inputs_) {
      Status status = AddInput(line, info, &sample);
      TENON_RETURN_IF_ERROR(std::move(status).Within(fmt::format("{}: '{}'", sample.where, info.name)));
    }
    const json* labels = LabelsOf(line);
    if ((labels != nullptr) != labelled_) return BadInput("{}: some lines have '{}' and some have not", sample.where, kLabels);
    if (labels == nullptr) return sample;
    auto tensor = ReadArray(*labels);
    if (!tensor.ok()) return std::move(tensor).TakeStatus().Within(fmt::format("{}: '{}'", sample.where, kLabels));
    sample.labels = tensor->shape().rank() == 0 ? tensor->Reshaped({1}) : *tensor;
    return sample;
  }

  std::string Describe() const override {
    return fmt::format("{} samples, lines of '{}'{}", lines_.size(), path_, labelled_ ? ", labelled" : "");
  }

 private:
  struct File {
    std::string path;
    std::shared_ptr<MappedFile> mapped;
  };
  struct Line {
    size_t file;
    size_t begin;
    size_t end;
    size_t number;
  };

  std::string Where(size_t i) const { return fmt::format("'{}', line {}", files_[lines_[i].file].path, lines_[i].number); }

  Result<json> ParseLine(size_t i) const {
    const Line& line = lines_[i];
    const auto* text = reinterpret_cast<const char*>(files_[line.file].mapped->data());
    json value = json::parse(text + line.begin, text + line.end, nullptr, false);
    if (value.is_discarded()) return BadInput("{}: not JSON", Where(i));
    if (!value.is_object()) return BadInput("{}: {}; allowed: an object with the model's inputs", Where(i), value.type_name());
    return value;
  }

  static const json* LabelsOf(const json& line) {
    for (const char* key : {kLabels, kLabel}) {
      if (const auto it = line.find(key); it != line.end()) return &*it;
    }
    return nullptr;
  }

  static Status AddInput(const json& line, const TensorInfo& info, Sample* sample) {
    const auto it = line.find(info.name);
    if (it == line.end()) return BadInput("the line does not have it, and the model takes it");
    TENON_ASSIGN_OR_RETURN(Tensor tensor, ReadArray(*it));
    // Whole numbers are written for floats too.
    if (IsFloat(info.dtype) && tensor.dtype() == DType::kI64) {
      const auto ints = *ToInt64s(tensor.view());
      tensor = Tensor::FromVector<double>(tensor.shape(), std::vector<double>(ints.begin(), ints.end()));
    }
    TENON_ASSIGN_OR_RETURN(tensor, ToType({tensor, false}, info.dtype));
    if (info.has_rank && static_cast<size_t>(tensor.shape().rank()) + 1 == info.dims.size() && tensor.shape().rank() < kMaxRank) {
      Shape wider = {1};
      for (int64_t d : tensor.shape()) wider.push_back(d);
      tensor = tensor.Reshaped(wider);
    }
    TENON_RETURN_IF_ERROR(CheckShape(tensor.shape(), info));
    sample->inputs.push_back(ToHost(info.name, tensor));
    return Status::Ok();
  }

  std::string path_;
  std::vector<TensorInfo> inputs_;
  std::vector<File> files_;
  std::vector<Line> lines_;
  bool labelled_ = false;
};

}  // namespace

Result<std::unique_ptr<DataSet>> OpenJsonLines(const std::string& path, const std::vector<std::string>& files,
                                               const Interface& model) {
  for (const TensorInfo& info : model.inputs) {
    if (info.is_sequence) return Unsupported("input '{}' is a sequence; data sets hold arrays", info.name);
  }
  auto data = std::make_unique<JsonLines>(path, model.inputs);
  for (const std::string& file : files) TENON_RETURN_IF_ERROR(data->Add(file));
  TENON_RETURN_IF_ERROR(data->Start());
  return {std::move(data)};
}

}  // namespace tenon::guard
