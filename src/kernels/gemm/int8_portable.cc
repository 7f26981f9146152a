// Byte tiles for any machine: plain loops that the compiler may vectorise for the baseline.
#include <cmath>

#include "base/half.h"
#include "kernels/gemm/int8_tables.h"

namespace tenon::kernels::gemm {
namespace {

constexpr int kPanel = 8;

inline int32_t Byte(const uint8_t* a, bool is_signed) {
  return is_signed ? static_cast<int8_t>(*a) : *a;
}

template <bool kSigned>
void TileKernel(const Int8Tile& t) {
  for (int r = 0; r < t.rows; ++r) {
    int32_t* sums = t.sums + r * kPanel;
    for (int c = 0; c < kPanel; ++c) sums[c] = 0;
    const int8_t* b = t.b;
    for (int64_t p = 0; p < t.taps; ++p) {
      const uint8_t* a = t.a[0] + t.tap_offsets[0][p] + r * t.a_stride[0];
      for (int64_t k = 0; k < t.depth; k += 4, b += kPanel * 4) {
        for (int c = 0; c < kPanel; ++c) {
          int32_t sum = 0;
          for (int i = 0; i < 4; ++i) sum += Byte(a + k + i, kSigned) * b[c * 4 + i];
          sums[c] = static_cast<int32_t>(static_cast<uint32_t>(sums[c]) + static_cast<uint32_t>(sum));
        }
      }
    }
  }
}

using VF = float;
using VI = int32_t;
constexpr int kLanes = 1;
struct Mask {
  explicit Mask(int64_t) {}
};
inline uint32_t U(VI v) {
  return static_cast<uint32_t>(v);
}
inline VI LoadI(const int32_t* p, Mask) {
  return *p;
}
inline VF LoadF(const float* p, Mask) {
  VF v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
inline VI LoadU8(const uint8_t* p, Mask) {
  return *p;
}
inline VI LoadI8(const uint8_t* p, Mask) {
  return static_cast<int8_t>(*p);
}
inline VF LoadBF16(const uint16_t* p, Mask) {
  return BF16BitsToF32(*p);
}
inline void StoreI(int32_t* p, VI v, Mask) {
  *p = v;
}
// Through memory: the sums may be overwritten by floats in place.
inline void StoreF(float* p, VF v, Mask) {
  __builtin_memcpy(p, &v, sizeof v);
}
inline void StoreByte(uint8_t* p, VI v, Mask) {
  *p = static_cast<uint8_t>(v);
}
inline void StoreWord(uint16_t* p, VI v, Mask) {
  *p = static_cast<uint16_t>(v);
}
inline VI SetI(int32_t v) {
  return v;
}
inline VF SetF(float v) {
  return v;
}
inline VI AddI(VI a, VI b) {
  return static_cast<VI>(U(a) + U(b));
}
inline VI SubI(VI a, VI b) {
  return static_cast<VI>(U(a) - U(b));
}
inline VI MulI(VI a, VI b) {
  return static_cast<VI>(U(a) * U(b));
}
inline VI AndI(VI a, VI b) {
  return a & b;
}
template <int kBits>
inline VI ShiftRight(VI a) {
  return static_cast<VI>(U(a) >> kBits);
}
inline VF ToFloat(VI a) {
  return static_cast<float>(a);
}
inline VI ToInt(VF a) {
  return static_cast<VI>(a);
}
inline VI Bits(VF a) {
  VI bits;
  __builtin_memcpy(&bits, &a, sizeof bits);
  return bits;
}
inline VF MulF(VF a, VF b) {
  return a * b;
}
inline VF AddF(VF a, VF b) {
  return a + b;
}
inline VF SubF(VF a, VF b) {
  return a - b;
}
// The product is exact in double, so this is a fused multiply-add but for a double rounding in one of 2^29 cases.
inline VF FmaF(VF a, VF b, VF c) {
  return static_cast<float>(static_cast<double>(a) * b + c);
}
inline VF MinF(VF a, VF b) {
  return a < b ? a : b;
}
inline VF MaxF(VF a, VF b) {
  return a > b ? a : b;
}
inline VF RoundF(VF a) {
  constexpr float kMagic = 12582912.0F;   // beyond 2^22 rounding changes nothing that a byte could tell
  return a > -4194304.0F && a < 4194304.0F ? (a + kMagic) - kMagic : a;
}
inline VF ZeroNan(VF a) {
  return a == a ? a : 0;
}
inline VI QuietNan(VF a, VI bits) {
  return a == a ? bits : 0x7FC0;
}

#include "kernels/gemm/int8_finish.inl"

void RowSums(const Int8Tile& t, bool is_signed, int32_t* sums) {
  for (int r = 0; r < t.rows; ++r) {
    uint32_t sum = 0;
    for (int64_t p = 0; p < t.taps; ++p) {
      const uint8_t* a = t.a[0] + t.tap_offsets[0][p] + r * t.a_stride[0];
      for (int64_t k = 0; k < t.depth; ++k) sum += static_cast<uint32_t>(Byte(a + k, is_signed));
    }
    sums[r] = static_cast<int32_t>(sum);
  }
}

}  // namespace

extern const Int8Kernels kInt8Portable = {
    "portable", kPanel,
    1,          4,
    1,          {0, 4, 0, 0, 0},
    false,      {{nullptr, TileKernel<false>, nullptr, nullptr, nullptr}, {nullptr, TileKernel<true>, nullptr, nullptr, nullptr}},
    nullptr,    nullptr,
    Finish,     Convert,
    RowSums,
};

}  // namespace tenon::kernels::gemm
