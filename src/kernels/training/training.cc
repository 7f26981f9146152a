#include "kernels/training/training.h"

#include <cmath>

#include "kernels/element.h"
#include "kernels/kernel_util.h"

namespace tenon::kernels::training {
namespace {

Status Infer(const ShapeArgs& args, int states) {
  const size_t tensors = args.in.size() - 2;
  const auto per = static_cast<size_t>(2 + states);
  const size_t count = tensors / per;
  if (tensors % per != 0 || count == 0) {
    return BadInput("{} tensors after the learning rate and the count; a multiple of {} needed", tensors, per);
  }
  if (args.out.size() > count * (per - 1)) return BadInput("{} outputs; at most {} given", args.out.size(), count * (per - 1));
  for (size_t i = 0; i < 2; ++i) {
    const SymShape& s = args.in[i].shape;
    if (s.has_rank() && s.is_const() && !s.NumElements().Is(1))
      return BadInput("input {} has shape {}; a scalar needed", i, s.ToString());
  }
  for (size_t i = 2; i < args.in.size(); ++i) {
    const ValueInfo& v = args.in[i];
    const ValueInfo& x = args.in[2 + (i - 2) % count];
    if (!v.present) return BadInput("input {} is absent", i);
    if (v.dtype != DType::kUndefined && v.dtype != DType::kF32 && v.dtype != DType::kF64) {
      return BadInput("input {} is {}; float32 or float64 needed", i, DTypeName(v.dtype));
    }
    const auto a = v.shape.has_rank() ? v.shape.ToShape() : std::nullopt;
    const auto b = x.shape.has_rank() ? x.shape.ToShape() : std::nullopt;
    if (v.dtype != x.dtype || (a && b && !(*a == *b))) {
      return BadInput("input {} is {} {}; {} {} needed, as its parameter", i, DTypeName(v.dtype), v.shape.ToString(),
                      DTypeName(x.dtype), x.shape.ToString());
    }
  }
  for (size_t i = 0; i < args.out.size(); ++i) SetOutput(args, i, args.in[2 + i % count].dtype, args.in[2 + i % count].shape);
  return {};
}

Status InferOneState(const ShapeArgs& args) {
  return Infer(args, 1);
}
Status InferTwoStates(const ShapeArgs& args) {
  return Infer(args, 2);
}

// New values of one element: x and its states s[0], s[1]; `rate` is already adjusted.
void Update(const Params& p, double rate, double t, double g, double* x, double* s) {
  g += p.norm * *x;
  switch (p.method) {
    case Method::kAdagrad:
      s[0] += g * g;
      *x -= rate * g / (std::sqrt(s[0]) + p.epsilon);
      return;
    case Method::kAdam:
      s[0] = p.alpha * s[0] + (1 - p.alpha) * g;
      s[1] = p.beta * s[1] + (1 - p.beta) * g * g;
      *x = (1 - p.norm_post) * (*x - rate * s[0] / (std::sqrt(s[1]) + p.epsilon));
      return;
    case Method::kMomentum:
    case Method::kNesterov:
      s[0] = p.alpha * s[0] + (t > 0 ? p.beta : 1) * g;
      *x -= rate * (p.method == Method::kNesterov ? g + p.alpha * s[0] : s[0]);
      return;
  }
}

Status Run(const Params& p, const RunArgs& args) {
  const size_t count = (args.in.size() - 2) / static_cast<size_t>(2 + p.states);
  const double t = LoadDouble(args.in[1].dtype, args.in[1].data, 0);
  double rate = LoadDouble(args.in[0].dtype, args.in[0].data, 0);
  if (p.method == Method::kAdagrad) rate /= 1 + t * p.decay;
  if (p.method == Method::kAdam && t > 0) rate *= std::sqrt(1 - std::pow(p.beta, t)) / (1 - std::pow(p.alpha, t));
  for (size_t k = 0; k < count; ++k) {
    const View& x = args.in[2 + k];
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      double value = LoadDouble(x.dtype, x.data, i);
      double state[2] = {0, 0};
      for (int s = 0; s < p.states; ++s) {
        const View& v = args.in[2 + k + static_cast<size_t>(2 + s) * count];
        state[s] = LoadDouble(v.dtype, v.data, i);
      }
      Update(p, rate, t, LoadDouble(x.dtype, args.in[2 + k + count].data, i), &value, state);
      if (Wants(args.out, k)) StoreDouble(x.dtype, args.out[k].data, i, value);
      for (int s = 0; s < p.states; ++s) {
        const size_t o = k + static_cast<size_t>(1 + s) * count;
        if (Wants(args.out, o)) StoreDouble(x.dtype, args.out[o].data, i, state[s]);
      }
    }
  }
  return {};
}

}  // namespace

Result<Params> ParseParams(std::string_view op, const Attrs& attrs) {
  Params p;
  p.norm = attrs.Float("norm_coefficient", 0);
  p.epsilon = attrs.Float("epsilon", 1e-6f);
  if (op.ends_with("Adagrad")) {
    p.method = Method::kAdagrad;
    p.decay = attrs.Float("decay_factor", 0);
  } else if (op.ends_with("Adam")) {
    p.states = 2;
    p.alpha = attrs.Float("alpha", 0.9f);
    p.beta = attrs.Float("beta", 0.999f);
    p.norm_post = attrs.Float("norm_coefficient_post", 0);
  } else {
    const std::string mode = attrs.String("mode", "standard");
    if (mode != "standard" && mode != "nesterov") return BadInput("mode '{}'; allowed: standard, nesterov", mode);
    p.method = mode == "nesterov" ? Method::kNesterov : Method::kMomentum;
    p.alpha = attrs.Float("alpha", 0);
    p.beta = attrs.Float("beta", 1);
  }
  return p;
}

std::span<const OpKernels> Operators() {
  static const Row rows[] = {
#define KERNEL(name, needs, can, make) {name, needs, can, make},
#include "kernels/training/kernels.inc"
#undef KERNEL
  };
  static const OpKernels operators[] = {
      {"ai.onnx.preview.training.Adagrad", InferOneState, rows, 5, kVariadic, 1, kVariadic},
      {"ai.onnx.preview.training.Adam", InferTwoStates, rows, 6, kVariadic, 1, kVariadic},
      {"ai.onnx.preview.training.Momentum", InferOneState, rows, 5, kVariadic, 1, kVariadic},
  };
  return operators;
}

}  // namespace tenon::kernels::training
