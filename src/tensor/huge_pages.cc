#include "tensor/huge_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <mutex>

namespace tenon {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kRegion = size_t{8} << 20;
constexpr size_t kMost = size_t{1} << 46;

constexpr size_t WholeHugePages(size_t bytes) {
  return (bytes + kHugePage - 1) / kHugePage * kHugePage;
}

class Region {
 public:
  /// Null when the memory is not to be had.
  static std::shared_ptr<Region> Map(size_t bytes) {
    void* p = MapHugePages(bytes);
    return p == nullptr ? nullptr : std::shared_ptr<Region>(new Region(p, bytes));
  }
  ~Region() { UnmapHugePages(data_, bytes_); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  /// Null when there is no room.
  void* Take(size_t bytes) {
    if (bytes > left_) return nullptr;
    std::byte* piece = data_ + (bytes_ - left_);
    left_ -= bytes;
    return piece;
  }

 private:
  Region(void* data, size_t bytes) : data_(static_cast<std::byte*>(data)), bytes_(bytes), left_(bytes) {}
  std::byte* data_;
  size_t bytes_, left_;
};

}  // namespace

void* MapHugePages(size_t bytes) {
  if (bytes > kMost) return nullptr;
  // One page more, so that it can begin on a huge one; the rest goes back at once.
  const size_t length = WholeHugePages(bytes);
  void* p = mmap(nullptr, length + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  const size_t before = WholeHugePages(reinterpret_cast<uintptr_t>(p)) - reinterpret_cast<uintptr_t>(p);
  std::byte* data = static_cast<std::byte*>(p) + before;
  if (before > 0) munmap(p, before);
  munmap(data + length, kHugePage - before);
  madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return data;
}

void UnmapHugePages(void* data, size_t bytes) {
  munmap(data, WholeHugePages(bytes));
}

std::shared_ptr<Buffer> AllocateOnHugePages(size_t bytes) {
  static std::mutex mutex;
  static std::weak_ptr<Region> open;   // the one that the next pieces come from
  if (bytes > kMost) return nullptr;
  const size_t padded = std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  const std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<Region> region = open.lock();
  void* piece = region != nullptr ? region->Take(padded) : nullptr;
  if (piece == nullptr) {
    region = Region::Map(std::max(kRegion, WholeHugePages(padded)));
    if (region == nullptr) return nullptr;
    piece = region->Take(padded);
    open = region;
  }
  return Buffer::Foreign(piece, bytes, [region] {});
}

}  // namespace tenon
