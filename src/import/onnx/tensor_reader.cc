#include "import/onnx/tensor_reader.h"

#include <onnx/onnx_pb.h>

#include <algorithm>

namespace tenon::import::onnx_format {

namespace {

size_t ElementAlignment(DType t) {
  return std::clamp<size_t>(static_cast<size_t>(DTypeBits(t)) / 8, 1, 8);
}

Status WrongCount(const char* field, int64_t given, int64_t needed) {
  return BadInput("{} holds {} entries, the shape needs {}", field, given, needed);
}

// The repeated field itself becomes the owner of the tensor's bytes.
template <typename T>
Result<std::shared_ptr<Buffer>> TakeField(google::protobuf::RepeatedField<T>* field, int64_t count, const char* name) {
  if (field->size() != count) return WrongCount(name, field->size(), count);
  auto owner = std::make_shared<google::protobuf::RepeatedField<T>>();
  owner->Swap(field);
  if (owner->empty()) return Buffer::Allocate(0);
  const T* data = owner->data();
  return Buffer::Foreign(data, static_cast<size_t>(count) * sizeof(T), [owner] {});
}

template <typename To, typename From>
Result<std::shared_ptr<Buffer>> NarrowField(google::protobuf::RepeatedField<From>* field, int64_t count, const char* name) {
  if (field->size() != count) return WrongCount(name, field->size(), count);
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(static_cast<size_t>(count) * sizeof(To));
  if (buffer == nullptr) return ResourceLimit("no memory for {} elements", count);
  To* out = static_cast<To*>(buffer->data());
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<To>(field->Get(static_cast<int>(i)));
  google::protobuf::RepeatedField<From>().Swap(field);
  return buffer;
}

// int32_data holds 32-bit integers as they are, and everything narrower widened: bits of half floats, bytes of two 4-bit values.
Result<std::shared_ptr<Buffer>> TakeInt32Data(onnx::TensorProto* proto, DType dtype, int64_t n) {
  auto* field = proto->mutable_int32_data();
  const int bits = DTypeBits(dtype);
  if (bits == 32) return TakeField(field, n, "int32_data");
  if (bits == 16) return NarrowField<uint16_t>(field, n, "int32_data");
  return NarrowField<uint8_t>(field, (n * bits + 7) / 8, "int32_data");
}

Result<std::shared_ptr<Buffer>> TakeTyped(onnx::TensorProto* proto, DType dtype, int64_t n) {
  switch (dtype) {
    case DType::kF32: return TakeField(proto->mutable_float_data(), n, "float_data");
    case DType::kC64: return TakeField(proto->mutable_float_data(), 2 * n, "float_data");
    case DType::kF64: return TakeField(proto->mutable_double_data(), n, "double_data");
    case DType::kC128: return TakeField(proto->mutable_double_data(), 2 * n, "double_data");
    case DType::kI64: return TakeField(proto->mutable_int64_data(), n, "int64_data");
    case DType::kU64: return TakeField(proto->mutable_uint64_data(), n, "uint64_data");
    case DType::kU32: return NarrowField<uint32_t>(proto->mutable_uint64_data(), n, "uint64_data");
    case DType::kString: {
      if (proto->string_data_size() != n) return WrongCount("string_data", proto->string_data_size(), n);
      std::vector<std::string> strings;
      strings.reserve(static_cast<size_t>(n));
      for (std::string& s : *proto->mutable_string_data()) strings.push_back(std::move(s));
      return Buffer::Strings(std::move(strings));
    }
    default: return TakeInt32Data(proto, dtype, n);
  }
}

bool HasTyped(const onnx::TensorProto& p) {
  return p.float_data_size() + p.int32_data_size() + p.int64_data_size() + p.double_data_size() + p.uint64_data_size() > 0;
}

Result<std::shared_ptr<Buffer>> TakeRaw(onnx::TensorProto* proto, size_t bytes, size_t alignment) {
  if (proto->raw_data().size() != bytes) {
    return BadInput("raw_data holds {} bytes, type and shape need {}", proto->raw_data().size(), bytes);
  }
  std::shared_ptr<std::string> owner(proto->release_raw_data());
  const char* data = owner->data();
  if (reinterpret_cast<uintptr_t>(data) % alignment == 0) return Buffer::Foreign(data, bytes, [owner] {});
  std::shared_ptr<Buffer> copy = Buffer::Allocate(bytes);
  if (copy == nullptr) return ResourceLimit("no memory for {} bytes", bytes);
  std::copy_n(data, bytes, static_cast<char*>(copy->data()));
  return copy;
}

// A bool that is neither 0 nor 1 must not reach C++ code.
Result<Tensor> WithCleanBools(Tensor t) {
  const auto* p = t.Data<uint8_t>();
  const auto n = static_cast<size_t>(t.shape().num_elements());
  if (std::all_of(p, p + n, [](uint8_t b) { return b <= 1; })) return t;
  TENON_ASSIGN_OR_RETURN(Tensor clean, Tensor::Allocate(DType::kBool, t.shape()));
  std::transform(p, p + n, clean.MutableData<uint8_t>(), [](uint8_t b) { return static_cast<uint8_t>(b != 0); });
  return clean;
}

Result<Shape> ShapeOf(const onnx::TensorProto& proto) {
  return CheckedShape({proto.dims().data(), static_cast<size_t>(proto.dims_size())});
}

}  // namespace

Result<Tensor> TensorReader::TakeExternal(const onnx::TensorProto& proto, DType dtype, const Shape& shape) {
  if (dtype == DType::kString) return BadInput("strings cannot be external data");
  ExternalLocation where;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") where.location = entry.value();
    if (entry.key() == "offset") where.offset = entry.value();
    if (entry.key() == "length") where.length = entry.value();
  }
  TENON_ASSIGN_OR_RETURN(auto buffer, external_.Read(where, DTypeBytes(dtype, shape.num_elements()), ElementAlignment(dtype)));
  return Tensor(dtype, shape, std::move(buffer));
}

Result<Tensor> TensorReader::Take(onnx::TensorProto* proto) {
  if (!IsValidDType(proto->data_type())) return BadInput("unknown element type {}", proto->data_type());
  const auto dtype = static_cast<DType>(proto->data_type());
  if (proto->has_segment()) return Unsupported("tensors in segments are not supported");
  TENON_ASSIGN_OR_RETURN(const Shape shape, ShapeOf(*proto));
  const int64_t n = shape.num_elements();
  Tensor tensor;
  if (proto->data_location() == onnx::TensorProto::EXTERNAL) {
    TENON_ASSIGN_OR_RETURN(tensor, TakeExternal(*proto, dtype, shape));
  } else if (dtype != DType::kString && proto->has_raw_data() && (!proto->raw_data().empty() || !HasTyped(*proto))) {
    TENON_ASSIGN_OR_RETURN(auto buffer, TakeRaw(proto, DTypeBytes(dtype, n), ElementAlignment(dtype)));
    tensor = Tensor(dtype, shape, std::move(buffer));
  } else {
    TENON_ASSIGN_OR_RETURN(auto buffer, TakeTyped(proto, dtype, n));
    tensor = Tensor(dtype, shape, std::move(buffer));
  }
  return dtype == DType::kBool ? WithCleanBools(std::move(tensor)) : Result<Tensor>(std::move(tensor));
}

Result<Tensor> TensorReader::TakeShared(onnx::TensorProto* proto) {
  auto it = taken_.find(proto);
  if (it != taken_.end()) return it->second;
  TENON_ASSIGN_OR_RETURN(Tensor tensor, Take(proto));
  taken_.emplace(proto, tensor);
  return tensor;
}

namespace {

// Position of stored element `i` in the dense tensor: linear, or one coordinate an axis.
Result<int64_t> DensePosition(const std::vector<int64_t>& indices, size_t i, bool linear, const Shape& shape) {
  if (linear) {
    if (indices[i] < 0 || indices[i] >= shape.num_elements()) {
      return BadInput("sparse index {} is outside [0, {})", indices[i], shape.num_elements());
    }
    return indices[i];
  }
  const auto rank = static_cast<size_t>(shape.rank());
  int64_t position = 0;
  for (size_t d = 0; d < rank; ++d) {
    const int64_t c = indices[i * rank + d];
    const int64_t extent = shape[static_cast<int>(d)];
    if (c < 0 || c >= extent) return BadInput("sparse coordinate {} of axis {} is outside [0, {})", c, d, extent);
    position = position * extent + c;
  }
  return position;
}

}  // namespace

Result<Tensor> TensorReader::TakeSparse(onnx::SparseTensorProto* proto) {
  TENON_ASSIGN_OR_RETURN(const Shape shape, CheckedShape({proto->dims().data(), static_cast<size_t>(proto->dims_size())}));
  TENON_ASSIGN_OR_RETURN(const Tensor values, TakeShared(proto->mutable_values()));
  TENON_ASSIGN_OR_RETURN(const Tensor indices, TakeShared(proto->mutable_indices()));
  if (DTypeBits(values.dtype()) < 8) return Unsupported("sparse tensor of {}", DTypeName(values.dtype()));
  const size_t bytes = DTypeBytes(values.dtype(), shape.num_elements());
  if (bytes > max_expanded_bytes_) {
    return ResourceLimit("sparse tensor of shape {} needs {} bytes when dense; allowed are {}", shape.ToString(), bytes,
                         max_expanded_bytes_);
  }
  const int64_t count = values.shape().num_elements();
  const bool linear = indices.shape().rank() == 1;
  const Shape wanted = linear ? Shape{count} : Shape{count, shape.rank()};
  if (indices.dtype() != DType::kI64 || !(indices.shape() == wanted)) {
    return BadInput("sparse indices are {} {}; needed are int64 {}", DTypeName(indices.dtype()), indices.shape().ToString(),
                    wanted.ToString());
  }
  TENON_ASSIGN_OR_RETURN(Tensor dense, Tensor::Zeros(values.dtype(), shape));
  const std::vector<int64_t> where(indices.Data<int64_t>(), indices.Data<int64_t>() + indices.shape().num_elements());
  const size_t element = DTypeBytes(values.dtype(), 1);
  for (int64_t i = 0; i < count; ++i) {
    TENON_ASSIGN_OR_RETURN(const int64_t at, DensePosition(where, static_cast<size_t>(i), linear, shape));
    std::copy_n(values.Data<char>() + static_cast<size_t>(i) * element, element,
                dense.MutableData<char>() + static_cast<size_t>(at) * element);
  }
  return dense;
}

}  // namespace tenon::import::onnx_format
