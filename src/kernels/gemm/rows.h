// Picks one operator's rows out of a family's table (the KERNEL lines of its kernels.inc).
#ifndef TENON_KERNELS_GEMM_ROWS_H_
#define TENON_KERNELS_GEMM_ROWS_H_

#include <string_view>
#include <vector>

#include "kernels/kernel.h"

namespace tenon::kernels::gemm {

/// What the bf16 rows of these need.
inline constexpr hw::IsaMask kNeedsAvx512Bf16 = hw::kAvx2 | hw::kAvx512 | hw::kAvx512Bf16;
inline constexpr hw::IsaMask kNeedsAmx = kNeedsAvx512Bf16 | hw::kAmx;

struct TableRow {
  std::string_view op;
  Row row;
};

/// The rows of `op` in table order.
inline std::vector<Row> RowsOf(std::span<const TableRow> table, std::string_view op) {
  std::vector<Row> rows;
  for (const TableRow& r : table) {
    if (r.op == op) rows.push_back(r.row);
  }
  return rows;
}

}  // namespace tenon::kernels::gemm

#endif  // TENON_KERNELS_GEMM_ROWS_H_
