// The activation that fused operators (FusedConv, FusedConvTranspose, FusedMatMul) apply to their result.
//
//   y = post_scale * activation(v) + post_shift
//
// Attributes, all optional:
//   activation         string: "" Relu Clip HardSwish HardSigmoid Sigmoid Silu Gelu GeluTanh LeakyRelu Tanh
//   activation_params  floats: Clip {min, max}; HardSigmoid {alpha = 0.2, beta = 0.5}; LeakyRelu {alpha = 0.01}; else none
//   post_scale, post_shift   float: 1 and 0 (the learnable affine after an activation, as in PP-LCNetV3)
#ifndef TENON_KERNELS_GEMM_ACTIVATION_H_
#define TENON_KERNELS_GEMM_ACTIVATION_H_

#include <string_view>

#include "base/status.h"
#include "tensor/attrs.h"

namespace tenon::kernels::gemm {

enum class Act : int {
  kNone = 0,
  kRelu,
  kClip,
  kHardSwish,    ///< x * max(0, min(1, x/6 + 1/2))
  kHardSigmoid,  ///< max(0, min(1, a*x + b))
  kSigmoid,
  kSilu,         ///< x * sigmoid(x)
  kGelu,         ///< x/2 * (1 + erf(x/sqrt(2)))
  kGeluTanh,     ///< x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
  kLeakyRelu,    ///< x < 0 ? a*x : x
  kTanh,
};

struct Activation {
  Act kind = Act::kNone;
  float a = 0;            ///< first parameter, see the attribute table
  float b = 0;            ///< second parameter
  float post_scale = 1;
  float post_shift = 0;

  bool has_post() const { return post_scale != 1 || post_shift != 0; }
  bool is_identity() const { return kind == Act::kNone && !has_post(); }
};

/// Parses the attributes above. kBadInput for unknown names, a wrong number of parameters, Clip with min > max.
Result<Activation> ParseActivation(const Attrs& attrs);

/// The attribute value that names `kind`.
std::string_view ActivationName(Act kind);

/// The definition, for references: one element in double.
double Apply(const Activation& activation, double x);

}  // namespace tenon::kernels::gemm

#endif  // TENON_KERNELS_GEMM_ACTIVATION_H_
