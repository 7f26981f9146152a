#include "tensor/tensor.h"

#include <algorithm>
#include <cstdlib>

#include "base/mapped_file.h"
#include "tensor/huge_pages.h"

namespace tenon {
namespace {
constexpr size_t kAlignment = 64;
}  // namespace

std::shared_ptr<Buffer> Buffer::Allocate(size_t bytes) {
  std::shared_ptr<Buffer> b(new Buffer());
  // Large buffers begin on a huge page: fewer page faults when they are filled, fewer TLB misses when they are read.
  if (bytes >= kHugePage) {
    b->data_ = MapHugePages(bytes);
    if (b->data_ == nullptr) return nullptr;
  } else if (posix_memalign(&b->data_, kAlignment, std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment)) !=
             0) {
    return nullptr;
  }
  b->bytes_ = bytes;
  b->heap_ = true;
  return b;
}

std::shared_ptr<Buffer> Buffer::Foreign(const void* data, size_t bytes, std::function<void()> release) {
  std::shared_ptr<Buffer> b(new Buffer());
  b->data_ = const_cast<void*>(data);
  b->bytes_ = bytes;
  b->release_ = std::move(release);
  return b;
}

std::shared_ptr<Buffer> Buffer::Mapped(const void* data, size_t bytes, std::function<void()> release) {
  auto b = Foreign(data, bytes, std::move(release));
  b->mapped_ = true;
  return b;
}

std::shared_ptr<Buffer> Buffer::Strings(std::vector<std::string> strings) {
  std::shared_ptr<Buffer> b(new Buffer());
  b->strings_ = std::move(strings);
  b->data_ = b->strings_.data();
  b->bytes_ = b->strings_.size() * sizeof(std::string);
  return b;
}

void Buffer::Discard() {
  if (heap_ || mapped_) ReleasePages(data_, bytes_);
}

Buffer::~Buffer() {
  if (heap_ && bytes_ >= kHugePage) {
    UnmapHugePages(data_, bytes_);
  } else if (heap_) {
    std::free(data_);
  }
  if (release_) release_();
}

Result<Tensor> Tensor::Allocate(DType dtype, const Shape& shape) {
  const int64_t n = shape.num_elements();
  if (dtype == DType::kString) return FromStrings(shape, std::vector<std::string>(static_cast<size_t>(n)));
  const size_t bytes = DTypeBytes(dtype, n);
  auto buffer = Buffer::Allocate(bytes);
  if (buffer == nullptr) {
    return ResourceLimit("cannot allocate {} bytes for a {} tensor of shape {}", bytes, DTypeName(dtype), shape.ToString());
  }
  return Tensor(dtype, shape, std::move(buffer));
}

Result<Tensor> Tensor::Zeros(DType dtype, const Shape& shape) {
  TENON_ASSIGN_OR_RETURN(Tensor t, Allocate(dtype, shape));
  if (dtype != DType::kString && t.bytes() > 0) std::memset(t.mutable_data(), 0, t.bytes());
  return t;
}

Result<Tensor> Tensor::CopyOf(const View& view) {
  if (view.dtype == DType::kString) {
    const auto* s = view.Data<std::string>();
    return FromStrings(view.shape, std::vector<std::string>(s, s + view.num_elements()));
  }
  TENON_ASSIGN_OR_RETURN(Tensor t, Allocate(view.dtype, view.shape));
  if (t.bytes() > 0) std::memcpy(t.mutable_data(), view.data, t.bytes());
  return t;
}

std::optional<std::vector<int64_t>> ToInt64s(const View& view) {
  std::vector<int64_t> out;
  const auto n = static_cast<size_t>(view.num_elements());
  const bool known = DispatchDType<TENON_INT_TYPES, bool>(view.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* p = view.Data<T>();
    out.reserve(n);
    for (size_t i = 0; i < n; ++i) out.push_back(static_cast<int64_t>(p[i]));
  });
  if (!known) return std::nullopt;
  return out;
}

std::optional<std::vector<double>> ToDoubles(const View& view) {
  std::vector<double> out;
  const auto n = static_cast<size_t>(view.num_elements());
  const bool known = DispatchDType<float, double>(view.dtype,
                                                  [&](auto tag) {
                                                    using T = typename decltype(tag)::type;
                                                    const T* p = view.Data<T>();
                                                    out.assign(p, p + n);
                                                  }) ||
                     DispatchDType<Half, BFloat16>(view.dtype, [&](auto tag) {
                       using T = typename decltype(tag)::type;
                       const T* p = view.Data<T>();
                       for (size_t i = 0; i < n; ++i) out.push_back(static_cast<double>(static_cast<float>(p[i])));
                     });
  if (!known) return std::nullopt;
  return out;
}

}  // namespace tenon
