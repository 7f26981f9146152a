// What the fast quantisation rows need of an instruction set. Bytes are uint8 or int8 by flag `is_signed`.
#ifndef TENON_KERNELS_QUANTIZE_SIMD_H_
#define TENON_KERNELS_QUANTIZE_SIMD_H_

#include <cstdint>

namespace tenon::kernels::quantize {

inline constexpr int kMaxTileRows = 6;
inline constexpr int kMaxTileColumns = 64;

struct Simd {
  int rows;      ///< of a product tile
  int columns;

  /// y = saturate(round(x / scale) + zero), ties to even, NaN as 0; zero fits the byte type.
  void (*quantize)(const float* x, int64_t n, float scale, int32_t zero, bool is_signed, void* y);
  /// The same with a scale for each element and, unless null, a zero point of the byte type for each.
  void (*quantize_each)(const float* x, int64_t n, const float* scale, const void* zero, bool is_signed, void* y);
  /// y = (x - zero) * scale
  void (*dequantize)(const void* x, int64_t n, float scale, int32_t zero, bool is_signed, float* y);
  void (*dequantize_each)(const void* x, int64_t n, const float* scale, const void* zero, bool is_signed, float* y);
  /// Smallest and largest of x and 0.
  void (*min_max)(const float* x, int64_t n, float* low, float* high);
  /// y = saturate(round(float(sum) * (a_scale * b_scale[j] / y_scale)) + zero)
  void (*requantize)(const int32_t* sum, int64_t n, float a_scale, const float* b_scale, float y_scale, int32_t zero,
                     bool is_signed, void* y);
  /// to = from ^ flip; returns the sum of what was written, modulo 2^32.
  uint32_t (*flip_and_sum)(const uint8_t* from, int64_t n, uint8_t flip, uint8_t* to);
  /// sum[j] += (bias ? bias[j] : 0) - b_zero[j] * centred - a_zero * b_sums[j], modulo 2^32
  void (*correct)(int32_t* sum, int64_t n, const int32_t* b_zero, const uint32_t* b_sums, uint32_t centred, uint32_t a_zero,
                  const int32_t* bias);
  /// c[i][j] = sum over k < 4 * groups of a[i * a_stride + k] * panel[(k / 4 * columns + j) * 4 + k % 4], exact in int32;
  /// i < count <= rows, c has `columns` a row.
  void (*tile)(int count, const uint8_t* a, int64_t a_stride, int64_t groups, const int8_t* panel, int32_t* c);
};

extern const Simd kSimdAvx2;
extern const Simd kSimdAvx512Vnni;

}  // namespace tenon::kernels::quantize

#endif  // TENON_KERNELS_QUANTIZE_SIMD_H_
