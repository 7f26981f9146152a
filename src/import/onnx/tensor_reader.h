// TensorProto and SparseTensorProto to Tensor, moving the bytes instead of copying them where that is possible.
#ifndef TENON_IMPORT_ONNX_TENSOR_READER_H_
#define TENON_IMPORT_ONNX_TENSOR_READER_H_

#include <unordered_map>

#include "import/onnx/external_data.h"
#include "tensor/tensor.h"

namespace onnx {
class TensorProto;
class SparseTensorProto;
}  // namespace onnx

namespace tenon::import::onnx_format {

class TensorReader {
 public:
  TensorReader(ExternalData external, size_t max_expanded_bytes)
      : external_(std::move(external)), max_expanded_bytes_(max_expanded_bytes) {}

  /// Takes the bytes out of `proto`, which is empty afterwards.
  Result<Tensor> Take(onnx::TensorProto* proto);
  /// The same, but the second call with this proto answers the same tensor: attributes of functions are read at every call.
  Result<Tensor> TakeShared(onnx::TensorProto* proto);
  /// Dense form; at most `max_expanded_bytes`.
  Result<Tensor> TakeSparse(onnx::SparseTensorProto* proto);

 private:
  Result<Tensor> TakeExternal(const onnx::TensorProto& proto, DType dtype, const Shape& shape);

  ExternalData external_;
  size_t max_expanded_bytes_;
  std::unordered_map<const void*, Tensor> taken_;
};

}  // namespace tenon::import::onnx_format

#endif  // TENON_IMPORT_ONNX_TENSOR_READER_H_
