// What a change of a model costs, and how sure of it the samples make us.
#ifndef TENON_GUARD_DROP_H_
#define TENON_GUARD_DROP_H_

#include <string>

#include "guard/metrics.h"

namespace tenon::guard {

/// What the change from `reference` to `value` costs.
struct Drop {
  std::string metric;
  double reference = 0;
  double value = 0;
  /// Share of the reference's value that is lost, (reference - value) / |reference| (the other way round where lower is better);
  /// negative: the changed model is better. For errors against the reference's own outputs, whose value is 0: value divided by
  /// the size of those outputs (root mean square for rmse, largest absolute value for max-abs).
  double relative = 0;
  /// What other samples of this kind are expected to lose. Where rows are right or wrong a few answers decide `relative`, and
  /// none that changed does not mean that none can. There the margins tell more: each row's lead is lowered by what the change
  /// took from leads of about the same size, which counts the answers that nearly changed too. Else as `relative`.
  double expected = 0;
  /// 95 % interval of `expected`: percentiles of a paired bootstrap over rows, fixed seed; of answers without margins Agresti and
  /// Min's
  double low = 0;
  double high = 0;
  size_t rows = 0;  ///< rows judged; 0: not known one by one, then low = high = relative
  double step = 0;  ///< what one more wrong row would cost, where every row is right or wrong; else 0
};

/// Both evaluations by one metric on the same samples.
Result<Drop> Compare(const Evaluation& reference, const Evaluation& value);

/// No more is lost than `max_drop`, neither on these samples nor, at the upper end of the interval, on others.
bool Within(const Drop& drop, double max_drop);

/// About as many rows would show that `max_drop` holds, if `expected` is right; 0 where it holds or more rows would not help.
size_t RowsToTell(const Drop& drop, double max_drop);

}  // namespace tenon::guard

#endif  // TENON_GUARD_DROP_H_
