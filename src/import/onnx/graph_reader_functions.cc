// Model-local functions: calls are replaced by the function's nodes.
#include <google/protobuf/unknown_field_set.h>
#include <onnx/onnx_pb.h>

#include <algorithm>

#include "import/onnx/graph_reader.h"
#include "import/onnx/node_order.h"
#include "import/onnx/upgrade.h"
#include "ops/op.h"

namespace tenon::import::onnx_format {

namespace {

constexpr int kMaxCallDepth = 64;
// FunctionProto.attribute_proto, newer than the headers: attributes with default values.
constexpr int kDefaultAttributesField = 11;

Status ReadDefaults(const onnx::FunctionProto& function, std::vector<onnx::AttributeProto>* out) {
  const google::protobuf::UnknownFieldSet& unknown = function.unknown_fields();
  for (int i = 0; i < unknown.field_count(); ++i) {
    const auto& field = unknown.field(i);
    if (field.number() != kDefaultAttributesField) continue;
    if (field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
      return BadInput("function '{}' has damaged attributes", function.name());
    }
    out->emplace_back();
    if (!out->back().ParseFromString(field.length_delimited())) {
      return BadInput("function '{}' has damaged attributes", function.name());
    }
  }
  return Status::Ok();
}

}  // namespace

onnx::FunctionProto* GraphReader::FindFunction(const onnx::NodeProto& node) const {
  auto it = functions_.find({CanonicalDomain(node.domain()), node.op_type()});
  return it == functions_.end() ? nullptr : it->second;
}

bool GraphReader::PreferFunction(const Pending& pending) const {
  // Operators of known domains mean what their domain says; the function is a fallback where Tenon lacks the operator.
  const std::string& op = pending.node.op;
  const bool known_domain =
      op.find('.') == std::string::npos || op.rfind("com.microsoft.", 0) == 0 || op.rfind("ai.onnx.", 0) == 0;
  return !known_domain || !(ops::IsSupported(op) || HasUpgrade(op));
}

Result<Opsets> GraphReader::FunctionOpsets(const onnx::FunctionProto& function, const Opsets& model) {
  Opsets opsets = model;
  for (const auto& import : function.opset_import()) {
    if (import.version() < 1) return BadInput("function '{}' imports opset version {}", function.name(), import.version());
    opsets[CanonicalDomain(import.domain())] = import.version();
  }
  return opsets;
}

Status GraphReader::InlineFunction(onnx::FunctionProto* function, const onnx::NodeProto& call, NodeAttributes* attributes,
                                   Scope* scope) {
  if (std::find(active_functions_.begin(), active_functions_.end(), function) != active_functions_.end()) {
    return BadInput("function '{}' calls itself", function->name());
  }
  if (active_functions_.size() >= kMaxCallDepth) return ResourceLimit("function calls nest deeper than {}", kMaxCallDepth);
  if (!attributes->graphs.empty()) return Unsupported("graphs as attributes of functions are not supported");
  if (call.input_size() > function->input_size() || call.output_size() > function->output_size()) {
    return BadInput("has {} inputs and {} outputs; function '{}' takes {} and gives {}", call.input_size(), call.output_size(),
                    function->name(), function->input_size(), function->output_size());
  }
  std::vector<onnx::AttributeProto> defaults;
  TENON_RETURN_IF_ERROR(ReadDefaults(*function, &defaults));
  CallAttributes arguments = attributes->protos;
  for (onnx::AttributeProto& d : defaults) arguments.emplace(d.name(), &d);
  TENON_ASSIGN_OR_RETURN(const Opsets opsets, FunctionOpsets(*function, opsets_));

  Scope inner;
  inner.builder = scope->builder;
  inner.prefix = scope->prefix + (call.name().empty() ? function->name() : call.name()) + "/";
  inner.call = &arguments;
  inner.opsets = &opsets;
  inner.depth = scope->depth + 1;
  for (int i = 0; i < function->input_size(); ++i) {
    ir::ValueId id = ir::kNone;
    if (i < call.input_size() && !call.input(i).empty() && !Lookup(scope, call.input(i), &id)) {
      return BadInput("input {} '{}' is produced by no node, input or initializer", i, call.input(i));
    }
    TENON_RETURN_IF_ERROR(Bind(&inner, function->input(i), id));
  }
  std::vector<onnx::NodeProto*> nodes;
  for (onnx::NodeProto& n : *function->mutable_node()) nodes.push_back(&n);
  TENON_ASSIGN_OR_RETURN(NodeOrder order, OrderNodes(std::move(nodes)));
  order.used.insert(function->output().begin(), function->output().end());
  inner.used = &order.used;
  active_functions_.push_back(function);
  for (onnx::NodeProto* node : order.nodes) TENON_RETURN_IF_ERROR(ReadNode(node, &inner));
  active_functions_.pop_back();
  for (int i = 0; i < call.output_size(); ++i) {
    if (call.output(i).empty()) continue;
    ir::ValueId id = ir::kNone;
    if (!Lookup(&inner, function->output(i), &id) || id == ir::kNone) {
      return BadInput("output '{}' of function '{}' is produced by no node", function->output(i), function->name());
    }
    TENON_RETURN_IF_ERROR(Bind(scope, call.output(i), id));
  }
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format
