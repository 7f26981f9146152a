// A product with one-hot rows picks a row.
//   act(cast(ids == [0 .. n-1]) W + b) = T[clip(ids, -1, n)]   with T[i] = act(W[i] + b), and act(b) as the row that -1 and n
//   find
// What XLA's exporters write for an embedding.
#include <cmath>

#include "passes/pass.h"

namespace tenon::passes {
namespace {

constexpr int64_t kMostClasses = 4096;   // the identity that folding multiplies by W has as many rows and columns

struct OneHot {
  ValueId ids = kNone;   // one longer than the product's result without its last axis: the last extent is 1
  int64_t classes = 0;
};

// [0, 1, .. n-1] along the last axis.
bool IsCounting(const Rewriter& r, ValueId v, int64_t n) {
  const auto values = r.ConstInts(v);
  if (!values || static_cast<int64_t>(values->size()) != n || r.ExtentOf(v, -1) != n) return false;
  for (int64_t i = 0; i < n; ++i) {
    if ((*values)[static_cast<size_t>(i)] != i) return false;
  }
  return true;
}

std::optional<OneHot> OneHotOf(const Rewriter& r, ValueId v, int64_t n) {
  const NodeId cast = r.Producer(v, "Cast");
  const NodeId equal = cast == kNone ? kNone : r.Producer(r.In(cast, 0), "Equal");
  if (equal == kNone || r.TypeOf(v) != DType::kF32) return std::nullopt;
  for (size_t side : {size_t{0}, size_t{1}}) {
    const ValueId ids = r.In(equal, side);
    const DType type = r.TypeOf(ids);
    if ((type != DType::kI32 && type != DType::kI64) || r.RankOf(ids) != r.RankOf(v) || r.ExtentOf(ids, -1) != 1) continue;
    if (IsCounting(r, r.In(equal, 1 - side), n)) return OneHot{ids, n};
  }
  return std::nullopt;
}

bool AllFinite(const Rewriter& r, ValueId v) {
  const float* p = r.ConstFloats(v);
  if (p == nullptr) return false;
  for (int64_t i = 0, n = r.value(v).constant.shape().num_elements(); i < n; ++i) {
    if (!std::isfinite(p[i])) return false;
  }
  return true;
}

// The identity with one row of zeros below.
ValueId Rows(Rewriter& r, int64_t n) {
  auto t = Tensor::Zeros(DType::kF32, Shape({n + 1, n}));
  if (!t.ok()) return kNone;
  for (int64_t i = 0; i < n; ++i) t->MutableData<float>()[i * n + i] = 1;
  return r.Constant("one_hot_rows", *std::move(t));
}

ValueId Bound(Rewriter& r, DType type, int64_t value) {
  auto t = Tensor::Zeros(type, Shape({}));
  if (!t.ok()) return kNone;
  if (type == DType::kI32)
    *t->MutableData<int32_t>() = static_cast<int32_t>(value);
  else
    *t->MutableData<int64_t>() = value;
  return r.Constant("class_bound", *std::move(t));
}

bool Fuse(Rewriter& r, NodeId id) {
  const ir::Node& n = r.node(id);
  const ValueId w = r.In(id, 1), residual = r.In(id, 3), bias = r.In(id, 2);
  if (w == kNone || r.RankOf(w) != 2 || residual != kNone || (bias != kNone && !r.IsConst(bias))) return false;
  if (n.attrs.Int("transA", 0) != 0 || r.RankOf(r.In(id, 0)) < 2) return false;
  const int64_t classes = r.ExtentOf(w, n.attrs.Int("transB", 0) != 0 ? 1 : 0);
  if (classes < 1 || classes > kMostClasses || !AllFinite(r, w)) return false;
  const auto hot = OneHotOf(r, r.In(id, 0), classes);
  if (!hot) return false;
  std::vector<ValueId> inputs = n.inputs;
  inputs[0] = Rows(r, classes);
  const ValueId table = r.Add(n.op, inputs, n.attrs, id);
  const ValueId flat = r.Add("Squeeze", {hot->ids, r.Ints("axes", {r.RankOf(hot->ids) - 1})}, {}, id);
  if (table == kNone || flat == kNone) return false;
  const DType type = r.TypeOf(hot->ids);
  const ValueId index = r.Add("Clip", {flat, Bound(r, type, -1), Bound(r, type, classes)}, {}, id);
  const ValueId y = index == kNone ? kNone : r.Add("Gather", {table, index}, {}, id);
  if (y == kNone) return false;
  r.Replace(r.Out(id), y);
  return true;
}

}  // namespace

Status OneHotMatMulFusion(Rewriter& r) {
  return ApplyRules(r, {"MatMul", "FusedMatMul"}, {Fuse});
}

}  // namespace tenon::passes
