// ElementwiseChainFusion: a connected group of elementwise operators with one result and values of one shape inside becomes one
// ElementwiseChain, a single pass over memory.
#include "kernels/elementwise/chain.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "passes/pass.h"

namespace tenon::passes {
namespace {

using kernels::elementwise::ChainArity;
using kernels::elementwise::kMaxChainInputs;
using kernels::elementwise::kMaxChainSteps;

// One node as a step: `args` are the operands that stay tensors, `params` the constants of the step.
struct Step {
  std::string op;
  std::vector<ValueId> args;
  float params[2] = {0, 0};
};

// A scalar constant as float; broadcasting it must not raise the rank of the other operand.
std::optional<float> ScalarOperand(const Rewriter& r, ValueId v, ValueId other) {
  const auto s = r.Scalar(v);
  if (!s || r.TypeOf(v) != r.TypeOf(other) || r.value(v).constant.shape().rank() > std::max(0, r.RankOf(other)))
    return std::nullopt;
  return static_cast<float>(*s);
}

std::optional<Step> BinaryStep(const Rewriter& r, NodeId id) {
  const std::string& op = r.node(id).op;
  const ValueId a = r.In(id, 0);
  const ValueId b = r.In(id, 1);
  if (a == kNone || b == kNone) return std::nullopt;
  const auto right = ScalarOperand(r, b, a);
  const auto left = ScalarOperand(r, a, b);
  const auto with = [](const char* name, ValueId x, float p) { return Step{name, {x}, {p, 0}}; };
  if (right && !r.IsConst(a)) {
    if (op == "Add") return with("AddConst", a, *right);
    if (op == "Sub") return with("AddConst", a, -*right);
    if (op == "Mul") return with("MulConst", a, *right);
    if (op == "Div") return with("DivConst", a, *right);
    if (op == "Pow" && *right == 2) return Step{"Mul", {a, a}};
    if (op == "Pow") return with("PowConst", a, *right);
    if (op == "Max") return with("MaxConst", a, *right);
    if (op == "Min") return with("MinConst", a, *right);
  }
  if (left && !r.IsConst(b)) {
    if (op == "Add") return with("AddConst", b, *left);
    if (op == "Sub") return with("SubFromConst", b, *left);
    if (op == "Mul") return with("MulConst", b, *left);
    if (op == "Div") return with("DivFromConst", b, *left);
    if (op == "Max") return with("MaxConst", b, *left);
    if (op == "Min") return with("MinConst", b, *left);
  }
  return Step{op, {a, b}};
}

std::optional<Step> ClipStep(const Rewriter& r, NodeId id) {
  const float infinity = std::numeric_limits<float>::infinity();
  Step s{"Clip", {r.In(id, 0)}, {-infinity, infinity}};
  for (size_t i = 0; i < 2; ++i) {
    if (r.In(id, i + 1) == kNone) continue;
    const auto bound = r.Scalar(r.In(id, i + 1));
    if (!bound || std::isnan(*bound)) return std::nullopt;
    s.params[i] = static_cast<float>(*bound);
  }
  return s;
}

std::optional<Step> UnaryStep(const Rewriter& r, NodeId id) {
  const ir::Node& n = r.node(id);
  Step s{n.op, {n.inputs[0]}};
  const auto param = [&](int i, const char* name, float fallback) { s.params[i] = n.attrs.Float(name, fallback); };
  if (n.op == "Gelu" && n.attrs.String("approximate", "none") == "tanh") s.op = "GeluTanh";
  if (n.op == "Celu" || n.op == "Elu" || n.op == "ThresholdedRelu" || n.op == "Swish") param(0, "alpha", 1.0f);
  if (n.op == "LeakyRelu") param(0, "alpha", 0.01f);
  if (n.op == "Selu") {
    param(0, "alpha", 1.67326319217681884765625f);
    param(1, "gamma", 1.05070102214813232421875f);
  }
  if (n.op == "HardSigmoid") {
    param(0, "alpha", 0.2f);
    param(1, "beta", 0.5f);
  }
  if (n.op == "Shrink") {
    param(0, "lambd", 0.5f);
    param(1, "bias", 0.0f);
  }
  return s;
}

std::optional<Step> StepOf(const Rewriter& r, NodeId id) {
  const ir::Node& n = r.node(id);
  if (n.outputs.size() != 1 || n.outputs[0] == kNone || n.inputs.empty() || !n.bodies.empty()) return std::nullopt;
  const DType type = r.TypeOf(n.outputs[0]);
  if (!ops::HasTrait(n.op, ops::kElementwise) || (type != DType::kF32 && type != DType::kBF16) || r.RankOf(n.outputs[0]) < 0) {
    return std::nullopt;
  }
  if (n.op == "Clip") return ClipStep(r, id);
  if (n.op == "Mod" && n.attrs.Int("fmod", 0) != 0) return std::nullopt;
  const int arity = ChainArity(n.op);
  if (arity == 0 || static_cast<size_t>(arity) != n.inputs.size()) return std::nullopt;
  for (ValueId v : n.inputs) {
    if (v == kNone || r.TypeOf(v) != type || r.value(v).is_sequence) return std::nullopt;
  }
  return arity == 2 ? BinaryStep(r, id) : UnaryStep(r, id);
}

class Fuser {
 public:
  explicit Fuser(Rewriter& r) : r_(r) {}

  Status Run() {
    TENON_ASSIGN_OR_RETURN(const auto order, r_.graph().TopologicalOrder());
    for (size_t i = 0; i < order.size(); ++i) position_[order[i]] = i;
    for (size_t i = order.size(); i-- > 0;) {
      if (!r_.node(order[i]).dead && taken_.count(order[i]) == 0) Grow(order[i]);
    }
    return Status::Ok();
  }

 private:
  // Adds producers all of whose readers are in the group until there are none left.
  void Grow(NodeId root) {
    if (!StepOf(r_, root)) return;
    std::vector<NodeId> group{root};
    const SymShape& shape = r_.ShapeOf(r_.Out(root));
    for (bool grown = true; grown && group.size() < kMaxChainSteps;) {
      grown = false;
      for (size_t i = 0; i < group.size() && group.size() < kMaxChainSteps; ++i) {
        for (ValueId v : r_.node(group[i]).inputs) {
          const NodeId p = v == kNone ? kNone : r_.Producer(v);
          if (p == kNone || taken_.count(p) != 0 || group.size() >= kMaxChainSteps || !Joins(group, p, shape)) continue;
          group.push_back(p);
          if (Inputs(group).size() > kMaxChainInputs) {
            group.pop_back();
            continue;
          }
          grown = true;
        }
      }
    }
    if (group.size() >= 2) Emit(std::move(group));
  }

  bool Joins(const std::vector<NodeId>& group, NodeId p, const SymShape& shape) {
    if (std::find(group.begin(), group.end(), p) != group.end()) return false;
    const ValueId v = r_.Out(p);
    // A smaller value inside would be computed again for every element that it is broadcast to.
    if (!(r_.ShapeOf(v) == shape) || r_.graph().IsOutput(v) || !StepOf(r_, p)) return false;
    const auto& readers = r_.value(v).consumers;
    return std::all_of(readers.begin(), readers.end(),
                       [&](NodeId reader) { return std::find(group.begin(), group.end(), reader) != group.end(); });
  }

  std::vector<ValueId> Inputs(const std::vector<NodeId>& group) const {
    std::vector<ValueId> inputs;
    for (NodeId n : group) {
      const Step step = *StepOf(r_, n);
      for (ValueId v : step.args) {
        const NodeId p = r_.Producer(v);
        const bool inside = p != kNone && std::find(group.begin(), group.end(), p) != group.end();
        if (!inside && std::find(inputs.begin(), inputs.end(), v) == inputs.end()) inputs.push_back(v);
      }
    }
    return inputs;
  }

  void Emit(std::vector<NodeId> group) {
    std::sort(group.begin(), group.end(), [&](NodeId a, NodeId b) { return position_[a] < position_[b]; });
    const NodeId root = group.back();
    const ValueId result = r_.Out(root);
    const std::vector<ValueId> inputs = Inputs(group);
    std::map<ValueId, int64_t> registers;
    for (size_t i = 0; i < inputs.size(); ++i) registers[inputs[i]] = static_cast<int64_t>(i);
    std::vector<std::string> ops;
    std::vector<int64_t> args;
    std::vector<float> params;
    for (size_t i = 0; i < group.size(); ++i) {
      const Step s = *StepOf(r_, group[i]);
      ops.push_back(s.op);
      for (size_t k = 0; k < 2; ++k) {
        args.push_back(k < s.args.size() ? registers.at(s.args[k]) : -1);
        params.push_back(s.params[k]);
      }
      registers[r_.Out(group[i])] = static_cast<int64_t>(inputs.size() + i);
    }
    Attrs attrs;
    attrs.Set("ops", ops);
    attrs.Set("args", args);
    attrs.Set("params", params);
    if (!r_.KernelExists("ElementwiseChain", attrs, inputs)) return;
    const ValueId y = r_.Add("ElementwiseChain", inputs, attrs, root);
    if (y == kNone) return;
    if (!(r_.ShapeOf(y) == r_.ShapeOf(result))) {
      r_.Refuse("the shape depends on a constant's");
      r_.EraseIfUnused(r_.value(y).producer);
      return;
    }
    for (NodeId n : group) taken_[n] = true;
    taken_[r_.value(y).producer] = true;
    r_.Replace(result, y);
  }

  Rewriter& r_;
  std::map<NodeId, size_t> position_;
  std::map<NodeId, bool> taken_;
};

}  // namespace

Status ElementwiseChainFusion(Rewriter& r) {
  return Fuser(r).Run();
}

}  // namespace tenon::passes
