// The last stage: an optimised graph becomes a program, steps in execution order.
#ifndef TENON_COMPILE_LOWER_H_
#define TENON_COMPILE_LOWER_H_

#include "artifact/program.h"
#include "ir/graph.h"

namespace tenon::compile {

/// Constants are shared with the graph, not copied. Inputs named in `defaults` may be left out by callers.
Result<artifact::Program> Lower(const ir::Graph& graph, const std::map<std::string, Tensor>& defaults = {});

/// Constants that bodies capture become constants of the bodies themselves, so that their kernels can pack them. Repeats for
/// nested bodies. Returns the number of captures removed.
int SinkConstantsIntoBodies(ir::Graph& graph);

}  // namespace tenon::compile

#endif  // TENON_COMPILE_LOWER_H_
