// Inverse matrices by Gauss-Jordan elimination with partial pivots, in double.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/element.h"
#include "kernels/float_io.h"
#include "kernels/kernel_util.h"
#include "kernels/linalg/linalg.h"

namespace tenon::kernels::linalg {
namespace {

// a [m, m] and its inverse beside it: rows of 2m. A singular matrix gives infinities and NaN.
void Invert(double* rows, int64_t m) {
  const int64_t w = 2 * m;
  for (int64_t c = 0; c < m; ++c) {
    int64_t best = c;
    for (int64_t r = c + 1; r < m; ++r) {
      if (std::fabs(rows[r * w + c]) > std::fabs(rows[best * w + c])) best = r;
    }
    if (best != c) std::swap_ranges(rows + c * w, rows + (c + 1) * w, rows + best * w);
    const double pivot = rows[c * w + c];
    for (int64_t j = c; j < w; ++j) rows[c * w + j] /= pivot;
    for (int64_t r = 0; r < m; ++r) {
      const double f = rows[r * w + c];
      if (r == c || f == 0) continue;
      for (int64_t j = c; j < w; ++j) rows[r * w + j] -= f * rows[c * w + j];
    }
  }
}

class InverseKernel final : public Kernel {
 public:
  Result<Configured> Configure(std::span<const View> in, std::span<const View> /*out*/) const override {
    const Shape& x = in[0].shape;
    Configured c;
    const auto m = static_cast<size_t>(x[x.rank() - 1]);
    if (x.num_elements() > 0) c.scratch_bytes = 2 * m * m * sizeof(double);
    return c;
  }

  Status Run(const RunArgs& args) const override {
    const Shape& x = args.in[0].shape;
    const int64_t m = x[x.rank() - 1];
    if (x[x.rank() - 2] != m) return BadInput("x has shape {}; square matrices needed", x.ToString());
    double* rows = reinterpret_cast<double*>(args.scratch);
    const DType t = args.in[0].dtype;
    for (int64_t at = 0; m > 0 && at < x.num_elements(); at += m * m) {
      for (int64_t r = 0; r < m; ++r) {
        for (int64_t c = 0; c < m; ++c) {
          rows[r * 2 * m + c] = LoadDouble(t, args.in[0].data, at + r * m + c);
          rows[r * 2 * m + m + c] = r == c ? 1 : 0;
        }
      }
      Invert(rows, m);
      for (int64_t i = 0; i < m * m; ++i) StoreDouble(t, args.out[0].data, at + i, rows[i / m * 2 * m + m + i % m]);
    }
    return Status::Ok();
  }
};

}  // namespace

Status InferInverse(const ShapeArgs& args) {
  const DType t = args.in[0].dtype;
  const SymShape& x = args.in[0].shape;
  if (t != DType::kUndefined && !IsPlainFloat(t)) return BadInput("x is {}; a float type needed", DTypeName(t));
  if (x.has_rank()) {
    const bool square = x.rank() >= 2 && !(x[x.rank() - 1].is_const() && x[x.rank() - 2].is_const() &&
                                           x[x.rank() - 1].value() != x[x.rank() - 2].value());
    if (!square) return BadInput("x has shape {}; square matrices needed", x.ToString());
  }
  SetOutput(args, 0, t, x);
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeInverse(const Problem& /*problem*/) {
  return std::unique_ptr<Kernel>(new InverseKernel());
}

}  // namespace tenon::kernels::linalg
