// NhwcLayout: fast convolutions read and write channels-last tensors. One sweep in topological order turns every convolution and
// pool, and whatever can follow them (elementwise operators, Concat, Split, reductions, Pad, Slice, Resize, Softmax), to channels
// last. A value has both forms on demand: a Transpose is made where a reader needs the other one, and goes again when nobody
// does, so a convolutional net keeps one at its input and one at its output at most.
#include "passes/nhwc_layout.h"

#include <algorithm>

#include "passes/pass.h"
#include "passes/permutation.h"
#include "passes/quantized.h"

namespace tenon::passes {

std::vector<int64_t> Layouts::ToLast(int rank) {
  std::vector<int64_t> perm{0};
  for (int i = 2; i < rank; ++i) perm.push_back(i);
  perm.push_back(1);
  return perm;
}

std::vector<int64_t> Layouts::ToFirst(int rank) {
  std::vector<int64_t> perm{0, rank - 1};
  for (int i = 1; i < rank - 1; ++i) perm.push_back(i);
  return perm;
}

int64_t Layouts::AxisInLast(int64_t axis, int rank) {
  if (axis < 0) axis += rank;
  return axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1;
}

ValueId Layouts::Last(ValueId v, NodeId origin) {
  if (auto it = last_.find(v); it != last_.end()) return it->second;
  const std::vector<int64_t> perm = ToLast(r_.RankOf(v));
  const ValueId t = AddTranspose(r_, v, perm, origin);
  if (t == kNone) return t;
  last_[v] = t;
  if (!r_.IsConst(t)) r_.patch().NameAfter(t, v, "nhwc");
  return t;
}

void Layouts::Define(ValueId first, ValueId last, NodeId origin) {
  const ValueId back = AddTranspose(r_, last, ToFirst(r_.RankOf(last)), origin);
  CHECK(back != kNone);
  r_.Replace(first, back);
  r_.patch().NameAfter(last, back, "nhwc");
  last_[back] = last;
  native_.insert(back);
}

// A constant or scalar operand of an elementwise operator of rank `rank`, with the channels last; kNone when it is neither.
ValueId Layouts::Broadcast(ValueId v, int rank, NodeId origin) {
  if (r_.RankOf(v) == 0) return v;
  if (!r_.IsConst(v)) return r_.RankOf(v) == rank ? Last(v, origin) : kNone;
  const Tensor& t = r_.value(v).constant;
  if (t.shape().num_elements() == 1 && t.shape().rank() <= rank) return v;
  if (t.shape().rank() > rank) return kNone;
  if (t.shape().rank() == rank) return Last(v, origin);
  Shape full = Shape::OfRank(rank);
  for (int i = 0; i < t.shape().rank(); ++i) full[rank - t.shape().rank() + i] = t.shape()[i];
  return Last(r_.Constant(r_.value(v).name, t.Reshaped(full)), origin);
}

namespace {

constexpr std::string_view kLayoutAttr = "data_layout";

bool IsChannelsLast(const Rewriter& r, NodeId id) {
  return r.node(id).attrs.String(kLayoutAttr, "NCHW") == "NHWC";
}

bool OneOutput(const Rewriter& r, NodeId id) {
  const auto& outs = r.node(id).outputs;
  return !outs.empty() && outs[0] != kNone && std::all_of(outs.begin() + 1, outs.end(), [](ValueId v) { return v == kNone; });
}

bool Finish(Rewriter& r, Layouts& l, NodeId id, std::string_view op, const std::vector<ValueId>& inputs, const Attrs& attrs) {
  const ValueId y = r.Add(op, inputs, attrs, id);
  if (y == kNone) return false;
  // Of weights whose shape nobody knows the result has no known rank either.
  if (r.RankOf(y) < 3) {
    r.EraseIfUnused(r.value(y).producer);
    return false;
  }
  l.Define(r.Out(id), y, id);
  return true;
}

bool TurnConv(Rewriter& r, Layouts& l, NodeId id) {
  const std::string& name = r.node(id).op;
  const bool quantized = name == "QuantizedConv";
  const std::string op = quantized || name.substr(0, 5) == "Fused" ? name : "Fused" + name;
  const size_t residual = quantized ? 4 : 3;
  const int rank = r.RankOf(r.In(id, 0));
  const DType type = r.TypeOf(r.In(id, 0));
  if (rank < 3 || rank > 5 || IsChannelsLast(r, id)) return false;
  if (!quantized && type != DType::kF32 && type != DType::kBF16) return false;
  Attrs attrs = r.node(id).attrs;
  attrs.Set(std::string(kLayoutAttr), std::string("NHWC"));
  std::vector<ValueId> inputs = r.node(id).inputs;
  inputs[0] = l.Last(inputs[0], id);
  if (inputs.size() > residual && inputs[residual] != kNone && r.RankOf(inputs[residual]) == rank)
    inputs[residual] = l.Last(inputs[residual], id);
  // Only the oracle may serve this one; turning around it would cost without a gain.
  if (!l.FastKernelExists(op, attrs, inputs)) return false;
  return Finish(r, l, id, op, inputs, attrs);
}

bool TurnPool(Rewriter& r, Layouts& l, NodeId id) {
  const int rank = r.RankOf(r.In(id, 0));
  if (rank < 3 || rank > 5 || !OneOutput(r, id) || IsChannelsLast(r, id) || !l.Native(r.In(id, 0))) return false;
  Attrs attrs = r.node(id).attrs;
  attrs.Set(std::string(kLayoutAttr), std::string("NHWC"));
  const std::vector<ValueId> inputs{l.Last(r.In(id, 0), id)};
  if (!l.FastKernelExists(r.node(id).op, attrs, inputs)) return false;
  return Finish(r, l, id, r.node(id).op, inputs, attrs);
}

// Inputs of the result's rank that are natively channels last against those that are not.
bool Worthwhile(Rewriter& r, const Layouts& l, NodeId id, int rank) {
  int native = 0;
  int foreign = 0;
  for (ValueId v : r.node(id).inputs) {
    if (v == kNone || r.IsConst(v) || r.RankOf(v) != rank) continue;
    (l.Native(v) ? native : foreign)++;
  }
  return native > 0 && native >= foreign;
}

bool TurnElementwise(Rewriter& r, Layouts& l, NodeId id) {
  const int rank = r.RankOf(r.Out(id));
  if (rank < 3 || !OneOutput(r, id) || !Worthwhile(r, l, id, rank)) return false;
  std::vector<ValueId> inputs;
  for (ValueId v : r.node(id).inputs) {
    inputs.push_back(v == kNone ? kNone : l.Broadcast(v, rank, id));
    if (v != kNone && inputs.back() == kNone) return false;
  }
  return Finish(r, l, id, r.node(id).op, inputs, r.node(id).attrs);
}

// One scale or table for the whole tensor has no place in the layout. A quantiser goes where its reader wants it: before the
// picture is turned there are four times the bytes.
bool TurnQuantizer(Rewriter& r, Layouts& l, NodeId id) {
  const ValueId x = r.In(id, 0);
  if (r.RankOf(x) < 3 || !l.Native(x) || (r.node(id).op != "ByteTable" && !QuantisationOf(r, id))) return false;
  std::vector<ValueId> inputs = r.node(id).inputs;
  inputs[0] = l.Last(x, id);
  return Finish(r, l, id, r.node(id).op, inputs, r.node(id).attrs);
}

bool TurnAxis(Rewriter& r, Layouts& l, NodeId id) {  // Concat, Softmax, LogSoftmax
  const int rank = r.RankOf(r.Out(id));
  if (rank < 3 || !OneOutput(r, id) || !Worthwhile(r, l, id, rank)) return false;
  Attrs attrs = r.node(id).attrs;
  attrs.Set("axis", Layouts::AxisInLast(attrs.Int("axis", -1), rank));
  std::vector<ValueId> inputs;
  for (ValueId v : r.node(id).inputs) {
    if (v == kNone || r.RankOf(v) != rank) return false;
    inputs.push_back(l.Last(v, id));
  }
  return Finish(r, l, id, r.node(id).op, inputs, attrs);
}

bool TurnSplit(Rewriter& r, Layouts& l, NodeId id) {
  const ValueId x = r.In(id, 0);
  const int rank = r.RankOf(x);
  if (rank < 3 || !l.Native(x)) return false;
  const std::vector<ValueId> outputs = r.node(id).outputs;
  if (std::find(outputs.begin(), outputs.end(), kNone) != outputs.end()) return false;
  Attrs attrs = r.node(id).attrs;
  attrs.Set("axis", Layouts::AxisInLast(attrs.Int("axis", 0), rank));
  std::vector<ValueId> inputs = r.node(id).inputs;
  inputs[0] = l.Last(x, id);
  const auto parts = r.AddN("Split", inputs, attrs, outputs.size(), id);
  if (parts.empty()) return false;
  for (size_t i = 0; i < parts.size(); ++i)
    l.Define(outputs[i], parts[i], parts[i] == kNone ? kNone : r.value(parts[i]).producer);
  return true;
}

// Reductions. Without kept axes the result has another rank: it is the same in both layouts when the axes that stay are in the
// same order, which they are when the channels go, or no spatial axis stays.
bool TurnReduce(Rewriter& r, Layouts& l, NodeId id) {
  const ValueId x = r.In(id, 0);
  const int rank = r.RankOf(x);
  const auto axes = r.ConstInts(r.In(id, 1));
  if (rank < 3 || !l.Native(x) || !axes || axes->empty()) return false;
  std::vector<int64_t> turned;
  bool channels = false;
  int spatial = 0;
  for (int64_t a : *axes) {
    turned.push_back(Layouts::AxisInLast(a, rank));
    const int64_t axis = a < 0 ? a + rank : a;
    channels = channels || axis == 1;
    spatial += axis >= 2 ? 1 : 0;
  }
  std::sort(turned.begin(), turned.end());
  const bool keep = r.node(id).attrs.Int("keepdims", 1) != 0;
  if (!keep && !channels && spatial != rank - 2) return false;
  const std::vector<ValueId> inputs{l.Last(x, id), r.Ints("axes", turned)};
  if (keep) return Finish(r, l, id, r.node(id).op, inputs, r.node(id).attrs);
  const ValueId y = r.Add(r.node(id).op, inputs, r.node(id).attrs, id);
  if (y == kNone) return false;
  r.Replace(r.Out(id), y);
  return true;
}

// Operators with one constant entry per axis (Pad: two) in input `index`, or for the axes listed in input `axes_index`.
ValueId PermutedList(Rewriter& r, ValueId v, int rank, size_t per_axis) {
  if (!r.IsConst(v) || r.value(v).constant.shape().num_elements() != static_cast<int64_t>(per_axis) * rank) return kNone;
  const Tensor t = r.value(v).constant;
  auto out = Tensor::Allocate(t.dtype(), t.shape());
  if (!out.ok() || t.dtype() == DType::kString || DTypeBits(t.dtype()) % 8 != 0) return kNone;
  const size_t size = static_cast<size_t>(DTypeBits(t.dtype()) / 8);
  const auto perm = Layouts::ToLast(rank);
  for (size_t half = 0; half < per_axis; ++half) {
    for (size_t i = 0; i < perm.size(); ++i) {
      const auto* from = static_cast<const char*>(t.data()) + (half * perm.size() + static_cast<size_t>(perm[i])) * size;
      std::memcpy(static_cast<char*>(out->mutable_data()) + (half * perm.size() + i) * size, from, size);
    }
  }
  return r.Constant(r.value(v).name, *out);
}

// The list of axes in input `index` (absent: 0, 1, ... `count`-1), turned.
ValueId TurnedAxes(Rewriter& r, NodeId id, size_t index, int rank, int64_t count) {
  std::vector<int64_t> axes;
  if (r.In(id, index) != kNone) {
    const auto given = r.ConstInts(r.In(id, index));
    if (!given) return kNone;
    axes = *given;
  } else {
    for (int64_t i = 0; i < count; ++i) axes.push_back(i);
  }
  for (int64_t& a : axes) a = Layouts::AxisInLast(a, rank);
  return r.Ints("axes", axes);
}

bool TurnPad(Rewriter& r, Layouts& l, NodeId id) {
  const int rank = r.RankOf(r.In(id, 0));
  if (rank < 3 || !l.Native(r.In(id, 0)) || r.In(id, 3) != kNone) return false;
  std::vector<ValueId> inputs = r.node(id).inputs;
  inputs[1] = PermutedList(r, r.In(id, 1), rank, 2);
  if (inputs[1] == kNone) return false;
  inputs[0] = l.Last(inputs[0], id);
  return Finish(r, l, id, "Pad", inputs, r.node(id).attrs);
}

bool TurnSlice(Rewriter& r, Layouts& l, NodeId id) {
  const int rank = r.RankOf(r.In(id, 0));
  if (rank < 3 || !l.Native(r.In(id, 0))) return false;
  const int64_t count = r.ExtentOf(r.In(id, 1), 0);
  if (count <= 0) return false;
  std::vector<ValueId> inputs = r.node(id).inputs;
  inputs.resize(std::max<size_t>(inputs.size(), 4), kNone);
  inputs[3] = TurnedAxes(r, id, 3, rank, count);
  if (inputs[3] == kNone) return false;
  inputs[0] = l.Last(inputs[0], id);
  return Finish(r, l, id, "Slice", inputs, r.node(id).attrs);
}

bool TurnResize(Rewriter& r, Layouts& l, NodeId id) {
  const ValueId x = r.In(id, 0);
  const int rank = r.RankOf(x);
  if (rank < 3 || !l.Native(x) || r.node(id).attrs.Has("axes")) return false;
  if (r.node(id).attrs.String("coordinate_transformation_mode", "") == "tf_crop_and_resize") return false;
  std::vector<ValueId> inputs = r.node(id).inputs;
  if (inputs.size() > 1) inputs[1] = kNone;  // the region of interest plays no part in the other modes
  for (size_t i : {size_t{2}, size_t{3}}) {
    if (r.In(id, i) == kNone) continue;
    if (r.IsConst(r.In(id, i))) {
      inputs[i] = PermutedList(r, r.In(id, i), rank, 1);
    } else {
      const ValueId order = r.Ints("order", Layouts::ToLast(rank));
      inputs[i] = r.Add("Gather", {r.In(id, i), order}, {}, id);
    }
    if (inputs[i] == kNone) return false;
  }
  inputs[0] = l.Last(x, id);
  if (!r.KernelExists("Resize", r.node(id).attrs, inputs)) return false;
  return Finish(r, l, id, "Resize", inputs, r.node(id).attrs);
}

bool TurnShape(Rewriter& r, Layouts& l, NodeId id) {
  const ValueId x = r.In(id, 0);
  if (!l.Native(x) || r.node(id).attrs.Has("start") || r.node(id).attrs.Has("end")) return false;
  const ValueId shape = r.Add("Shape", {l.Last(x, id)}, {}, id);
  if (shape == kNone) return false;
  const ValueId order = r.Ints("order", Layouts::ToFirst(r.RankOf(x)));
  const ValueId y = r.Add("Gather", {shape, order}, {}, id);
  if (y == kNone) return false;
  r.Replace(r.Out(id), y);
  return true;
}

using Turn = bool (*)(Rewriter& r, Layouts& l, NodeId id);
struct Row {
  std::string_view op;
  Turn turn;
};
constexpr Row kRows[] = {
    {"Conv", TurnConv},
    {"FusedConv", TurnConv},
    {"QuantizedConv", TurnConv},
    {"ByteTable", TurnQuantizer},
    {"QuantizeLinear", TurnQuantizer},
    {"DequantizeLinear", TurnQuantizer},
    {"ConvTranspose", TurnConv},
    {"FusedConvTranspose", TurnConv},
    {"MaxPool", TurnPool},
    {"AveragePool", TurnPool},
    {"GlobalAveragePool", TurnPool},
    {"GlobalMaxPool", TurnPool},
    {"Concat", TurnAxis},
    {"Softmax", TurnAxis},
    {"LogSoftmax", TurnAxis},
    {"Split", TurnSplit},
    {"ReduceMean", TurnReduce},
    {"ReduceSum", TurnReduce},
    {"ReduceMax", TurnReduce},
    {"ReduceMin", TurnReduce},
    {"ReduceL2", TurnReduce},
    {"Pad", TurnPad},
    {"Slice", TurnSlice},
    {"Resize", TurnResize},
    {"Shape", TurnShape},
};

}  // namespace

bool Layouts::FastKernelExists(std::string_view op, const Attrs& attrs, const std::vector<ValueId>& inputs) {
  if (r_.FastKernelExists(op, attrs, inputs)) return true;
  r_.Refuse(fmt::format("no fast kernel for {} with channels last", op));
  return false;
}

Status NhwcLayout(Rewriter& r) {
  Layouts layouts(r);
  TENON_ASSIGN_OR_RETURN(const auto order, r.graph().TopologicalOrder());
  for (NodeId id : order) {
    const ir::Node& n = r.node(id);
    if (n.dead || n.outputs.empty() || n.outputs[0] == kNone || !n.bodies.empty()) continue;
    Turn turn = nullptr;
    for (const Row& row : kRows) {
      if (row.op == n.op) turn = row.turn;
    }
    if (turn == nullptr && ops::HasTrait(n.op, ops::kElementwise)) turn = TurnElementwise;
    if (turn != nullptr) turn(r, layouts, id);
  }
  return Status::Ok();
}

}  // namespace tenon::passes
