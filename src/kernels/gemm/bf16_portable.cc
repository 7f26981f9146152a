// The bf16 micro-kernels of any machine: four lanes of the compiler's vector extension.
#include "base/half.h"
#include "kernels/gemm/act.h"
#include "kernels/gemm/bf16_tables.h"

namespace tenon::kernels::gemm {
namespace {
// Order matters: each builds on the ones before.
// clang-format off
#include "kernels/gemm/vec_portable.inl"
using T = Vec::T;
#include "kernels/gemm/activate.inl"

inline T LoadBf(const uint16_t* p, int64_t n) {
  T v = Vec::Zero();
  for (int64_t i = 0; i < n; ++i) v[i] = BF16BitsToF32(p[i]);
  return v;
}
inline void StoreBf(uint16_t* p, T v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) p[i] = F32ToBF16Bits(v[i]);
}
inline T RoundBf(T v) {
  for (int64_t i = 0; i < Vec::kLanes; ++i) v[i] = BF16BitsToF32(F32ToBF16Bits(v[i]));
  return v;
}

inline void StoreRow(uint16_t* p, const T* v) {
  for (int i = 0; i < 32 / Vec::kLanes; ++i) StoreBf(p + i * Vec::kLanes, v[i], Vec::kLanes);
}

// A is f32 here.
inline bool CopyWindows(const Bf16Windows&) {
  return false;
}

#include "kernels/gemm/bf16_pack.inl"
#include "kernels/gemm/bf16_finish.inl"
// clang-format on

template <int kRows>
void Rows(const Bf16Tile& t) {
  for (int64_t group = 0; group < (t.narrow ? 4 : 8); ++group) {
    T acc[kRows];
    for (int r = 0; r < kRows; ++r) acc[r] = Vec::Zero();
    const uint16_t* b = t.b + group / 4 * t.b_half + group % 4 * 8;
    for (int64_t tap = 0; tap < t.taps; ++tap) {
      const float* a = static_cast<const float*>(t.a) + (t.tap_offsets != nullptr ? t.tap_offsets[tap] : 0);
      for (int64_t i = 0; i < t.blocks; ++i, b += t.b_block) {
        for (int64_t pair = 0; pair < 16; ++pair, a += 2) {
          Vec::I raw;
          __builtin_memcpy(&raw, b + pair * 32, sizeof raw);
          const T even = reinterpret_cast<T>(raw << 16);
          const T odd = reinterpret_cast<T>(raw & static_cast<int32_t>(0xffff0000U));
          for (int r = 0; r < kRows; ++r) {
            acc[r] = Vec::Fma(Vec::Set(a[r * t.a_stride]), even, acc[r]);
            acc[r] = Vec::Fma(Vec::Set(a[r * t.a_stride + 1]), odd, acc[r]);
          }
        }
      }
    }
    for (int r = 0; r < kRows; ++r) Vec::Store(t.acc + r * kBf16Panel + group * 4, acc[r]);
  }
}

void Tile(const Bf16Tile& t) {
  using Function = void (*)(const Bf16Tile&);
  static constexpr Function kByRows[] = {nullptr, Rows<1>, Rows<2>, Rows<3>, Rows<4>};
  kByRows[t.rows](t);
}

}  // namespace

extern const Bf16Kernels kBf16Portable = {"portable",    4,    32,     false,   true,          false,         nullptr,
                                          nullptr,       Tile, Finish, nullptr, Convert<true>, Windows<true>, Narrow,
                                          PackPanelPlain};

}  // namespace tenon::kernels::gemm
