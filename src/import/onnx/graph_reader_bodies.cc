// Bodies of If, Loop, Scan and SequenceMap, in the closed form of ops/control_flow.h.
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <set>

#include "import/onnx/graph_reader.h"
#include "import/onnx/types.h"

namespace tenon::import::onnx_format {

namespace {

constexpr int kMaxBodyDepth = 32;

std::vector<std::string> BodyAttributes(const std::string& op) {
  if (op == "If") return {"then_branch", "else_branch"};
  if (op == "Loop" || op == "Scan" || op == "SequenceMap") return {"body"};
  return {};
}

// Number of the body's own inputs, before captures.
size_t FormalInputs(const ir::Node& node) {
  return node.op == "If" ? 0 : node.inputs.size();
}

// What is known of body input `i` from the value that the node passes. Shapes that may change from one iteration to the
// next stay unknown.
void BindKnown(const Pending& p, size_t i, const Builder& outer, ir::Value* v) {
  const ir::Node& node = p.node;
  if (node.op == "Loop" && i < 2) {
    v->dtype = i == 0 ? DType::kI64 : DType::kBool;
    return;
  }
  v->shape = SymShape();
  if (node.inputs[i] == ir::kNone) return;
  const ir::Value& given = outer.value(node.inputs[i]);
  if (given.dtype != DType::kUndefined) v->dtype = given.dtype;
  if (node.op != "SequenceMap") {
    v->is_sequence = given.is_sequence;
    v->is_optional |= given.is_optional;
  }
  if (node.op == "Scan" && p.version >= 9 && i + static_cast<size_t>(node.attrs.Int("num_scan_inputs", 0)) < node.inputs.size()) {
    v->shape = given.shape;
  }
}

// A value of `body` for one from outside.
ir::ValueId StandIn(const ir::Value& v, ir::Graph* body) {
  const ir::ValueId id = body->AddValue(v.name, v.dtype, v.shape);
  body->value(id).is_sequence = v.is_sequence;
  body->value(id).is_optional = v.is_optional;
  return id;
}

}  // namespace

bool GraphReader::GivesOptional(const ir::Node& node, size_t index) {
  const size_t skipped = node.op == "Loop" ? 1 : 0;   // the condition
  for (const auto& body : node.bodies) {
    if (node.op == "SequenceMap" || index + skipped >= body->outputs().size()) continue;
    if (body->value(body->outputs()[index + skipped]).is_optional) return true;
  }
  return false;
}

Status GraphReader::BindBodyInputs(onnx::GraphProto* proto, const Pending& pending, std::map<std::string, Tensor>* initializers,
                                   const Scope& outer, Scope* scope) {
  const size_t formal = FormalInputs(pending.node);
  size_t bound = 0;
  for (const onnx::ValueInfoProto& v : proto->input()) {
    if (v.name().empty()) return BadInput("an input has no name");
    // Before IR version 4, initializers were listed among the inputs.
    if (bound == formal && initializers->count(v.name()) != 0) continue;
    if (bound == formal) return BadInput("takes more than the {} inputs that the node passes", formal);
    initializers->erase(v.name());
    TENON_ASSIGN_OR_RETURN(ValueType type, ReadType(v.type(), v.name()));
    ir::Graph& graph = scope->builder->graph();
    const ir::ValueId id = graph.AddInput(v.name(), type.dtype, std::move(type.shape));
    graph.value(id).is_sequence = type.is_sequence;
    graph.value(id).is_optional = type.is_optional;
    BindKnown(pending, bound, *outer.builder, &graph.value(id));
    TENON_RETURN_IF_ERROR(Bind(scope, v.name(), id));
    ++bound;
  }
  if (bound != formal) return BadInput("takes {} inputs, the node passes {}", bound, formal);
  return Status::Ok();
}

Status GraphReader::ReadBody(onnx::GraphProto* proto, const Pending& pending, Scope* scope) {
  Scope& outer = *scope->parent;
  std::map<std::string, Tensor> initializers;
  TENON_RETURN_IF_ERROR(ReadInitializers(proto, &initializers));
  TENON_RETURN_IF_ERROR(BindBodyInputs(proto, pending, &initializers, outer, scope));
  ir::Graph& graph = scope->builder->graph();
  for (auto& [name, tensor] : initializers) TENON_RETURN_IF_ERROR(Bind(scope, name, graph.AddConstant(name, std::move(tensor))));
  TENON_RETURN_IF_ERROR(ReadNodes(proto, scope));
  return ReadOutputs(*proto, scope);
}

Status GraphReader::ReadBodies(NodeAttributes* attributes, Scope* scope, Pending* pending) {
  ir::Node& node = pending->node;
  const std::vector<std::string> wanted = BodyAttributes(node.op);
  if (wanted.empty()) {
    if (attributes->graphs.empty()) return Status::Ok();
    return Unsupported("operators with sub-graphs other than If, Loop, Scan and SequenceMap are not supported");
  }
  if (scope->depth >= kMaxBodyDepth) return ResourceLimit("bodies and functions nest deeper than {}", kMaxBodyDepth);
  if (node.op == "Loop" && node.inputs.size() < 2) node.inputs.resize(2, ir::kNone);
  if (node.op == "Scan" && pending->version < 9) {
    if (pending->Has(0)) return Unsupported("sequence_lens of Scan-8 is not supported");
    if (!node.inputs.empty()) node.inputs.erase(node.inputs.begin());
  }
  if (node.op == "If" && node.inputs.size() != 1) return BadInput("has {} inputs instead of its condition", node.inputs.size());

  std::vector<std::unique_ptr<Builder>> builders;
  std::vector<Scope> scopes(wanted.size());
  for (size_t k = 0; k < wanted.size(); ++k) {
    auto it =
        std::find_if(attributes->graphs.begin(), attributes->graphs.end(), [&](const auto& g) { return g.first == wanted[k]; });
    if (it == attributes->graphs.end()) return BadInput("has no attribute '{}'", wanted[k]);
    node.bodies.push_back(std::make_unique<ir::Graph>());
    node.bodies.back()->name = it->second->name().empty() ? wanted[k] : it->second->name();
    builders.push_back(std::make_unique<Builder>(node.bodies.back().get(), scope->builder->lenient() || node.op == "If"));
    Scope& body = scopes[k];
    body.builder = builders.back().get();
    body.parent = scope;
    body.call = scope->call;
    body.opsets = scope->opsets;
    body.depth = scope->depth + 1;
    TENON_RETURN_IF_ERROR(ReadBody(it->second, *pending, &body).Within(wanted[k]));
    pending->bodies_incomplete |= body.builder->incomplete();
  }
  // All bodies of a node receive the same captures: first those of the first body, then what only others use.
  std::vector<ir::ValueId> captured;
  std::set<ir::ValueId> seen;
  for (const Scope& s : scopes) {
    for (const auto& [outer, inner] : s.captures) {
      if (seen.insert(outer).second) captured.push_back(outer);
    }
  }
  for (size_t k = 0; k < scopes.size(); ++k) {
    ir::Graph& body = *node.bodies[k];
    for (ir::ValueId outer : captured) {
      std::vector<ir::ValueId> inner;
      for (const auto& [from, to] : scopes[k].captures) {
        if (from == outer) inner.push_back(to);
      }
      if (inner.empty()) {
        inner.push_back(StandIn(scope->builder->value(outer), &body));
      }
      body.MarkInput(inner.front());
    }
  }
  node.inputs.insert(node.inputs.end(), captured.begin(), captured.end());
  node.attrs.Set("captures", static_cast<int64_t>(captured.size()));
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format
