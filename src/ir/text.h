// The text form of graphs: what `inspect` prints and what tests of passes read.
//
//   graph g(x: float32[n,3,h,w]) -> (y) {
//     w: float32[4,3,1,1] = const [1, 2, 3, ...]
//     a: float32[n,4,h,w] = Conv(x, w) {group=1, pads=[0, 0, 0, 0]} @"conv1"
//     y = Relu(a)
//   }
//
// Absent inputs and outputs are `_`; types may be left out (`?` is an unknown element type, `[...]` an unknown rank,
// `seq` marks sequences). The bodies of a node follow it as graphs between `{{` and `}}`. Attribute values: 1 (int), 1.0 (float),
// "s", [1, 2], [1.0], ["s"], `ints []` for an empty list, `tensor int64[2] [1, 2]`. Element types without a decimal form are
// written as `hex "..."`. Names that are not plain words are quoted with JSON's escapes. `#` starts a comment.
#ifndef TENON_IR_TEXT_H_
#define TENON_IR_TEXT_H_

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace tenon::ir {

struct PrintOptions {
  /// Constants with more elements are written as `const <2x3, digest>`, which Parse refuses: their contents are not there.
  int64_t max_constant_elements = 16;
  bool types = true;  ///< types and shapes of node outputs
  bool node_names = true;  ///< `@"name"` where it differs from the name of the first output
};

std::string Print(const Graph& graph, const PrintOptions& options = {});

/// Reads one graph. Errors are kBadInput with the line number. Nothing is inferred: values without a type have none.
Result<Graph> Parse(std::string_view text);

}  // namespace tenon::ir

#endif  // TENON_IR_TEXT_H_
