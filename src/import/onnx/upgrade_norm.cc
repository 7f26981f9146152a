// Upgrades of Softmax and its kin, and of normalisations.
#include "import/onnx/upgrade.h"

namespace tenon::import::onnx_format {

// Before opset 13: X is seen as a matrix [product of axes before `axis`, product of the rest], normalised over its columns.
Status SoftmaxTo13(Builder* b, Pending* p) {
  const ir::ValueId x = p->In(0);
  if (x == ir::kNone) return BadInput("has no input");
  int64_t axis = p->node.attrs.Int("axis", 1);
  if (const auto rank = b->Rank(x)) {
    if (axis < -*rank || axis > *rank) return BadInput("axis {} is outside the rank {}", axis, *rank);
    if (axis < 0) axis += *rank;
    // The last axis alone: both definitions agree.
    if (axis == *rank - 1) {
      p->node.attrs.Set("axis", int64_t{-1});
      return Status::Ok();
    }
  }
  Attrs flatten;
  flatten.Set("axis", axis);
  const ir::ValueId shape = b->Emit("Shape", {x});
  p->node.inputs = {b->Emit("Flatten", {x}, std::move(flatten))};
  p->node.attrs.Set("axis", int64_t{1});
  const ir::ValueId y = p->node.outputs[0];
  if (y == ir::kNone) return BadInput("has no output");
  After(p, "Reshape", {DivertOutput(b, p, 0), shape}, {}, y);
  return Status::Ok();
}

// `spatial` = 0: statistics for each element of [C, D1, ...], not for each channel.
Status BatchNormTo9(Builder* b, Pending* p) {
  const bool spatial = p->node.attrs.Int("spatial", 1) != 0;
  p->node.attrs.Erase("spatial");
  p->node.attrs.Erase("is_test");
  if (spatial) return Status::Ok();
  if (p->node.inputs.size() != 5) return BadInput("has {} inputs instead of 5", p->node.inputs.size());
  for (size_t i = 1; i < p->node.outputs.size(); ++i) {
    if (p->Used(i)) return Unsupported("training outputs are not supported");
  }
  const float epsilon = p->node.attrs.Float("epsilon", 1e-5F);
  const ir::ValueId centred = b->Emit("Sub", {p->In(0), p->In(3)});
  const ir::ValueId deviation = b->Emit("Sqrt", {b->Emit("Add", {p->In(4), b->ScalarLike(epsilon, p->In(0))})});
  const ir::ValueId scaled = b->Emit("Mul", {b->Emit("Div", {centred, deviation}), p->In(1)});
  p->node.op = "Add";
  p->node.attrs = Attrs();
  p->node.inputs = {scaled, p->In(2)};
  p->node.outputs.resize(1);
  return Status::Ok();
}

// The outputs of old training modes are dropped when nothing reads them.
Status BatchNormTo14(Builder* /*b*/, Pending* p) {
  for (size_t i = 1; i < p->node.outputs.size(); ++i) {
    if (p->Used(i)) return Unsupported("training outputs are not supported; only Y may be used");
  }
  if (!p->node.outputs.empty()) p->node.outputs.resize(1);
  return Status::Ok();
}

// Scale and bias were given for each group; now for each channel: [G] -> [G, 1] -> [G, C/G] -> [C].
Status GroupNormTo21(Builder* b, Pending* p) {
  const int64_t groups = p->node.attrs.Int("num_groups", 0);
  if (p->node.inputs.size() != 3 || groups < 1) return BadInput("has {} inputs and {} groups", p->node.inputs.size(), groups);
  Attrs channel;
  channel.Set("start", int64_t{1});
  channel.Set("end", int64_t{2});
  const ir::ValueId channels = b->Emit("Shape", {p->In(0)}, std::move(channel));
  const ir::ValueId repeats = b->Emit("Div", {channels, b->Ints({groups})});
  Attrs along;
  along.Set("axis", int64_t{0});
  const ir::ValueId target = b->Emit("Concat", {b->Ints({groups}), repeats}, std::move(along));
  const ir::ValueId flat = b->Ints({-1});
  for (size_t i = 1; i <= 2; ++i) {
    const ir::ValueId column = b->Emit("Unsqueeze", {p->In(i), b->Ints({1})});
    p->SetIn(i, b->Emit("Reshape", {b->Emit("Expand", {column, target}), flat}));
  }
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format
