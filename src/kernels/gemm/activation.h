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
#include "kernels/gemm/act.h"
#include "tensor/attrs.h"

namespace tenon::kernels::gemm {

/// Parses the attributes above. kBadInput for unknown names, a wrong number of parameters, Clip with min > max.
Result<Activation> ParseActivation(const Attrs& attrs);

/// The attribute value that names `kind`.
std::string_view ActivationName(Act kind);

/// The definition, for references: one element in double.
double Apply(const Activation& activation, double x);

}  // namespace tenon::kernels::gemm

#endif  // TENON_KERNELS_GEMM_ACTIVATION_H_
