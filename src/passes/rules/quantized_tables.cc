// QuantizedTables: a function of one byte is a table; sums and products of two have a kernel.
//
//   Q(f(DQ(x), DQ(g(x)), constants)) = ByteTable(x), for elementwise f and g
//   Q(DQ(x) + DQ(y)), Q(DQ(x) * DQ(y)) = QuantizedBinary(x, y)
//
// The table is made by running the very operators on all 256 values, so nothing is rounded otherwise than before.
#include <algorithm>
#include <map>

#include "passes/pass.h"
#include "passes/quantized.h"

namespace tenon::passes {
namespace {

constexpr size_t kMaxNodes = 64;

// The operators between a quantiser and the one value of bytes that all of them are functions of.
class Cone {
 public:
  explicit Cone(Rewriter& r) : r_(r) {}

  // Takes in what produces `v`. False when it is no function of one byte.
  bool Take(ValueId v) {
    if (v == kNone || seen_.count(v) != 0) return true;
    if (r_.IsConst(v)) return r_.ShapeOf(v).NumElements().Is(1) && r_.RankOf(v) <= 1 && r_.TypeOf(v) != DType::kString;
    const NodeId id = r_.Producer(v);
    // Quantisers before this one have become tables, or are functions of more than one byte.
    if (IsByte(v) && (id == kNone || r_.node(id).op != "ByteTable")) {
      if (root_ != kNone && root_ != v) return false;
      root_ = v;
      return true;
    }
    if (id == kNone || !Continues(id) || order_.size() >= kMaxNodes) return false;
    if (!r_.ShapeOf(v).has_rank()) return false;
    seen_[v] = true;
    for (ValueId in : r_.node(id).inputs) {
      const bool table = r_.node(id).op == "ByteTable" && in == r_.In(id, 1);
      if (!table && !Take(in)) return false;
    }
    order_.push_back(id);
    return true;
  }

  void Append(NodeId id) { order_.push_back(id); }
  ValueId root() const { return root_; }

  bool ShapesAgree() const {
    return std::all_of(order_.begin(), order_.end(), [&](NodeId id) { return r_.ShapeOf(r_.Out(id)) == r_.ShapeOf(root_); });
  }

  // The result of `v` for each byte; undefined when an operator fails.
  Tensor Tabulate(ValueId v) const {
    std::vector<uint8_t> all(256);
    for (size_t i = 0; i < 256; ++i) all[i] = static_cast<uint8_t>(i);
    std::map<ValueId, Tensor> known;
    const Tensor bytes = Tensor::FromVector<uint8_t>(Shape{256}, all);
    known[root_] = r_.TypeOf(root_) == DType::kU8 ? bytes : Tensor(DType::kI8, Shape{256}, bytes.buffer());
    for (NodeId id : order_) {
      std::vector<View> in;
      std::vector<Tensor> scalars;
      for (ValueId i : r_.node(id).inputs) {
        if (i == kNone) {
          in.emplace_back();
        } else if (known.count(i) != 0) {
          in.push_back(known[i].view());
        } else {
          const Tensor& t = r_.value(i).constant;
          in.push_back(t.view());
          if (t.shape().num_elements() == 1) in.back().shape = Shape{};
        }
      }
      auto out = kernels::Evaluate(r_.node(id).op, r_.node(id).attrs, in, 1, r_.context().isa, *r_.context().team);
      if (!out.ok() || !((*out)[0].shape() == Shape{256})) return Tensor();
      known[r_.Out(id)] = std::move((*out)[0]);
    }
    return known[v];
  }

 private:
  bool IsByte(ValueId v) const { return r_.TypeOf(v) == DType::kU8 || r_.TypeOf(v) == DType::kI8; }

  bool Continues(NodeId id) const {
    const ir::Node& n = r_.node(id);
    if (!n.bodies.empty() || std::count_if(n.outputs.begin(), n.outputs.end(), [](ValueId v) { return v != kNone; }) != 1)
      return false;
    if (n.op == "ByteTable") return r_.IsConst(r_.In(id, 1));
    if (n.op == "DequantizeLinear") return QuantisationOf(r_, id).has_value();
    return ops::HasTrait(n.op, ops::kElementwise) && !ops::HasTrait(n.op, ops::kRandom);
  }

  Rewriter& r_;
  ValueId root_ = kNone;
  std::map<ValueId, bool> seen_;
  std::vector<NodeId> order_;   // producers before readers
};

bool Fuse(Rewriter& r, NodeId id) {
  if (!QuantisationOf(r, id) || r.Producer(r.In(id, 0)) == kNone) return false;
  Cone cone(r);
  if (!cone.Take(r.In(id, 0)) || cone.root() == kNone) return false;
  cone.Append(id);
  if (!cone.ShapesAgree()) return false;
  const Tensor table = cone.Tabulate(r.Out(id));
  if (!table.defined()) {
    r.Refuse("could not be tabulated");
    return false;
  }
  const ValueId y = r.Add("ByteTable", {cone.root(), r.Constant("table", table)}, {}, id);
  if (y == kNone) return false;
  r.Replace(r.Out(id), y);
  return true;
}

// Q(DQ(a) + DQ(b)), Q(DQ(a) * DQ(b)); with a Relu between, which is no more than a floor for the bytes.
bool FuseBinary(Rewriter& r, NodeId id) {
  const auto q = QuantisationOf(r, id);
  if (!q) return false;
  NodeId p = r.SoleProducer(r.In(id, 0));
  const bool relu = p != kNone && r.node(p).op == "Relu";
  if (relu) p = r.SoleProducer(r.In(p, 0));
  if (p == kNone || (r.node(p).op != "Add" && r.node(p).op != "Mul")) return false;
  const auto a = Dequantised(r, r.In(p, 0)), b = Dequantised(r, r.In(p, 1));
  if (!a || !b) return false;
  Attrs attrs;
  attrs.Set("op", r.node(p).op);
  attrs.Set("a_scale", a->scale);
  attrs.Set("a_zero_point", int64_t{a->zero});
  attrs.Set("b_scale", b->scale);
  attrs.Set("b_zero_point", int64_t{b->zero});
  attrs.Set("y_scale", q->scale);
  attrs.Set("y_zero_point", int64_t{q->zero});
  const DType type = r.TypeOf(r.Out(id));
  attrs.Set("output_dtype", static_cast<int64_t>(type));
  if (!r.KernelExists("QuantizedBinary", attrs, {a->bytes, b->bytes})) return false;
  ValueId y = r.Add("QuantizedBinary", {a->bytes, b->bytes}, attrs, p);
  if (y == kNone) return false;
  if (relu) {
    std::vector<uint8_t> table(256);
    for (int i = 0; i < 256; ++i) {
      const int value = type == DType::kI8 ? static_cast<int8_t>(i) : i;
      table[static_cast<size_t>(i)] = static_cast<uint8_t>(std::max(value, q->zero));
    }
    const Tensor bytes = Tensor::FromVector<uint8_t>(Shape{256}, table);
    y = r.Add("ByteTable", {y, r.Constant("table", Tensor(type, Shape{256}, bytes.buffer()))}, {}, id);
    if (y == kNone) return false;
  }
  r.Replace(r.Out(id), y);
  return true;
}

}  // namespace

Status QuantizedTables(Rewriter& r) {
  TENON_RETURN_IF_ERROR(ApplyRules(r, {"QuantizeLinear"}, {Fuse}));
  return ApplyRules(r, {"QuantizeLinear"}, {FuseBinary});
}

}  // namespace tenon::passes
