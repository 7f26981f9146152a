// QuantizerMotion: operators that only move or choose elements work on bytes as well as on floats.
//
//   Q(move(DQ(x))) = move(x), Q(move(DQ(x), DQ(y))) = move(Q(DQ(x)), Q(DQ(y))), Q(DQ(x)) = x, all of one quantisation
//
// The quantisation is monotonic, so that a maximum of it is the quantisation of the maximum.
#include <algorithm>

#include "passes/pass.h"
#include "passes/quantized.h"

namespace tenon::passes {
namespace {

// Operators whose input 0 is the data and whose other inputs are numbers of how to move it.
bool MovesFirst(std::string_view op) {
  constexpr std::string_view kOps[] = {"Reshape", "Transpose", "Squeeze",      "Unsqueeze",    "Flatten", "Slice",
                                       "Gather",  "Expand",    "DepthToSpace", "SpaceToDepth", "Tile",    "MaxPool"};
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

// Q(DQ(x)) with one quantisation gives each byte back: x - zero times the scale, divided by it, is within 2^-22 of x - zero.
bool DropPair(Rewriter& r, NodeId id) {
  const auto q = QuantisationOf(r, id);
  const auto dq = q ? Dequantised(r, r.In(id, 0)) : std::nullopt;
  if (!dq || !dq->SameAs(*q) || r.TypeOf(dq->bytes) != r.TypeOf(r.Out(id))) return false;
  r.Replace(r.Out(id), dq->bytes);
  return true;
}

bool Raise(Rewriter& r, NodeId id) {
  const auto q = QuantisationOf(r, id);
  const NodeId mover = q ? r.SoleProducer(r.In(id, 0)) : kNone;
  if (mover == kNone) return false;
  const ir::Node& m = r.node(mover);
  const bool concat = m.op == "Concat";
  if ((!concat && !MovesFirst(m.op)) ||
      std::count_if(m.outputs.begin(), m.outputs.end(), [](ValueId v) { return v != kNone; }) != 1)
    return false;
  // It pays when every input is bytes already or can be made so by what produces it; one that agrees is the least.
  std::vector<ValueId> inputs = m.inputs;
  bool any = false;
  for (size_t i = 0; i < (concat ? inputs.size() : 1); ++i) {
    const auto dq = Dequantised(r, inputs[i]);
    if (dq && dq->SameAs(*q) && r.TypeOf(dq->bytes) == r.TypeOf(r.Out(id))) {
      inputs[i] = dq->bytes;
      any = true;
    } else if (concat && dq) {
      std::vector<ValueId> quantizer = r.node(id).inputs;
      quantizer[0] = inputs[i];
      inputs[i] = r.Add("QuantizeLinear", quantizer, r.node(id).attrs, id);
      if (inputs[i] == kNone) return false;
    } else {
      return false;
    }
  }
  if (!any) return false;
  const Attrs attrs = m.attrs;
  if (!r.KernelExists(m.op, attrs, inputs)) return false;
  const ValueId y = r.Add(m.op, inputs, attrs, mover);
  if (y == kNone) return false;
  r.Replace(r.Out(id), y);
  return true;
}

}  // namespace

Status QuantizerMotion(Rewriter& r) {
  return ApplyRules(r, {"QuantizeLinear"}, {DropPair, Raise});
}

}  // namespace tenon::passes
