// Type and shape inference of operators with bodies: If, Loop, Scan, SequenceMap. Bodies are closed (see ir/graph.h).
#ifndef TENON_OPS_CONTROL_FLOW_H_
#define TENON_OPS_CONTROL_FLOW_H_

#include "ops/op.h"

namespace tenon::ops {

/// Layout of a node's inputs and its body's inputs:
///   If(cond, captures...)                     then/else bodies take (captures...)
///   Loop(trip?, cond?, carried..., captures...)  body takes (iteration, cond, carried..., captures...)
///   Scan(state..., scanned..., captures...)      body takes (state..., element of scanned..., captures...)
///   SequenceMap(sequence, more..., captures...)  body takes (element..., captures...)
/// Attribute `captures` holds the number of trailing captures.
int64_t NumCaptures(const ir::Node& node);

Status InferControlFlow(ir::Node& node, std::span<const kernels::ValueInfo> in, std::span<kernels::ValueInfo> out);

}  // namespace tenon::ops

#endif  // TENON_OPS_CONTROL_FLOW_H_
