// Matrix products and convolution.
#include <numeric>

#include "import/onnx/gradient/gradient.h"

namespace tenon::import::onnx_format::gradient {

namespace {

Result<int> Rank(const Backward& s, size_t i) {
  const auto rank = s.b->Rank(s.X(i).id);
  if (!rank) return Unsupported("the rank of input {} must be known", i);
  return *rank;
}

Term Unsqueeze(Term x, int64_t axis) {
  return {x.b, emit::Unsqueeze(x.b, x.id, {axis})};
}

// The last two axes exchanged.
Term Turn(Term x, int rank) {
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return {x.b, emit::Transpose(x.b, x.id, std::move(perm))};
}

Term MatMul(Term a, Term b) {
  return Call("MatMul", {a, b});
}

}  // namespace

// dA = g B^T, dB = A^T g; a vector is a matrix of one row (A) or one column (B)
Status MatMulGradient(Backward* s) {
  TENON_ASSIGN_OR_RETURN(const int ra, Rank(*s, 0));
  TENON_ASSIGN_OR_RETURN(const int rb, Rank(*s, 1));
  Term a = s->X(0), b = s->X(1), g = s->G();
  if (rb == 1) b = Unsqueeze(b, 1), g = Unsqueeze(g, -1);
  if (ra == 1) a = Unsqueeze(a, 0), g = Unsqueeze(g, -2);
  if (s->Wants(0)) s->Set(0, ReshapeLike(ReduceLike(MatMul(g, Turn(b, std::max(rb, 2))), a), s->X(0)));
  if (s->Wants(1)) s->Set(1, ReshapeLike(ReduceLike(MatMul(Turn(a, std::max(ra, 2)), g), b), s->X(1)));
  return Status::Ok();
}

// y = alpha A' B' + beta C, with A' and B' turned or not
Status GemmGradient(Backward* s) {
  const bool ta = s->attrs().Int("transA", 0) != 0, tb = s->attrs().Int("transB", 0) != 0;
  const Term g = s->G() * s->attrs().Float("alpha", 1), a = s->X(0), b = s->X(1);
  const auto product = [&](Term x, bool tx, Term y, bool ty) {
    Attrs attrs = emit::IntAttr("transA", tx ? 1 : 0);
    attrs.Set("transB", int64_t{ty ? 1 : 0});
    return Call("Gemm", {x, y}, std::move(attrs));
  };
  if (s->Wants(0)) s->Set(0, ta ? product(b, tb, g, true) : product(g, false, b, !tb));
  if (s->Wants(1)) s->Set(1, tb ? product(g, true, a, ta) : product(a, !ta, g, false));
  if (s->Wants(2)) s->SetReduced(2, s->G() * s->attrs().Float("beta", 1));
  return Status::Ok();
}

namespace {

struct ConvForm {
  int64_t spatial = 0, group = 1;
  std::vector<int64_t> strides, dilations, pads;
};

Result<ConvForm> ReadConv(const Backward& s) {
  ConvForm f;
  TENON_ASSIGN_OR_RETURN(const int rank, Rank(s, 1));
  if (rank < 3) return Unsupported("its weights have rank {}", rank);
  f.spatial = rank - 2;
  const auto n = static_cast<size_t>(f.spatial);
  const std::string pad = s.attrs().String("auto_pad", "NOTSET");
  if (pad != "NOTSET" && pad != "VALID") return Unsupported("auto_pad {} has no rule; NOTSET and VALID have", pad);
  f.group = s.attrs().Int("group", 1);
  f.strides = s.attrs().Ints("strides", std::vector<int64_t>(n, 1));
  f.dilations = s.attrs().Ints("dilations", std::vector<int64_t>(n, 1));
  f.pads = pad == "VALID" ? std::vector<int64_t>(2 * n, 0) : s.attrs().Ints("pads", std::vector<int64_t>(2 * n, 0));
  if (f.strides.size() != n || f.dilations.size() != n || f.pads.size() != 2 * n)
    return BadInput("its attributes do not fit its weights");
  return f;
}

Term Spatial(Term x) {
  return Call("Shape", {x}, emit::IntAttr("start", 2));
}

// The transposed convolution, then cut or filled to the extents of X: rows that the stride never reached get zeros.
Term ConvInput(Backward* s, const ConvForm& f) {
  Builder* b = s->b;
  const auto n = static_cast<size_t>(f.spatial);
  Attrs attrs = emit::IntAttr("group", f.group);
  attrs.Set("strides", f.strides), attrs.Set("dilations", f.dilations);
  const Term full = Call("ConvTranspose", {s->G(), s->X(1)}, std::move(attrs));
  std::vector<int64_t> begins(n);
  for (size_t i = 0; i < n; ++i) begins[i] = -f.pads[i];
  const Term before{b, b->Ints(begins)};
  const Term after = Spatial(s->X(0)) - Spatial(full) - before;
  const Term none{b, b->Ints({0, 0})};
  const Term pads = Call("Concat", {none, before, none, after}, emit::IntAttr("axis", 0));
  return Call("Pad", {full, pads});
}

// dW[m,c,k] = sum over n, o of X[n, c, o*stride + k*dilation - pad] g[n, m, o]: a convolution of X with g where batch and
// channels have changed places, and stride and dilation. `image` is what the weights w slide over, `step` has one value for each
// place of theirs.
Term ConvWeights(const ConvForm& f, Term image, Term step, Term w) {
  Builder* b = w.b;
  const auto turned = [&](std::vector<int64_t> perm, size_t rank) {
    for (size_t i = perm.size(); i < rank; ++i) perm.push_back(static_cast<int64_t>(i));
    return perm;
  };
  const auto n = static_cast<size_t>(f.spatial);
  Term x = image;
  // [n, group*c, ...] to [c, group*n, ...]
  const Term size = Spatial(x);
  const Term batch{b, emit::Extent(b, x.id, 0)}, channels{b, emit::Extent(b, w.id, 1)};
  const Term groups{b, b->Ints({f.group})};
  x = Call("Reshape", {x, Call("Concat", {batch, groups, channels, size}, emit::IntAttr("axis", 0))});
  x = {b, emit::Transpose(b, x.id, turned({2, 1, 0}, n + 3))};
  x = Call("Reshape", {x, Call("Concat", {channels, groups * batch, size}, emit::IntAttr("axis", 0))});
  const Term g{b, emit::Transpose(b, step.id, turned({1, 0}, n + 2))};
  Attrs attrs = emit::IntAttr("group", f.group);
  attrs.Set("strides", f.dilations), attrs.Set("dilations", f.strides), attrs.Set("pads", f.pads);
  const Term whole{b, emit::Transpose(b, Call("Conv", {x, g}, std::move(attrs)).id, turned({1, 0}, n + 2))};
  std::vector<int64_t> axes(n);
  std::iota(axes.begin(), axes.end(), 2);
  const Term start{b, b->Ints(std::vector<int64_t>(n, 0))};
  return ReshapeLike(Call("Slice", {whole, start, Spatial(w), {b, b->Ints(axes)}}), w);
}

Term ConvBias(Backward* s, const ConvForm& f) {
  std::vector<int64_t> axes{0};
  for (int64_t i = 0; i < f.spatial; ++i) axes.push_back(i + 2);
  return ReduceSum(s->G(), std::move(axes), false);
}

}  // namespace

Status ConvGradient(Backward* s) {
  TENON_ASSIGN_OR_RETURN(const ConvForm f, ReadConv(*s));
  if (s->Wants(0)) s->Set(0, ConvInput(s, f));
  if (s->Wants(1)) s->Set(1, ConvWeights(f, s->X(0), s->G(), s->X(1)));
  if (s->Wants(2)) s->Set(2, ConvBias(s, f));
  return Status::Ok();
}

// The convolution with the same weights goes the other way.
Status ConvTransposeGradient(Backward* s) {
  TENON_ASSIGN_OR_RETURN(const ConvForm f, ReadConv(*s));
  if (!s->attrs().Ints("output_shape").empty()) return Unsupported("output_shape has no rule");
  if (s->Wants(0)) {
    Attrs attrs = emit::IntAttr("group", f.group);
    attrs.Set("strides", f.strides), attrs.Set("dilations", f.dilations), attrs.Set("pads", f.pads);
    s->Set(0, ReshapeLike(Call("Conv", {s->G(), s->X(1)}, std::move(attrs)), s->X(0)));
  }
  if (s->Wants(1)) s->Set(1, ConvWeights(f, s->G(), s->X(0), s->X(1)));
  if (s->Wants(2)) s->Set(2, ConvBias(s, f));
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format::gradient
