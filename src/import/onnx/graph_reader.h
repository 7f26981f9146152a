// GraphProto to ir::Graph: names to values, bodies closed over what they use from outside, functions inlined, nodes upgraded.
#ifndef TENON_IMPORT_ONNX_GRAPH_READER_H_
#define TENON_IMPORT_ONNX_GRAPH_READER_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "import/import.h"
#include "import/onnx/attributes.h"
#include "import/onnx/builder.h"

namespace onnx {
class FunctionProto;
class ModelProto;
class ValueInfoProto;
}  // namespace onnx

namespace tenon::import::onnx_format {

using Opsets = std::map<std::string, int64_t>;

/// Names that nodes may use: those of one graph or one function call, and through `parent` those of the graphs around it.
struct Scope {
  Builder* builder = nullptr;
  Scope* parent = nullptr;  ///< the graph around a body; null for the model and for functions
  std::unordered_map<std::string, ir::ValueId> names;  ///< kNone: an absent argument of a function
  std::unordered_map<std::string, std::pair<ir::ValueId, ir::ValueId>> maps;  ///< input that is a map: its keys, its values
  std::vector<std::pair<ir::ValueId, ir::ValueId>> captures;  ///< value of parent->builder's graph, its stand-in here
  std::string prefix;  ///< before names of nodes and values of inlined functions
  const CallAttributes* call = nullptr;
  const Opsets* opsets = nullptr;
  const std::unordered_set<std::string_view>* used = nullptr;  ///< names that something in this graph or function reads
  int depth = 0;  ///< functions and bodies around it
};

class GraphReader {
 public:
  GraphReader(onnx::ModelProto* model, TensorReader tensors, const ImportOptions& options, ImportReport* report);

  Result<ir::Graph> Read();

 private:
  Status ReadOpsets();
  Status ReadInitializers(onnx::GraphProto* proto, std::map<std::string, Tensor>* out);
  Status ReadInputs(onnx::GraphProto* proto, std::map<std::string, Tensor>* initializers, Scope* scope);
  Status ReadNodes(onnx::GraphProto* proto, Scope* scope);
  Status ReadOutputs(const onnx::GraphProto& proto, Scope* scope);

  Status ReadNode(onnx::NodeProto* proto, Scope* scope);
  Status ReadKnownNode(onnx::NodeProto* proto, Scope* scope);
  Status ResolveInputs(const onnx::NodeProto& proto, Scope* scope, ir::Node* node);
  Status CreateOutputs(const onnx::NodeProto& proto, Scope* scope, Pending* pending);
  Status AddUpgraded(Pending* pending, Scope* scope);

  /// Values of `scope`, those around it included; false when there is none.
  bool Lookup(Scope* scope, const std::string& name, ir::ValueId* id);
  Status Bind(Scope* scope, const std::string& name, ir::ValueId id);

  // graph_reader_bodies.cc
  Status ReadBodies(NodeAttributes* attributes, Scope* scope, Pending* pending);
  Status ReadBody(onnx::GraphProto* proto, const Pending& pending, Scope* scope);
  Status BindBodyInputs(onnx::GraphProto* proto, const Pending& pending, std::map<std::string, Tensor>* initializers,
                        const Scope& outer, Scope* scope);
  /// A body of `node` gives an optional tensor as output `index` of the node.
  static bool GivesOptional(const ir::Node& node, size_t index);

  // graph_reader_flex.cc
  Status ReadFlexAttention(const onnx::NodeProto& proto, NodeAttributes* attributes, Scope* scope, Pending* pending);
  Status InlineModifier(NodeAttributes* attributes, const std::string& name, const Pending& pending, Scope* scope,
                        ir::ValueId* value);

  // graph_reader_gradient.cc
  Status ReadGradient(Scope* scope, Pending* pending);

  // graph_reader_maps.cc
  Status ReadMapInput(const onnx::ValueInfoProto& input, Scope* scope);
  static bool ResolveMap(const std::string& name, const Scope& scope, ir::Node* node);
  static bool IsZipMap(ir::ValueId id, const Scope& scope);
  static Status RefuseZipMap(const std::string& name);
  void NoteZipMap(const std::string& output, ir::ValueId id, Scope* scope);

  // graph_reader_functions.cc
  onnx::FunctionProto* FindFunction(const onnx::NodeProto& node) const;
  bool PreferFunction(const Pending& pending) const;
  Status InlineFunction(onnx::FunctionProto* function, const onnx::NodeProto& call, NodeAttributes* attributes, Scope* scope);
  static Result<Opsets> FunctionOpsets(const onnx::FunctionProto& function, const Opsets& model);

  onnx::ModelProto* model_;
  TensorReader tensors_;
  const ImportOptions& options_;
  ImportReport* report_;
  Opsets opsets_;
  std::map<std::pair<std::string, std::string>, onnx::FunctionProto*> functions_;
  std::vector<const onnx::FunctionProto*> active_functions_;
  int64_t nodes_ = 0;
};

inline constexpr std::string_view kGradientOp = "ai.onnx.preview.training.Gradient";

/// "ai.onnx" and "" are the same domain.
std::string CanonicalDomain(const std::string& domain);
/// "Conv", "com.microsoft.Gelu".
std::string FullOpName(const std::string& domain, const std::string& op_type);

}  // namespace tenon::import::onnx_format

#endif  // TENON_IMPORT_ONNX_GRAPH_READER_H_
