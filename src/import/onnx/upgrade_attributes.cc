// Upgrades of attributes that became inputs, or changed their kind or default.
#include <map>

#include "import/onnx/upgrade.h"

namespace tenon::import::onnx_format {

// Cast-1 names the type: "FLOAT".
Status CastTo6(Builder* /*b*/, Pending* p) {
  static constexpr std::pair<const char*, DType> kNames[] = {
      {"FLOAT", DType::kF32}, {"UINT8", DType::kU8},    {"INT8", DType::kI8},    {"UINT16", DType::kU16},
      {"INT16", DType::kI16}, {"INT32", DType::kI32},   {"INT64", DType::kI64},  {"STRING", DType::kString},
      {"BOOL", DType::kBool}, {"FLOAT16", DType::kF16}, {"DOUBLE", DType::kF64}, {"UINT32", DType::kU32},
      {"UINT64", DType::kU64}};
  const std::string to = p->node.attrs.String("to", "");
  if (to.empty()) return Status::Ok();  // already a number
  for (const auto& [name, type] : kNames) {
    if (to != name) continue;
    p->node.attrs.Set("to", static_cast<int64_t>(type));
    return Status::Ok();
  }
  return BadInput("attribute 'to' is '{}', which names no element type", to);
}

Status ClipTo11(Builder* b, Pending* p) {
  const ir::ValueId x = p->In(0);
  if (x == ir::kNone) return BadInput("has no input");
  size_t index = 1;
  for (const char* name : {"min", "max"}) {
    if (p->node.attrs.Has(name)) p->SetIn(index, b->ScalarLike(p->node.attrs.Float(name, 0), x));
    p->node.attrs.Erase(name);
    ++index;
  }
  return Status::Ok();
}

Status ConcatTo4(Builder* /*b*/, Pending* p) {
  if (!p->node.attrs.Has("axis")) p->node.attrs.Set("axis", int64_t{1});
  return Status::Ok();
}

Status DftTo20(Builder* b, Pending* p) {
  p->SetIn(2, b->Int(p->node.attrs.Int("axis", 1)));
  p->node.attrs.Erase("axis");
  return Status::Ok();
}

// At inference Dropout passes its input on, and its mask is true everywhere. In training mode, or where that is decided by an
// input, it stays.
Status DropoutToIdentity(Builder* b, Pending* p) {
  if (!p->Has(0)) return BadInput("has no input");
  if (p->Has(2)) {
    const auto training = b->ConstInts(p->In(2));
    const auto ratio = b->ConstDoubles(p->In(1));
    const bool drops = !training || (!training->empty() && training->front() != 0);
    if (drops && !(ratio && !ratio->empty() && ratio->front() == 0)) {
      if (!p->Used(1)) p->node.outputs.resize(1);
      if (p->node.outputs[0] == ir::kNone) p->node.outputs[0] = b->NewValue("Dropout");
      return Status::Ok();
    }
  }
  const ir::ValueId x = p->In(0);
  if (p->Used(1)) {
    const ir::ValueId one = p->version >= 10 ? b->Constant(Tensor::Scalar<bool>(true)) : b->ScalarLike(1, x);
    After(p, "Expand", {one, b->Emit("Shape", {x})}, Attrs(), p->node.outputs[1]);
  }
  p->node.op = "Identity";
  p->node.attrs = Attrs();
  p->node.inputs = {x};
  if (p->node.outputs[0] == ir::kNone) p->node.outputs[0] = b->NewValue("Dropout");
  p->node.outputs.resize(1);
  return Status::Ok();
}

Status GridSampleTo20(Builder* /*b*/, Pending* p) {
  const std::string mode = p->node.attrs.String("mode", "bilinear");
  if (mode == "bilinear") p->node.attrs.Set("mode", std::string("linear"));
  if (mode == "bicubic") p->node.attrs.Set("mode", std::string("cubic"));
  return Status::Ok();
}

// p was a float.
Status LpPoolTo2(Builder* /*b*/, Pending* p) {
  const AttrValue* value = p->node.attrs.Find("p");
  const float* power = value == nullptr ? nullptr : std::get_if<float>(value);
  if (power == nullptr) return Status::Ok();
  if (*power < 1 || *power > 1e6F || *power != static_cast<float>(static_cast<int64_t>(*power))) {
    return Unsupported("attribute 'p' is {}; supported are whole numbers", *power);
  }
  p->node.attrs.Set("p", static_cast<int64_t>(*power));
  return Status::Ok();
}

Status PadTo2(Builder* /*b*/, Pending* p) {
  if (p->node.attrs.Has("paddings")) {
    p->node.attrs.Set("pads", p->node.attrs.Ints("paddings"));
    p->node.attrs.Erase("paddings");
  }
  return Status::Ok();
}

Status PadTo11(Builder* b, Pending* p) {
  if (!p->Has(0)) return BadInput("has no input");
  if (!p->node.attrs.Has("pads")) return BadInput("has no attribute 'pads'");
  AttrToInput(b, p, "pads", 1);
  const float value = p->node.attrs.Float("value", 0);
  p->node.attrs.Erase("value");
  if (value != 0 && p->node.attrs.String("mode", "constant") == "constant") p->SetIn(2, b->ScalarLike(value, p->In(0)));
  return Status::Ok();
}

// `output_sequence` said whether Y is wanted; now an output's presence says so.
Status RecurrentTo7(Builder* /*b*/, Pending* p) {
  p->node.attrs.Erase("output_sequence");
  return Status::Ok();
}

Status ReduceToAxesInput(Builder* b, Pending* p) {
  // An empty list of axes meant all axes, as an absent input does.
  if (p->node.attrs.Ints("axes").empty()) {
    p->node.attrs.Erase("axes");
  } else {
    AttrToInput(b, p, "axes", 1);
  }
  return Status::Ok();
}

Status ReshapeTo5(Builder* b, Pending* p) {
  if (!p->node.attrs.Has("shape") && !p->Has(1)) return BadInput("has no attribute 'shape'");
  AttrToInput(b, p, "shape", 1);
  return Status::Ok();
}

Status RoiAlignTo16(Builder* /*b*/, Pending* p) {
  p->node.attrs.Set("coordinate_transformation_mode", std::string("output_half_pixel"));
  return Status::Ok();
}

Status ScatterToScatterElements(Builder* /*b*/, Pending* p) {
  p->node.op = "ScatterElements";
  return Status::Ok();
}

Status SeluTo6(Builder* /*b*/, Pending* p) {
  if (!p->node.attrs.Has("alpha")) p->node.attrs.Set("alpha", 1.6732F);
  if (!p->node.attrs.Has("gamma")) p->node.attrs.Set("gamma", 1.0507F);
  return Status::Ok();
}

Status SliceTo10(Builder* b, Pending* p) {
  if (!p->node.attrs.Has("starts") || !p->node.attrs.Has("ends")) return BadInput("has no attribute 'starts' or 'ends'");
  const size_t starts = p->node.attrs.Ints("starts").size();
  const size_t ends = p->node.attrs.Ints("ends").size();
  const size_t axes = p->node.attrs.Has("axes") ? p->node.attrs.Ints("axes").size() : starts;
  if (starts != ends || axes != starts) return BadInput("has {} starts, {} ends and {} axes", starts, ends, axes);
  AttrToInput(b, p, "starts", 1);
  AttrToInput(b, p, "ends", 2);
  AttrToInput(b, p, "axes", 3);
  return Status::Ok();
}

// Split-1 could already take `split` as an input.
Status SplitTo2(Builder* b, Pending* p) {
  if (!p->Has(1)) return Status::Ok();
  const auto split = b->ConstInts(p->In(1));
  if (!split) return Status::Ok();
  p->node.attrs.Set("split", *split);
  p->node.inputs.resize(1);
  return Status::Ok();
}

Status SplitTo13(Builder* b, Pending* p) {
  if (!p->Has(0)) return BadInput("has no input");
  AttrToInput(b, p, "split", 1);
  return Status::Ok();
}

Status SplitTo18(Builder* /*b*/, Pending* p) {
  if (!p->Has(1)) p->node.attrs.Set("num_outputs", static_cast<int64_t>(p->node.outputs.size()));
  return Status::Ok();
}

Status SqueezeTo13(Builder* b, Pending* p) {
  if (!p->Has(0)) return BadInput("has no input");
  AttrToInput(b, p, "axes", 1);
  return Status::Ok();
}

// Tile-1 repeats along one axis: inputs `tiles` and `axis`.
Status TileTo6(Builder* b, Pending* p) {
  if (!p->Has(2)) return Status::Ok();
  const auto tiles = b->ConstInts(p->In(1));
  const auto axis = b->ConstInts(p->In(2));
  const auto rank = b->Rank(p->In(0));
  if (!tiles || !axis || !rank || tiles->size() != 1 || axis->size() != 1) {
    return Unsupported("the form of opset 1 needs constant 'tiles' and 'axis' and an input of known rank");
  }
  if (axis->front() < 0 || axis->front() >= *rank) return BadInput("axis {} is outside the rank {}", axis->front(), *rank);
  std::vector<int64_t> repeats(static_cast<size_t>(*rank), 1);
  repeats[static_cast<size_t>(axis->front())] = tiles->front();
  p->node.inputs = {p->In(0), b->Ints(repeats)};
  return Status::Ok();
}

Status TopKTo10(Builder* b, Pending* p) {
  if (p->node.attrs.Has("k")) p->SetIn(1, b->Ints({p->node.attrs.Int("k", 0)}));
  p->node.attrs.Erase("k");
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format
