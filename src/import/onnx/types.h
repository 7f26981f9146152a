// TypeProto to element type and symbolic shape.
#ifndef TENON_IMPORT_ONNX_TYPES_H_
#define TENON_IMPORT_ONNX_TYPES_H_

#include <string>

#include "base/dim.h"
#include "base/dtype.h"

namespace onnx {
class TypeProto;
}

namespace tenon::import::onnx_format {

struct ValueType {
  DType dtype = DType::kUndefined;
  bool is_sequence = false;  ///< sequence or optional of tensors; an optional of a sequence is the same value as the sequence
  bool is_optional = false;  ///< an optional tensor
  SymShape shape;            ///< unknown for sequences
};

/// Dimensions without a number or a name become the symbol "<value>.<axis>".
Result<ValueType> ReadType(const onnx::TypeProto& type, const std::string& value);

}  // namespace tenon::import::onnx_format

#endif  // TENON_IMPORT_ONNX_TYPES_H_
