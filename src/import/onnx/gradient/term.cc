#include "import/onnx/gradient/term.h"

#include "import/onnx/gradient/gradient.h"

namespace tenon::import::onnx_format::gradient {

namespace {

// Axes of `g` along which x of fewer or smaller extents was broadcast; nullopt when that depends on symbols.
std::optional<std::vector<int64_t>> BroadcastAxes(const SymShape& g, const SymShape& x) {
  if (!g.has_rank() || !x.has_rank() || x.rank() > g.rank()) return std::nullopt;
  std::vector<int64_t> axes;
  const int lead = g.rank() - x.rank();
  for (int i = 0; i < g.rank(); ++i) {
    if (i < lead) {
      axes.push_back(i);
    } else if (g[i] == x[i - lead] || (x[i - lead].is_const() && x[i - lead].value() != 1)) {
      continue;
    } else if (x[i - lead].Is(1)) {
      axes.push_back(i);
    } else {
      return std::nullopt;
    }
  }
  return axes;
}

}  // namespace

Term ReshapeLike(Term x, Term like) {
  if (x.b->value(x.id).shape.has_rank() && x.b->value(x.id).shape == x.b->value(like.id).shape) return x;
  return Call("Reshape", {x, ShapeOf(like)}, emit::IntAttr("allowzero", 1));
}

Term ReduceSum(Term x, std::vector<int64_t> axes, bool keepdims) {
  return Call("ReduceSum", {x, {x.b, x.b->Ints(std::move(axes))}}, emit::IntAttr("keepdims", keepdims ? 1 : 0));
}

Term ReduceLike(Term g, Term x) {
  Builder* b = g.b;
  const auto axes = BroadcastAxes(b->value(g.id).shape, b->value(x.id).shape);
  if (axes) return axes->empty() ? g : ReshapeLike(ReduceSum(g, *axes, true), x);
  // Axes are those where the shape of x, ones in front of it, is not that of g.
  const Term shape = ShapeOf(x), full = ShapeOf(g);
  Attrs one;
  one.Set("value", Tensor::FromVector<int64_t>(Shape{1}, {1}));
  const Term lead = Call("ConstantOfShape", {ShapeOf(full) - ShapeOf(shape)}, std::move(one));
  const Term padded = Call("Concat", {lead, shape}, emit::IntAttr("axis", 0));
  const Term differs = Call("Not", Equal(padded, full));
  const Term which = Call("Reshape", {Call("NonZero", differs), {b, b->Ints({-1})}});
  Attrs attrs = emit::IntAttr("keepdims", 1);
  attrs.Set("noop_with_empty_axes", int64_t{1});
  return ReshapeLike(Call("ReduceSum", {g, which}, std::move(attrs)), x);
}

Term ZerosLike(Term x) {
  return Call("Expand", {Scalar(x, 0), ShapeOf(x)});
}

}  // namespace tenon::import::onnx_format::gradient
