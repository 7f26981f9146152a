// Convolutions over any number of spatial axes (1 to 3 in the fast rows), with groups, strides, dilations and padding.
//
//   Conv                x [n, c, spatial...], w [oc, c/group, kernel...], bias? [oc] -> y [n, oc, out...]
//   ConvTranspose       x [n, c, spatial...], w [c, oc/group, kernel...], bias? [oc] -> y [n, oc, out...]
//   FusedConv           y = act(conv(x, w) + bias + residual); inputs x, w, bias?, residual? (the shape of y)
//   FusedConvTranspose  y = act(conv_transpose(x, w) + bias + residual); the same inputs
//
// Attributes: ONNX's for Conv and ConvTranspose (auto_pad dilations group kernel_shape pads strides; output_padding
// output_shape). The fused operators add those of gemm/activation.h and
//   data_layout   string: "NCHW" (default) or "NHWC": then x, residual and y are channels-last, [n, spatial..., c].
// Types are equal, except beside bf16 weights: then x, bias and residual are each bf16 or f32, an f32 x is rounded to bf16 as it
// is read, and the attribute output_dtype (a DType number, bf16 or f32; absent: the type of x) says what y is.
//
// Weights keep ONNX's layout either way; fast rows pack them in `make`.
#ifndef TENON_KERNELS_CONV_CONV_H_
#define TENON_KERNELS_CONV_CONV_H_

#include "kernels/gemm/activation.h"
#include "kernels/kernel.h"

namespace tenon::kernels::conv {

std::span<const OpKernels> Operators();

enum class AutoPad { kNotSet, kValid, kSameUpper, kSameLower };

/// Parsed attributes. Lists are empty when the attribute is absent; ranks are checked against the operands in Resolve.
struct Params {
  bool transpose = false;
  bool nhwc = false;
  AutoPad auto_pad = AutoPad::kNotSet;
  int64_t group = 1;
  std::vector<int64_t> kernel_shape, strides, dilations, pads, output_padding, output_shape;
  gemm::Activation activation;

  int64_t stride(int i) const { return strides.empty() ? 1 : strides[static_cast<size_t>(i)]; }
  int64_t dilation(int i) const { return dilations.empty() ? 1 : dilations[static_cast<size_t>(i)]; }
};

/// For any of the four operators. kBadInput for values out of range.
Result<Params> ParseParams(std::string_view op, const Attrs& attrs);

/// Most spatial axes that Geometry holds.
inline constexpr int kMaxSpatial = kMaxRank - 2;

/// One convolution with concrete shapes. Spatial arrays have `spatial` entries; for a transposed one `in` is x's and `out` is
/// y's.
struct Geometry {
  int spatial = 0;
  int64_t n = 0, c = 0, oc = 0, group = 1;
  int64_t in[kMaxSpatial], out[kMaxSpatial], kernel[kMaxSpatial], stride[kMaxSpatial], dilation[kMaxSpatial];
  int64_t pad[kMaxSpatial];   ///< before the first element
  Shape y;

  int64_t icg() const { return c / group; }
  int64_t ocg() const { return oc / group; }
  static int64_t Product(const int64_t* v, int count) {
    int64_t p = 1;
    for (int i = 0; i < count; ++i) p *= v[i];
    return p;
  }
  int64_t in_pixels() const { return Product(in, spatial); }
  int64_t out_pixels() const { return Product(out, spatial); }
  int64_t taps() const { return Product(kernel, spatial); }
};

/// kBadInput when operands contradict each other or the attributes.
Result<Geometry> Resolve(const Params& params, const Shape& x, const Shape& w);

/// Bias and residual against the geometry: kBadInput unless they are absent or fit.
Status CheckAddends(const Geometry& geometry, std::span<const View> in);

Status InferConv(const ShapeArgs& args);
Status InferConvTranspose(const ShapeArgs& args);
Status InferFusedConv(const ShapeArgs& args);
Status InferFusedConvTranspose(const ShapeArgs& args);

/// Rank 3 to 5 of the operands, f32: what every fast row asks first.
Refusal CanFast(const Problem& problem);
/// Its part about ranks.
Refusal CheckFastRank(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeAvx512(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeAvx2(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakePortable(const Problem& problem);

/// One channel in and out per group, weights of known shape.
Refusal CanDepthwise(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeDepthwiseAvx512(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeDepthwiseAvx2(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeDepthwisePortable(const Problem& problem);

/// bf16 weights, all else bf16 or f32.
Refusal CanBf16(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeBf16Amx(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeBf16Avx512Bf16(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeBf16Avx512(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeBf16Avx2(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeBf16Portable(const Problem& problem);

/// One channel in and out per group, weights of known shape; for bf16 channels last, and a residual of bf16.
Refusal CanDepthwiseBf16(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeDepthwiseBf16Avx512Bf16(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeDepthwiseBf16Avx512(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeDepthwiseBf16Avx2(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeDepthwiseBf16Portable(const Problem& problem);
/// The part of these about the weights.
Refusal CheckOneEach(const Problem& problem);

/// Constant 3 x 3 windows, stride 1, of a size where it pays.
Refusal CanWinograd(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeWinogradAvx512(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeWinogradAvx2(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeWinogradPortable(const Problem& problem);

Result<std::unique_ptr<Kernel>> MakeTransposedAvx512(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeTransposedAvx2(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeTransposedPortable(const Problem& problem);

Refusal CanReference(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeReference(const Problem& problem);

}  // namespace tenon::kernels::conv

#endif  // TENON_KERNELS_CONV_CONV_H_
