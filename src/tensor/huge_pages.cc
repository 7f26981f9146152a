#include "tensor/huge_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <mutex>

namespace tenon {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kRegion = size_t{8} << 20;
constexpr size_t kMost = size_t{1} << 46;

class Region {
 public:
  /// Null when the memory is not to be had.
  static std::shared_ptr<Region> Map(size_t bytes) {
    // One page more, so that it can begin on a huge one; what is never touched takes no memory.
    void* p = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    std::shared_ptr<Region> region(new Region(p, bytes));
    madvise(region->next_, bytes, MADV_HUGEPAGE);
    return region;
  }
  ~Region() { munmap(mapping_, bytes_ + kHugePage); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  /// Null when there is no room.
  void* Take(size_t bytes) {
    if (bytes > left_) return nullptr;
    std::byte* piece = next_;
    next_ += bytes, left_ -= bytes;
    return piece;
  }

 private:
  Region(void* mapping, size_t bytes) : mapping_(mapping), bytes_(bytes), left_(bytes) {
    const uintptr_t at = reinterpret_cast<uintptr_t>(mapping);
    next_ = static_cast<std::byte*>(mapping) + ((at + kHugePage - 1) / kHugePage * kHugePage - at);
  }
  void* mapping_;
  size_t bytes_, left_;
  std::byte* next_;
};

}  // namespace

std::shared_ptr<Buffer> AllocateOnHugePages(size_t bytes) {
  static std::mutex mutex;
  static std::weak_ptr<Region> open;   // the one that the next pieces come from
  if (bytes > kMost) return nullptr;
  const size_t padded = std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  const std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<Region> region = open.lock();
  void* piece = region != nullptr ? region->Take(padded) : nullptr;
  if (piece == nullptr) {
    region = Region::Map(std::max(kRegion, (padded + kHugePage - 1) / kHugePage * kHugePage));
    if (region == nullptr) return nullptr;
    piece = region->Take(padded);
    open = region;
  }
  return Buffer::Foreign(piece, bytes, [region] {});
}

}  // namespace tenon
