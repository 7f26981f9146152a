// Reverse-mode differentiation of a graph as it is read, for the operator Gradient (ai.onnx.preview.training): nodes between
// the independent variables and the target are walked backward, and each adds nodes for its own derivatives. What is added
// consists of operators that have rules themselves, so that gradients of gradients follow.
#ifndef TENON_IMPORT_ONNX_GRADIENT_GRADIENT_H_
#define TENON_IMPORT_ONNX_GRADIENT_GRADIENT_H_

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "import/onnx/gradient/term.h"

namespace tenon::import::onnx_format::gradient {

/// A node on the way back. With L the target: `dy` holds dL/d(output i), a rule fills dL/d(input i).
class Backward {
 public:
  Backward(Builder* b, const ir::Node& node, std::vector<ValueId> dy, std::vector<bool> wanted)
      : b(b), node(node), dy(std::move(dy)), dx(node.inputs.size(), ir::kNone), wanted_(std::move(wanted)) {}

  Builder* const b;
  const ir::Node& node;
  const std::vector<ValueId> dy;  ///< kNone: zero
  std::vector<ValueId> dx;        ///< kNone: zero

  const Attrs& attrs() const { return node.attrs; }
  bool Has(size_t i) const { return i < node.inputs.size() && node.inputs[i] != ir::kNone; }
  /// Someone asks for the derivative with respect to input i.
  bool Wants(size_t i) const { return i < wanted_.size() && wanted_[i]; }
  Term X(size_t i) const { return {b, i < node.inputs.size() ? node.inputs[i] : ir::kNone}; }
  Term Y() const { return {b, node.outputs[0]}; }
  Term G() const { return {b, dy[0]}; }
  Term Scalar(double value) const { return {b, b->ScalarLike(value, node.inputs[0])}; }

  /// dL/d(input i) is `g`, which has the shape of the input.
  void Set(size_t i, Term g) {
    if (Wants(i)) dx[i] = g.id;
  }
  /// The same where the input was broadcast to the shape of `g`.
  void SetReduced(size_t i, Term g) {
    if (Wants(i)) dx[i] = ReduceLike(g, X(i)).id;
  }

 private:
  const std::vector<bool> wanted_;  // one for each input
};

using Rule = Status (*)(Backward* s);

#define GRADIENT(op, rule) Status rule(Backward* s);
#include "import/onnx/gradient/rules.inc"
#undef GRADIENT

/// The rule of `op`; null when it has none.
Rule FindRule(std::string_view op);

/// What is differentiated: `y`, as a function of `xs` and of `fixed`, beyond which nothing is looked at.
struct Problem {
  ValueId y = ir::kNone;
  ValueId seed = ir::kNone;  ///< dL/dy; kNone: ones, so that L is the sum of y's elements
  std::vector<ValueId> xs;
  std::set<ValueId> fixed;
  std::function<bool(ValueId)> refused;  ///< values whose producers cannot be seen; may be empty
  int64_t max_nodes = int64_t{1} << 20;  ///< of the whole graph
};

/// dL/dx for each of `xs`, kNone where L does not depend on it. Equal `xs` get the same value.
Result<std::vector<ValueId>> Differentiate(Builder* b, const Problem& problem);

/// `y` computed anew with other values in place of some; nodes that depend on none of them are shared.
Result<ValueId> Substitute(Builder* b, ValueId y, const std::map<ValueId, ValueId>& with, int64_t max_nodes);

/// dL/d(inputs of s) where `y` says the node's first output by means of the node's inputs.
Status Through(Backward* s, Term y);

/// Zeros in the shape of x.
Term ZerosLike(Term x);

}  // namespace tenon::import::onnx_format::gradient

#endif  // TENON_IMPORT_ONNX_GRADIENT_GRADIENT_H_
