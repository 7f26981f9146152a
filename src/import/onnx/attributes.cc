#include "import/onnx/attributes.h"

#include <onnx/onnx_pb.h>

#include <string_view>
#include <unordered_map>

namespace tenon::import::onnx_format {

using onnx::AttributeProto;

namespace {

// Files from before IR version 2 leave the type out.
AttributeProto::AttributeType TypeOf(const AttributeProto& a) {
  if (a.type() != AttributeProto::UNDEFINED) return a.type();
  if (a.has_f()) return AttributeProto::FLOAT;
  if (a.has_i()) return AttributeProto::INT;
  if (a.has_s()) return AttributeProto::STRING;
  if (a.has_t()) return AttributeProto::TENSOR;
  if (a.has_g()) return AttributeProto::GRAPH;
  if (a.floats_size() > 0) return AttributeProto::FLOATS;
  if (a.ints_size() > 0) return AttributeProto::INTS;
  if (a.strings_size() > 0) return AttributeProto::STRINGS;
  return AttributeProto::UNDEFINED;
}

struct Kind {
  AttributeProto::AttributeType type;
  char letter;
  std::string_view word;
};
constexpr Kind kKinds[] = {
    {AttributeProto::FLOAT, 'f', "a float"},     {AttributeProto::INT, 'i', "an integer"},
    {AttributeProto::STRING, 's', "a string"},   {AttributeProto::TENSOR, 't', "a tensor"},
    {AttributeProto::GRAPH, 'g', "a graph"},     {AttributeProto::SPARSE_TENSOR, 'p', "a sparse tensor"},
    {AttributeProto::TYPE_PROTO, 'y', "a type"}, {AttributeProto::FLOATS, 'F', "floats"},
    {AttributeProto::INTS, 'I', "integers"},     {AttributeProto::STRINGS, 'S', "strings"},
    {AttributeProto::TENSORS, 'T', "tensors"},   {AttributeProto::GRAPHS, 'G', "graphs"},
};

std::string_view WordOf(char letter) {
  for (const Kind& k : kKinds) {
    if (k.letter == letter) return k.word;
  }
  return "nothing";
}

// The letters that `op` allows for attribute `name`; empty when the table does not know the attribute.
std::string_view AllowedKinds(std::string_view op, std::string_view name) {
  static const auto* schema = new std::unordered_map<std::string_view, std::string_view>{
#define SCHEMA(op, attributes) {op, attributes},
#include "import/onnx/attr_schema.inc"
#undef SCHEMA
  };
  auto it = schema->find(op);
  if (it == schema->end()) return {};
  std::string_view rest = it->second;
  while (!rest.empty()) {
    const size_t space = std::min(rest.find(' '), rest.size());
    const std::string_view entry = rest.substr(0, space);
    const size_t colon = entry.find(':');
    if (entry.substr(0, colon) == name) return entry.substr(colon + 1);
    rest.remove_prefix(std::min(space + 1, rest.size()));
  }
  return {};
}

Status CheckKind(const AttributeProto& a, const std::string& op) {
  const auto type = TypeOf(a);
  const std::string_view allowed = AllowedKinds(op, a.name());
  if (allowed.empty() || type == AttributeProto::UNDEFINED) return Status::Ok();
  std::string_view given = "of an unknown kind";
  for (const Kind& k : kKinds) {
    if (k.type != type) continue;
    if (allowed.find(k.letter) != std::string_view::npos) return Status::Ok();
    given = k.word;
  }
  return BadInput("attribute '{}' is {}; it must be {}", a.name(), given, WordOf(allowed.front()));
}

// Optional and Loop-carried types: only the element type matters here.
int64_t ElementType(const onnx::TypeProto& t) {
  if (t.has_tensor_type()) return t.tensor_type().elem_type();
  if (t.has_sequence_type()) return ElementType(t.sequence_type().elem_type());
  if (t.has_optional_type()) return ElementType(t.optional_type().elem_type());
  return 0;
}

Status ReadOne(AttributeProto* a, TensorReader* tensors, NodeAttributes* out) {
  Attrs& attrs = out->attrs;
  const std::string& name = a->name();
  switch (TypeOf(*a)) {
    case AttributeProto::FLOAT: attrs.Set(name, a->f()); break;
    case AttributeProto::INT: attrs.Set(name, static_cast<int64_t>(a->i())); break;
    case AttributeProto::STRING: attrs.Set(name, a->s()); break;
    case AttributeProto::FLOATS: attrs.Set(name, std::vector<float>(a->floats().begin(), a->floats().end())); break;
    case AttributeProto::INTS: attrs.Set(name, std::vector<int64_t>(a->ints().begin(), a->ints().end())); break;
    case AttributeProto::STRINGS: attrs.Set(name, std::vector<std::string>(a->strings().begin(), a->strings().end())); break;
    case AttributeProto::TENSOR: {
      TENON_ASSIGN_OR_RETURN(Tensor t, tensors->TakeShared(a->mutable_t()));
      attrs.Set(name, std::move(t));
      break;
    }
    case AttributeProto::SPARSE_TENSOR: {
      TENON_ASSIGN_OR_RETURN(Tensor t, tensors->TakeSparse(a->mutable_sparse_tensor()));
      attrs.Set(name, std::move(t));
      break;
    }
    case AttributeProto::GRAPH: out->graphs.emplace_back(name, a->mutable_g()); break;
    case AttributeProto::TYPE_PROTO: {
      attrs.Set("dtype", ElementType(a->tp()));
      const bool optional = a->tp().has_optional_type();
      if (optional ? a->tp().optional_type().elem_type().has_sequence_type() : a->tp().has_sequence_type()) {
        attrs.Set("of_sequence", int64_t{1});
      }
      break;
    }
    case AttributeProto::UNDEFINED: break;
    default: return Unsupported("a list of tensors, graphs or types is not supported");
  }
  return Status::Ok();
}

}  // namespace

Result<NodeAttributes> ReadAttributes(onnx::NodeProto* node, const std::string& op, const CallAttributes* call,
                                      TensorReader* tensors) {
  NodeAttributes out;
  for (AttributeProto& written : *node->mutable_attribute()) {
    AttributeProto* a = &written;
    if (a->name().empty()) return BadInput("has an attribute without a name");
    const std::string name = a->name();
    if (out.protos.count(name) != 0) return BadInput("attribute '{}' is given twice", name);
    if (!a->ref_attr_name().empty()) {
      if (call == nullptr) return BadInput("attribute '{}' refers to '{}' outside a function", name, a->ref_attr_name());
      auto it = call->find(a->ref_attr_name());
      if (it == call->end()) continue;  // the call does not give it: absent here too
      a = it->second;
      if (TypeOf(*a) == AttributeProto::GRAPH) return Unsupported("graph '{}' passed to a function as an attribute", name);
    }
    NodeAttributes one;
    TENON_RETURN_IF_ERROR(CheckKind(written.ref_attr_name().empty() ? *a : written, op));
    TENON_RETURN_IF_ERROR(ReadOne(a, tensors, &one).Within(fmt::format("attribute '{}'", name)));
    for (const auto& [key, value] : one.attrs) out.attrs.Set(key == a->name() ? name : key, value);
    for (auto& graph : one.graphs) out.graphs.emplace_back(name, graph.second);
    out.protos[name] = a;
  }
  return out;
}

Result<Tensor> ConstantValue(const Attrs& attrs) {
  for (const char* name : {"value", "sparse_value"}) {
    if (const Tensor* t = attrs.GetTensor(name)) return *t;
  }
  if (attrs.Has("value_float")) return Tensor::Scalar<float>(attrs.Float("value_float", 0));
  if (attrs.Has("value_int")) return Tensor::Scalar<int64_t>(attrs.Int("value_int", 0));
  if (attrs.Has("value_string")) return Tensor::FromStrings(Shape(), {attrs.String("value_string", "")});
  if (attrs.Has("value_floats")) {
    const auto v = attrs.Floats("value_floats");
    return Tensor::FromVector<float>(Shape{static_cast<int64_t>(v.size())}, v);
  }
  if (attrs.Has("value_ints")) {
    const auto v = attrs.Ints("value_ints");
    return Tensor::FromVector<int64_t>(Shape{static_cast<int64_t>(v.size())}, v);
  }
  if (attrs.Has("value_strings")) {
    auto v = attrs.Strings("value_strings");
    const Shape shape{static_cast<int64_t>(v.size())};
    return Tensor::FromStrings(shape, std::move(v));
  }
  return BadInput("has no value; needed is one of value, sparse_value, value_float(s), value_int(s), value_string(s)");
}

}  // namespace tenon::import::onnx_format
