// Where the axes of a value come from: views, transposes and selections followed back to a source.
#ifndef TENON_PASSES_AXIS_MAP_H_
#define TENON_PASSES_AXIS_MAP_H_

#include <optional>
#include <vector>

#include "passes/rewriter.h"

namespace tenon::passes {

/// A factor of a source axis. `key` begins with the source axis and grows when an axis is split, outer part first, so that keys
/// in lexicographic order are the source's elements in memory order.
struct Atom {
  Dim extent;
  std::vector<int> key;
};

struct AxisMap {
  ValueId source = kNone;
  std::vector<std::vector<Atom>> axes;            ///< of the value, outermost atom first; axes of extent 1 have none
  std::vector<std::pair<Atom, int64_t>> chosen;   ///< atoms of which one index is selected
};

/// The value in terms of each source that it can be followed back to, the furthest first; the value itself comes last.
std::vector<AxisMap> TraceAxes(const Rewriter& r, ValueId v);

}  // namespace tenon::passes

#endif  // TENON_PASSES_AXIS_MAP_H_
