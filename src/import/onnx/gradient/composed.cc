// Operators whose derivative is that of the operators that define them.
#include <cmath>
#include <numbers>

#include "import/onnx/gradient/gradient.h"

namespace tenon::import::onnx_format::gradient {

namespace {

Term Mean(Term x, const std::vector<int64_t>& axes) {
  return Call("ReduceMean", {x, {x.b, x.b->Ints(axes)}});
}

// (x - mean) / sqrt(variance + epsilon)
Term Normal(Term x, const std::vector<int64_t>& axes, double epsilon) {
  const Term d = x - Mean(x, axes);
  return d / Call("Sqrt", Mean(d * d, axes) + epsilon);
}

// Axes from attribute `axis` to the last.
Result<std::vector<int64_t>> LastAxes(const Backward& s) {
  int64_t axis = s.attrs().Int("axis", -1);
  if (axis >= 0) {
    const auto rank = s.b->Rank(s.X(0).id);
    if (!rank) return Unsupported("the rank of input 0 must be known");
    axis -= *rank;
  }
  std::vector<int64_t> axes;
  for (int64_t i = std::max<int64_t>(axis, -64); i < 0; ++i) axes.push_back(i);
  return axes;
}

Result<std::vector<int64_t>> SpatialAxes(const Backward& s) {
  const auto rank = s.b->Rank(s.X(0).id);
  if (!rank || *rank < 2) return Unsupported("the rank of input 0 must be known");
  std::vector<int64_t> axes;
  for (int64_t i = 2; i < *rank; ++i) axes.push_back(i);
  return axes;
}

// [c] to [c, 1, ...]
Term Channels(Term v, const std::vector<int64_t>& spatial) {
  std::vector<int64_t> axes;
  for (int64_t i : spatial) axes.push_back(i - 1);
  return axes.empty() ? v : Term{v.b, emit::Unsqueeze(v.b, v.id, std::move(axes))};
}

}  // namespace

Status GeluGradient(Backward* s) {
  const Term x = s->X(0);
  if (s->attrs().String("approximate", "none") == "tanh") {
    const Term inner = (x + x * x * x * 0.044715) * std::sqrt(2 / std::numbers::pi);
    return Through(s, x * (Call("Tanh", inner) + 1) * 0.5);
  }
  return Through(s, x * (Call("Erf", x * std::numbers::sqrt2 * 0.5) + 1) * 0.5);
}

Status HardSwishGradient(Backward* s) {
  Attrs attrs = emit::FloatAttr("alpha", 1.0F / 6);
  attrs.Set("beta", 0.5F);
  return Through(s, s->X(0) * Call("HardSigmoid", {s->X(0)}, std::move(attrs)));
}

Status MishGradient(Backward* s) {
  return Through(s, s->X(0) * Call("Tanh", Call("Softplus", s->X(0))));
}

Status SwishGradient(Backward* s) {
  return Through(s, s->X(0) * Call("Sigmoid", s->X(0) * s->attrs().Float("alpha", 1)));
}

Status GlobalAveragePoolGradient(Backward* s) {
  TENON_ASSIGN_OR_RETURN(const auto axes, SpatialAxes(*s));
  return Through(s, Mean(s->X(0), axes));
}

Status LayerNormalizationGradient(Backward* s) {
  TENON_ASSIGN_OR_RETURN(const auto axes, LastAxes(*s));
  const Term y = Normal(s->X(0), axes, s->attrs().Float("epsilon", 1e-5F)) * s->X(1);
  return Through(s, s->Has(2) ? y + s->X(2) : y);
}

Status RmsNormalizationGradient(Backward* s) {
  TENON_ASSIGN_OR_RETURN(const auto axes, LastAxes(*s));
  const Term x = s->X(0);
  return Through(s, x / Call("Sqrt", Mean(x * x, axes) + s->attrs().Float("epsilon", 1e-5F)) * s->X(1));
}

Status InstanceNormalizationGradient(Backward* s) {
  TENON_ASSIGN_OR_RETURN(const auto axes, SpatialAxes(*s));
  const Term y = Normal(s->X(0), axes, s->attrs().Float("epsilon", 1e-5F));
  return Through(s, y * Channels(s->X(1), axes) + Channels(s->X(2), axes));
}

Status BatchNormalizationGradient(Backward* s) {
  if (s->attrs().Int("training_mode", 0) != 0) return Unsupported("training_mode is not differentiated");
  TENON_ASSIGN_OR_RETURN(const auto axes, SpatialAxes(*s));
  const auto channels = [&](size_t i) { return Channels(s->X(i), axes); };
  const Term deviation = Call("Sqrt", channels(4) + s->attrs().Float("epsilon", 1e-5F));
  return Through(s, (s->X(0) - channels(3)) / deviation * channels(1) + channels(2));
}

}  // namespace tenon::import::onnx_format::gradient
