// A of a product that is given transposed, as rows.
#ifndef TENON_KERNELS_MATMUL_TRANSPOSE_A_H_
#define TENON_KERNELS_MATMUL_TRANSPOSE_A_H_

#include <algorithm>

#include "hw/team.h"
#include "kernels/matmul/matmul.h"

namespace tenon::kernels::matmul {

/// Elements that are worth another thread when packing or copying.
inline constexpr int64_t kCopyGrain = 16 * 1024;

/// to[m][k] = a[k][m].
template <typename T>
void TransposeA(const T* a, const Geometry& g, T* to, hw::Team& team) {
  team.ParallelFor(g.m, std::max<int64_t>(16, kCopyGrain / std::max<int64_t>(1, g.k)), [&](int64_t m0, int64_t m1, int) {
    constexpr int64_t kBlock = 16;
    for (int64_t k0 = 0; k0 < g.k; k0 += kBlock) {
      const int64_t k1 = std::min(g.k, k0 + kBlock);
      for (int64_t m = m0; m < m1; ++m) {
        for (int64_t k = k0; k < k1; ++k) to[m * g.k + k] = a[k * g.m + m];
      }
    }
  });
}

}  // namespace tenon::kernels::matmul

#endif  // TENON_KERNELS_MATMUL_TRANSPOSE_A_H_
