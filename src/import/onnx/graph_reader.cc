#include "import/onnx/graph_reader.h"

#include <onnx/onnx_pb.h>

#include <algorithm>

#include "import/onnx/node_order.h"
#include "import/onnx/types.h"
#include "import/onnx/upgrade.h"
#include "ops/op.h"

namespace tenon::import::onnx_format {

std::string CanonicalDomain(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

std::string FullOpName(const std::string& domain, const std::string& op_type) {
  const std::string canonical = CanonicalDomain(domain);
  return canonical.empty() ? op_type : canonical + "." + op_type;
}

GraphReader::GraphReader(onnx::ModelProto* model, TensorReader tensors, const ImportOptions& options, ImportReport* report)
    : model_(model), tensors_(std::move(tensors)), options_(options), report_(report) {}

Status GraphReader::ReadOpsets() {
  for (const auto& import : model_->opset_import()) {
    const std::string domain = CanonicalDomain(import.domain());
    if (import.version() < 1) return BadInput("opset version {} of domain '{}'; it must be at least 1", import.version(), domain);
    auto [it, fresh] = opsets_.emplace(domain, import.version());
    if (!fresh && it->second != import.version()) {
      return BadInput("domain '{}' is imported in versions {} and {}", domain, it->second, import.version());
    }
  }
  // Before IR version 3 there were no opset imports.
  if (model_->ir_version() < 3 && opsets_.empty()) opsets_[""] = 1;
  report_->opsets = opsets_;
  auto it = opsets_.find("");
  if (it != opsets_.end() && it->second > kNewestOpset) {
    report_->notes.push_back(fmt::format("opset {} is newer than the newest known ({}); operators are read as of {}", it->second,
                                         kNewestOpset, kNewestOpset));
  }
  return Status::Ok();
}

Result<ir::Graph> GraphReader::Read() {
  TENON_RETURN_IF_ERROR(ReadOpsets());
  for (onnx::FunctionProto& f : *model_->mutable_functions()) {
    if (!functions_.emplace(std::pair(CanonicalDomain(f.domain()), f.name()), &f).second) {
      return BadInput("function '{}' of domain '{}' is defined twice", f.name(), f.domain());
    }
  }
  report_->ir_version = model_->ir_version();
  report_->producer = model_->producer_name();
  if (!model_->producer_version().empty()) report_->producer += " " + model_->producer_version();

  ir::Graph graph;
  onnx::GraphProto* proto = model_->mutable_graph();
  graph.name = proto->name();
  for (const auto& entry : model_->metadata_props()) graph.metadata[entry.key()] = entry.value();
  Builder builder(&graph);
  Scope scope;
  scope.builder = &builder;
  scope.opsets = &opsets_;
  std::map<std::string, Tensor> initializers;
  TENON_RETURN_IF_ERROR(ReadInitializers(proto, &initializers));
  TENON_RETURN_IF_ERROR(ReadInputs(proto, &initializers, &scope));
  for (auto& [name, tensor] : initializers) TENON_RETURN_IF_ERROR(Bind(&scope, name, graph.AddConstant(name, std::move(tensor))));
  TENON_RETURN_IF_ERROR(ReadNodes(proto, &scope));
  TENON_RETURN_IF_ERROR(ReadOutputs(*proto, &scope));
  TENON_RETURN_IF_ERROR(ir::Verify(graph));
  return graph;
}

Status GraphReader::ReadInitializers(onnx::GraphProto* proto, std::map<std::string, Tensor>* out) {
  const auto add = [&](const std::string& name, Result<Tensor> tensor) -> Status {
    if (name.empty()) return BadInput("an initializer has no name");
    if (!tensor.ok()) return std::move(tensor).TakeStatus().Within(fmt::format("initializer '{}'", name));
    if (!out->emplace(name, *std::move(tensor)).second) return BadInput("initializer '{}' is given twice", name);
    return Status::Ok();
  };
  for (onnx::TensorProto& t : *proto->mutable_initializer()) TENON_RETURN_IF_ERROR(add(t.name(), tensors_.TakeShared(&t)));
  for (onnx::SparseTensorProto& t : *proto->mutable_sparse_initializer()) {
    TENON_RETURN_IF_ERROR(add(t.values().name(), tensors_.TakeSparse(&t)));
  }
  return Status::Ok();
}

Status GraphReader::ReadInputs(onnx::GraphProto* proto, std::map<std::string, Tensor>* initializers, Scope* scope) {
  size_t with_values = 0;
  for (const onnx::ValueInfoProto& v : proto->input()) {
    if (v.name().empty()) return BadInput("a graph input has no name");
    auto it = initializers->find(v.name());
    if (it != initializers->end()) {
      ++with_values;
      if (!options_.keep_initializer_inputs) continue;
      report_->input_defaults[v.name()] = it->second;
      initializers->erase(it);
    }
    if (v.type().has_map_type()) {
      TENON_RETURN_IF_ERROR(ReadMapInput(v, scope));
      continue;
    }
    TENON_ASSIGN_OR_RETURN(ValueType type, ReadType(v.type(), v.name()));
    if (type.dtype == DType::kUndefined) return BadInput("graph input '{}' has no element type", v.name());
    ir::Graph& graph = scope->builder->graph();
    const ir::ValueId id = graph.AddInput(v.name(), type.dtype, std::move(type.shape));
    graph.value(id).is_sequence = type.is_sequence;
    graph.value(id).is_optional = type.is_optional;
    TENON_RETURN_IF_ERROR(Bind(scope, v.name(), id));
  }
  if (with_values > 0) {
    report_->notes.push_back(
        options_.keep_initializer_inputs
            ? fmt::format("{} initializers stay overridable inputs: nothing is folded or packed through them", with_values)
            : fmt::format("{} initializers are also graph inputs; they are constants here and cannot be fed", with_values));
  }
  return Status::Ok();
}

Status GraphReader::ReadNodes(onnx::GraphProto* proto, Scope* scope) {
  std::vector<onnx::NodeProto*> nodes;
  for (onnx::NodeProto& n : *proto->mutable_node()) nodes.push_back(&n);
  TENON_ASSIGN_OR_RETURN(NodeOrder order, OrderNodes(std::move(nodes)));
  for (const auto& v : proto->output()) order.used.insert(v.name());
  scope->used = &order.used;
  for (onnx::NodeProto* node : order.nodes) TENON_RETURN_IF_ERROR(ReadNode(node, scope));
  scope->used = nullptr;
  return Status::Ok();
}

Status GraphReader::ReadOutputs(const onnx::GraphProto& proto, Scope* scope) {
  ir::Graph& graph = scope->builder->graph();
  std::unordered_set<std::string_view> names;
  for (const onnx::ValueInfoProto& v : proto.output()) {
    const bool fresh = names.insert(v.name()).second;
    if (!fresh && scope->parent == nullptr) return BadInput("graph output '{}' is given twice", v.name());
    ir::ValueId id = ir::kNone;
    if (!Lookup(scope, v.name(), &id) || id == ir::kNone) return BadInput("graph output '{}' is produced by no node", v.name());
    ValueType declared;
    if (IsZipMap(id, *scope)) {
      NoteZipMap(v.name(), id, scope);
    } else {
      TENON_ASSIGN_OR_RETURN(declared, ReadType(v.type(), v.name()));
    }
    // An output must be a value of its own, under the name that the file gives it.
    const bool named = graph.value(id).name == v.name();
    if (graph.IsOutput(id) || (!named && (graph.IsInput(id) || graph.IsConstant(id)))) {
      scope->builder->SetPrefix(v.name());
      id = scope->builder->Emit("Identity", {id});
    }
    if (graph.value(id).name != v.name()) {
      const ir::ValueId holder = graph.FindValue(v.name());
      if (holder != ir::kNone && !graph.IsInput(holder) && !graph.IsOutput(holder)) graph.Rename(holder, v.name() + "/inner");
      graph.Rename(id, v.name());
    }
    ir::Value& value = graph.value(id);
    if (value.dtype == DType::kUndefined) {
      value.dtype = declared.dtype;
      value.is_sequence = declared.is_sequence;
    } else if (declared.dtype != DType::kUndefined && declared.dtype != value.dtype && scope->parent == nullptr) {
      return BadInput("graph output '{}' is declared as {} but is {}", v.name(), DTypeName(declared.dtype),
                      DTypeName(value.dtype));
    }
    graph.AddOutput(id);
  }
  if (graph.outputs().empty() && scope->parent == nullptr) return BadInput("the graph has no outputs");
  return Status::Ok();
}

bool GraphReader::Lookup(Scope* scope, const std::string& name, ir::ValueId* id) {
  auto it = scope->names.find(name);
  if (it != scope->names.end()) {
    *id = it->second;
    return true;
  }
  if (scope->parent == nullptr) return false;
  ir::ValueId outer = ir::kNone;
  if (!Lookup(scope->parent, name, &outer)) return false;
  if (scope->builder == scope->parent->builder) {   // nodes that are read into the graph around them
    *id = outer;
    return true;
  }
  *id = ir::kNone;
  if (outer != ir::kNone) {
    const ir::Value& v = scope->parent->builder->value(outer);
    ir::Graph& graph = scope->builder->graph();
    if (v.constant.defined()) {
      // A constant needs no capture, and the body's passes and kernels should see it.
      *id = graph.AddConstant(v.name, v.constant);
    } else {
      *id = graph.AddValue(v.name, v.dtype, v.shape);
      graph.value(*id).is_sequence = v.is_sequence;
      graph.value(*id).is_optional = v.is_optional;
      graph.value(*id).elements = v.elements;
      scope->captures.emplace_back(outer, *id);
    }
  }
  scope->names.emplace(name, *id);
  return true;
}

Status GraphReader::Bind(Scope* scope, const std::string& name, ir::ValueId id) {
  if (!scope->names.emplace(name, id).second) return BadInput("value '{}' is defined twice", name);
  return Status::Ok();
}

Status GraphReader::ReadNode(onnx::NodeProto* proto, Scope* scope) {
  if (++nodes_ > options_.max_nodes) {
    return ResourceLimit("more than {} nodes once functions are inlined", options_.max_nodes);
  }
  if (proto->op_type().empty()) return BadInput("node '{}' has no operator", proto->name());
  return ReadKnownNode(proto, scope).Within(DescribeProto(*proto));
}

Status GraphReader::ReadKnownNode(onnx::NodeProto* proto, Scope* scope) {
  Pending pending;
  ir::Node& node = pending.node;
  node.op = FullOpName(proto->domain(), proto->op_type());
  node.name = scope->prefix + (proto->name().empty() && proto->output_size() > 0 ? proto->output(0) : proto->name());
  TENON_ASSIGN_OR_RETURN(NodeAttributes attributes, ReadAttributes(proto, node.op, scope->call, &tensors_));
  if (node.op == "Constant") {
    if (proto->output_size() != 1) return BadInput("has {} outputs instead of one", proto->output_size());
    TENON_ASSIGN_OR_RETURN(Tensor tensor, ConstantValue(attributes.attrs));
    ir::Graph& graph = scope->builder->graph();
    return Bind(scope, proto->output(0), graph.AddConstant(scope->prefix + proto->output(0), std::move(tensor)));
  }
  onnx::FunctionProto* function = FindFunction(*proto);
  const auto opset = scope->opsets->find(CanonicalDomain(proto->domain()));
  if (opset != scope->opsets->end()) {
    pending.version = opset->second;
  } else if (CanonicalDomain(proto->domain()).empty() && function == nullptr) {
    return BadInput("the model imports no opset of domain ai.onnx");
  } else {
    pending.version = 1;
  }
  node.attrs = attributes.attrs;
  if (function != nullptr && PreferFunction(pending)) return InlineFunction(function, *proto, &attributes, scope);
  TENON_RETURN_IF_ERROR(ResolveInputs(*proto, scope, &node));
  if (node.op == "ai.onnx.preview.FlexAttention") return ReadFlexAttention(*proto, &attributes, scope, &pending);
  TENON_RETURN_IF_ERROR(ReadBodies(&attributes, scope, &pending));
  TENON_RETURN_IF_ERROR(CreateOutputs(*proto, scope, &pending));
  if (node.op == kGradientOp) return ReadGradient(scope, &pending);
  return AddUpgraded(&pending, scope);
}

Status GraphReader::ResolveInputs(const onnx::NodeProto& proto, Scope* scope, ir::Node* node) {
  for (int i = 0; i < proto.input_size(); ++i) {
    ir::ValueId id = ir::kNone;
    if (ResolveMap(proto.input(i), *scope, node)) continue;
    if (!proto.input(i).empty() && !Lookup(scope, proto.input(i), &id)) {
      if (scope->maps.count(proto.input(i)) != 0) return Unsupported("reads the map '{}'", proto.input(i));
      return BadInput("input {} '{}' is produced by no node, input or initializer", i, proto.input(i));
    }
    if (IsZipMap(id, *scope)) return RefuseZipMap(proto.input(i));
    node->inputs.push_back(id);
  }
  while (!node->inputs.empty() && node->inputs.back() == ir::kNone) node->inputs.pop_back();
  return Status::Ok();
}

Status GraphReader::CreateOutputs(const onnx::NodeProto& proto, Scope* scope, Pending* pending) {
  int last = proto.output_size();
  while (last > 0 && proto.output(last - 1).empty()) --last;
  if (last == 0) return BadInput("has no outputs");
  for (int i = 0; i < last; ++i) {
    const std::string& name = proto.output(i);
    ir::ValueId id = ir::kNone;
    if (!name.empty()) {
      id = scope->builder->graph().AddValue(scope->prefix + name, DType::kUndefined, SymShape());
      TENON_RETURN_IF_ERROR(Bind(scope, name, id));
    }
    pending->node.outputs.push_back(id);
    pending->used.push_back(scope->used->find(name) != scope->used->end());
    if (id != ir::kNone) scope->builder->graph().value(id).is_optional = GivesOptional(pending->node, static_cast<size_t>(i));
  }
  return Status::Ok();
}

Status GraphReader::AddUpgraded(Pending* pending, Scope* scope) {
  Builder& b = *scope->builder;
  b.SetPrefix(pending->node.name);
  const std::vector<ir::ValueId> outputs = pending->node.outputs;
  TENON_RETURN_IF_ERROR(Upgrade(&b, pending));
  if (pending->bodies_incomplete) b.set_incomplete();
  b.Add(std::move(pending->node));
  for (ir::Node& node : pending->after) b.Add(std::move(node));
  // Upgrades drop outputs of training that nothing reads.
  for (ir::ValueId id : outputs) {
    if (id != ir::kNone && b.value(id).producer == ir::kNone) b.graph().RemoveValue(id);
  }
  return b.status();
}

}  // namespace tenon::import::onnx_format
