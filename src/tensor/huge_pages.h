// Memory for what is written once and read for long, such as packed weights: many pieces, of any size, side by side on huge
// pages.
#ifndef TENON_TENSOR_HUGE_PAGES_H_
#define TENON_TENSOR_HUGE_PAGES_H_

#include <cstddef>
#include <memory>

#include "tensor/tensor.h"

namespace tenon {

inline constexpr size_t kHugePage = size_t{2} << 20;

/// `bytes` or more, zero, from the beginning of a huge page on, in pages that hold nothing else and go back with UnmapHugePages
/// of the same `bytes`. As many huge pages as `bytes` fills; a rest is of small ones. Null when there are none. Advice on
/// malloc's memory would stay with what comes to lie there later, and make small things resident by two megabytes.
void* MapHugePages(size_t bytes);
void UnmapHugePages(void* data, size_t bytes);

/// Uninitialised, aligned to 64 bytes; null when the allocation fails. Pieces that were asked for one after another share regions
/// of some MiB, each of which goes back to the system with the last of its pieces. Thread-safe.
std::shared_ptr<Buffer> AllocateOnHugePages(size_t bytes);

}  // namespace tenon

#endif  // TENON_TENSOR_HUGE_PAGES_H_
