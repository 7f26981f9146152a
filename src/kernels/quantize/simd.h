// What the fast quantisation rows need of an instruction set. Bytes are uint8 or int8 by flag `is_signed`.
#ifndef TENON_KERNELS_QUANTIZE_SIMD_H_
#define TENON_KERNELS_QUANTIZE_SIMD_H_

#include <cstdint>

namespace tenon::kernels::quantize {

/// y = saturate(round(v) + y_zero) of v = a' * a_scale + b' * b_scale, or a' * b' * a_scale; a' and b' are bytes less their zero
/// points.
struct ByteBinary {
  bool multiplies;
  bool a_signed, b_signed, y_signed;
  bool b_is_one;                ///< one b for all
  int32_t a_zero, b_zero, y_zero;
  float a_scale, b_scale;
};

struct Simd {
  /// y = saturate(round(x / scale) + zero), ties to even, NaN as 0; zero fits the byte type.
  void (*quantize)(const float* x, int64_t n, float scale, int32_t zero, bool is_signed, void* y);
  /// The same with a scale for each element and, unless null, a zero point of the byte type for each.
  void (*quantize_each)(const float* x, int64_t n, const float* scale, const void* zero, bool is_signed, void* y);
  /// y = (x - zero) * scale
  void (*dequantize)(const void* x, int64_t n, float scale, int32_t zero, bool is_signed, float* y);
  void (*dequantize_each)(const void* x, int64_t n, const float* scale, const void* zero, bool is_signed, float* y);
  /// Smallest and largest of x and 0.
  void (*min_max)(const float* x, int64_t n, float* low, float* high);
  void (*binary)(const ByteBinary& f, const void* a, const void* b, int64_t n, void* y);
};

extern const Simd kSimdAvx2;
extern const Simd kSimdAvx512Vnni;

}  // namespace tenon::kernels::quantize

#endif  // TENON_KERNELS_QUANTIZE_SIMD_H_
