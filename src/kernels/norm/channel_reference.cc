// Normalisations by channel, plainly, in double: batch, instance, group, local response.
#include <algorithm>
#include <cmath>

#include "kernels/float_io.h"
#include "kernels/kernel_util.h"
#include "kernels/norm/norm.h"

namespace tenon::kernels::norm {

Status RunBatchReference(const BatchParams& params, const RunArgs& args) {
  const View& x = args.in[0];
  TENON_ASSIGN_OR_RETURN(const ChannelSizes s, CheckChannels(args, 1, 4, "BatchNormalization"));
  TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, x.shape));
  const auto count = static_cast<double>(s.batch * s.inner);
  for (int64_t c = 0; c < s.channels; ++c) {
    double mean = LoadAt(args.in[3], c), variance = LoadAt(args.in[4], c);
    const auto each = [&](auto&& f) {
      for (int64_t b = 0; b < s.batch; ++b) {
        for (int64_t i = 0; i < s.inner; ++i) f((b * s.channels + c) * s.inner + i);
      }
    };
    if (params.training) {
      const double old_mean = mean, old_variance = variance, momentum = static_cast<double>(params.momentum);
      mean = 0, variance = 0;
      each([&](int64_t i) { mean += LoadAt(x, i) / count; });
      each([&](int64_t i) { variance += (LoadAt(x, i) - mean) * (LoadAt(x, i) - mean) / count; });
      const std::span<const MutView> out = args.out;
      if (Wants(out, 1)) StoreAt(out[1], c, old_mean * momentum + mean * (1 - momentum));
      if (Wants(out, 2)) StoreAt(out[2], c, old_variance * momentum + variance * (1 - momentum));
    }
    const double scale = LoadAt(args.in[1], c) / std::sqrt(variance + static_cast<double>(params.epsilon));
    const double shift = LoadAt(args.in[2], c);
    each([&](int64_t i) { StoreAt(y, i, (LoadAt(x, i) - mean) * scale + shift); });
  }
  return {};
}

Status RunGroupReference(const GroupParams& params, const RunArgs& args) {
  const View& x = args.in[0];
  TENON_ASSIGN_OR_RETURN(const ChannelSizes s, CheckChannels(args, 1, 2, "normalization"));
  TENON_RETURN_IF_ERROR(CheckGroups(params, s.channels));
  TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, x.shape));
  const int64_t groups = params.groups == 0 ? s.channels : params.groups;
  if (x.num_elements() == 0) return {};
  const int64_t n = s.channels / groups * s.inner;
  for (int64_t g = 0; g < s.batch * groups; ++g) {
    const int64_t base = g * n;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < n; ++i) mean += LoadAt(x, base + i) / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i)
      variance += (LoadAt(x, base + i) - mean) * (LoadAt(x, base + i) - mean) / static_cast<double>(n);
    const double inv = 1.0 / std::sqrt(variance + static_cast<double>(params.epsilon));
    for (int64_t i = 0; i < n; ++i) {
      const int64_t c = (base + i) / s.inner % s.channels;
      StoreAt(y, base + i, (LoadAt(x, base + i) - mean) * inv * LoadAt(args.in[1], c) + LoadAt(args.in[2], c));
    }
  }
  return {};
}

Status RunLrnReference(const LrnParams& params, const RunArgs& args) {
  const View& x = args.in[0];
  if (x.shape.rank() < 2) return BadInput("LRN: x has rank {}; allowed: 2 or more", x.shape.rank());
  TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, x.shape));
  const int64_t channels = x.shape[1], inner = x.shape.Product(2, x.shape.rank());
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const int64_t c = i / inner % channels;
    const int64_t first = std::max<int64_t>(0, c - (params.size - 1) / 2);
    const int64_t last = std::min<int64_t>(channels - 1, c + params.size / 2);
    double sum = 0;
    for (int64_t k = first; k <= last; ++k) {
      const double v = LoadAt(x, i + (k - c) * inner);
      sum += v * v;
    }
    const double scale = static_cast<double>(params.alpha) / static_cast<double>(params.size);
    const double base = static_cast<double>(params.bias) + scale * sum;
    StoreAt(y, i, LoadAt(x, i) / std::pow(base, static_cast<double>(params.beta)));
  }
  return {};
}

}  // namespace tenon::kernels::norm
