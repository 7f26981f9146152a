// The graph: values and nodes. Knows no operator; `ops/` knows what they mean.
//
// Sub-graphs (bodies of If, Loop, Scan) are closed: what a body uses from outside is passed as trailing inputs of its node
// (captures) and received as trailing inputs of the body. So no pass has to think about scopes.
//
// Passes change a graph only through Patch (ir/patch.h).
#ifndef TENON_IR_GRAPH_H_
#define TENON_IR_GRAPH_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/dim.h"
#include "tensor/attrs.h"

namespace tenon::ir {

using ValueId = int32_t;
using NodeId = int32_t;
inline constexpr int32_t kNone = -1;  ///< absent optional input or output; no producer

struct Value {
  std::string name;                          ///< unique in its graph
  DType dtype = DType::kUndefined;
  bool is_sequence = false;                  ///< sequence or optional of tensors of `dtype`
  bool is_optional = false;                  ///< of a sequence: an optional tensor; set by importers
  SymShape shape;
  std::optional<std::vector<Dim>> elements;  ///< symbolic elements of a small integer tensor, where known
  Tensor constant;                           ///< defined() for initialisers and folded values
  NodeId producer = kNone;                   ///< kNone for graph inputs and constants
  std::vector<NodeId> consumers;             ///< one entry per use
  bool dead = false;
};

class Graph;

struct Node {
  std::string op;                            ///< canonical operator name
  std::string name;                          ///< of the source model, for messages; may repeat
  Attrs attrs;
  std::vector<ValueId> inputs;               ///< kNone: absent
  std::vector<ValueId> outputs;              ///< kNone: unused
  std::vector<std::unique_ptr<Graph>> bodies;
  bool dead = false;
};

class Graph {
 public:
  std::string name;
  std::map<std::string, std::string> metadata;   ///< the source model's metadata_props

  Graph() = default;
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;

  /// A copy with bodies of its own and the same ids; constants are shared.
  Graph Clone() const;

  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id)]; }
  Value& value(ValueId id) { return values_[static_cast<size_t>(id)]; }
  const Node& node(NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  Node& node(NodeId id) { return nodes_[static_cast<size_t>(id)]; }
  size_t num_value_slots() const { return values_.size(); }
  size_t num_node_slots() const { return nodes_.size(); }

  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<ValueId>& outputs() const { return outputs_; }
  bool IsInput(ValueId id) const;
  bool IsOutput(ValueId id) const;
  bool IsConstant(ValueId id) const { return id != kNone && value(id).constant.defined(); }
  /// Number of uses by nodes plus uses as a graph output.
  size_t UseCount(ValueId id) const;
  /// kNone when there is none with this (live) name.
  ValueId FindValue(const std::string& name) const;

  /// Live nodes so that each comes after its producers; otherwise in order of creation. A cycle is an error.
  Result<std::vector<NodeId>> TopologicalOrder() const;

  // Construction, for importers, parsers and Patch.
  /// `name` is made unique by a suffix when taken; empty: a name is invented.
  ValueId AddValue(std::string name, DType dtype, SymShape shape);
  ValueId AddInput(std::string name, DType dtype, SymShape shape);
  ValueId AddConstant(std::string name, Tensor tensor);
  void AddOutput(ValueId id) { outputs_.push_back(id); }
  void SetOutput(size_t index, ValueId id) { outputs_[index] = id; }
  void MarkInput(ValueId id) { inputs_.push_back(id); }
  void RemoveInput(size_t index);
  void RemoveOutput(size_t index) { outputs_.erase(outputs_.begin() + static_cast<std::ptrdiff_t>(index)); }
  /// `node.outputs` must not have producers yet.
  NodeId AddNode(Node node);
  void SetNodeInput(NodeId id, size_t index, ValueId value);
  void AppendNodeInput(NodeId id, ValueId value);
  void EraseNodeInput(NodeId id, size_t index);
  /// Unlinks and marks dead; its outputs must have no uses left and are marked dead too.
  void RemoveNode(NodeId id);
  void RemoveValue(ValueId id);
  void Rename(ValueId id, const std::string& name);
  /// Makes every node that read `from` read `to`. Graph outputs are not touched.
  void ReplaceNodeUses(ValueId from, ValueId to);

 private:
  std::string UniqueName(std::string name);
  std::deque<Value> values_;  // deque: references stay valid while values are added
  std::deque<Node> nodes_;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  std::map<std::string, ValueId, std::less<>> by_name_;
  int64_t next_name_ = 0;
};

/// Checks links both ways, unique names, order (no cycle), declared outputs produced, bodies likewise. Cheap enough to run
/// after every pass in tests and debug builds.
Status Verify(const Graph& graph);

}  // namespace tenon::ir

#endif  // TENON_IR_GRAPH_H_
