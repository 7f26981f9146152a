// ConvInteger and QLinearConv: shape rules and the plain kernel.
#include "kernels/quantize/conv.h"

#include "kernels/kernel_util.h"

namespace tenon::kernels::quantize {
namespace {

bool IsByte(DType t) {
  return t == DType::kU8 || t == DType::kI8;
}

Status Infer(const ShapeArgs& args, const ConvInputs& c, DType out) {
  for (size_t i : {c.x, c.w, c.x_zero, c.w_zero, c.y_zero}) {
    if (args.Has(i) && args.in[i].dtype != DType::kUndefined && !IsByte(args.in[i].dtype)) {
      return BadInput("input {} is {}; int8 or uint8 needed", i, DTypeName(args.in[i].dtype));
    }
  }
  for (auto [i, k] : {std::pair{c.x, c.x_zero}, std::pair{c.w, c.w_zero}}) {
    if (args.Has(k) && args.in[k].dtype != DType::kUndefined && args.in[i].dtype != DType::kUndefined &&
        args.in[k].dtype != args.in[i].dtype) {
      return BadInput("zero point is {} for {}; equal types needed", DTypeName(args.in[k].dtype), DTypeName(args.in[i].dtype));
    }
  }
  ValueInfo operands[3] = {args.in[c.x], args.in[c.w], {}};
  if (c.bias != 0 && args.Has(c.bias)) {
    if (args.in[c.bias].dtype != DType::kUndefined && args.in[c.bias].dtype != DType::kI32) {
      return BadInput("bias is {}; int32 needed", DTypeName(args.in[c.bias].dtype));
    }
    operands[2] = args.in[c.bias];
  }
  for (ValueInfo& v : operands) v.dtype = DType::kF32;
  TENON_RETURN_IF_ERROR(conv::InferConv({args.attrs, operands, args.out}));
  args.out[0].dtype = out;
  return Status::Ok();
}

struct Sum {
  const conv::Geometry& g;
  const View &x, &w;
  int32_t x_zero;

  // One output element; `at` are its spatial coordinates. Padding adds nothing: it stands for x_zero.
  int32_t At(int64_t n, int64_t oc, const int64_t* at, int32_t w_zero) const {
    const int64_t group = oc / g.ocg();
    const int64_t taps = g.taps();
    const int64_t pixels = g.in_pixels();
    uint32_t sum = 0;
    int64_t tap[conv::kMaxSpatial] = {};
    for (int64_t t = 0; t < taps; ++t) {
      int64_t pixel = 0;
      bool inside = true;
      for (int d = 0; d < g.spatial && inside; ++d) {
        const int64_t p = at[d] * g.stride[d] - g.pad[d] + tap[d] * g.dilation[d];
        inside = p >= 0 && p < g.in[d];
        pixel = pixel * g.in[d] + p;
      }
      for (int64_t c = 0; inside && c < g.icg(); ++c) {
        const int32_t vx = LoadInt(x.dtype, x.data, (n * g.c + group * g.icg() + c) * pixels + pixel) - x_zero;
        const int32_t vw = LoadInt(w.dtype, w.data, (oc * g.icg() + c) * taps + t) - w_zero;
        sum += static_cast<uint32_t>(vx * vw);
      }
      for (int d = g.spatial - 1; d >= 0 && ++tap[d] == g.kernel[d]; --d) tap[d] = 0;
    }
    return static_cast<int32_t>(sum);
  }
};

class IntegerConv final : public Kernel {
 public:
  IntegerConv(conv::Params p, ConvInputs c) : p_(std::move(p)), c_(c) {}

  Status Run(const RunArgs& args) const override {
    const View& x = args.in[c_.x];
    const View& w = args.in[c_.w];
    TENON_ASSIGN_OR_RETURN(const conv::Geometry g, conv::Resolve(p_, x.shape, w.shape));
    const auto in = [&](size_t i) { return i != 0 && args.Has(i) ? args.in[i] : View{}; };
    const View x_zero = in(c_.x_zero), w_zero = in(c_.w_zero), w_scale = in(c_.w_scale), bias = in(c_.bias);
    TENON_RETURN_IF_ERROR(CheckPerChannel(x_zero, "x_zero_point", 1));
    TENON_RETURN_IF_ERROR(CheckPerChannel(w_zero, "w_zero_point", g.oc));
    TENON_RETURN_IF_ERROR(CheckPerChannel(w_scale, "w_scale", g.oc));
    for (size_t i : {c_.x_scale, c_.y_scale, c_.y_zero})
      TENON_RETURN_IF_ERROR(CheckPerChannel(in(i), "a scale or zero point", 1));
    const Sum sum{g, x, w, x_zero.present() ? LoadInt(x_zero.dtype, x_zero.data, 0) : 0};
    MutView& y = args.out[0];
    int32_t low = 0, high = 0;
    QuantizedRange(y.dtype, &low, &high);
    const float outer = c_.requantize ? LoadFloat(DType::kF32, in(c_.x_scale).data, 0) : 1;
    int64_t at = 0;
    for (int64_t n = 0; n < g.n; ++n) {
      for (int64_t oc = 0; oc < g.oc; ++oc) {
        const int32_t wz = w_zero.present() ? LoadInt(w_zero.dtype, w_zero.data, ChannelIndex(w_zero, oc)) : 0;
        int64_t where[conv::kMaxSpatial] = {};
        for (int64_t i = 0; i < g.out_pixels(); ++i, ++at) {
          const int32_t total = sum.At(n, oc, where, wz);
          for (int d = g.spatial - 1; d >= 0 && ++where[d] == g.out[d]; --d) where[d] = 0;
          if (!c_.requantize) {
            y.Data<int32_t>()[at] = total;
            continue;
          }
          const float scale = outer * w_scale.Data<float>()[ChannelIndex(w_scale, oc)] / in(c_.y_scale).Data<float>()[0];
          const uint32_t biased =
              static_cast<uint32_t>(total) + static_cast<uint32_t>(bias.present() ? bias.Data<int32_t>()[oc] : 0);
          const int32_t zero = LoadInt(in(c_.y_zero).dtype, in(c_.y_zero).data, 0);
          StoreInt(y.dtype, y.data, at, RoundSaturate(static_cast<float>(static_cast<int32_t>(biased)) * scale, zero, low, high));
        }
      }
    }
    return Status::Ok();
  }

 private:
  conv::Params p_;
  ConvInputs c_;
};

}  // namespace

Status InferConvInteger(const ShapeArgs& args) {
  return Infer(args, ConvInputsOf("ConvInteger"), DType::kI32);
}

Status InferQLinearConv(const ShapeArgs& args) {
  for (size_t i : {1, 4, 6}) {
    if (args.in[i].dtype != DType::kUndefined && args.in[i].dtype != DType::kF32) {
      return BadInput("input {} is {}; a scale is float32", i, DTypeName(args.in[i].dtype));
    }
  }
  return Infer(args, ConvInputsOf("QLinearConv"), args.in[7].dtype);
}

Result<std::unique_ptr<Kernel>> MakeIntegerConv(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(conv::Params p, conv::ParseParams("Conv", problem.attrs));
  return std::unique_ptr<Kernel>(new IntegerConv(std::move(p), ConvInputsOf(problem.op)));
}

}  // namespace tenon::kernels::quantize
