// Operators of com.microsoft that move, pick or count elements, where ONNX says the same with other operators.
#include <cmath>

#include "import/onnx/emit.h"

namespace tenon::import::onnx_format {

using emit::Extent;
using ir::kNone;
using ir::ValueId;

// x, int32 axis
Status MicrosoftExpandDims(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1}));
  const ValueId axis = emit::Cast(b, emit::Reshape(b, p->In(1), {1}), DType::kI64);
  emit::Become(b, p, "Unsqueeze", {p->In(0), axis});
  return Status::Ok();
}

Status MicrosoftGatherNd(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1}));
  emit::Become(b, p, "GatherND", {p->In(0), emit::Cast(b, p->In(1), DType::kI64)});
  return Status::Ok();
}

Status MicrosoftGridSample(Builder* b, Pending* p) {
  p->node.op = "GridSample";
  return GridSampleTo20(b, p);
}

// data, pads ([2 * rank] or [1, 2 * rank]), value (a scalar or [1])
Status MicrosoftPad(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1}));
  const ValueId value = p->Has(2) ? emit::Reshape(b, p->In(2), {}) : kNone;
  const std::string mode = p->node.attrs.String("mode", "constant");
  Attrs attrs;
  attrs.Set("mode", mode);
  emit::Become(b, p, "Pad", {p->In(0), emit::Reshape(b, p->In(1), {-1}), value}, std::move(attrs));
  return Status::Ok();
}

// start, limit, delta (1): scalars or [1]
Status MicrosoftRange(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1}));
  const auto scalar = [&](size_t i) { return emit::Reshape(b, p->In(i), {}); };
  const ValueId delta = p->Has(2) ? scalar(2) : b->ScalarLike(1, p->In(0));
  emit::Become(b, p, "Range", {scalar(0), scalar(1), delta});
  return Status::Ok();
}

// y in order of first occurrence, index of each element in y, counts
Status MicrosoftUnique(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0}));
  const auto output = [&](size_t i) { return i < p->node.outputs.size() ? p->node.outputs[i] : kNone; };
  std::vector<ValueId> outputs{output(0), kNone, output(1), output(2)};
  if (outputs[0] == kNone) outputs[0] = b->NewValue("y");
  while (outputs.back() == kNone) outputs.pop_back();
  p->node.op = "Unique";
  p->node.attrs = emit::IntAttr("sorted", 0);
  p->node.outputs = std::move(outputs);
  return Status::Ok();
}

// Windows of `size` along `dim`, `step` apart; the places within a window become the last axis.
Status MicrosoftUnfoldTensor(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0}));
  TENON_ASSIGN_OR_RETURN(const int rank, emit::NeedRank(*b, *p, 0));
  const int64_t size = p->node.attrs.Int("size", 0), step = p->node.attrs.Int("step", 1);
  int64_t dim = p->node.attrs.Int("dim", -1);
  constexpr int64_t kMost = int64_t{1} << 30;
  if (dim < 0) dim += rank;
  if (dim < 0 || dim >= rank || size < 1 || step < 1 || size > kMost || step > kMost) {
    return BadInput("dim {}, size {}, step {} of an input of rank {}", dim, size, step, rank);
  }
  const ValueId room = b->Emit("Add", {b->Emit("Sub", {Extent(b, p->In(0), dim), b->Ints({size})}), b->Ints({step})});
  const ValueId starts = b->Emit("Mul", {emit::Count(b, b->Emit("Div", {room, b->Ints({step})})), b->Ints({step})});
  const ValueId places = b->Emit("Add", {emit::Unsqueeze(b, starts, {1}), emit::Count(b, b->Ints({size}))});
  const ValueId windows = b->Emit("Gather", {p->In(0), places}, emit::IntAttr("axis", dim));
  std::vector<int64_t> perm;
  for (int64_t i = 0; i <= rank; ++i) {
    if (i != dim + 1) perm.push_back(i);
  }
  perm.push_back(dim + 1);
  emit::Become(b, p, "Transpose", {windows}, emit::IntsAttr("perm", std::move(perm)));
  return Status::Ok();
}

// input_ids [batch, seq], scores [batch, vocabulary]: -inf for the token that would end an n-gram that is there already.
Status MicrosoftNGramRepeatBlock(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1}));
  const int64_t n = p->node.attrs.Int("ngram_size", 0);
  if (n < 1) return BadInput("ngram_size is {}; at least 1 needed", n);
  if (n > 64) return Unsupported("ngram_size {} is not supported; up to 64 is", n);
  const ValueId ids = p->In(0), length = Extent(b, ids, 1);
  // First positions: windows [i, i + n) of the sequence; the tail holds its last n - 1 tokens.
  const ValueId windows = b->Emit("Max", {b->Emit("Sub", {length, b->Ints({n - 1})}), b->Ints({0})});
  const ValueId tokens = emit::Slice(b, ids, 1, n - 1, INT64_MAX);
  ValueId banned = b->ScalarLike(-INFINITY, p->In(1));
  const ValueId allowed = b->ScalarLike(INFINITY, p->In(1));
  ValueId updates = b->Emit("Expand", {banned, b->Emit("Shape", {tokens})});
  const ValueId one = b->Ints({1});
  for (int64_t j = 0; j + 1 < n; ++j) {
    const ValueId from = b->Ints({j}), tail = b->Emit("Add", {windows, from});
    const ValueId head = emit::SliceBetween(b, ids, 1, from, tail);
    const ValueId last = emit::SliceBetween(b, ids, 1, tail, b->Emit("Add", {tail, one}));
    updates = b->Emit("Where", {b->Emit("Equal", {head, last}), updates, allowed});
  }
  Attrs attrs = emit::IntAttr("axis", 1);
  attrs.Set("reduction", std::string("min"));
  emit::Become(b, p, "ScatterElements", {p->In(1), tokens, updates}, std::move(attrs));
  return Status::Ok();
}

namespace {

// One axis of CropAndResize: places in the picture [rois, crop], and whether they lie within it.
struct Places {
  ValueId at, inside, crop;
};

Places Along(Builder* b, const Pending& p, int axis) {
  const ValueId one = b->ScalarLike(1, p.In(0)), zero = b->ScalarLike(0, p.In(0)), half = b->ScalarLike(0.5, p.In(0));
  const ValueId first = emit::Slice(b, p.In(1), 1, axis, axis + 1), last = emit::Slice(b, p.In(1), 1, axis + 2, axis + 3);
  const ValueId edge = b->Emit("Sub", {emit::Cast(b, Extent(b, p.In(0), axis + 2), DType::kF32), one});
  Places out;
  out.crop = emit::Cast(b, emit::Slice(b, p.In(3), 0, axis, axis + 1), DType::kI64);
  const ValueId several = b->Emit("Greater", {out.crop, b->Ints({1})});
  const ValueId steps = b->Emit("Max", {b->Emit("Sub", {emit::Cast(b, out.crop, DType::kF32), one}), one});
  // A crop of one takes the middle.
  const ValueId middle = b->Emit("Mul", {b->Emit("Add", {first, last}), half});
  const ValueId begin = b->Emit("Mul", {b->Emit("Where", {several, first, middle}), edge});
  const ValueId width = b->Emit("Mul", {b->Emit("Sub", {last, first}), edge});
  const ValueId place = emit::Cast(b, emit::Count(b, out.crop), DType::kF32);
  out.at = b->Emit("Add", {begin, b->Emit("Mul", {place, b->Emit("Div", {width, steps})})});
  out.inside = b->Emit("And", {b->Emit("GreaterOrEqual", {out.at, zero}), b->Emit("LessOrEqual", {out.at, edge})});
  if (p.node.attrs.String("mode", "bilinear") == "nearest") out.at = b->Emit("Floor", {b->Emit("Add", {out.at, half})});
  // GridSample's coordinates: -1 and 1 are the centres of the outermost pixels.
  const ValueId two = b->ScalarLike(2, p.In(0));
  out.at = b->Emit("Sub", {b->Emit("Div", {b->Emit("Mul", {out.at, two}), b->Emit("Max", {edge, one})}), one});
  return out;
}

}  // namespace

// X [n, c, h, w], rois [r, 4] (y1, x1, y2, x2 in [0, 1]), batch_indices [r], crop_size [2]
Status MicrosoftCropAndResize(Builder* b, Pending* p) {
  TENON_RETURN_IF_ERROR(emit::Need(*p, {0, 1, 2, 3}));
  const std::string mode = p->node.attrs.String("mode", "bilinear");
  if (mode != "bilinear" && mode != "nearest") return BadInput("mode is '{}'; allowed: bilinear, nearest", mode);
  const Places y = Along(b, *p, 0), x = Along(b, *p, 1);
  const ValueId shape = emit::Concat(b, {Extent(b, p->In(1), 0), y.crop, x.crop}, 0);
  const ValueId grid_x = emit::Unsqueeze(b, b->Emit("Expand", {emit::Unsqueeze(b, x.at, {1}), shape}), {3});
  const ValueId grid_y = emit::Unsqueeze(b, b->Emit("Expand", {emit::Unsqueeze(b, y.at, {2}), shape}), {3});
  Attrs attrs = emit::IntAttr("align_corners", 1);
  attrs.Set("mode", std::string(mode == "nearest" ? "nearest" : "linear"));
  attrs.Set("padding_mode", std::string("border"));
  const ValueId pictures = b->Emit("Gather", {p->In(0), p->In(2)}, emit::IntAttr("axis", 0));
  const ValueId sampled = b->Emit("GridSample", {pictures, emit::Concat(b, {grid_x, grid_y}, 3)}, std::move(attrs));
  const ValueId inside = b->Emit("And", {emit::Unsqueeze(b, y.inside, {1, 3}), emit::Unsqueeze(b, x.inside, {1, 2})});
  const float outside = p->node.attrs.Float("extrapolation_value", 0);
  emit::Become(b, p, "Where", {inside, sampled, b->ScalarLike(outside, p->In(0))});
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format
