#include "import/onnx/emit.h"

#include <numeric>

namespace tenon::import::onnx_format::emit {

namespace {

std::vector<ValueId> AddSplit(Builder* b, ir::Node node, size_t parts) {
  node.op = "Split";
  for (size_t i = 0; i < parts; ++i) node.outputs.push_back(b->NewValue("Split"));
  node.name = b->value(node.outputs[0]).name;
  std::vector<ValueId> outputs = node.outputs;
  b->Add(std::move(node));
  return outputs;
}

std::vector<int64_t> ChannelsLastPerm(int rank) {
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin() + 1, perm.end(), 2);
  perm.back() = 1;
  return perm;
}

}  // namespace

Attrs IntAttr(const char* name, int64_t value) {
  Attrs a;
  a.Set(name, value);
  return a;
}

Attrs FloatAttr(const char* name, float value) {
  Attrs a;
  a.Set(name, value);
  return a;
}

Attrs IntsAttr(const char* name, std::vector<int64_t> values) {
  Attrs a;
  a.Set(name, std::move(values));
  return a;
}

Status Need(const Pending& p, std::initializer_list<size_t> which) {
  for (size_t i : which) {
    if (!p.Has(i)) return BadInput("input {} is missing", i);
  }
  return Status::Ok();
}

ValueId Cast(Builder* b, ValueId x, DType to) {
  if (b->value(x).dtype == to) return x;
  return b->Emit("Cast", {x}, IntAttr("to", static_cast<int64_t>(to)));
}

ValueId Reshape(Builder* b, ValueId x, std::vector<int64_t> extents) {
  return b->Emit("Reshape", {x, b->Ints(std::move(extents))});
}

ValueId Transpose(Builder* b, ValueId x, std::vector<int64_t> perm) {
  return b->Emit("Transpose", {x}, IntsAttr("perm", std::move(perm)));
}

ValueId Concat(Builder* b, std::vector<ValueId> parts, int64_t axis) {
  return b->Emit("Concat", std::move(parts), IntAttr("axis", axis));
}

ValueId Slice(Builder* b, ValueId x, int64_t axis, int64_t start, int64_t end) {
  return SliceBetween(b, x, axis, b->Ints({start}), b->Ints({end}));
}

ValueId SliceBetween(Builder* b, ValueId x, int64_t axis, ValueId start, ValueId end) {
  return b->Emit("Slice", {x, start, end, b->Ints({axis})});
}

ValueId Pick(Builder* b, ValueId x, int64_t axis, int64_t index) {
  return b->Emit("Gather", {x, b->Int(index)}, IntAttr("axis", axis));
}

ValueId Unsqueeze(Builder* b, ValueId x, std::vector<int64_t> axes) {
  return b->Emit("Unsqueeze", {x, b->Ints(std::move(axes))});
}

ValueId Squeeze(Builder* b, ValueId x, std::vector<int64_t> axes) {
  return b->Emit("Squeeze", {x, b->Ints(std::move(axes))});
}

ValueId Extent(Builder* b, ValueId x, int64_t axis) {
  Attrs a = IntAttr("start", axis);
  a.Set("end", axis + 1);
  return b->Emit("Shape", {x}, std::move(a));
}

ValueId Count(Builder* b, ValueId count) {
  return b->Emit("Range", {b->Int(0), Squeeze(b, count, {0}), b->Int(1)});
}

std::vector<ValueId> Split(Builder* b, ValueId x, int64_t axis, int64_t parts) {
  ir::Node node;
  node.inputs = {x};
  node.attrs = IntAttr("axis", axis);
  node.attrs.Set("num_outputs", parts);
  return AddSplit(b, std::move(node), static_cast<size_t>(parts));
}

std::vector<ValueId> Split(Builder* b, ValueId x, int64_t axis, const std::vector<int64_t>& extents) {
  ir::Node node;
  node.inputs = {x, b->Ints(extents)};
  node.attrs = IntAttr("axis", axis);
  return AddSplit(b, std::move(node), extents.size());
}

ValueId FlatSoftmax(Builder* b, ValueId x, int64_t axis) {
  const auto rank = b->Rank(x);
  if (rank && (axis == -1 || axis == *rank - 1)) return b->Emit("Softmax", {x}, IntAttr("axis", -1));
  const ValueId flat = b->Emit("Flatten", {x}, IntAttr("axis", axis));
  return b->Emit("Reshape", {b->Emit("Softmax", {flat}, IntAttr("axis", 1)), b->Emit("Shape", {x})});
}

void Become(Builder* b, Pending* p, const char* op, std::vector<ValueId> inputs, Attrs attrs) {
  p->node.op = op;
  p->node.inputs = std::move(inputs);
  p->node.attrs = std::move(attrs);
  p->node.outputs.resize(1, ir::kNone);
  if (p->node.outputs[0] == ir::kNone) p->node.outputs[0] = b->NewValue(op);
}

void Give(Pending* p, size_t index, ValueId x) {
  if (p->Used(index)) After(p, "Identity", {x}, {}, p->node.outputs[index]);
}

ValueId ToChannelsFirst(Builder* b, ValueId x, int rank) {
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin() + 2, perm.end(), 1);
  perm[1] = rank - 1;
  return Transpose(b, x, std::move(perm));
}

ValueId ToChannelsLast(Builder* b, ValueId x, int rank) {
  return Transpose(b, x, ChannelsLastPerm(rank));
}

Status BecomeChannelsFirst(Builder* b, Pending* p, const char* op, bool last, std::initializer_list<size_t> more) {
  p->node.op = op;
  p->node.attrs.Erase("channels_last");
  if (!last) return Status::Ok();
  TENON_RETURN_IF_ERROR(Need(*p, {0}));
  TENON_ASSIGN_OR_RETURN(const int rank, NeedRank(*b, *p, 0));
  if (rank < 3) return BadInput("input 0 has rank {}; at least 3 is needed", rank);
  if (p->node.outputs[0] == ir::kNone) return BadInput("has no output");
  p->node.inputs[0] = ToChannelsFirst(b, p->In(0), rank);
  for (size_t i : more) {
    if (p->Has(i)) p->node.inputs[i] = ToChannelsFirst(b, p->In(i), rank);
  }
  const ValueId y = p->node.outputs[0];
  After(p, "Transpose", {DivertOutput(b, p, 0)}, IntsAttr("perm", ChannelsLastPerm(rank)), y);
  return Status::Ok();
}

Result<int> NeedRank(const Builder& b, const Pending& p, size_t index) {
  const auto rank = b.Rank(p.In(index));
  if (!rank) return Unsupported("the rank of input {} must be known", index);
  return *rank;
}

}  // namespace tenon::import::onnx_format::emit
