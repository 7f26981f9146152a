// Conv and ConvTranspose swallow constant per-channel maps.
//   s*(w*x + b) + t       = (s*w)*x + (s*b + t)                  after the convolution
//   w*(s*x + t) + b       = (w*s)*x + (b + sum w*t)              before it; t != 0 only without padding
#include <algorithm>

#include "passes/affine.h"
#include "passes/pass.h"

namespace tenon::passes {
namespace {

struct ConvWeights {
  bool transpose = false;
  int64_t group = 1, channels = 0, out_channels = 0, taps = 1;  // taps: elements of one kernel
  const float* w = nullptr;
  Shape shape;
  std::vector<double> bias;

  int64_t per_group() const { return transpose ? channels / group : out_channels / group; }
  // Output and input channel of kernel (i, j) of the weight tensor [i][j][taps].
  std::pair<int64_t, int64_t> ChannelsOf(int64_t i, int64_t j) const {
    if (transpose) return {i / per_group() * (out_channels / group) + j, i};
    return {i, i / per_group() * (channels / group) + j};
  }
};

std::optional<ConvWeights> WeightsOf(const Rewriter& r, NodeId id) {
  ConvWeights c;
  const std::string& op = r.node(id).op;
  c.transpose = op == "ConvTranspose";
  if (op != "Conv" && !c.transpose) return std::nullopt;
  c.w = r.ConstFloats(r.In(id, 1));
  if (c.w == nullptr) return std::nullopt;
  c.shape = r.value(r.In(id, 1)).constant.shape();
  c.group = r.node(id).attrs.Int("group", 1);
  if (c.shape.rank() < 3 || c.group < 1) return std::nullopt;
  c.channels = c.transpose ? c.shape[0] : c.shape[1] * c.group;
  c.out_channels = c.transpose ? c.shape[1] * c.group : c.shape[0];
  if (c.channels % c.group != 0 || c.out_channels % c.group != 0 || c.out_channels == 0) return std::nullopt;
  c.taps = c.shape.Product(2, c.shape.rank());
  c.bias.assign(static_cast<size_t>(c.out_channels), 0);
  if (const ValueId bias = r.In(id, 2); bias != kNone) {
    const float* b = r.ConstFloats(bias);
    if (b == nullptr || r.value(bias).constant.shape().num_elements() != c.out_channels) return std::nullopt;
    std::copy(b, b + c.out_channels, c.bias.begin());
  }
  return c;
}

// A convolution like `conv` on `x` with each kernel multiplied by factor(out channel, in channel).
template <typename F>
ValueId ScaledConv(Rewriter& r, NodeId conv, const ConvWeights& c, ValueId x, const std::vector<double>& bias, F&& factor) {
  auto w = Tensor::Allocate(DType::kF32, c.shape);
  auto b = Tensor::Allocate(DType::kF32, {c.out_channels});
  if (!w.ok() || !b.ok()) return kNone;
  float* out = w->MutableData<float>();
  for (int64_t i = 0; i < c.shape[0]; ++i) {
    for (int64_t j = 0; j < c.shape[1]; ++j) {
      const auto [oc, ic] = c.ChannelsOf(i, j);
      const double f = factor(static_cast<size_t>(oc), static_cast<size_t>(ic));
      const int64_t base = (i * c.shape[1] + j) * c.taps;
      for (int64_t k = 0; k < c.taps; ++k) out[base + k] = static_cast<float>(c.w[base + k] * f);
    }
  }
  std::transform(bias.begin(), bias.end(), b->MutableData<float>(), [](double v) { return static_cast<float>(v); });
  const std::string name = r.value(r.In(conv, 1)).name;
  const ValueId weights = r.Constant(name, *w);
  return r.Add(r.node(conv).op, {x, weights, r.Constant(name + "_bias", *b)}, r.node(conv).attrs, conv);
}

bool FoldAfter(Rewriter& r, NodeId id) {
  const ValueId y = r.node(id).op == "BatchNormalization" || !r.IsConst(r.In(id, 0)) ? r.In(id, 0) : r.In(id, 1);
  const NodeId conv = r.Producer(y);
  if (conv == kNone) return false;
  const auto c = WeightsOf(r, conv);
  if (!c) return false;
  const auto a = AffineOf(r, id, c->shape.rank(), 1, c->out_channels);
  if (!a || a->x != y) return false;
  if (!r.OneReader(y)) {
    r.Refuse("the convolution's result is used elsewhere");
    return false;
  }
  std::vector<double> bias(c->bias.size());
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = a->scale[i] * c->bias[i] + a->shift[i];
  const ValueId out = ScaledConv(r, conv, *c, r.In(conv, 0), bias, [&](size_t oc, size_t) { return a->scale[oc]; });
  if (out == kNone) return false;
  r.Replace(r.Out(id), out);
  return true;
}

bool NoPadding(const Rewriter& r, NodeId conv) {
  const Attrs& attrs = r.node(conv).attrs;
  const auto pads = attrs.Ints("pads");
  const std::string auto_pad = attrs.String("auto_pad", "NOTSET");
  return (auto_pad == "NOTSET" || auto_pad == "VALID") && std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; });
}

bool FoldBefore(Rewriter& r, NodeId id) {
  const auto c = WeightsOf(r, id);
  const NodeId map = r.SoleProducer(r.In(id, 0));
  if (!c || map == kNone || !MayBeAffine(r.node(map).op)) return false;
  const auto a = AffineOf(r, map, c->shape.rank(), 1, c->channels);
  if (!a) return false;
  const bool shifts = std::any_of(a->shift.begin(), a->shift.end(), [](double t) { return t != 0; });
  // Padding puts zeros where the map would have put its shift; overlap at borders of a transposed one differs likewise.
  if (shifts && (c->transpose || !NoPadding(r, id))) return false;
  std::vector<double> bias = c->bias;
  for (int64_t i = 0; shifts && i < c->shape[0]; ++i) {
    for (int64_t j = 0; j < c->shape[1]; ++j) {
      const auto [oc, ic] = c->ChannelsOf(i, j);
      const int64_t base = (i * c->shape[1] + j) * c->taps;
      double sum = 0;
      for (int64_t k = 0; k < c->taps; ++k) sum += c->w[base + k];
      bias[static_cast<size_t>(oc)] += sum * a->shift[static_cast<size_t>(ic)];
    }
  }
  const ValueId out = ScaledConv(r, id, *c, a->x, bias, [&](size_t, size_t ic) { return a->scale[ic]; });
  if (out == kNone) return false;
  r.Replace(r.Out(id), out);
  return true;
}

}  // namespace

Status ConvBatchNormFusion(Rewriter& r) {
  return ApplyRules(r, {"BatchNormalization"}, {FoldAfter});
}
Status ConvMulFusion(Rewriter& r) {
  return ApplyRules(r, {"Mul", "Div"}, {FoldAfter});
}
Status ConvAddFusion(Rewriter& r) {
  return ApplyRules(r, {"Add", "Sub"}, {FoldAfter});
}
Status MulConvFusion(Rewriter& r) {
  return ApplyRules(r, {"Conv", "ConvTranspose"}, {FoldBefore});
}

}  // namespace tenon::passes
