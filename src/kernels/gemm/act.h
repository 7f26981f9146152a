// The activations as plain data: light enough for files compiled for an instruction set. Meaning: gemm/activation.h.
#ifndef TENON_KERNELS_GEMM_ACT_H_
#define TENON_KERNELS_GEMM_ACT_H_

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

}  // namespace tenon::kernels::gemm

#endif  // TENON_KERNELS_GEMM_ACT_H_
