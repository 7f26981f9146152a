#include "kernels/quantize/terms.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/quantize/int8.h"
#include "kernels/quantize/simd.h"

namespace tenon::kernels::quantize {
namespace {

int64_t Aligned(int64_t n) {
  return (n + 15) / 16 * 16;
}

gemm::Int8Kind KindOf(DType t) {
  switch (t) {
    case DType::kBF16: return gemm::Int8Kind::kBF16;
    case DType::kU8: return gemm::Int8Kind::kU8;
    case DType::kI8: return gemm::Int8Kind::kI8;
    case DType::kI32: return gemm::Int8Kind::kI32;
    default: return gemm::Int8Kind::kF32;
  }
}

Status CheckCount(const View& v, const char* what, int64_t channels) {
  if (!v.present() || v.num_elements() == 1 || v.num_elements() == channels) return Status::Ok();
  return BadInput("{} of shape {}; 1 or {} elements needed", what, v.shape.ToString(), channels);
}

// By how much a clamp is divided when results are counted in steps of y.
gemm::Activation InSteps(gemm::Activation f, float step) {
  if (f.kind == gemm::Act::kClip) {
    f.a /= step;
    f.b /= step;
  }
  return f;
}

}  // namespace

LinearInputs LinearInputsOf(std::string_view op) {
  if (op == "MatMulInteger" || op == "ConvInteger") return {false, 1, 2, 3, 0, 0, 0, 0, 0};
  return {true, 3, 2, 5, 1, 4, 6, 7, op == "QLinearConv" ? size_t{8} : size_t{0}};
}

Result<Terms> TermsOf(const LinearInputs& in, const RunArgs& args, int64_t channels) {
  const auto get = [&](size_t i) { return i != 0 && args.Has(i) ? args.in[i] : View{}; };
  Terms t;
  const View x_zero = get(in.x_zero), x_scale = get(in.x_scale), y_scale = get(in.y_scale), y_zero = get(in.y_zero);
  for (const View* v : {&x_scale, &y_scale, &y_zero}) {
    TENON_RETURN_IF_ERROR(CheckCount(*v, "a scale or zero point of the input or the result", 1));
  }
  t.w_scale = get(in.w_scale);
  t.w_zero = get(in.w_zero);
  t.bias = get(in.bias);
  t.w_type = args.in[in.w].dtype;
  TENON_RETURN_IF_ERROR(CheckCount(t.w_scale, "scale of the weights", channels));
  TENON_RETURN_IF_ERROR(CheckCount(t.w_zero, "zero point of the weights", channels));
  t.x.type = args.in[0].dtype;
  if (x_zero.present() && x_zero.num_elements() == 1) t.x.zero = LoadInt(x_zero.dtype, x_zero.data, 0);
  if (x_scale.present()) t.x.scale = LoadFloat(x_scale.dtype, x_scale.data, 0);
  t.output = args.out[0].dtype;
  if (in.requantize) {
    t.y = {t.output, LoadFloat(y_scale.dtype, y_scale.data, 0), y_zero.present() ? LoadInt(y_zero.dtype, y_zero.data, 0) : 0};
  }
  return t;
}

Result<Terms> TermsOf(const FusedParams& p, const RunArgs& args, int64_t channels) {
  const auto get = [&](size_t i) { return args.Has(i) ? args.in[i] : View{}; };
  Terms t;
  t.x = p.x;
  if (args.in[kFusedX].dtype != DType::kF32) t.x.type = args.in[kFusedX].dtype;
  const View x_scale = get(kFusedXScale), x_zero = get(kFusedXZero);
  TENON_RETURN_IF_ERROR(CheckCount(x_scale, "scale of input 0", 1));
  TENON_RETURN_IF_ERROR(CheckCount(x_zero, "zero point of input 0", 1));
  if (x_scale.present()) t.x.scale = *x_scale.Data<float>();
  if (x_zero.present()) t.x.zero = LoadInt(x_zero.dtype, x_zero.data, 0);
  t.w_scale = get(kFusedScale);
  t.w_zero = get(kFusedZero);
  t.bias = get(kFusedBias);
  t.w_type = args.in[kFusedW].dtype;
  TENON_RETURN_IF_ERROR(CheckCount(t.w_scale, "scale of the weights", channels));
  TENON_RETURN_IF_ERROR(CheckCount(t.w_zero, "zero point of the weights", channels));
  if (t.bias.present() && t.bias.num_elements() != channels) {
    return BadInput("bias of shape {}; [{}] is needed", t.bias.shape.ToString(), channels);
  }
  t.output = p.output;
  t.y = p.y;
  t.grid = p.grid;
  t.residual = p.residual;
  t.residual_view = get(kFusedResidual);
  t.residual_is_row = t.residual_view.present() && t.residual_view.shape.rank() == 1 && t.residual_view.shape[0] == channels;
  if (t.residual_view.present() && !t.residual_is_row && !(t.residual_view.shape == args.out[0].shape)) {
    return BadInput("residual of shape {}; the result's shape {} is needed", t.residual_view.shape.ToString(),
                    args.out[0].shape.ToString());
  }
  t.activation = p.activation;
  return t;
}

size_t ColumnBytes(int64_t channels) {
  return static_cast<size_t>(4 * Aligned(channels)) * 4;
}

Status CheckConvTerms(const Terms& t, bool fused, const LinearInputs& in, const RunArgs& args, int64_t channels) {
  if (!fused && args.Has(in.x_zero) && args.in[in.x_zero].num_elements() != 1) {
    return BadInput("x_zero_point of shape {}; 1 element needed", args.in[in.x_zero].shape.ToString());
  }
  if (t.bias.present() && t.bias.num_elements() != channels) {
    return BadInput("bias of shape {}; [{}] is needed", t.bias.shape.ToString(), channels);
  }
  return Status::Ok();
}

namespace {

// to[c] = factor * scales[c] / step, one scale or one a channel; 1 where there are none.
void BindScales(const View& scales, float factor, float step, int64_t channels, float* to) {
  const bool one = !scales.present() || scales.num_elements() == 1;
  if (one) {
    std::fill(to, to + channels, factor * (scales.present() ? LoadFloat(scales.dtype, scales.data, 0) : 1.0F) / step);
  } else if (scales.dtype == DType::kF32) {
    const float* from = scales.Data<float>();
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) to[c] = factor * from[c] / step;
  } else {
    for (int64_t c = 0; c < channels; ++c) to[c] = factor * LoadFloat(scales.dtype, scales.data, c) / step;
  }
}

// Whether any zero point of the weights, less `shift`, is not 0.
bool BindZeros(const View& zeros, int32_t shift, int64_t channels, int32_t* to) {
  const bool one = !zeros.present() || zeros.num_elements() == 1;
  bool any = false;
  for (int64_t c = 0; c < channels; ++c) {
    to[c] = one && c > 0 ? to[0] : (zeros.present() ? LoadInt(zeros.dtype, zeros.data, c) : 0) - shift;
    any = any || to[c] != 0;
  }
  return any;
}

// Infinities and NaN times 0 are NaN.
bool AllFinite(const float* v, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += v[i] * 0.0F;
  return sum == 0;
}

}  // namespace

void Bind(const Terms& t, bool flips_signed, std::span<const int32_t> sums, int64_t count, void* y, const void* residual,
          std::byte* scratch, gemm::Int8Operands* o) {
  const auto channels = static_cast<int64_t>(sums.size());
  auto* offset = reinterpret_cast<int32_t*>(scratch);
  int32_t* b_zero = offset + Aligned(channels);
  auto* scale = reinterpret_cast<float*>(b_zero + Aligned(channels));
  float* bias = scale + Aligned(channels);
  const bool bytes = t.output == DType::kU8 || t.output == DType::kI8;
  const gemm::Clamp clamp(t.activation);
  // Bytes after no more than a clamp are counted in their own steps from the start, the value before the grid in those of the
  // grid.
  const bool in_steps = bytes && !clamp.needs_rest;
  const float step = in_steps ? t.y.scale : 1.0F;
  const bool through_grid = t.grid.type != DType::kUndefined;
  const float first_step = through_grid ? t.grid.scale : step;
  const auto x_zero = static_cast<uint32_t>(t.x.zero + (t.x.type == DType::kI8 && flips_signed ? 128 : 0));
  const auto terms = static_cast<uint32_t>(count);
  const int32_t w_shift = t.w_type == DType::kU8 ? 128 : 0;
  const bool bias_int = t.bias.present() && t.bias.dtype == DType::kI32;
  const bool zeros = BindZeros(t.w_zero, w_shift, channels, b_zero);
  for (int64_t c = 0; c < channels; ++c) {
    offset[c] = static_cast<int32_t>(terms * x_zero * static_cast<uint32_t>(b_zero[c]) -
                                     x_zero * static_cast<uint32_t>(sums[static_cast<size_t>(c)]));
  }
  if (bias_int) {
    const int32_t* from = t.bias.Data<int32_t>();
    for (int64_t c = 0; c < channels; ++c) {
      offset[c] = static_cast<int32_t>(static_cast<uint32_t>(offset[c]) + static_cast<uint32_t>(from[c]));
    }
  }
  BindScales(t.w_scale, t.x.scale, first_step, channels, scale);
  bool finite = AllFinite(scale, channels);
  if (t.bias.present() && !bias_int) {
    BindScales(t.bias, 1.0F, first_step, channels, bias);
    finite = finite && AllFinite(bias, channels);
  }
  if (t.residual_is_row && t.residual_view.dtype == DType::kF32) {
    finite = finite && AllFinite(t.residual_view.Data<float>(), channels);
  }
  gemm::Int8Finish& f = o->finish;
  f.offset = offset;
  f.b_zero = zeros ? b_zero : nullptr;
  f.scale = scale;
  f.bias = t.bias.present() && !bias_int ? bias : nullptr;
  f.through_grid = through_grid;
  if (through_grid) {
    int32_t low = 0, high = 0;
    QuantizedRange(t.grid.type, &low, &high);
    f.grid_scale = t.grid.scale / step;
    f.grid_low = static_cast<float>(low - t.grid.zero);
    f.grid_high = static_cast<float>(high - t.grid.zero);
  }
  f.residual = residual;
  f.residual_kind = KindOf(t.residual_view.dtype);
  f.residual_stride = t.residual_is_row ? 0 : channels;
  const bool residual_bytes = f.residual_kind == gemm::Int8Kind::kU8 || f.residual_kind == gemm::Int8Kind::kI8;
  f.residual_scale = (residual_bytes ? t.residual.scale : 1.0F) / step;
  f.residual_shift = residual_bytes ? -static_cast<float>(t.residual.zero) * f.residual_scale : 0.0F;
  f.y = y;
  f.kind = KindOf(t.output);
  f.y_stride = channels;
  f.y_inverse = in_steps ? 1.0F : 1.0F / t.y.scale;
  f.y_zero = t.y.zero;
  f.finite = finite;
  o->activation = InSteps(t.activation, step);
  o->a_signed = t.x.type == DType::kI8;
}

void QuantizeRow(const void* from, DType type, const Grid& grid, int64_t n, hw::IsaMask isa, uint8_t* to) {
  if (type != DType::kF32) {
    std::memcpy(to, from, static_cast<size_t>(n));
    return;
  }
  const auto* x = static_cast<const float*>(from);
  const bool is_signed = grid.type == DType::kI8;
#if defined(__x86_64__)
  constexpr hw::IsaMask kVnni = hw::kAvx2 | hw::kAvx512 | hw::kAvx512Vnni;
  if (hw::Covers(isa, kVnni)) return kSimdAvx512Vnni.quantize(x, n, grid.scale, grid.zero, is_signed, to);
  if (hw::Covers(isa, hw::kAvx2)) return kSimdAvx2.quantize(x, n, grid.scale, grid.zero, is_signed, to);
#endif
  (void)isa;
  int32_t low = 0, high = 0;
  QuantizedRange(grid.type, &low, &high);
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<uint8_t>(RoundSaturate(x[i] / grid.scale, grid.zero, low, high));
}

void MinMaxOf(const float* x, int64_t n, hw::IsaMask isa, float* low, float* high) {
#if defined(__x86_64__)
  constexpr hw::IsaMask kVnni = hw::kAvx2 | hw::kAvx512 | hw::kAvx512Vnni;
  if (hw::Covers(isa, kVnni)) return kSimdAvx512Vnni.min_max(x, n, low, high);
  if (hw::Covers(isa, hw::kAvx2)) return kSimdAvx2.min_max(x, n, low, high);
#endif
  (void)isa;
  *low = *high = 0;
  for (int64_t i = 0; i < n; ++i) {
    *low = x[i] < *low ? x[i] : *low;
    *high = x[i] > *high ? x[i] : *high;
  }
}

}  // namespace tenon::kernels::quantize
