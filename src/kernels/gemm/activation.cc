#include "kernels/gemm/activation.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace tenon::kernels::gemm {
namespace {

struct Entry {
  std::string_view name;
  Act kind;
  size_t max_params;
  float a, b;  // defaults
};

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr Entry kEntries[] = {
    {"", Act::kNone, 0, 0, 0},
    {"Relu", Act::kRelu, 0, 0, 0},
    {"Clip", Act::kClip, 2, -kInf, kInf},
    {"HardSwish", Act::kHardSwish, 0, 0, 0},
    {"HardSigmoid", Act::kHardSigmoid, 2, 0.2F, 0.5F},
    {"Sigmoid", Act::kSigmoid, 0, 0, 0},
    {"Silu", Act::kSilu, 0, 0, 0},
    {"Gelu", Act::kGelu, 0, 0, 0},
    {"GeluTanh", Act::kGeluTanh, 0, 0, 0},
    {"LeakyRelu", Act::kLeakyRelu, 1, 0.01F, 0},
    {"Tanh", Act::kTanh, 0, 0, 0},
};

double Core(const Activation& f, double x) {
  switch (f.kind) {
    case Act::kNone: return x;
    case Act::kRelu: return x < 0 ? 0 : x;
    case Act::kClip: return x < f.a ? f.a : (x > f.b ? f.b : x);
    case Act::kHardSwish: return x * std::fmax(0.0, std::fmin(1.0, x / 6 + 0.5));
    case Act::kHardSigmoid: {
      const double v = f.a * x + f.b;
      return v < 0 ? 0 : (v > 1 ? 1 : v);
    }
    case Act::kSigmoid: return 1 / (1 + std::exp(-x));
    case Act::kSilu: return x / (1 + std::exp(-x));
    case Act::kGelu: return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
    case Act::kGeluTanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Act::kLeakyRelu: return x < 0 ? f.a * x : x;
    case Act::kTanh: return std::tanh(x);
  }
  return x;
}

}  // namespace

Result<Activation> ParseActivation(const Attrs& attrs) {
  const std::string name = attrs.String("activation", "");
  const std::vector<float> params = attrs.Floats("activation_params");
  Activation f;
  f.post_scale = attrs.Float("post_scale", 1);
  f.post_shift = attrs.Float("post_shift", 0);
  for (const Entry& e : kEntries) {
    if (e.name != name) continue;
    if (params.size() > e.max_params) {
      return BadInput("{} values in activation_params; activation '{}'; at most {} allowed", params.size(), name, e.max_params);
    }
    f.kind = e.kind;
    f.a = !params.empty() ? params[0] : e.a;
    f.b = params.size() > 1 ? params[1] : e.b;
    if (f.kind == Act::kClip && !(f.a <= f.b)) return BadInput("activation Clip with min {} > max {}", f.a, f.b);
    return f;
  }
  return BadInput(
      "unknown activation '{}'; allowed: Relu, Clip, HardSwish, HardSigmoid, Sigmoid, Silu, Gelu, GeluTanh, "
      "LeakyRelu, Tanh",
      name);
}

std::string_view ActivationName(Act kind) {
  for (const Entry& e : kEntries) {
    if (e.kind == kind) return e.name;
  }
  return "";
}

double Apply(const Activation& activation, double x) {
  return activation.post_scale * Core(activation, x) + activation.post_shift;
}

}  // namespace tenon::kernels::gemm
