// The only way in which passes change a graph. A patch adds nodes and constants, redirects uses, and removes what became
// unused; graph outputs keep their names and are never lost.
#ifndef TENON_IR_PATCH_H_
#define TENON_IR_PATCH_H_

#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace tenon::ir {

class Patch {
 public:
  explicit Patch(Graph& graph) : graph_(graph) {}

  ValueId Constant(const std::string& name_hint, Tensor tensor);
  /// A node named `name_hint`, with one output of the given type and shape.
  ValueId Node(std::string op, std::vector<ValueId> inputs, Attrs attrs, DType dtype, SymShape shape,
               const std::string& name_hint);
  /// A node with several outputs; `outputs` gives type and shape of each.
  std::vector<ValueId> NodeN(std::string op, std::vector<ValueId> inputs, Attrs attrs,
                             const std::vector<std::pair<DType, SymShape>>& outputs, const std::string& name_hint);

  /// All uses of `old_value`, also as a graph output, become uses of `new_value`, which takes its name too: so names mean what
  /// they mean in the source model. Inputs, outputs and constants keep their own; a graph output replaced by one of them becomes
  /// an Identity node of it.
  void Replace(ValueId old_value, ValueId new_value);
  /// `value`, which the source does not have, is `of` in another form: it is named after it, "<of>:<form>".
  void NameAfter(ValueId value, ValueId of, const std::string& form) { graph_.Rename(value, graph_.value(of).name + ":" + form); }
  void SetInput(NodeId node, size_t index, ValueId value) { graph_.SetNodeInput(node, index, value); }
  void SetAttr(NodeId node, std::string name, AttrValue value) { graph_.node(node).attrs.Set(std::move(name), std::move(value)); }
  void SetOp(NodeId node, std::string op) { graph_.node(node).op = std::move(op); }

  /// Removes nodes none of whose outputs is used, transitively, and unused constants. Returns the number of nodes removed.
  int RemoveDead();

 private:
  Graph& graph_;
};

}  // namespace tenon::ir

#endif  // TENON_IR_PATCH_H_
