// What passes and rules see: the graph, questions that patterns ask, and edits that keep types, shapes and links right.
#ifndef TENON_PASSES_REWRITER_H_
#define TENON_PASSES_REWRITER_H_

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/patch.h"
#include "ops/op.h"
#include "passes/pipeline.h"

namespace tenon::passes {

using ir::kNone;
using ir::NodeId;
using ir::ValueId;

class Rewriter {
 public:
  Rewriter(ir::Graph& graph, const PassContext& context, PassReport* report)
      : graph_(graph), context_(context), report_(report), patch_(graph) {}

  ir::Graph& graph() { return graph_; }
  const PassContext& context() const { return context_; }
  const ir::Node& node(NodeId id) const { return graph_.node(id); }
  const ir::Value& value(ValueId id) const { return graph_.value(id); }

  // Questions.
  /// Input `i` of the node, kNone when absent.
  ValueId In(NodeId id, size_t i) const;
  /// Output 0.
  ValueId Out(NodeId id) const { return node(id).outputs[0]; }
  /// The node that produces `v` when its operator is `op` (empty: any) and `v` is its output 0; kNone otherwise.
  NodeId Producer(ValueId v, std::string_view op = {}) const;
  /// The same, and nobody but one node input reads `v`: it may be fused away.
  NodeId SoleProducer(ValueId v, std::string_view op = {}) const;
  /// True when exactly one node input reads `v` and it is no graph output.
  bool OneReader(ValueId v) const;
  /// The one node that reads `v` under the condition of OneReader, else kNone.
  NodeId SoleReader(ValueId v) const;
  bool IsConst(ValueId v) const { return graph_.IsConstant(v); }
  DType TypeOf(ValueId v) const { return v == kNone ? DType::kUndefined : value(v).dtype; }
  const SymShape& ShapeOf(ValueId v) const { return value(v).shape; }
  /// Rank, or -1 when unknown.
  int RankOf(ValueId v) const { return value(v).shape.has_rank() ? value(v).shape.rank() : -1; }
  /// Extent `axis` (negative: from the end) when it is a number, else -1.
  int64_t ExtentOf(ValueId v, int axis) const;
  /// The element of a constant with one element.
  std::optional<double> Scalar(ValueId v) const;
  /// Scalar(v) == x after rounding x to the type of v.
  bool IsScalar(ValueId v, double x) const;
  std::optional<std::vector<int64_t>> ConstInts(ValueId v) const;
  /// A float32 constant's elements.
  const float* ConstFloats(ValueId v) const;
  /// Of a binary node with a constant on either side: {variable, constant}.
  std::optional<std::pair<ValueId, ValueId>> SplitConst(NodeId id) const;
  /// Whether a kernel serves the operator with these inputs; counts a refusal otherwise.
  bool KernelExists(std::string_view op, const Attrs& attrs, const std::vector<ValueId>& inputs);
  /// Whether one other than the reference does; counts nothing.
  bool FastKernelExists(std::string_view op, const Attrs& attrs, const std::vector<ValueId>& inputs) const;

  // Edits.
  /// A constant; small helpers keep rules short.
  ValueId Constant(const std::string& hint, Tensor tensor) { return patch_.Constant(hint, std::move(tensor)); }
  ValueId Ints(const std::string& hint, const std::vector<int64_t>& values);
  ValueId ScalarLike(ValueId like, double x);  ///< rank 0, with the element type of `like` (a float type)
  /// A node with one output whose type and shape are inferred; kNone when inference refuses (nothing was added then).
  ValueId Add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs, NodeId origin);
  /// The same with several outputs; empty on refusal.
  std::vector<ValueId> AddN(std::string_view op, std::vector<ValueId> inputs, Attrs attrs, size_t outputs, NodeId origin);
  /// Every use of `from` becomes one of `to`; producers of `from` that nobody needs any more go. Counts one change.
  void Replace(ValueId from, ValueId to);
  /// Input `index` of the node becomes `v`; the former producer goes when unused. Counts one change.
  void SetInput(NodeId id, size_t index, ValueId v);
  /// Replaces attributes or operator of a node in place and infers its outputs again.
  Status Infer(NodeId id) { return ops::InferNode(graph_, id); }
  ir::Patch& patch() { return patch_; }

  void Changed() { ++report_->changes; }
  void Refuse(const std::string& reason) { ++report_->refusals[reason]; }
  int changes() const { return report_->changes; }

  /// Removes the node when none of its outputs is used, then its producers likewise.
  void EraseIfUnused(NodeId id);

 private:
  ir::Graph& graph_;
  const PassContext& context_;
  PassReport* report_;
  ir::Patch patch_;
};

/// A rewrite at one node: true when it changed the graph (the node may be gone then).
using Rule = bool (*)(Rewriter& r, NodeId id);

/// Applies rules to every node whose operator is among `roots` (empty: all), in topological order, until nothing changes.
Status ApplyRules(Rewriter& r, std::initializer_list<std::string_view> roots, std::initializer_list<Rule> rules);

}  // namespace tenon::passes

#endif  // TENON_PASSES_REWRITER_H_
