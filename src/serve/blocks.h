// Blocks of dense tensors in memory.
#ifndef TENON_SERVE_BLOCKS_H_
#define TENON_SERVE_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "tenon/session.h"

namespace tenon::serve {

/// Product of the extents of a tensor that is in memory.
int64_t ElementsOf(std::span<const int64_t> shape);

/// Copies what two tensors of one rank have in common, the block at their beginning. `element`: bytes of one element.
void CopyBlock(const char* from, std::span<const int64_t> from_shape, char* to, std::span<const int64_t> to_shape,
               size_t element);

/// Elements [begin, begin + count) of `t` in their order, with `shape`, in memory of their own.
HostTensor CopyElements(const HostTensor& t, int64_t begin, int64_t count, std::vector<int64_t> shape);

}  // namespace tenon::serve

#endif  // TENON_SERVE_BLOCKS_H_
