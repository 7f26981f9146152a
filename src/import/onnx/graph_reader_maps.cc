// Maps, which ai.onnx.ml knows and Tenon does not: an input that is a map becomes two inputs, its keys and its values; what
// ZipMap makes of a tensor of scores, a sequence of maps from label to score, stays that tensor.
#include <onnx/onnx_pb.h>

#include "import/onnx/graph_reader.h"

namespace tenon::import::onnx_format {
namespace {

constexpr const char* kZipMap = "ai.onnx.ml.ZipMap";

std::string JsonText(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string JsonLabels(const Attrs& attrs) {
  std::string out;
  for (const std::string& s : attrs.Strings("classlabels_strings")) out += (out.empty() ? "" : ",") + JsonText(s);
  for (const int64_t i : attrs.Ints("classlabels_int64s")) out += (out.empty() ? "" : ",") + std::to_string(i);
  return "[" + out + "]";
}

}  // namespace

Status GraphReader::ReadMapInput(const onnx::ValueInfoProto& input, Scope* scope) {
  const onnx::TypeProto::Map& map = input.type().map_type();
  const onnx::TypeProto& value = map.value_type();
  if (!IsValidDType(map.key_type()) || !value.has_tensor_type() || !IsValidDType(value.tensor_type().elem_type())) {
    return Unsupported("graph input '{}' is a map to something else than numbers or strings", input.name());
  }
  ir::Graph& graph = scope->builder->graph();
  const SymShape shape({Dim::Symbol(fmt::format("_map{}_size", scope->maps.size()))});
  const auto add = [&](const char* part, int32_t dtype) {
    return graph.AddInput(input.name() + part, static_cast<DType>(dtype), shape);
  };
  const ir::ValueId keys = add(".keys", map.key_type()), values = add(".values", value.tensor_type().elem_type());
  scope->maps.emplace(input.name(), std::pair(keys, values));
  report_->notes.push_back(fmt::format("graph input '{}' is a map: feed its keys as '{}' and its values as '{}'", input.name(),
                                       graph.value(keys).name, graph.value(values).name));
  return Status::Ok();
}

bool GraphReader::ResolveMap(const std::string& name, const Scope& scope, ir::Node* node) {
  const auto it = scope.maps.find(name);
  if (it == scope.maps.end() || (node->op != "ai.onnx.ml.CastMap" && node->op != "ai.onnx.ml.DictVectorizer")) return false;
  node->inputs.push_back(it->second.first);
  node->inputs.push_back(it->second.second);
  return true;
}

bool GraphReader::IsZipMap(ir::ValueId id, const Scope& scope) {
  const ir::Graph& graph = scope.builder->graph();
  const ir::NodeId producer = id == ir::kNone ? ir::kNone : graph.value(id).producer;
  return producer != ir::kNone && graph.node(producer).op == kZipMap;
}

Status GraphReader::RefuseZipMap(const std::string& name) {
  return Unsupported(
      "reads '{}', a sequence of maps made by ZipMap, which only graph outputs may be; export the model with "
      "options={{'zipmap': False}}",
      name);
}

void GraphReader::NoteZipMap(const std::string& output, ir::ValueId id, Scope* scope) {
  ir::Graph& graph = scope->builder->graph();
  graph.metadata["class_labels." + output] = JsonLabels(graph.node(graph.value(id).producer).attrs);
  report_->notes.push_back(
      fmt::format("output '{}' is the tensor [rows, classes] that ZipMap would turn into maps; metadata "
                  "class_labels.{} has the labels of its columns",
                  output, output));
}

}  // namespace tenon::import::onnx_format
