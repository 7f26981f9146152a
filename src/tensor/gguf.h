// GGUF files: metadata and tensors of a language model. Every count, offset and size is checked before use; tensors stay where
// they are in the mapped file.
#ifndef TENON_TENSOR_GGUF_H_
#define TENON_TENSOR_GGUF_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "base/status.h"
#include "tensor/blocks/blocks.h"

namespace tenon {

/// One metadata value. Arrays stay packed in the file until asked for.
class GgufValue {
 public:
  enum class Type : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

  GgufValue() = default;
  /// A number, bool or string at `bytes`, or the elements of an array of `count`.
  GgufValue(Type type, Type element, uint64_t count, std::span<const std::byte> bytes)
      : type_(type), element_(element), count_(count), bytes_(bytes) {}

  Type type() const { return type_; }
  bool is_array() const { return type_ == Type::kArray; }
  uint64_t count() const { return count_; }
  /// nullopt when it is of another kind, or does not fit.
  std::optional<int64_t> Int() const;
  std::optional<double> Float() const;   ///< of any number
  std::optional<bool> Bool() const;
  std::optional<std::string_view> String() const;
  std::optional<std::vector<int64_t>> Ints() const;
  std::optional<std::vector<float>> Floats() const;
  std::optional<std::vector<std::string>> Strings() const;
  /// A scalar as text; nullopt for arrays.
  std::optional<std::string> Text() const;

 private:
  Type type_ = Type::kU8, element_ = Type::kU8;
  uint64_t count_ = 0;
  std::span<const std::byte> bytes_;
};

struct GgufTensor {
  std::string name;
  std::vector<int64_t> shape;              ///< outermost first; the last extent is a row of blocks
  const BlockFormat* format = nullptr;
  const std::byte* data = nullptr;
  uint64_t bytes = 0;
  std::shared_ptr<const MappedFile> file;  ///< that `data` lies in; null for a file in memory

  int64_t row() const { return shape.empty() ? 1 : shape.back(); }
  int64_t rows() const;
};

class GgufFile {
 public:
  /// Reads a file, and the other parts of a split one ("name-00001-of-00003.gguf"), which lie beside it.
  static Result<GgufFile> Open(const std::string& path);
  /// A whole file in memory, which must outlive the result; not a part of a split one.
  static Result<GgufFile> Parse(std::span<const std::byte> bytes);

  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  const GgufValue* Find(std::string_view key) const;
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* FindTensor(std::string_view name) const;

 private:
  class Reader;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, size_t, std::less<>> by_name_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
};

/// True when the file begins as a GGUF file does.
bool LooksLikeGguf(const std::string& path);

}  // namespace tenon

#endif  // TENON_TENSOR_GGUF_H_
