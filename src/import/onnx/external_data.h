// Files beside an ONNX model that hold tensor data. Everything here treats names and numbers as hostile.
#ifndef TENON_IMPORT_ONNX_EXTERNAL_DATA_H_
#define TENON_IMPORT_ONNX_EXTERNAL_DATA_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/status.h"
#include "tensor/tensor.h"

namespace tenon::import::onnx_format {

/// Where a tensor's bytes lie: the entries of TensorProto.external_data as they stand in the file.
struct ExternalLocation {
  std::string location;
  std::string offset;  ///< decimal, empty: 0
  std::string length;  ///< decimal, empty: to the end of the file
};

class ExternalData {
 public:
  /// `directories`: the model's directory, and that of the file behind it when the model itself is a symlink (as in
  /// caches that keep all files under their digest). Empty: the model came from memory, so there is none.
  ExternalData(std::vector<std::string> directories, bool allow_hard_links);

  /// The `bytes` bytes at `where`, shared with the mapping; copied only when the address does not suit `alignment`.
  Result<std::shared_ptr<Buffer>> Read(const ExternalLocation& where, size_t bytes, size_t alignment);

 private:
  Result<std::string> Resolve(const std::string& location) const;

  std::vector<std::string> directories_;
  bool allow_hard_links_;
  std::map<std::string, std::shared_ptr<MappedFile>> files_;
};

}  // namespace tenon::import::onnx_format

#endif  // TENON_IMPORT_ONNX_EXTERNAL_DATA_H_
