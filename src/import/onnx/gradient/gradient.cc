#include "import/onnx/gradient/gradient.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace tenon::import::onnx_format::gradient {

namespace {

const std::unordered_map<std::string_view, Rule>& Rules() {
  static const auto* rules = new std::unordered_map<std::string_view, Rule>{
#define GRADIENT(op, rule) {op, rule},
#include "import/onnx/gradient/rules.inc"
#undef GRADIENT
  };
  return *rules;
}

// Nodes that `y` is computed by, producers first, none beyond a value for which `ends` holds.
std::vector<ir::NodeId> NodesBehind(const ir::Graph& graph, ValueId y, const std::function<bool(ValueId)>& ends) {
  struct Visit {
    ir::NodeId node;
    size_t next = 0;
  };
  std::vector<ir::NodeId> order;
  std::unordered_set<ir::NodeId> seen;
  std::vector<Visit> stack;
  const auto enter = [&](ValueId v) {
    if (v == ir::kNone || ends(v)) return;
    const ir::NodeId producer = graph.value(v).producer;
    if (producer != ir::kNone && seen.insert(producer).second) stack.push_back({producer});
  };
  enter(y);
  while (!stack.empty()) {
    const ir::Node& node = graph.node(stack.back().node);
    if (stack.back().next < node.inputs.size()) {
      enter(node.inputs[stack.back().next++]);
    } else {
      order.push_back(stack.back().node);
      stack.pop_back();
    }
  }
  return order;
}

Status CheckSize(Builder* b, int64_t max_nodes) {
  if (static_cast<int64_t>(b->graph().num_node_slots()) <= max_nodes) return Status::Ok();
  return ResourceLimit("more than {} nodes once gradients are written out", max_nodes);
}

class Walk {
 public:
  Walk(Builder* b, const Problem& problem) : b_(b), p_(problem), active_(problem.xs.begin(), problem.xs.end()), ends_(active_) {
    ends_.insert(problem.fixed.begin(), problem.fixed.end());
  }

  Result<std::vector<ValueId>> Run();

 private:
  Status FindActive(const std::vector<ir::NodeId>& order);
  Status Back(const ir::Node& node);
  void Contribute(ValueId x, ValueId g);
  bool Active(ValueId v) const { return v != ir::kNone && active_.count(v) != 0; }

  Builder* b_;
  const Problem& p_;
  std::set<ValueId> active_;  // depends on one of xs, by way of floats
  std::set<ValueId> ends_;
  std::map<ValueId, ValueId> gradients_;
};

Status Walk::FindActive(const std::vector<ir::NodeId>& order) {
  for (ir::NodeId id : order) {
    const ir::Node& node = b_->graph().node(id);
    for (ValueId v : node.inputs) {
      if (v != ir::kNone && !Active(v) && ends_.count(v) == 0 && p_.refused && p_.refused(v)) {
        return Unsupported("value '{}' comes from outside the body that Gradient lies in; it must be among xs or zs",
                           b_->value(v).name);
      }
    }
    if (std::none_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return Active(v); })) continue;
    for (ValueId v : node.outputs) {
      if (v == ir::kNone || ends_.count(v) != 0) continue;
      const DType type = b_->value(v).dtype;
      if (type == DType::kUndefined) {
        return Unsupported("node '{}' ({}) has no type that can be told; the gradient goes through it", node.name, node.op);
      }
      if (IsFloat(type)) active_.insert(v);
    }
  }
  return Status::Ok();
}

void Walk::Contribute(ValueId x, ValueId g) {
  auto [it, fresh] = gradients_.emplace(x, g);
  if (!fresh) it->second = b_->Emit("Add", {it->second, g});
}

Status Walk::Back(const ir::Node& node) {
  std::vector<ValueId> dy;
  for (ValueId v : node.outputs) {
    auto it = v == ir::kNone || ends_.count(v) != 0 ? gradients_.end() : gradients_.find(v);
    dy.push_back(it == gradients_.end() ? ir::kNone : it->second);
  }
  if (std::all_of(dy.begin(), dy.end(), [](ValueId v) { return v == ir::kNone; })) return Status::Ok();
  std::vector<bool> wanted;
  for (ValueId v : node.inputs) wanted.push_back(Active(v));
  if (std::none_of(wanted.begin(), wanted.end(), [](bool w) { return w; })) return Status::Ok();
  const Rule rule = FindRule(node.op);
  if (rule == nullptr) {
    return Unsupported("node '{}' ({}) has no rule of differentiation; docs/import.md lists the operators that have", node.name,
                       node.op);
  }
  Backward s(b_, node, std::move(dy), std::move(wanted));
  TENON_RETURN_IF_ERROR(rule(&s).Within(fmt::format("gradient of node '{}' ({})", node.name, node.op)));
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (s.Wants(i) && s.dx[i] != ir::kNone) Contribute(node.inputs[i], s.dx[i]);
  }
  return CheckSize(b_, p_.max_nodes);
}

Result<std::vector<ValueId>> Walk::Run() {
  if (p_.refused && ends_.count(p_.y) == 0 && p_.refused(p_.y)) {
    return Unsupported("y '{}' comes from outside the body that Gradient lies in", b_->value(p_.y).name);
  }
  const std::vector<ir::NodeId> order = NodesBehind(b_->graph(), p_.y, [&](ValueId v) { return ends_.count(v) != 0; });
  TENON_RETURN_IF_ERROR(FindActive(order));
  if (Active(p_.y)) {
    const Term y{b_, p_.y};
    gradients_[p_.y] = p_.seed != ir::kNone ? p_.seed : Call("Expand", {Scalar(y, 1), ShapeOf(y)}).id;
  }
  for (auto it = order.rbegin(); it != order.rend(); ++it) TENON_RETURN_IF_ERROR(Back(b_->graph().node(*it)));
  std::vector<ValueId> result;
  for (ValueId x : p_.xs) {
    auto it = gradients_.find(x);
    result.push_back(it == gradients_.end() ? ir::kNone : it->second);
  }
  return result;
}

}  // namespace

Rule FindRule(std::string_view op) {
  auto it = Rules().find(op);
  return it == Rules().end() ? nullptr : it->second;
}

Result<std::vector<ValueId>> Differentiate(Builder* b, const Problem& problem) {
  return Walk(b, problem).Run();
}

Result<ValueId> Substitute(Builder* b, ValueId y, const std::map<ValueId, ValueId>& with, int64_t max_nodes) {
  std::map<ValueId, ValueId> now = with;
  const auto of = [&](ValueId v) {
    auto it = now.find(v);
    return it == now.end() ? v : it->second;
  };
  for (ir::NodeId id : NodesBehind(b->graph(), y, [&](ValueId v) { return with.count(v) != 0; })) {
    const ir::Node& node = b->graph().node(id);
    if (std::none_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return now.count(v) != 0; })) continue;
    if (!node.bodies.empty()) {
      return Unsupported("node '{}' ({}) cannot be computed anew for other inputs of Gradient than xs and zs name", node.name,
                         node.op);
    }
    ir::Node copy;
    copy.op = node.op, copy.attrs = node.attrs;
    for (ValueId v : node.inputs) copy.inputs.push_back(of(v));
    for (ValueId v : node.outputs) {
      copy.outputs.push_back(v == ir::kNone ? v : b->NewValue(node.op));
      if (v != ir::kNone && with.count(v) == 0) now[v] = copy.outputs.back();
    }
    copy.name = node.name;
    b->Add(std::move(copy));
    TENON_RETURN_IF_ERROR(CheckSize(b, max_nodes));
  }
  return of(y);
}

Status Through(Backward* s, Term y) {
  for (size_t i = 1; i < s->dy.size(); ++i) {
    if (s->dy[i] != ir::kNone) return Unsupported("only its first output is differentiated");
  }
  Problem problem;
  problem.y = y.id;
  problem.seed = s->dy[0];
  for (ValueId v : s->node.inputs) {
    if (v != ir::kNone) problem.fixed.insert(v);
  }
  for (size_t i = 0; i < s->node.inputs.size(); ++i) {
    const bool again = std::find(problem.xs.begin(), problem.xs.end(), s->node.inputs[i]) != problem.xs.end();
    if (s->Wants(i) && !again) problem.xs.push_back(s->node.inputs[i]);
  }
  TENON_ASSIGN_OR_RETURN(const std::vector<ValueId> found, Differentiate(s->b, problem));
  for (size_t k = 0; k < found.size(); ++k) {
    const auto at = std::find(s->node.inputs.begin(), s->node.inputs.end(), problem.xs[k]);
    s->dx[static_cast<size_t>(at - s->node.inputs.begin())] = found[k];
  }
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format::gradient
