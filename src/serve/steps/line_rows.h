// Rows of what a model gave for batches of lines, put back into the order of the lines.
#ifndef TENON_SERVE_STEPS_LINE_ROWS_H_
#define TENON_SERVE_STEPS_LINE_ROWS_H_

#include "serve/steps/step.h"

namespace tenon::serve {

struct LineRow {
  const float* data = nullptr;
  std::vector<int64_t> shape;   ///< of this row
};

/// Rows of all batches, each of `rank` extents with the row's first: one for each line when `order` is given, which must name
/// each of 0..n-1 once; else as they come. kUsage otherwise.
Result<std::vector<LineRow>> RowsInOrder(const HostTensor& batches, const HostTensor& order, size_t rank, const char* what);

}  // namespace tenon::serve

#endif  // TENON_SERVE_STEPS_LINE_ROWS_H_
