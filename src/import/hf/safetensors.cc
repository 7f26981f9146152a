// Reading of safetensors: a u64 length, a JSON header, the bytes of the tensors.
#include "import/hf/safetensors.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/half.h"

namespace tenon::import {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxHeader = uint64_t{100} << 20;   // as the format's own library
constexpr size_t kMaxRank = 8;
constexpr int kMaxNesting = 8;

Result<DType> TypeOf(const std::string& name) {
  static const std::map<std::string, DType> kTypes = {
      {"F32", DType::kF32}, {"F16", DType::kF16}, {"BF16", DType::kBF16}, {"F64", DType::kF64}, {"I64", DType::kI64},
      {"I32", DType::kI32}, {"I16", DType::kI16}, {"I8", DType::kI8},     {"U8", DType::kU8},   {"BOOL", DType::kBool}};
  const auto it = kTypes.find(name);
  if (it == kTypes.end()) return Unsupported("elements of type '{}'", name);
  return it->second;
}

bool NestedTooDeep(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (quoted) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == '"')
        quoted = false;
    } else if (text[i] == '"') {
      quoted = true;
    } else if (text[i] == '{' || text[i] == '[') {
      if (++depth > kMaxNesting) return true;
    } else if (text[i] == '}' || text[i] == ']') {
      --depth;
    }
  }
  return false;
}

// The extents of a tensor; false: no shape, or more elements than memory can hold.
bool ReadShape(const Json& j, std::vector<int64_t>* extents, uint64_t* elements) {
  if (!j.is_array() || j.size() > kMaxRank) return false;
  *elements = 1;
  for (const Json& d : j) {
    if (!d.is_number_unsigned() || d.get<uint64_t>() > (uint64_t{1} << 40)) return false;
    extents->push_back(d.get<int64_t>());
    if (__builtin_mul_overflow(*elements, d.get<uint64_t>(), elements) || *elements > (uint64_t{1} << 48)) return false;
  }
  return true;
}

}  // namespace

Result<Safetensors> Safetensors::Open(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  auto parsed = Parse({file->data(), static_cast<size_t>(file->size())}, file);
  if (!parsed.ok()) return std::move(parsed).TakeStatus().Within(path);
  return parsed;
}

Result<Safetensors> Safetensors::Parse(std::span<const std::byte> bytes, std::shared_ptr<const MappedFile> file) {
  uint64_t header = 0;
  if (bytes.size() < sizeof(header)) return BadInput("no safetensors file: {} bytes", bytes.size());
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header > kMaxHeader || header > bytes.size() - sizeof(header))
    return BadInput("damaged: a header of {} bytes in a file of {}; at most {}", header, bytes.size(), kMaxHeader);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof(header), header);
  if (NestedTooDeep(text)) return BadInput("damaged: the header is nested too deep");
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return BadInput("damaged: the header is no JSON object");
  const auto data = bytes.subspan(sizeof(header) + header);
  Safetensors out;
  out.file_ = std::move(file);
  for (const auto& [name, t] : json.items()) {
    if (name == "__metadata__") continue;
    const Json* offsets = t.is_object() && t.contains("data_offsets") ? &t["data_offsets"] : nullptr;
    std::vector<int64_t> extents;
    uint64_t elements = 0;
    if (offsets == nullptr || !offsets->is_array() || offsets->size() != 2 || !(*offsets)[0].is_number_unsigned() ||
        !(*offsets)[1].is_number_unsigned() || !t.contains("dtype") || !t["dtype"].is_string() || !t.contains("shape") ||
        !ReadShape(t["shape"], &extents, &elements)) {
      return BadInput("damaged: the entry of tensor '{}' has no sound dtype, shape and data_offsets", name);
    }
    const auto dtype = TypeOf(t["dtype"].get<std::string>());
    if (!dtype.ok()) return Status(dtype.status().code(), fmt::format("tensor '{}': {}", name, dtype.status().message()));
    const auto begin = (*offsets)[0].get<uint64_t>();
    const auto end = (*offsets)[1].get<uint64_t>();
    const uint64_t need = DTypeBytes(*dtype, static_cast<int64_t>(elements));
    if (begin > end || end > data.size() || end - begin != need)
      return BadInput("damaged: tensor '{}' lies at [{}, {}) of {} bytes; its shape needs {}", name, begin, end, data.size(),
                      need);
    out.tensors_[name] = {*dtype, Shape(std::span<const int64_t>(extents)), data.subspan(begin, need)};
  }
  return out;
}

std::set<std::string> Safetensors::Names() const {
  std::set<std::string> names;
  for (const auto& [name, entry] : tensors_) names.insert(name);
  return names;
}

Result<Tensor> Safetensors::Float(const std::string& name, const Shape& shape) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) return BadInput("tensor '{}' is missing", name);
  const Entry& e = it->second;
  if (!(e.shape == shape))
    return BadInput("tensor '{}' has the shape {}; {} is needed", name, e.shape.ToString(), shape.ToString());
  if (e.dtype != DType::kF32 && e.dtype != DType::kF16 && e.dtype != DType::kBF16)
    return BadInput("tensor '{}' has elements of type {}; allowed: f32, f16, bf16", name, DTypeName(e.dtype));
  const bool aligned = reinterpret_cast<uintptr_t>(e.bytes.data()) % alignof(float) == 0;
  if (e.dtype == DType::kF32 && aligned && file_ != nullptr) {
    return Tensor(DType::kF32, shape, Buffer::Mapped(e.bytes.data(), e.bytes.size(), [file = file_] {}));
  }
  TENON_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(DType::kF32, shape));
  float* to = out.MutableData<float>();
  if (e.dtype == DType::kF32) {
    if (!e.bytes.empty()) std::memcpy(to, e.bytes.data(), e.bytes.size());
    return out;
  }
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, e.bytes.data() + 2 * i, sizeof(bits));
    to[i] = e.dtype == DType::kF16 ? F16BitsToF32(bits) : std::bit_cast<float>(uint32_t{bits} << 16);
  }
  return out;
}

}  // namespace tenon::import
