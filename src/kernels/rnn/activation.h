// Activation functions of recurrent cells, by name, with their alpha and beta.
#ifndef TENON_KERNELS_RNN_ACTIVATION_H_
#define TENON_KERNELS_RNN_ACTIVATION_H_

#include <algorithm>
#include <cmath>

namespace tenon::kernels::rnn {

enum class ActivationKind {
  kRelu,
  kTanh,
  kSigmoid,
  kAffine,
  kLeakyRelu,
  kThresholdedRelu,
  kScaledTanh,
  kHardSigmoid,
  kElu,
  kSoftsign,
  kSoftplus
};

struct Activation {
  ActivationKind kind = ActivationKind::kTanh;
  float alpha = 0;
  float beta = 0;
};

template <typename T>
T Activate(const Activation& a, T x) {
  const T alpha = static_cast<T>(a.alpha);
  const T beta = static_cast<T>(a.beta);
  switch (a.kind) {
    case ActivationKind::kRelu: return x < 0 ? T{0} : x;
    case ActivationKind::kTanh: return std::tanh(x);
    case ActivationKind::kSigmoid: return T{1} / (T{1} + std::exp(-x));
    case ActivationKind::kAffine: return alpha * x + beta;
    case ActivationKind::kLeakyRelu: return x < 0 ? alpha * x : x;
    case ActivationKind::kThresholdedRelu: return x < alpha ? T{0} : x;
    case ActivationKind::kScaledTanh: return alpha * std::tanh(beta * x);
    case ActivationKind::kHardSigmoid: return std::min(std::max(alpha * x + beta, T{0}), T{1});
    case ActivationKind::kElu: return x >= 0 ? x : alpha * std::expm1(x);
    case ActivationKind::kSoftsign: return x / (T{1} + std::abs(x));
    case ActivationKind::kSoftplus: return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
  }
  return x;
}

}  // namespace tenon::kernels::rnn

#endif  // TENON_KERNELS_RNN_ACTIVATION_H_
