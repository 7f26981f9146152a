// From rows of blocks, as files hold them, to the groups of packed.h.
#ifndef TENON_KERNELS_BLOCK_MATMUL_REPACK_H_
#define TENON_KERNELS_BLOCK_MATMUL_REPACK_H_

#include <cstdint>

#include "kernels/block_matmul/packed.h"
#include "tensor/blocks/blocks.h"

namespace tenon::kernels::block_matmul {

/// How weights of this format are packed; every format has a layout.
Layout LayoutOf(const BlockFormat& format);

/// One group: rows[c] is a row of k elements, null for columns that do not exist. `to` holds ceil(k / 32) blocks.
void PackGroup(const BlockFormat& format, const Layout& layout, const uint8_t* const* rows, int64_t k, uint8_t* to);

}  // namespace tenon::kernels::block_matmul

#endif  // TENON_KERNELS_BLOCK_MATMUL_REPACK_H_
