// Table of the recurrent layers.
#include "kernels/rnn/rnn.h"

namespace tenon::kernels::rnn {
namespace {

enum Op { Rnn, Gru, Lstm };

struct Entry {
  Op op;
  Row row;
};

constexpr Entry kEntries[] = {
#define KERNEL(op, name, needs, can, make) {op, {name, needs, can, make}},
#include "kernels/rnn/kernels.inc"
#undef KERNEL
};

// Rows of one operator lie together in the table.
std::vector<Row> RowsOf(Op op) {
  std::vector<Row> rows;
  for (const Entry& e : kEntries) {
    if (e.op == op) rows.push_back(e.row);
  }
  return rows;
}

}  // namespace

std::span<const OpKernels> Operators() {
  static const std::vector<Row> rnn = RowsOf(Rnn);
  static const std::vector<Row> gru = RowsOf(Gru);
  static const std::vector<Row> lstm = RowsOf(Lstm);
  static const OpKernels operators[] = {
      {"RNN", InferRnn, rnn, 3, 6, 1, 2},
      {"GRU", InferGru, gru, 3, 6, 1, 2},
      {"LSTM", InferLstm, lstm, 3, 8, 1, 3},
  };
  return operators;
}

}  // namespace tenon::kernels::rnn
