#include "tensor/gguf.h"

#include <bit>
#include <cstring>

#include "base/shape.h"

namespace tenon {
namespace {

using Type = GgufValue::Type;

constexpr uint32_t kMagic = 0x46554747;   // "GGUF"
constexpr int kMaxDims = 4;
constexpr uint64_t kMaxSplits = 10000;

// Bytes of a number or bool; 0 for strings and arrays.
uint64_t SizeOf(Type type) {
  switch (type) {
    case Type::kU8:
    case Type::kI8:
    case Type::kBool: return 1;
    case Type::kU16:
    case Type::kI16: return 2;
    case Type::kU32:
    case Type::kI32:
    case Type::kF32: return 4;
    case Type::kU64:
    case Type::kI64:
    case Type::kF64: return 8;
    case Type::kString:
    case Type::kArray: return 0;
  }
  return 0;
}

template <typename T>
T Load(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}

std::optional<int64_t> IntAt(Type type, const std::byte* p) {
  switch (type) {
    case Type::kU8: return Load<uint8_t>(p);
    case Type::kI8: return Load<int8_t>(p);
    case Type::kU16: return Load<uint16_t>(p);
    case Type::kI16: return Load<int16_t>(p);
    case Type::kU32: return Load<uint32_t>(p);
    case Type::kI32: return Load<int32_t>(p);
    case Type::kI64: return Load<int64_t>(p);
    case Type::kU64: {
      const auto v = Load<uint64_t>(p);
      if (v > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<int64_t>(v);
    }
    default: return std::nullopt;
  }
}

std::optional<double> FloatAt(Type type, const std::byte* p) {
  if (type == Type::kF32) return Load<float>(p);
  if (type == Type::kF64) return Load<double>(p);
  const auto i = IntAt(type, p);
  if (!i) return std::nullopt;
  return static_cast<double>(*i);
}

}  // namespace

std::optional<int64_t> GgufValue::Int() const {
  return is_array() || type_ == Type::kString ? std::nullopt : IntAt(type_, bytes_.data());
}

std::optional<double> GgufValue::Float() const {
  return is_array() || type_ == Type::kString ? std::nullopt : FloatAt(type_, bytes_.data());
}

std::optional<bool> GgufValue::Bool() const {
  if (type_ != Type::kBool) return std::nullopt;
  return bytes_[0] != std::byte{0};
}

std::optional<std::string_view> GgufValue::String() const {
  if (type_ != Type::kString) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
}

std::optional<std::vector<int64_t>> GgufValue::Ints() const {
  const uint64_t size = SizeOf(element_);
  if (!is_array() || size == 0) return std::nullopt;
  std::vector<int64_t> out;
  for (uint64_t i = 0; i < count_; ++i) {
    const std::byte* p = bytes_.data() + i * size;
    const auto v = element_ == Type::kBool ? std::optional<int64_t>(*p != std::byte{0}) : IntAt(element_, p);
    if (!v) return std::nullopt;
    out.push_back(*v);
  }
  return out;
}

std::optional<std::vector<float>> GgufValue::Floats() const {
  const uint64_t size = SizeOf(element_);
  if (!is_array() || size == 0) return std::nullopt;
  std::vector<float> out;
  for (uint64_t i = 0; i < count_; ++i) {
    const auto v = FloatAt(element_, bytes_.data() + i * size);
    if (!v) return std::nullopt;
    out.push_back(static_cast<float>(*v));
  }
  return out;
}

std::optional<std::vector<std::string>> GgufValue::Strings() const {
  if (!is_array() || element_ != Type::kString) return std::nullopt;
  std::vector<std::string> out;
  const std::byte* p = bytes_.data();
  for (uint64_t i = 0; i < count_; ++i) {   // lengths were checked when the file was read
    const auto n = Load<uint64_t>(p);
    out.emplace_back(reinterpret_cast<const char*>(p + 8), n);
    p += 8 + n;
  }
  return out;
}

std::optional<std::string> GgufValue::Text() const {
  if (const auto s = String()) return std::string(*s);
  if (const auto b = Bool()) return *b ? "true" : "false";
  if (const auto i = Int()) return std::to_string(*i);
  if (const auto f = Float()) return fmt::format("{}", type_ == Type::kF32 ? static_cast<float>(*f) : *f);
  return std::nullopt;
}

int64_t GgufTensor::rows() const {
  int64_t n = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) n *= shape[i];
  return n;
}

// One file, front to back.
class GgufFile::Reader {
 public:
  Reader(std::span<const std::byte> bytes, GgufFile* out) : bytes_(bytes), out_(out) {}

  // Keys that the first part has already are left out when `extra`.
  Status Run(bool extra, const std::shared_ptr<const MappedFile>& file) {
    uint64_t tensors = 0, pairs = 0;
    TENON_RETURN_IF_ERROR(Header(&tensors, &pairs));
    for (uint64_t i = 0; i < pairs; ++i) {
      const uint64_t start = at_;
      TENON_RETURN_IF_ERROR(Pair(extra).Within(fmt::format("metadata entry {} at byte {}", i, start)));
    }
    const size_t first = out_->tensors_.size();
    std::vector<uint64_t> offsets;
    for (uint64_t i = 0; i < tensors; ++i) {
      const uint64_t start = at_;
      auto offset = TensorInfo();
      if (!offset.ok()) return std::move(offset).TakeStatus().Within(fmt::format("tensor {} at byte {}", i, start));
      offsets.push_back(*offset);
    }
    uint64_t alignment = 32;
    if (const GgufValue* v = out_->Find("general.alignment")) {
      const auto n = v->Int();
      if (!n || *n < 1 || *n > (1 << 20) || !std::has_single_bit(static_cast<uint64_t>(*n))) {
        return BadInput("general.alignment is no power of two up to {}", 1 << 20);
      }
      alignment = static_cast<uint64_t>(*n);
    }
    const uint64_t data = (at_ + alignment - 1) / alignment * alignment;
    for (size_t i = first; i < out_->tensors_.size(); ++i) {
      GgufTensor& t = out_->tensors_[i];
      const uint64_t offset = offsets[i - first];
      if (offset % alignment != 0) return BadInput("tensor '{}'; offset {} is no multiple of {}", t.name, offset, alignment);
      if (data > bytes_.size() || offset > bytes_.size() - data || t.bytes > bytes_.size() - data - offset) {
        return BadInput("tensor '{}'; {} bytes at {} reach beyond the end of the file ({} bytes); it is cut short or damaged",
                        t.name, t.bytes, data + offset, bytes_.size());
      }
      t.data = bytes_.data() + data + offset;
      t.file = file;
    }
    return {};
  }

 private:
  uint64_t left() const { return bytes_.size() - at_; }

  template <typename T>
  Result<T> Number() {
    if (left() < sizeof(T)) return BadInput("the file ends at {} inside its header", bytes_.size());
    const T v = Load<T>(bytes_.data() + at_);
    at_ += sizeof(T);
    return v;
  }

  Result<std::string_view> Text() {
    TENON_ASSIGN_OR_RETURN(const auto n, Number<uint64_t>());
    if (n > left()) return BadInput("a text of {} bytes at {} reaches beyond the end of the file", n, at_);
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data() + at_), n);
    at_ += n;
    return text;
  }

  Status Header(uint64_t* tensors, uint64_t* pairs) {
    TENON_ASSIGN_OR_RETURN(const auto magic, Number<uint32_t>());
    if (magic != kMagic) return BadInput("this is no GGUF file; it does not begin with 'GGUF'");
    TENON_ASSIGN_OR_RETURN(const auto version, Number<uint32_t>());
    if ((version & 0xffff) == 0 && version != 0) return Unsupported("a big-endian GGUF file; little-endian ones are supported");
    if (version != 2 && version != 3) return Unsupported("GGUF version {}; supported: 2 and 3", version);
    TENON_ASSIGN_OR_RETURN(*tensors, Number<uint64_t>());
    TENON_ASSIGN_OR_RETURN(*pairs, Number<uint64_t>());
    // The least that an entry takes bounds what a file of this size can hold.
    if (*tensors > left() / 24) return BadInput("{} tensors in a file of {} bytes", *tensors, bytes_.size());
    if (*pairs > left() / 13) return BadInput("{} metadata entries in a file of {} bytes", *pairs, bytes_.size());
    return {};
  }

  Status Pair(bool extra) {
    TENON_ASSIGN_OR_RETURN(const auto key, Text());
    if (key.empty() || key.size() > 65535) return BadInput("a metadata key of {} bytes; allowed: 1 to 65535", key.size());
    auto value = ReadValue();
    if (!value.ok()) return std::move(value).TakeStatus().Within(fmt::format("metadata '{}'", key));
    if (!out_->metadata_.emplace(key, *value).second && !extra) return BadInput("metadata key '{}' appears twice", key);
    return {};
  }

  Result<Type> ReadType() {
    TENON_ASSIGN_OR_RETURN(const auto type, Number<uint32_t>());
    if (type > static_cast<uint32_t>(Type::kF64)) return BadInput("value type {}; allowed: 0 to 12", type);
    return static_cast<Type>(type);
  }

  Result<GgufValue> ReadValue() {
    TENON_ASSIGN_OR_RETURN(const Type type, ReadType());
    if (type == Type::kArray) return ReadArray();
    if (type == Type::kString) {
      TENON_ASSIGN_OR_RETURN(const auto text, Text());
      return GgufValue(type, type, 1, std::as_bytes(std::span(text.data(), text.size())));
    }
    const uint64_t size = SizeOf(type);
    if (size > left()) return BadInput("the file ends inside it");
    const GgufValue value(type, type, 1, bytes_.subspan(at_, size));
    at_ += size;
    return value;
  }

  Result<GgufValue> ReadArray() {
    TENON_ASSIGN_OR_RETURN(const Type element, ReadType());
    TENON_ASSIGN_OR_RETURN(const auto count, Number<uint64_t>());
    if (element == Type::kArray) return Unsupported("an array of arrays");
    const uint64_t start = at_, size = SizeOf(element);
    if (element == Type::kString) {
      if (count > left() / 8) return BadInput("an array of {} texts reaches beyond the end of the file", count);
      for (uint64_t i = 0; i < count; ++i) TENON_RETURN_IF_ERROR(Text().status());
    } else {
      if (count > left() / size) return BadInput("an array of {} elements reaches beyond the end of the file", count);
      at_ += count * size;
    }
    return GgufValue(Type::kArray, element, count, bytes_.subspan(start, at_ - start));
  }

  // Returns the offset.
  Result<uint64_t> TensorInfo() {
    GgufTensor t;
    TENON_ASSIGN_OR_RETURN(t.name, Text());
    TENON_ASSIGN_OR_RETURN(const auto dims, Number<uint32_t>());
    if (dims < 1 || dims > kMaxDims) return BadInput("tensor '{}' has {} axes; allowed: 1 to {}", t.name, dims, kMaxDims);
    uint64_t elements = 1;
    for (uint32_t i = 0; i < dims; ++i) {
      TENON_ASSIGN_OR_RETURN(const auto extent, Number<uint64_t>());
      constexpr uint64_t kMost = uint64_t{1} << 48;
      if (extent == 0 || extent > kMost || elements > kMost / extent) {
        return BadInput("tensor '{}'; extent {} of axis {}; at least 1 and at most 2^48 elements allowed", t.name, extent, i);
      }
      elements *= extent;
      t.shape.insert(t.shape.begin(), static_cast<int64_t>(extent));
    }
    TENON_ASSIGN_OR_RETURN(const auto type, Number<uint32_t>());
    TENON_ASSIGN_OR_RETURN(const auto offset, Number<uint64_t>());
    t.format = FindBlockFormat(type);
    if (t.format == nullptr) return Unsupported("tensor '{}'; element type {}", t.name, type);
    if (t.row() % t.format->elements != 0) {
      return BadInput("tensor '{}'; rows of {} elements; {} comes in blocks of {}", t.name, t.row(), t.format->name,
                      t.format->elements);
    }
    t.bytes = elements / static_cast<uint64_t>(t.format->elements) * static_cast<uint64_t>(t.format->bytes);
    if (!out_->by_name_.emplace(t.name, out_->tensors_.size()).second) return BadInput("tensor '{}' appears twice", t.name);
    out_->tensors_.push_back(std::move(t));
    return offset;
  }

  std::span<const std::byte> bytes_;
  uint64_t at_ = 0;
  GgufFile* out_;
};

Result<GgufFile> GgufFile::Open(const std::string& path) {
  GgufFile out;
  const auto read = [&](const std::string& part, bool extra) -> Status {
    TENON_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(part));
    out.files_.push_back(file);
    return Reader({file->data(), file->size()}, &out).Run(extra, file).Within(fmt::format("'{}'", part));
  };
  TENON_RETURN_IF_ERROR(read(path, false));
  const GgufValue* split = out.Find("split.count");
  const auto count = split != nullptr ? split->Int() : std::optional<int64_t>(1);
  if (!count || *count < 0 || *count > static_cast<int64_t>(kMaxSplits)) {
    return BadInput("'{}': split.count is no number up to {}", path, kMaxSplits);
  }
  if (*count <= 1) return out;
  const std::string suffix = fmt::format("-00001-of-{:05}.gguf", *count);
  if (!path.ends_with(suffix)) {
    return BadInput("'{}' is part of a model in {} files; open the first one, whose name ends in '{}'", path, *count, suffix);
  }
  const std::string stem = path.substr(0, path.size() - suffix.size());
  for (int64_t i = 2; i <= *count; ++i) TENON_RETURN_IF_ERROR(read(fmt::format("{}-{:05}-of-{:05}.gguf", stem, i, *count), true));
  return out;
}

Result<GgufFile> GgufFile::Parse(std::span<const std::byte> bytes) {
  GgufFile out;
  TENON_RETURN_IF_ERROR(Reader(bytes, &out).Run(false, nullptr));
  return out;
}

const GgufValue* GgufFile::Find(std::string_view key) const {
  const auto it = metadata_.find(key);
  return it == metadata_.end() ? nullptr : &it->second;
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &tensors_[it->second];
}

bool LooksLikeGguf(const std::string& path) {
  const auto file = MappedFile::Open(path);
  if (!file.ok() || (*file)->size() < 4) return false;
  uint32_t magic = 0;
  return (*file)->ReadAt(0, &magic, sizeof(magic)).ok() && magic == kMagic;
}

}  // namespace tenon
