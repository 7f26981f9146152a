#include "kernels/deform_conv/deform_conv.h"

#include <cmath>

#include "kernels/conv/conv.h"
#include "kernels/element.h"
#include "kernels/kernel_util.h"

namespace tenon::kernels::deform_conv {
namespace {

Result<int64_t> OffsetGroups(const Attrs& attrs) {
  const int64_t groups = attrs.Int("offset_group", 1);
  if (groups < 1 || groups > int64_t{1} << 24) return BadInput("offset_group {}; at least 1 needed", groups);
  return groups;
}

Status Infer(const ShapeArgs& args) {
  TENON_RETURN_IF_ERROR(OffsetGroups(args.attrs).ok() ? Status() : OffsetGroups(args.attrs).status());
  for (size_t i = 0; i < args.in.size(); ++i) {
    const DType t = args.in[i].dtype;
    if (args.Has(i) && t != DType::kUndefined && (!IsPlainFloat(t) || t != args.in[0].dtype)) {
      return BadInput("input {} is {} and X {}; one float type throughout needed", i, DTypeName(t), DTypeName(args.in[0].dtype));
    }
  }
  const ValueInfo operands[3] = {args.in[0], args.in[1], args.Has(3) ? args.in[3] : ValueInfo{}};
  return conv::InferConv({args.attrs, operands, args.out});
}

class DeformConv final : public Kernel {
 public:
  DeformConv(conv::Params p, int64_t groups) : p_(std::move(p)), groups_(groups) {}

  Status Run(const RunArgs& args) const override {
    TENON_ASSIGN_OR_RETURN(const conv::Geometry g, conv::Resolve(p_, args.in[0].shape, args.in[1].shape));
    const auto fits = [&](const View& v, int64_t channels) {
      bool same = v.shape.rank() == g.spatial + 2 && v.shape[0] == g.n && v.shape[1] == channels;
      for (int d = 0; same && d < g.spatial; ++d) same = v.shape[d + 2] == g.out[d];
      return same;
    };
    if (g.c % groups_ != 0) return BadInput("offset_group {} does not divide {} channels", groups_, g.c);
    if (!fits(args.in[2], groups_ * g.taps() * g.spatial)) {
      return BadInput("offset of shape {}; [{}, {}, ...] with the output's extents needed", args.in[2].shape.ToString(), g.n,
                      groups_ * g.taps() * g.spatial);
    }
    if (args.Has(4) && !fits(args.in[4], groups_ * g.taps())) {
      return BadInput("mask of shape {}; [{}, {}, ...] with the output's extents needed", args.in[4].shape.ToString(), g.n,
                      groups_ * g.taps());
    }
    const int64_t pixels = g.out_pixels();
    args.team.ParallelFor(g.n * pixels, 16, [&](int64_t begin, int64_t end, int) {
      std::vector<double> sums(static_cast<size_t>(g.oc));
      for (int64_t i = begin; i < end; ++i) Pixel(args, g, i / pixels, i % pixels, &sums);
    });
    return {};
  }

 private:
  // Linear interpolation at `at`; 0 outside.
  static double Sample(const View& x, const conv::Geometry& g, int64_t plane, const double* at) {
    int64_t low[conv::kMaxSpatial];
    double rest[conv::kMaxSpatial];
    for (int d = 0; d < g.spatial; ++d) {
      if (!(at[d] > -1 && at[d] < static_cast<double>(g.in[d]))) return 0;
      low[d] = static_cast<int64_t>(std::floor(at[d]));
      rest[d] = at[d] - static_cast<double>(low[d]);
    }
    double sum = 0;
    for (int corner = 0; corner < 1 << g.spatial; ++corner) {
      double weight = 1;
      int64_t index = 0;
      for (int d = 0; d < g.spatial; ++d) {
        const int up = corner >> d & 1;
        const int64_t p = low[d] + up;
        weight *= p < 0 || p >= g.in[d] ? 0 : up != 0 ? rest[d] : 1 - rest[d];
        index = index * g.in[d] + p;
      }
      if (weight != 0) sum += weight * LoadDouble(x.dtype, x.data, plane * g.in_pixels() + index);
    }
    return sum;
  }

  void Pixel(const RunArgs& args, const conv::Geometry& g, int64_t n, int64_t pixel, std::vector<double>* sums) const {
    const View &x = args.in[0], &w = args.in[1], &offset = args.in[2];
    const int64_t taps = g.taps(), pixels = g.out_pixels();
    for (int64_t oc = 0; oc < g.oc; ++oc) {
      (*sums)[static_cast<size_t>(oc)] = args.Has(3) ? LoadDouble(args.in[3].dtype, args.in[3].data, oc) : 0;
    }
    for (int64_t t = 0; t < taps; ++t) {
      for (int64_t c = 0; c < g.c; ++c) {
        const int64_t slot = (n * groups_ + c / (g.c / groups_)) * taps + t;
        double at[conv::kMaxSpatial];
        int64_t o = pixel, k = t;
        for (int d = g.spatial - 1; d >= 0; --d) {
          at[d] = static_cast<double>(o % g.out[d] * g.stride[d] - g.pad[d] + k % g.kernel[d] * g.dilation[d]) +
                  LoadDouble(offset.dtype, offset.data, (slot * g.spatial + d) * pixels + pixel);
          o /= g.out[d];
          k /= g.kernel[d];
        }
        double v = Sample(x, g, n * g.c + c, at);
        if (args.Has(4)) v *= LoadDouble(args.in[4].dtype, args.in[4].data, slot * pixels + pixel);
        const int64_t first = c / g.icg() * g.ocg();
        for (int64_t oc = first; oc < first + g.ocg(); ++oc) {
          (*sums)[static_cast<size_t>(oc)] += v * LoadDouble(w.dtype, w.data, (oc * g.icg() + c % g.icg()) * taps + t);
        }
      }
    }
    for (int64_t oc = 0; oc < g.oc; ++oc) {
      StoreDouble(x.dtype, args.out[0].data, (n * g.oc + oc) * pixels + pixel, (*sums)[static_cast<size_t>(oc)]);
    }
  }

  conv::Params p_;
  int64_t groups_;
};

Result<std::unique_ptr<Kernel>> Make(const Problem& p) {
  TENON_ASSIGN_OR_RETURN(conv::Params params, conv::ParseParams("Conv", p.attrs));
  TENON_ASSIGN_OR_RETURN(const int64_t groups, OffsetGroups(p.attrs));
  return std::unique_ptr<Kernel>(new DeformConv(std::move(params), groups));
}

}  // namespace

std::span<const OpKernels> Operators() {
  static const Row rows[] = {
#define KERNEL(name, needs, can, make) {name, needs, can, make},
#include "kernels/deform_conv/kernels.inc"
#undef KERNEL
  };
  static const OpKernels operators[] = {{"DeformConv", Infer, rows, 3, 5, 1, 1}};
  return operators;
}

}  // namespace tenon::kernels::deform_conv
