// The inner functions of attention over a cache, for AVX2.
#include <immintrin.h>

#include "kernels/cached_attention/inner.h"

namespace tenon::kernels::cached_attention {
namespace {
// Order matters: each builds on the ones before.
// clang-format off
#include "kernels/v16/avx2.inl"
#include "kernels/v16/math.inl"
#include "kernels/cached_attention/rows.inl"
// clang-format on
}  // namespace

extern const Inner kAvx2 = {{AccessOf<F16>(), AccessOf<Bf16>(), AccessOf<float>(), AccessOf<Q8>()}, Turn, Weigh, AddTile, Divide};

}  // namespace tenon::kernels::cached_attention
