// Softmax, plainly, in double.
#include <cmath>

#include "kernels/float_io.h"
#include "kernels/kernel_util.h"
#include "kernels/softmax/softmax.h"

namespace tenon::kernels::softmax {
namespace {

template <typename T>
void Line(Kind kind, const T* x, T* y, int64_t n, int64_t stride) {
  double max = LoadF(x[0]);
  int64_t at = 0;
  for (int64_t i = 1; i < n; ++i) {
    const double v = LoadF(x[i * stride]);
    if (std::isnan(max) || !(v > max || std::isnan(v))) continue;
    max = v;
    at = i;
  }
  if (kind == Kind::kHardmax) {
    for (int64_t i = 0; i < n; ++i) y[i * stride] = StoreF<T>(i == at ? 1 : 0);
    return;
  }
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(LoadF(x[i * stride]) - max);
  for (int64_t i = 0; i < n; ++i) {
    const double shifted = LoadF(x[i * stride]) - max;
    y[i * stride] = StoreF<T>(kind == Kind::kSoftmax ? std::exp(shifted) / sum : shifted - std::log(sum));
  }
}

}  // namespace

Status RunSoftmaxReference(const SoftmaxParams& params, const RunArgs& args) {
  const View& x = args.in[0];
  TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(params.axis, x.shape.rank()));
  TENON_ASSIGN_OR_RETURN(const MutView out, TakeOutput(args, 0, x.shape));
  if (x.num_elements() == 0) return {};
  const int64_t outer = x.shape.Product(0, axis), n = x.shape[axis], inner = x.shape.Product(axis + 1, x.shape.rank());
  const bool known = DispatchDType<TENON_FLOAT_TYPES>(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t j = 0; j < inner; ++j) {
        const int64_t base = o * n * inner + j;
        Line(params.kind, x.Data<T>() + base, out.Data<T>() + base, n, inner);
      }
    }
  });
  return known ? Status() : Unsupported("softmax of {}", DTypeName(x.dtype));
}

}  // namespace tenon::kernels::softmax
