#include "import/onnx/types.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <string_view>

namespace tenon::import::onnx_format {

namespace {

bool IsAlpha(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// Paddle writes "?" for every extent it does not know, others "None" or "-1": no two of these are the same extent.
bool NamesAnExtent(const std::string& name) {
  return name != "None" && std::any_of(name.begin(), name.end(), IsAlpha);
}

// Dim::Parse must read the symbol back. An expression ("s0 + 1") becomes one opaque symbol.
std::string SymbolName(std::string name) {
  for (char& c : name) {
    if (!IsAlpha(c) && !IsDigit(c) && (c & 0x80) == 0 && std::string_view("_./:@$#;").find(c) == std::string_view::npos) c = '_';
  }
  return IsAlpha(name.front()) || name.front() == '_' ? name : fmt::format("_{}", name);
}

Result<ValueType> ReadTensorType(const onnx::TypeProto::Tensor& t, const std::string& value) {
  ValueType out;
  if (!IsValidDType(t.elem_type())) return BadInput("'{}' has the unknown element type {}", value, t.elem_type());
  out.dtype = static_cast<DType>(t.elem_type());
  if (!t.has_shape()) return out;
  if (t.shape().dim_size() > kMaxRank) {
    return Unsupported("'{}' has rank {}, over the limit of {}", value, t.shape().dim_size(), kMaxRank);
  }
  std::vector<Dim> dims;
  for (const auto& d : t.shape().dim()) {
    // Some exporters write -1 for an extent they do not know.
    if (d.has_dim_value() && d.dim_value() >= 0) {
      dims.emplace_back(d.dim_value());
    } else if (d.has_dim_param() && NamesAnExtent(d.dim_param())) {
      dims.push_back(Dim::Symbol(SymbolName(d.dim_param())));
    } else {
      dims.push_back(Dim::Symbol(SymbolName(fmt::format("{}.{}", value, dims.size()))));
    }
  }
  out.shape = SymShape(std::move(dims));
  return out;
}

}  // namespace

Result<ValueType> ReadType(const onnx::TypeProto& type, const std::string& value) {
  switch (type.value_case()) {
    case onnx::TypeProto::kTensorType: return ReadTensorType(type.tensor_type(), value);
    case onnx::TypeProto::kSequenceType:
    case onnx::TypeProto::kOptionalType: {
      const bool optional = type.has_optional_type();
      const onnx::TypeProto& element = optional ? type.optional_type().elem_type() : type.sequence_type().elem_type();
      if (!element.has_tensor_type() && !(optional && element.has_sequence_type())) {
        return Unsupported("'{}' is a sequence or optional of something else than tensors", value);
      }
      TENON_ASSIGN_OR_RETURN(ValueType out, ReadType(element, value));
      out.is_sequence = true;
      out.is_optional = optional && element.has_tensor_type();
      out.shape = SymShape();
      return out;
    }
    case onnx::TypeProto::kSparseTensorType: return Unsupported("'{}' is a sparse tensor", value);
    case onnx::TypeProto::kMapType: return Unsupported("'{}' is a map", value);
    default: return ValueType{};
  }
}

}  // namespace tenon::import::onnx_format
