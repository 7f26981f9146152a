#if defined(__x86_64__)
#include <immintrin.h>

#include "hw/peaks_probes.h"

namespace tenon::hw::probes {

namespace {

// Eight tiles of 16 rows of 64 bytes. A constant: GCC 12 takes the instruction to read its first eight bytes alone.
struct alignas(64) TileConfig {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
constexpr TileConfig kConfig = {1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

void Configure() {
  _tile_loadconfig(&kConfig);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
}

}  // namespace

void Bf16_amx(int64_t rounds) {
  Configure();
  for (int64_t r = 0; r < rounds; ++r) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}

void I8_amx(int64_t rounds) {
  Configure();
  for (int64_t r = 0; r < rounds; ++r) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  _tile_release();
}

}  // namespace tenon::hw::probes
#endif
