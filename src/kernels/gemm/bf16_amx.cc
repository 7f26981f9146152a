// The bf16 micro-kernels of AMX: 32 x 32 of C in four tiles of 16 x 16, two tiles of A and two of B for every 32 of depth.
// GCC 12 takes the deliberately undefined operands inside its own AVX-512 header for a mistake.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "kernels/gemm/act.h"
#include "kernels/gemm/bf16_tables.h"

namespace tenon::kernels::gemm {
namespace {
// Order matters: each builds on the ones before.
// clang-format off
#include "kernels/gemm/vec_avx512.inl"
using T = Vec::T;
#include "kernels/gemm/activate.inl"
#include "kernels/gemm/bf16_store_native.inl"
#include "kernels/gemm/bf16_native.inl"
#include "kernels/gemm/bf16_pack.inl"
#include "kernels/gemm/bf16_simd512.inl"
#include "kernels/gemm/bf16_finish.inl"
// clang-format on

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfig kConfig{};

void Begin() {
  _tile_loadconfig(&kConfig);
}
void End() {
  _tile_release();
}

// Tiles: 0 to 3 of C, 4 and 5 of A, 6 and 7 of B.
template <bool kTall, bool kWide>
void TileOf(const Bf16Tile& t) {
  _tile_zero(0);
  if (kWide) _tile_zero(1);
  if (kTall) _tile_zero(2);
  if (kTall && kWide) _tile_zero(3);
  const auto* b = reinterpret_cast<const char*>(t.b);
  const int64_t stride = t.a_stride * 2, b_half = t.b_half * 2, b_block = t.b_block * 2;
  for (int64_t tap = 0; tap < t.taps; ++tap) {
    const char* a = static_cast<const char*>(t.a) + (t.tap_offsets != nullptr ? t.tap_offsets[tap] * 2 : 0);
    for (int64_t i = 0; i < t.blocks; ++i, a += 64, b += b_block) {
      _tile_loadd(6, b, 64);
      _tile_loadd(4, a, stride);
      _tile_dpbf16ps(0, 4, 6);
      if (kWide) {
        _tile_loadd(7, b + b_half, 64);
        _tile_dpbf16ps(1, 4, 7);
      }
      if (kTall) {
        _tile_loadd(5, a + 16 * stride, stride);
        _tile_dpbf16ps(2, 5, 6);
        if (kWide) _tile_dpbf16ps(3, 5, 7);
      }
    }
  }
  _tile_stored(0, t.acc, 128);
  if (kWide) _tile_stored(1, t.acc + 16, 128);
  if (kTall) _tile_stored(2, t.acc + 512, 128);
  if (kTall && kWide) _tile_stored(3, t.acc + 528, 128);
}

void Tile(const Bf16Tile& t) {
  if (t.rows > 16) {
    t.narrow ? TileOf<true, false>(t) : TileOf<true, true>(t);
  } else {
    t.narrow ? TileOf<false, false>(t) : TileOf<false, true>(t);
  }
}

}  // namespace

extern const Bf16Kernels kBf16Amx = {"amx", 32,     32,      false,          false,          true,   Begin,        End,
                                     Tile,  Finish, nullptr, Convert<false>, Windows<false>, Narrow, PackBf16Panel};

}  // namespace tenon::kernels::gemm
