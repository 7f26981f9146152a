// The two forms of values while the layout pass runs.
#ifndef TENON_PASSES_NHWC_LAYOUT_H_
#define TENON_PASSES_NHWC_LAYOUT_H_

#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "passes/rewriter.h"

namespace tenon::passes {

class Layouts {
 public:
  explicit Layouts(Rewriter& r) : r_(r) {}

  static std::vector<int64_t> ToLast(int rank);   ///< permutation from channels first to channels last
  static std::vector<int64_t> ToFirst(int rank);  ///< and back
  /// Where axis `axis` (may be negative) of a channels-first tensor lies in its channels-last form.
  static int64_t AxisInLast(int64_t axis, int rank);

  /// The channels-last form of a channels-first value of rank >= 3.
  ValueId Last(ValueId v, NodeId origin);
  /// True when the value is computed channels last, so that its channels-first form is what costs.
  bool Native(ValueId v) const { return native_.count(v) != 0; }
  /// `last` computes what `first` did: all uses of `first` go to a transposed copy, which remembers its origin.
  void Define(ValueId first, ValueId last, NodeId origin);
  /// An operand of an elementwise operator of rank `rank` in channels-last form; kNone when that takes more than a constant or a
  /// tensor of full rank.
  ValueId Broadcast(ValueId v, int rank, NodeId origin);
  /// Whether a row other than the reference serves the operator.
  bool FastKernelExists(std::string_view op, const Attrs& attrs, const std::vector<ValueId>& inputs);

 private:
  Rewriter& r_;
  std::map<ValueId, ValueId> last_;
  std::set<ValueId> native_;
};

}  // namespace tenon::passes

#endif  // TENON_PASSES_NHWC_LAYOUT_H_
