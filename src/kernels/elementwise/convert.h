// Elements of any numeric type as one of three 64-bit kinds, so that reference kernels are written once per kind.
#ifndef TENON_KERNELS_ELEMENTWISE_CONVERT_H_
#define TENON_KERNELS_ELEMENTWISE_CONVERT_H_

#include <cstdint>

#include "base/dtype.h"

namespace tenon::kernels::elementwise {

/// Reals compute in double, signed integers in int64, unsigned integers and bool in uint64.
enum class Kind : uint8_t { kReal, kSigned, kUnsigned, kNone };

union Word {
  double f;
  int64_t i;
  uint64_t u;
};

/// kNone for string, complex and undefined.
Kind KindOf(DType t);

/// out[k] = data[offset + k*stride] for k in [0, n), in KindOf(t). stride 0 or 1.
void Load(DType t, const void* data, int64_t offset, int64_t stride, int64_t n, Word* out);

/// data[offset + k] = in[k], given in KindOf(t): reals round to nearest even, integers keep the low bits, bool is "not zero".
/// Sub-byte types: two calls may touch the same byte, so a split over threads must be at whole bytes.
void Store(DType t, void* data, int64_t offset, int64_t n, const Word* in);

/// In place from one kind to another. Real to integer goes towards zero; what does not fit `t` takes the nearest bound and NaN
/// gives 0 (ONNX leaves it undefined).
void ConvertKind(Kind from, DType to, int64_t n, Word* words);

}  // namespace tenon::kernels::elementwise

#endif  // TENON_KERNELS_ELEMENTWISE_CONVERT_H_
