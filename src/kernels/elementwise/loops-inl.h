// Loops over arrays for Highway's static target; included by the f32_*-inl.h files.
#ifndef TENON_KERNELS_ELEMENTWISE_LOOPS_INL_H_
#define TENON_KERNELS_ELEMENTWISE_LOOPS_INL_H_

#include <cstdint>

#include "kernels/elementwise/f32_table.h"
#include "kernels/elementwise/math-inl.h"

namespace tenon::kernels::elementwise {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// How far functions of many instructions ask for memory ahead: they fill the CPU's window before it reaches the next cache lines.
constexpr int64_t kAhead = 1024;

// F::Apply(d, x, p0, p1)
template <class F, bool kPrefetch = false>
void UnaryLoop(const float* x, float* y, int64_t n, float p0, float p1) {
  const D d;
  const V v0 = hn::Set(d, p0);
  const V v1 = hn::Set(d, p1);
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    if constexpr (kPrefetch) {
      __builtin_prefetch(x + i + kAhead);
      __builtin_prefetch(y + i + kAhead, 1);
    }
    hn::StoreU(F::Apply(d, hn::LoadU(d, x + i), v0, v1), d, y + i);
  }
  if (i < n) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(n - i));
    hn::BlendedStore(F::Apply(d, hn::MaskedLoad(mask, d, x + i), v0, v1), mask, d, y + i);
  }
}

// F::Apply(d, a, b); kForm says which operand is one element.
template <class F, int kForm>
void BinaryLoop(const float* a, const float* b, float* y, int64_t n) {
  const D d;
  if (n <= 0) return;
  const V sa = hn::Set(d, *a);
  const V sb = hn::Set(d, *b);
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const V va = kForm == kFirstScalar ? sa : hn::LoadU(d, a + i);
    const V vb = kForm == kSecondScalar ? sb : hn::LoadU(d, b + i);
    hn::StoreU(F::Apply(d, va, vb), d, y + i);
  }
  if (i < n) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(n - i));
    const V va = kForm == kFirstScalar ? sa : hn::MaskedLoad(mask, d, a + i);
    const V vb = kForm == kSecondScalar ? sb : hn::MaskedLoad(mask, d, b + i);
    hn::BlendedStore(F::Apply(d, va, vb), mask, d, y + i);
  }
}

// F::Apply(d, a, b) is a mask.
template <class F, int kForm>
void CompareLoop(const float* a, const float* b, bool* y, int64_t n) {
  const D d;
  if (n <= 0) return;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint8_t, D> d8;
  const V sa = hn::Set(d, *a);
  const V sb = hn::Set(d, *b);
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  const auto bytes = [&](V va, V vb) {
    const auto ones = hn::IfThenElseZero(hn::RebindMask(di, F::Apply(d, va, vb)), hn::Set(di, 1));
    return hn::DemoteTo(d8, ones);
  };
  auto* out = reinterpret_cast<uint8_t*>(y);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const V va = kForm == kFirstScalar ? sa : hn::LoadU(d, a + i);
    const V vb = kForm == kSecondScalar ? sb : hn::LoadU(d, b + i);
    hn::StoreU(bytes(va, vb), d8, out + i);
  }
  if (i < n) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(n - i));
    const V va = kForm == kFirstScalar ? sa : hn::MaskedLoad(mask, d, a + i);
    const V vb = kForm == kSecondScalar ? sb : hn::MaskedLoad(mask, d, b + i);
    uint8_t tail[64];
    hn::StoreU(bytes(va, vb), d8, tail);
    for (int64_t k = 0; i + k < n; ++k) out[i + k] = tail[k];
  }
}

}  // namespace
}  // namespace tenon::kernels::elementwise

#endif  // TENON_KERNELS_ELEMENTWISE_LOOPS_INL_H_
