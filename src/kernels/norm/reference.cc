// Normalisations over the last axes and over chosen axes, plainly, in double.
#include <cmath>
#include <vector>

#include "kernels/float_io.h"
#include "kernels/kernel_util.h"
#include "kernels/norm/norm.h"

namespace tenon::kernels::norm {
namespace {

// Reads a scale or bias that broadcasts (NumPy, one way) to the normalised axes of x: offsets by element of the row, or of x.
class Broadcast {
 public:
  Broadcast() = default;
  static Result<Broadcast> Of(const View& v, const Shape& x, const char* name) {
    Broadcast b;
    b.view_ = v;
    if (v.shape.rank() > x.rank()) return BadInput("{} is {}; it must broadcast to {}", name, v.shape.ToString(), x.ToString());
    int64_t stride = 1;
    for (int i = 0; i < v.shape.rank(); ++i) {
      const int64_t e = v.shape[v.shape.rank() - 1 - i];
      const int64_t want = x[x.rank() - 1 - i];
      if (e != 1 && e != want) return BadInput("{} is {}; it must broadcast to {}", name, v.shape.ToString(), x.ToString());
      b.extent_[i] = want;
      b.stride_[i] = e == 1 ? 0 : stride;
      stride *= e;
    }
    b.rank_ = v.shape.rank();
    return b;
  }
  double At(int64_t i) const {
    int64_t offset = 0;
    for (int d = 0; d < rank_; ++d) {
      offset += i % extent_[d] * stride_[d];
      i /= extent_[d];
    }
    return LoadAt(view_, offset);
  }

 private:
  View view_;
  int rank_ = 0;
  int64_t extent_[kMaxRank] = {}, stride_[kMaxRank] = {};
};

}  // namespace

Status RunLayerReference(const LayerParams& params, const RunArgs& args) {
  const View& x = args.in[0];
  TENON_ASSIGN_OR_RETURN(const LayerSizes sizes, CheckLayer(params, args));
  TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, x.shape));
  const auto input = [&](int i) {
    return i >= 0 && args.Has(static_cast<size_t>(i)) ? &args.in[static_cast<size_t>(i)] : nullptr;
  };
  const auto output = [&](int i) {
    return i >= 0 && Wants(std::span<const MutView>(args.out), static_cast<size_t>(i)) ? &args.out[static_cast<size_t>(i)]
                                                                                       : nullptr;
  };
  TENON_ASSIGN_OR_RETURN(const Broadcast gamma, Broadcast::Of(args.in[static_cast<size_t>(params.gamma)], x.shape, "scale"));
  Broadcast beta;
  if (const View* v = input(params.beta)) {
    TENON_ASSIGN_OR_RETURN(beta, Broadcast::Of(*v, x.shape, "bias"));
  }
  const View* bias = input(params.bias);
  const MutView* sum_out = output(params.sum_out);
  for (int64_t r = 0; r < sizes.rows; ++r) {
    const int64_t base = r * sizes.n;
    const auto t = [&](int64_t i) {
      double v = LoadAt(x, base + i);
      if (params.skip) v += LoadAt(args.in[1], r % sizes.skip_rows * sizes.n + i);
      return bias != nullptr ? v + LoadAt(*bias, i) : v;
    };
    double mean = 0, squares = 0;
    const auto n = static_cast<double>(sizes.n);
    for (int64_t i = 0; params.subtract_mean && i < sizes.n; ++i) mean += t(i) / n;
    for (int64_t i = 0; i < sizes.n; ++i) squares += (t(i) - mean) * (t(i) - mean);
    const double inv = 1.0 / std::sqrt(squares / n + static_cast<double>(params.epsilon));
    if (const MutView* m = output(params.mean_out)) StoreAt(*m, r, mean);
    if (const MutView* v = output(params.inv_out)) StoreAt(*v, r, inv);
    for (int64_t i = 0; i < sizes.n; ++i) {
      const double v = t(i);
      if (sum_out != nullptr) StoreAt(*sum_out, base + i, v);
      const double scaled = (v - mean) * inv * gamma.At(base + i);
      StoreAt(y, base + i, input(params.beta) != nullptr ? scaled + beta.At(base + i) : scaled);
    }
  }
  return {};
}

Status RunMvnReference(const MvnParams& params, const RunArgs& args) {
  const View& x = args.in[0];
  TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, x.shape));
  Shape kept = x.shape;  // extents of the statistics: 1 on the axes averaged over
  for (const int64_t a : params.axes) {
    TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(a, x.shape.rank()));
    kept[axis] = 1;
  }
  const auto slot = [&](int64_t i) {
    int64_t at = 0, stride = 1;
    for (int d = x.shape.rank() - 1; d >= 0; --d) {
      if (kept[d] != 1) at += i % x.shape[d] * stride;
      i /= x.shape[d];
      stride *= kept[d];
    }
    return static_cast<size_t>(at);
  };
  const int64_t n = x.num_elements();
  if (n == 0) return {};
  const double count = static_cast<double>(n / kept.num_elements());
  std::vector<double> mean(static_cast<size_t>(kept.num_elements())), variance(mean.size());
  for (int64_t i = 0; i < n; ++i) mean[slot(i)] += LoadAt(x, i) / count;
  for (int64_t i = 0; i < n; ++i) {
    const double d = LoadAt(x, i) - mean[slot(i)];
    variance[slot(i)] += d * d / count;
  }
  for (int64_t i = 0; i < n; ++i) StoreAt(y, i, (LoadAt(x, i) - mean[slot(i)]) / (std::sqrt(variance[slot(i)]) + 1e-9));
  return {};
}

Status RunLpReference(const LpParams& params, const RunArgs& args) {
  const View& x = args.in[0];
  TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(params.axis, x.shape.rank()));
  TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, x.shape));
  const int64_t outer = x.shape.Product(0, axis), n = x.shape[axis], inner = x.shape.Product(axis + 1, x.shape.rank());
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < inner; ++j) {
      const int64_t base = o * n * inner + j;
      double norm = 0;
      for (int64_t i = 0; i < n; ++i) {
        const double v = LoadAt(x, base + i * inner);
        norm += params.p == 1 ? std::fabs(v) : v * v;
      }
      if (params.p == 2) norm = std::sqrt(norm);
      // A vector of norm 0 stays 0.
      for (int64_t i = 0; i < n; ++i) StoreAt(y, base + i * inner, norm == 0 ? 0 : LoadAt(x, base + i * inner) / norm);
    }
  }
  return {};
}

}  // namespace tenon::kernels::norm
