#include "serve/steps/line_rows.h"

#include <fmt/ranges.h>

namespace tenon::serve {

Result<std::vector<LineRow>> RowsInOrder(const HostTensor& batches, const HostTensor& order, size_t rank, const char* what) {
  std::vector<LineRow> rows;
  for (const HostTensor& t : AsList(batches)) {
    if (t.dtype != DType::kF32 || t.is_sequence || t.shape.size() != rank)
      return Usage("{}; shape [{}] of a batch; {} extents of FP32 are expected", what, fmt::join(t.shape, ","), rank);
    const std::vector<int64_t> shape(t.shape.begin() + 1, t.shape.end());
    int64_t elements = 1;
    for (int64_t extent : shape) elements *= extent;
    for (int64_t r = 0; r < t.shape[0]; ++r) rows.push_back({Data<float>(t) + r * elements, shape});
  }
  if (order.shape.empty()) return rows;
  TENON_RETURN_IF_ERROR(ExpectShape(order, {static_cast<int64_t>(rows.size())}, "order"));
  std::vector<LineRow> sorted(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t line = Data<int64_t>(order)[i];
    const bool fresh = line >= 0 && line < static_cast<int64_t>(rows.size()) && sorted[static_cast<size_t>(line)].shape.empty();
    if (!fresh) return Usage("order; {} at {}; each of 0..{} once is expected", line, i, rows.size() - 1);
    sorted[static_cast<size_t>(line)] = std::move(rows[i]);
  }
  return sorted;
}

}  // namespace tenon::serve
