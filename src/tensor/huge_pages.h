// Memory for what is written once and read for long, such as packed weights: many pieces, of any size, side by side on huge
// pages.
#ifndef TENON_TENSOR_HUGE_PAGES_H_
#define TENON_TENSOR_HUGE_PAGES_H_

#include <cstddef>
#include <memory>

#include "tensor/tensor.h"

namespace tenon {

/// Uninitialised, aligned to 64 bytes; null when the allocation fails. Pieces that were asked for one after another share regions
/// of some MiB, each of which goes back to the system with the last of its pieces. Thread-safe.
std::shared_ptr<Buffer> AllocateOnHugePages(size_t bytes);

}  // namespace tenon

#endif  // TENON_TENSOR_HUGE_PAGES_H_
