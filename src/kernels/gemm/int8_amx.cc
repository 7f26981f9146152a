// Byte tiles on AMX: up to 2 x 2 tiles of 16 rows by 16 columns, 64 bytes of depth a step. Signed A needs no detour.
#include <immintrin.h>

#include "kernels/gemm/int8_tables.h"

namespace tenon::kernels::gemm {
namespace {

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes[16] = {};   // of a row
  uint8_t rows[16] = {};
};

// Registers 0 to 3 hold sums [tile][vector], 4 and 5 A, 6 and 7 B.
void Begin(int rows) {
  TileConfig config;
  for (int i = 0; i < 8; ++i) {
    config.bytes[i] = 64;
    config.rows[i] = static_cast<uint8_t>(i < 6 ? rows : 16);
  }
  // GCC's intrinsic tells of the first eight bytes only: the rest would never be written.
  __asm__ volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
}

void End() {
  _tile_release();
}

#define TENON_TDP(c, a, b)   \
  do {                       \
    if constexpr (kSigned)   \
      _tile_dpbssd(c, a, b); \
    else                     \
      _tile_dpbusd(c, a, b); \
  } while (0)

template <bool kSigned, int kVectors, int kTiles>
void Product(const Int8Tile& t) {
  const int8_t* b = t.b;
  constexpr int64_t b_row = kVectors * 64;
  _tile_zero(0);
  if constexpr (kVectors == 2) _tile_zero(1);
  if constexpr (kTiles == 2) _tile_zero(2);
  if constexpr (kTiles == 2 && kVectors == 2) _tile_zero(3);
  for (int64_t p = 0; p < t.taps; ++p) {
    const uint8_t* a0 = t.a[0] + t.tap_offsets[0][p];
    const uint8_t* a1 = kTiles == 2 ? t.a[1] + t.tap_offsets[1][p] : nullptr;
    for (int64_t k = 0; k < t.depth; k += 64, b += 16 * b_row) {
      _tile_loadd(6, b, b_row);
      _tile_loadd(4, a0 + k, t.a_stride[0]);
      TENON_TDP(0, 4, 6);
      if constexpr (kVectors == 2) {
        _tile_loadd(7, b + 64, b_row);
        TENON_TDP(1, 4, 7);
      }
      if constexpr (kTiles == 2) {
        _tile_loadd(5, a1 + k, t.a_stride[1]);
        TENON_TDP(2, 5, 6);
        if constexpr (kVectors == 2) TENON_TDP(3, 5, 7);
      }
    }
  }
  constexpr int64_t row = kVectors * 64;
  _tile_stored(0, t.sums, row);
  if constexpr (kVectors == 2) _tile_stored(1, t.sums + 16, row);
  int32_t* second = t.sums + kInt8MaxRows * kVectors * 16;
  if constexpr (kTiles == 2) _tile_stored(2, second, row);
  if constexpr (kTiles == 2 && kVectors == 2) _tile_stored(3, second + 16, row);
}

template <bool kSigned, int kVectors>
void TileKernel(const Int8Tile& t) {
  if (t.tiles == 2)
    Product<kSigned, kVectors, 2>(t);
  else
    Product<kSigned, kVectors, 1>(t);
}

}  // namespace

extern const Int8Kernels kInt8Amx = {
    "amx",
    16,
    2,
    64,
    2,
    {0, 16, 16, 0, 0},
    false,
    {{nullptr, TileKernel<false, 1>, TileKernel<false, 2>, nullptr, nullptr},
     {nullptr, TileKernel<true, 1>, TileKernel<true, 2>, nullptr, nullptr}},
    Begin,
    End,
    FinishInt8Avx512,
    ConvertInt8Avx512,
    RowSumsInt8Avx512Plain,
};

}  // namespace tenon::kernels::gemm
