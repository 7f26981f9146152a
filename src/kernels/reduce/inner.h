// The inner functions of f32 reductions, one set for each instruction set. Light, for the ISA files.
#ifndef TENON_KERNELS_REDUCE_INNER_H_
#define TENON_KERNELS_REDUCE_INNER_H_

#include <cstdint>

namespace tenon::kernels::reduce {

enum class Kind { kSum, kMean, kMax, kMin, kProd, kL1, kL2, kLogSum, kLogSumExp, kSumSquare };

/// Reduces n >= 0 contiguous values to the raw accumulator of `kind` (before Mean's division, L2's root, ...): a sum for kMean
/// and kLogSum, and the sum of exp(x - shift) for kLogSumExp.
using ReduceRun = float (*)(Kind kind, const float* x, int64_t n, float shift);
/// Reduces `rows` rows of `width` columns, `stride` apart, into y[width]. Not for kLogSumExp.
using ReduceColumns = void (*)(Kind kind, const float* x, int64_t rows, int64_t width, int64_t stride, float* y);
/// Index of the first (or last) greatest (or least) of n >= 1 values; a NaN beats everything, as in NumPy.
using ArgRun = int64_t (*)(bool max, bool last, const float* x, int64_t n);
/// y[j] = ArgRun of column j of `rows` rows of `width` columns, `stride` apart; 1 <= rows <= kMaxArgRows.
using ArgColumns = void (*)(bool max, bool last, const float* x, int64_t rows, int64_t width, int64_t stride, int64_t* y);
inline constexpr int64_t kMaxArgRows = int64_t{1} << 24;  // row numbers are kept as f32

struct ReduceInner {
  ReduceRun run;
  ReduceColumns columns;
  ArgRun arg;
  ArgColumns arg_columns;
};
extern const ReduceInner kReduceAvx2;
extern const ReduceInner kReduceAvx512;

}  // namespace tenon::kernels::reduce

#endif  // TENON_KERNELS_REDUCE_INNER_H_
