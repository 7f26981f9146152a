// BatchNormalization that no convolution took: gamma*(x-mean)/sqrt(var+eps) + beta = s*x + t, two elementwise operators that
// chains can take in.
#include "passes/affine.h"
#include "passes/pass.h"

namespace tenon::passes {
namespace {

bool Split(Rewriter& r, NodeId id) {
  const ValueId x = r.In(id, 0);
  const int rank = r.RankOf(x);
  const int64_t channels = r.ExtentOf(r.In(id, 1), 0);
  if (rank < 2 || channels < 1 || r.TypeOf(x) != DType::kF32) return false;
  const auto a = AffineOf(r, id, rank, 1, channels);
  if (!a) return false;
  Shape shape = Shape::OfRank(rank - 1);
  shape[0] = channels;
  const ValueId scale = r.Constant("scale", Tensor::FromVector<float>(shape, {a->scale.begin(), a->scale.end()}));
  const ValueId shift = r.Constant("shift", Tensor::FromVector<float>(shape, {a->shift.begin(), a->shift.end()}));
  const ValueId scaled = r.Add("Mul", {x, scale}, {}, id);
  if (scaled == kNone) return false;
  const ValueId shifted = r.Add("Add", {scaled, shift}, {}, id);
  if (shifted == kNone) return false;
  r.Replace(r.Out(id), shifted);
  return true;
}

}  // namespace

Status BatchNormToMulAdd(Rewriter& r) {
  return ApplyRules(r, {"BatchNormalization"}, {Split});
}

}  // namespace tenon::passes
