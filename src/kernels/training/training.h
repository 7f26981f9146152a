// One step of an optimiser (domain ai.onnx.preview.training): Adagrad, Adam, Momentum.
//
// Inputs: learning rate R, update count T, then k tensors X, their k gradients G, and k of each state (Adagrad: H; Adam: V, H;
// Momentum: V). Outputs: k new X, then k of each new state. Formulas as in ONNX's operator documentation.
#ifndef TENON_KERNELS_TRAINING_TRAINING_H_
#define TENON_KERNELS_TRAINING_TRAINING_H_

#include "kernels/kernel.h"

namespace tenon::kernels::training {

std::span<const OpKernels> Operators();

enum class Method { kAdagrad, kAdam, kMomentum, kNesterov };

struct Params {
  Method method = Method::kAdam;
  int states = 1;  ///< state tensors for each X
  double alpha = 0, beta = 0, epsilon = 0, decay = 0, norm = 0, norm_post = 0;
};
Result<Params> ParseParams(std::string_view op, const Attrs& attrs);

}  // namespace tenon::kernels::training

#endif  // TENON_KERNELS_TRAINING_TRAINING_H_
