// Upsample and Resize of all opsets to the newest Resize: inputs X, roi, scales, sizes.
#include <algorithm>

#include "import/onnx/upgrade.h"

namespace tenon::import::onnx_format {

// Upsample-1 scales the last two axes.
Status UpsampleTo7(Builder* b, Pending* p) {
  if (p->node.attrs.Has("scales")) return Status::Ok();
  const auto rank = b->Rank(p->In(0));
  if (rank && *rank < 2) return BadInput("needs an input of rank 2 or more");
  std::vector<float> scales(static_cast<size_t>(rank.value_or(4)), 1.0F);
  scales[scales.size() - 2] = p->node.attrs.Float("height_scale", 1.0F);
  scales[scales.size() - 1] = p->node.attrs.Float("width_scale", 1.0F);
  p->node.attrs.Erase("height_scale");
  p->node.attrs.Erase("width_scale");
  p->node.attrs.Set("scales", scales);
  return Status::Ok();
}

Status UpsampleTo9(Builder* b, Pending* p) {
  const std::vector<float> scales = p->node.attrs.Floats("scales");
  if (scales.empty()) return BadInput("has no attribute 'scales'");
  p->node.attrs.Erase("scales");
  p->SetIn(1, b->Constant(Tensor::FromVector<float>(Shape{static_cast<int64_t>(scales.size())}, scales)));
  return Status::Ok();
}

Status UpsampleTo10(Builder* /*b*/, Pending* p) {
  if (p->node.attrs.String("mode", "nearest") == "bilinear") p->node.attrs.Set("mode", std::string("linear"));
  p->node.op = "Resize";
  return Status::Ok();
}

// Resize-10: asymmetric coordinates; nearest takes the lower neighbour where it enlarges and the upper one where it reduces.
Status ResizeTo11(Builder* b, Pending* p) {
  if (p->node.inputs.size() != 2 || !p->Has(0) || !p->Has(1))
    return BadInput("has {} inputs instead of 2", p->node.inputs.size());
  Attrs& attrs = p->node.attrs;
  attrs.Set("coordinate_transformation_mode", std::string("asymmetric"));
  ir::ValueId scales = p->In(1);
  p->node.inputs = {p->In(0), ir::kNone, scales};
  if (attrs.String("mode", "nearest") != "nearest") return Status::Ok();
  attrs.Set("nearest_mode", std::string("floor"));
  const auto known = b->ConstDoubles(scales);
  if (!known || std::all_of(known->begin(), known->end(), [](double s) { return s >= 1; })) return Status::Ok();
  if (std::any_of(known->begin(), known->end(), [](double s) { return s > 1; })) {
    // Both at once: enlarge first, then reduce.
    std::vector<float> up;
    std::vector<float> down;
    for (double s : *known) {
      up.push_back(static_cast<float>(std::max(s, 1.0)));
      down.push_back(static_cast<float>(std::min(s, 1.0)));
    }
    const Shape shape{static_cast<int64_t>(up.size())};
    const ir::ValueId enlarged =
        b->Emit("Resize", {p->In(0), ir::kNone, b->Constant(Tensor::FromVector<float>(shape, up))}, attrs);
    p->node.inputs = {enlarged, ir::kNone, b->Constant(Tensor::FromVector<float>(shape, down))};
  }
  attrs.Set("nearest_mode", std::string("ceil"));
  return Status::Ok();
}

// tf_half_pixel_for_nn was removed: floor((x + 0.5) / scale), which is half_pixel rounded to the nearest, halves up.
Status ResizeTo13(Builder* /*b*/, Pending* p) {
  Attrs& attrs = p->node.attrs;
  if (attrs.String("coordinate_transformation_mode", "") != "tf_half_pixel_for_nn") return Status::Ok();
  if (attrs.String("mode", "nearest") != "nearest" || attrs.String("nearest_mode", "round_prefer_floor") != "floor") {
    return Unsupported("coordinate_transformation_mode tf_half_pixel_for_nn is supported with nearest_mode floor only");
  }
  attrs.Set("coordinate_transformation_mode", std::string("half_pixel"));
  attrs.Set("nearest_mode", std::string("round_prefer_ceil"));
  return Status::Ok();
}

// An empty constant stands for an absent roi, scales or sizes.
Status ResizeWithoutEmptyInputs(Builder* b, Pending* p) {
  for (size_t i = 1; i < p->node.inputs.size(); ++i) {
    if (b->graph().IsConstant(p->In(i)) && b->value(p->In(i)).constant.shape().num_elements() == 0) {
      p->node.inputs[i] = ir::kNone;
    }
  }
  return Status::Ok();
}

}  // namespace tenon::import::onnx_format
