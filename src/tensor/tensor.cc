#include "tensor/tensor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/mapped_file.h"

namespace tenon {
namespace {
constexpr size_t kAlignment = 64;
constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;

constexpr size_t RoundUp(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Pages of their own, which go back when they are freed: advice for huge pages on malloc's would stay with what comes to lie
// there later, and make small things resident by two megabytes.
void* MapHuge(size_t bytes) {
  const size_t length = RoundUp(bytes, kPage);
  void* p = mmap(nullptr, length + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(p);
  auto* data = reinterpret_cast<std::byte*>(RoundUp(reinterpret_cast<uintptr_t>(p), kHugePage));
  if (data > begin) munmap(begin, static_cast<size_t>(data - begin));
  if (data < begin + kHugePage) munmap(data + length, static_cast<size_t>(begin + kHugePage - data));
  madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return data;
}
}  // namespace

std::shared_ptr<Buffer> Buffer::Allocate(size_t bytes) {
  std::shared_ptr<Buffer> b(new Buffer());
  // Large buffers begin on a huge page: fewer page faults when they are filled, fewer TLB misses when they are read.
  if (bytes > SIZE_MAX - 2 * kHugePage) return nullptr;
  if (bytes >= kHugePage) {
    b->data_ = MapHuge(bytes);
    if (b->data_ == nullptr) return nullptr;
  } else if (posix_memalign(&b->data_, kAlignment, std::max(kAlignment, RoundUp(bytes, kAlignment))) != 0) {
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
    munmap(data_, RoundUp(bytes_, kPage));
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
