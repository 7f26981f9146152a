// Tensors: views (who owns the bytes is somebody else's matter) and owners (shared, 64-byte aligned).
// All tensors are dense and row-major. Sub-byte types are packed low bits first.
#ifndef TENON_TENSOR_TENSOR_H_
#define TENON_TENSOR_TENSOR_H_

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"

namespace tenon {

class Tensor;
/// The value of an ONNX sequence; an ONNX optional is a sequence of at most one tensor.
using Sequence = std::vector<Tensor>;

/// Read-only view. `dtype == kUndefined` and no data means "absent". For kString, `data` points at std::string objects.
/// A sequence value has `sequence` set and everything else empty.
struct View {
  DType dtype = DType::kUndefined;
  Shape shape;
  const void* data = nullptr;
  const Sequence* sequence = nullptr;

  bool present() const { return dtype != DType::kUndefined || sequence != nullptr; }
  template <typename T>
  const T* Data() const {
    return static_cast<const T*>(data);
  }
  int64_t num_elements() const { return shape.num_elements(); }
  size_t bytes() const { return DTypeBytes(dtype, num_elements()); }
};

/// Writable view; converts to View.
struct MutView {
  DType dtype = DType::kUndefined;
  Shape shape;
  void* data = nullptr;
  Sequence* sequence = nullptr;

  bool present() const { return dtype != DType::kUndefined || sequence != nullptr; }
  template <typename T>
  T* Data() const {
    return static_cast<T*>(data);
  }
  int64_t num_elements() const { return shape.num_elements(); }
  size_t bytes() const { return DTypeBytes(dtype, num_elements()); }
  operator View() const { return {dtype, shape, data, sequence}; }  // NOLINT(google-explicit-constructor)
};

/// Bytes with an owner. Heap buffers are 64-byte aligned; foreign buffers (mapped file, protobuf string) run `release`.
class Buffer {
 public:
  /// Uninitialised; null when the allocation fails.
  static std::shared_ptr<Buffer> Allocate(size_t bytes);
  static std::shared_ptr<Buffer> Foreign(const void* data, size_t bytes, std::function<void()> release);
  /// Foreign, in a file mapped for reading.
  static std::shared_ptr<Buffer> Mapped(const void* data, size_t bytes, std::function<void()> release);
  static std::shared_ptr<Buffer> Strings(std::vector<std::string> strings);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() { return data_; }
  const void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  /// Nobody will read the contents again: whole pages of heap and mapped buffers go back to the system. Others may be shared with
  /// somebody unknown and stay.
  void Discard();

 private:
  Buffer() = default;
  void* data_ = nullptr;
  size_t bytes_ = 0;
  bool heap_ = false;
  bool mapped_ = false;
  std::function<void()> release_;
  std::vector<std::string> strings_;
};

/// Shared owner of a tensor's elements. Copying shares; contents are treated as immutable once shared.
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, Shape shape, std::shared_ptr<Buffer> buffer) : dtype_(dtype), shape_(shape), buffer_(std::move(buffer)) {}

  /// Uninitialised elements (strings: empty). kResourceLimit when memory is not to be had.
  static Result<Tensor> Allocate(DType dtype, const Shape& shape);
  static Result<Tensor> Zeros(DType dtype, const Shape& shape);
  static Result<Tensor> CopyOf(const View& view);
  template <typename T>
  static Tensor FromVector(const Shape& shape, const std::vector<T>& values);
  template <typename T>
  static Tensor Scalar(T value) {
    return FromVector<T>(Shape(), {value});
  }
  static Tensor FromStrings(const Shape& shape, std::vector<std::string> values) {
    return {DType::kString, shape, Buffer::Strings(std::move(values))};
  }

  bool defined() const { return dtype_ != DType::kUndefined; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  size_t bytes() const { return DTypeBytes(dtype_, shape_.num_elements()); }
  const void* data() const { return buffer_ ? buffer_->data() : nullptr; }
  void* mutable_data() { return buffer_ ? buffer_->data() : nullptr; }
  template <typename T>
  const T* Data() const {
    return static_cast<const T*>(data());
  }
  template <typename T>
  T* MutableData() {
    return static_cast<T*>(mutable_data());
  }
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }

  /// The same elements under another shape with the same number of elements.
  Tensor Reshaped(const Shape& shape) const {
    CHECK(shape.num_elements() == shape_.num_elements());
    return {dtype_, shape, buffer_};
  }
  View view() const { return {dtype_, shape_, data(), nullptr}; }
  MutView mutable_view() { return {dtype_, shape_, mutable_data(), nullptr}; }

 private:
  DType dtype_ = DType::kUndefined;
  Shape shape_;
  std::shared_ptr<Buffer> buffer_;
};

template <typename T>
Tensor Tensor::FromVector(const Shape& shape, const std::vector<T>& values) {
  CHECK(shape.num_elements() == static_cast<int64_t>(values.size()));
  auto tensor = Allocate(DTypeOf<T>::value, shape);
  CHECK(tensor.ok());
  T* out = tensor->template MutableData<T>();
  for (size_t i = 0; i < values.size(); ++i) out[i] = values[i];
  return *std::move(tensor);
}

/// Integer elements as int64 (i32, i64 and narrower; bool as 0/1); empty optional for other types.
std::optional<std::vector<int64_t>> ToInt64s(const View& view);
/// Float elements as double (f32, f64, f16, bf16).
std::optional<std::vector<double>> ToDoubles(const View& view);

}  // namespace tenon

#endif  // TENON_TENSOR_TENSOR_H_
