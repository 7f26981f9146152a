#include "kernels/loss/loss.h"

#include <cmath>

#include "kernels/element.h"
#include "kernels/kernel_util.h"

namespace tenon::kernels::loss {
namespace {

bool Differ(const Dim& a, const Dim& b) {
  return a.is_const() && b.is_const() && !(a == b);
}

Status Infer(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const Params p, ParseParams("", args.attrs));
  const DType t = args.in[0].dtype;
  if (t != DType::kUndefined && !IsPlainFloat(t)) return BadInput("input is {}; a float type needed", DTypeName(t));
  const DType index = args.in[1].dtype;
  if (index != DType::kUndefined && index != DType::kI32 && index != DType::kI64) {
    return BadInput("target is {}; int32 or int64 needed", DTypeName(index));
  }
  if (args.Has(2) && args.in[2].dtype != t)
    return BadInput("weight is {} and input {}; equal types needed", DTypeName(args.in[2].dtype), DTypeName(t));
  const SymShape& x = args.in[0].shape;
  const SymShape& target = args.in[1].shape;
  SymShape y = p.reduction == Reduction::kNone ? target : SymShape(Shape());
  if (x.has_rank()) {
    if (x.rank() < 2) return BadInput("input of shape {}; [n, classes, ...] needed", x.ToString());
    std::vector<Dim> want = x.dims();
    want.erase(want.begin() + 1);
    if (target.has_rank()) {
      bool fits = target.rank() == x.rank() - 1;
      for (int i = 0; fits && i < target.rank(); ++i) fits = !Differ(target[i], want[static_cast<size_t>(i)]);
      if (!fits) return BadInput("target of shape {} for input of shape {}", target.ToString(), x.ToString());
    }
    if (args.Has(2) && args.in[2].shape.has_rank()) {
      const SymShape& w = args.in[2].shape;
      if (w.rank() != 1 || Differ(w[0], x[1])) return BadInput("weight of shape {}; [{}] needed", w.ToString(), x[1].ToString());
    }
    if (p.reduction == Reduction::kNone) y = SymShape(std::move(want));
  }
  SetOutput(args, 0, t, std::move(y));
  SetOutput(args, 1, t, x);
  return {};
}

Status Run(const Params& p, const RunArgs& args) {
  const View& x = args.in[0];
  const View& target = args.in[1];
  const View weight = args.Has(2) ? args.in[2] : View{};
  const int64_t classes = x.shape[1];
  const int64_t inner = x.shape.Product(2, x.shape.rank());
  double sum = 0, weights = 0;
  for (int64_t i = 0; i < target.num_elements(); ++i) {
    const int64_t base = i / inner * classes * inner + i % inner;
    double log_sum = 0;
    if (p.softmax) {
      double top = -INFINITY;
      for (int64_t c = 0; c < classes; ++c) top = std::max(top, LoadDouble(x.dtype, x.data, base + c * inner));
      for (int64_t c = 0; c < classes; ++c) log_sum += std::exp(LoadDouble(x.dtype, x.data, base + c * inner) - top);
      log_sum = std::log(log_sum) + top;
      for (int64_t c = 0; Wants(args.out, 1) && c < classes; ++c) {
        StoreDouble(x.dtype, args.out[1].data, base + c * inner, LoadDouble(x.dtype, x.data, base + c * inner) - log_sum);
      }
    }
    const auto t = static_cast<int64_t>(target.dtype == DType::kI32 ? target.Data<int32_t>()[i] : target.Data<int64_t>()[i]);
    double value = 0;
    if (!p.ignore_index || t != *p.ignore_index) {
      if (t < 0 || t >= classes) return BadInput("target {} at element {}; allowed: 0 to {}, or ignore_index", t, i, classes - 1);
      const double w = weight.present() ? LoadDouble(weight.dtype, weight.data, t) : 1;
      value = -w * (LoadDouble(x.dtype, x.data, base + t * inner) - log_sum);
      weights += w;
    }
    sum += value;
    if (p.reduction == Reduction::kNone) StoreDouble(x.dtype, args.out[0].data, i, value);
  }
  if (p.reduction == Reduction::kSum) StoreDouble(x.dtype, args.out[0].data, 0, sum);
  if (p.reduction == Reduction::kMean) StoreDouble(x.dtype, args.out[0].data, 0, sum / weights);
  return {};
}

}  // namespace

Result<Params> ParseParams(std::string_view op, const Attrs& attrs) {
  Params p;
  p.softmax = op == "SoftmaxCrossEntropyLoss";
  const std::string reduction = attrs.String("reduction", "mean");
  if (reduction == "none") {
    p.reduction = Reduction::kNone;
  } else if (reduction == "sum") {
    p.reduction = Reduction::kSum;
  } else if (reduction != "mean") {
    return BadInput("reduction '{}'; allowed: none, sum, mean", reduction);
  }
  if (attrs.Has("ignore_index")) p.ignore_index = attrs.Int("ignore_index", 0);
  return p;
}

std::span<const OpKernels> Operators() {
  static const Row rows[] = {
#define KERNEL(name, needs, can, make) {name, needs, can, make},
#include "kernels/loss/kernels.inc"
#undef KERNEL
  };
  static const OpKernels operators[] = {
      {"NegativeLogLikelihoodLoss", Infer, rows, 2, 3, 1, 1},
      {"SoftmaxCrossEntropyLoss", Infer, rows, 2, 3, 1, 2},
  };
  return operators;
}

}  // namespace tenon::kernels::loss
