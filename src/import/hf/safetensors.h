// safetensors files: tensors by name, mapped. Every length and offset is checked before use.
#ifndef TENON_IMPORT_HF_SAFETENSORS_H_
#define TENON_IMPORT_HF_SAFETENSORS_H_

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "base/mapped_file.h"
#include "tensor/tensor.h"

namespace tenon::import {

class Safetensors {
 public:
  /// kBadInput: damaged (what, and where); kUnsupported: an element type Tenon does not have.
  static Result<Safetensors> Open(const std::string& path);
  /// The same for a file in memory, which must outlive the tensors.
  static Result<Safetensors> Parse(std::span<const std::byte> bytes, std::shared_ptr<const MappedFile> file = nullptr);

  bool Has(const std::string& name) const { return tensors_.count(name) != 0; }
  /// f16 and bf16 become f32; f32 stays where it lies in the file where its alignment allows. kBadInput: missing, or of another
  /// shape than `shape`.
  Result<Tensor> Float(const std::string& name, const Shape& shape) const;
  std::set<std::string> Names() const;

  struct Entry {
    DType dtype = DType::kUndefined;
    Shape shape;
    std::span<const std::byte> bytes;
  };
  const std::map<std::string, Entry>& entries() const { return tensors_; }
  /// That the bytes lie in; null for a file in memory.
  const std::shared_ptr<const MappedFile>& file() const { return file_; }

 private:
  std::map<std::string, Entry> tensors_;
  std::shared_ptr<const MappedFile> file_;
};

}  // namespace tenon::import

#endif  // TENON_IMPORT_HF_SAFETENSORS_H_
