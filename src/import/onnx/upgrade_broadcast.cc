// Upgrades of opset < 7 arithmetic, where the second operand was broadcast only on request and from a given axis.
#include "import/onnx/upgrade.h"

namespace tenon::import::onnx_format {

namespace {

// Operand 1 with `trailing` axes of extent 1 appended.
void AppendAxes(Builder* b, Pending* p, int rank, int trailing) {
  std::vector<int64_t> axes;
  for (int i = 0; i < trailing; ++i) axes.push_back(rank + i);
  p->SetIn(1, b->Emit("Unsqueeze", {p->In(1), b->Ints(axes)}));
}

}  // namespace

// With broadcast=1, B's axes align with A's axes [axis, axis + rank of B); by default with A's last axes.
Status BroadcastTo7(Builder* b, Pending* p) {
  const bool broadcast = p->node.attrs.Int("broadcast", 0) != 0;
  const bool has_axis = p->node.attrs.Has("axis");
  int64_t axis = p->node.attrs.Int("axis", 0);
  p->node.attrs.Erase("broadcast");
  p->node.attrs.Erase("axis");
  if (!broadcast || !has_axis) return Status::Ok();
  const auto rank_a = b->Rank(p->In(0));
  const auto rank_b = b->Rank(p->In(1));
  if (rank_b && *rank_b == 0) return Status::Ok();
  if (!rank_a || !rank_b) return Unsupported("the 'axis' of opset < 7 needs operands of known rank");
  if (axis < 0) axis += *rank_a;
  if (axis < 0 || axis + *rank_b > *rank_a) {
    return BadInput("axis {} does not place an operand of rank {} in one of rank {}", axis, *rank_b, *rank_a);
  }
  const int trailing = *rank_a - static_cast<int>(axis) - *rank_b;
  if (trailing > 0) AppendAxes(b, p, *rank_b, trailing);
  return Status::Ok();
}

// C is broadcast to the product as in NumPy since opset 7; before, only on request.
Status GemmTo7(Builder* /*b*/, Pending* p) {
  p->node.attrs.Erase("broadcast");
  return Status::Ok();
}

// A slope for each channel was a vector; the new form broadcasts it, so it needs axes for what follows the channels.
Status PReluTo7(Builder* b, Pending* p) {
  const auto rank_x = b->Rank(p->In(0));
  const auto rank_slope = b->Rank(p->In(1));
  if (!rank_x || !rank_slope) return Unsupported("the form of opset < 7 needs operands of known rank");
  const SymShape& slope = b->value(p->In(1)).shape;
  if (*rank_slope != 1 || slope[0].Is(1) || *rank_x <= 2) return Status::Ok();
  AppendAxes(b, p, 1, *rank_x - 2);
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format
