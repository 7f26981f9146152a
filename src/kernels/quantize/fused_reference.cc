// The oracle of QuantizedConv and QuantizedMatMul: exact sums by the reference product in double, then the definition, term by
// term.
#include <cmath>

#include "base/half.h"
#include "kernels/kernel_util.h"
#include "kernels/quantize/fused.h"

namespace tenon::kernels::quantize {
namespace {

// Elements less their zero points, in double. Weights have their output channel on axis `axis`.
Result<Tensor> Centred(const View& v, const std::vector<int32_t>& zeros, int axis) {
  TENON_ASSIGN_OR_RETURN(Tensor t, Tensor::Allocate(DType::kF64, v.shape));
  const int64_t inner = v.shape.Product(axis + 1, v.shape.rank());
  const int64_t extent = v.shape.rank() == 0 ? 1 : v.shape[axis];
  for (int64_t i = 0; i < v.num_elements(); ++i) {
    const auto channel = static_cast<size_t>(zeros.size() == 1 ? 0 : i / inner % extent);
    t.MutableData<double>()[i] = LoadInt(v.dtype, v.data, i) - zeros[channel];
  }
  return t;
}

int32_t ToGrid(float v, const Grid& g) {
  int32_t low = 0, high = 0;
  QuantizedRange(g.type, &low, &high);
  return RoundSaturate(v / g.scale, g.zero, low, high);
}

float OnGrid(int32_t q, const Grid& g) {
  return static_cast<float>(q - g.zero) * g.scale;
}

// x as integers less their zero point, and the quantisation it has.
Result<Tensor> Operand(const RunArgs& args, const FusedParams& p, Grid* grid) {
  const View& x = args.in[kFusedX];
  *grid = p.x;
  if (args.Has(kFusedXScale)) grid->scale = *args.in[kFusedXScale].Data<float>();
  if (args.Has(kFusedXZero)) grid->zero = LoadInt(args.in[kFusedXZero].dtype, args.in[kFusedXZero].data, 0);
  if (x.dtype != DType::kF32) return Centred(x, {grid->zero}, 0);
  const float* from = x.Data<float>();
  if (p.dynamic) {
    float low = 0, high = 0;
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      low = from[i] < low ? from[i] : low;
      high = from[i] > high ? from[i] : high;
    }
    const float scale = (high == low ? 1.0F : high - low) / 255.0F;
    *grid = {DType::kU8, scale, RoundSaturate(-low / scale, 0, 0, 255)};
  }
  TENON_ASSIGN_OR_RETURN(Tensor t, Tensor::Allocate(DType::kF64, x.shape));
  for (int64_t i = 0; i < x.num_elements(); ++i) t.MutableData<double>()[i] = ToGrid(from[i], *grid) - grid->zero;
  return t;
}

class FusedReference final : public Kernel {
 public:
  FusedReference(bool conv, FusedParams p, Attrs attrs) : conv_(conv), p_(p), attrs_(std::move(attrs)) {}

  Status Run(const RunArgs& args) const override {
    const View& w = args.in[kFusedW];
    const View& y_shape = static_cast<const View&>(args.out[0]);
    const bool nhwc = conv_ && attrs_.String("data_layout", "NCHW") == "NHWC";
    const int channel_axis = conv_ && !nhwc ? 1 : y_shape.shape.rank() - 1;
    const int64_t channels = y_shape.shape[channel_axis];
    const int64_t inner = y_shape.shape.Product(channel_axis + 1, y_shape.shape.rank());
    std::vector<int32_t> zeros{0};
    if (args.Has(kFusedZero)) {
      zeros.clear();
      for (int64_t i = 0; i < args.in[kFusedZero].num_elements(); ++i) {
        zeros.push_back(LoadInt(args.in[kFusedZero].dtype, args.in[kFusedZero].data, i));
      }
    }
    const int w_axis = conv_ ? 0 : w.shape.rank() - (p_.trans_b ? 2 : 1);
    Grid grid;
    TENON_ASSIGN_OR_RETURN(const Tensor x, Operand(args, p_, &grid));
    TENON_ASSIGN_OR_RETURN(const Tensor weights, Centred(w, zeros, w_axis));
    const View operands[] = {x.view(), weights.view()};
    TENON_ASSIGN_OR_RETURN(const auto sums, Evaluate(conv_ ? "FusedConv" : "FusedMatMul", attrs_, operands, 1, hw::kBaseline,
                                                     args.team, "reference"));
    if (!(sums[0].shape() == y_shape.shape)) return Internal("sums of shape {}", sums[0].shape().ToString());
    for (int64_t i = 0; i < sums[0].shape().num_elements(); ++i) {
      Finish(args, grid, i, i / inner % channels, sums[0].Data<double>()[i]);
    }
    return Status::Ok();
  }

 private:
  void Finish(const RunArgs& args, const Grid& x, int64_t i, int64_t channel, double sum) const {
    const View scale = args.in[kFusedScale];
    const View bias = args.Has(kFusedBias) ? args.in[kFusedBias] : View{};
    auto total = static_cast<uint32_t>(static_cast<int64_t>(sum));
    if (bias.present() && bias.dtype == DType::kI32) total += static_cast<uint32_t>(bias.Data<int32_t>()[channel]);
    const float by = x.scale * scale.Data<float>()[scale.num_elements() == 1 ? 0 : channel];
    const float add = bias.present() && bias.dtype == DType::kF32 ? bias.Data<float>()[channel] : 0.0F;
    float v = std::fma(static_cast<float>(static_cast<int32_t>(total)), by, add);
    if (p_.grid.type != DType::kUndefined) v = OnGrid(ToGrid(v, p_.grid), p_.grid);
    if (args.Has(kFusedResidual)) {
      const View& r = args.in[kFusedResidual];
      const Grid& g = p_.residual;
      const int64_t at = r.shape.rank() == 1 && args.out[0].shape.rank() != 1 ? channel : i;
      v += r.dtype == DType::kF32 || r.dtype == DType::kBF16 ? LoadFloat(r.dtype, r.data, at)
                                                             : OnGrid(LoadInt(r.dtype, r.data, at), g);
    }
    if (!p_.activation.is_identity()) v = static_cast<float>(gemm::Apply(p_.activation, v));
    MutView& y = args.out[0];
    if (p_.y.type == DType::kUndefined)
      StoreFloat(y.dtype, y.data, i, v);
    else
      StoreInt(y.dtype, y.data, i, ToGrid(v, p_.y));
  }

  bool conv_;
  FusedParams p_;
  Attrs attrs_;   // of the plain product
};

}  // namespace

Result<std::unique_ptr<Kernel>> MakeFusedReference(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(FusedParams p, ParseFused(problem.attrs));
  Attrs plain;
  for (const char* name : {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides", "data_layout", "transB"}) {
    if (const AttrValue* v = problem.attrs.Find(name)) plain.Set(name, *v);
  }
  return std::unique_ptr<Kernel>(new FusedReference(problem.op == "QuantizedConv", p, std::move(plain)));
}

}  // namespace tenon::kernels::quantize
