// What reading nodes and upgrading operators have in common: adding nodes to a graph with their types inferred at once, so
// that later upgrades know ranks.
#ifndef TENON_IMPORT_ONNX_BUILDER_H_
#define TENON_IMPORT_ONNX_BUILDER_H_

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tenon::import::onnx_format {

class Builder {
 public:
  /// `lenient`: the graph is, or lies in, a branch of an If. Whether a branch fits the shapes at hand is known only when it is
  /// taken, so a node that does not fit ends inference there without failing the import.
  explicit Builder(ir::Graph* graph, bool lenient = false) : graph_(graph), lenient_(lenient) {}

  ir::Graph& graph() { return *graph_; }
  const ir::Value& value(ir::ValueId id) const { return graph_->value(id); }

  /// Adds a node whose outputs exist, and infers them.
  void Add(ir::Node node);
  /// A node with one new output.
  ir::ValueId Emit(const std::string& op, std::vector<ir::ValueId> inputs, Attrs attrs = {});
  ir::ValueId Constant(Tensor tensor) { return graph_->AddConstant(prefix_ + "/constant", std::move(tensor)); }
  ir::ValueId Ints(std::vector<int64_t> values);  ///< rank 1
  ir::ValueId Int(int64_t value) { return Constant(Tensor::Scalar<int64_t>(value)); }
  ir::ValueId NewValue(const std::string& suffix) {
    return graph_->AddValue(prefix_ + "/" + suffix, DType::kUndefined, SymShape());
  }
  /// A float constant of the element type of `like` (through a CastLike when that is not known yet).
  ir::ValueId ScalarLike(double value, ir::ValueId like);

  std::optional<int> Rank(ir::ValueId id) const;
  std::optional<std::vector<int64_t>> ConstInts(ir::ValueId id) const;
  std::optional<std::vector<double>> ConstDoubles(ir::ValueId id) const;

  /// Names of nodes and values that follow begin with it.
  void SetPrefix(std::string prefix) { prefix_ = std::move(prefix); }
  const std::string& prefix() const { return prefix_; }
  /// The first failure of inference. Add and Emit go on after one, so that callers need not check each.
  const Status& status() const { return status_; }
  /// Some node's outputs could not be inferred, for lack of an operator.
  bool incomplete() const { return incomplete_; }
  void set_incomplete() { incomplete_ = true; }
  bool lenient() const { return lenient_; }

 private:
  void Infer(ir::NodeId id);

  ir::Graph* graph_;
  std::string prefix_;
  Status status_;
  bool incomplete_ = false;
  bool lenient_;
  bool stopped_ = false;
};

/// A node as it stands in the file, on its way to canonical form.
struct Pending {
  ir::Node node;                ///< op with domain prefix; outputs exist, without producers
  int64_t version = 0;          ///< opset version of its domain
  std::vector<bool> used;       ///< one per output: something reads it
  std::vector<ir::Node> after;  ///< to be added after `node`, in order
  bool bodies_incomplete = false;

  bool Has(size_t i) const { return i < node.inputs.size() && node.inputs[i] != ir::kNone; }
  ir::ValueId In(size_t i) const { return i < node.inputs.size() ? node.inputs[i] : ir::kNone; }
  void SetIn(size_t i, ir::ValueId v) {
    if (node.inputs.size() <= i) node.inputs.resize(i + 1, ir::kNone);
    node.inputs[i] = v;
  }
  bool Used(size_t i) const { return i < node.outputs.size() && node.outputs[i] != ir::kNone && used[i]; }
};

}  // namespace tenon::import::onnx_format

#endif  // TENON_IMPORT_ONNX_BUILDER_H_
