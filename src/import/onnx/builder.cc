#include "import/onnx/builder.h"

#include "ops/op.h"

namespace tenon::import::onnx_format {

void Builder::Infer(ir::NodeId id) {
  if (stopped_) return;
  const ir::Node& node = graph_->node(id);
  bool ready = ops::IsSupported(node.op) && !(incomplete_ && !node.bodies.empty());
  for (ir::ValueId v : node.inputs) {
    if (v != ir::kNone && value(v).dtype == DType::kUndefined) ready = false;
  }
  if (!ready) {
    incomplete_ = true;
    return;
  }
  Status s = ops::InferNode(*graph_, id);
  if (s.ok()) return;
  if (s.code() == Code::kUnsupported) incomplete_ = true;
  if (lenient_ && s.code() == Code::kBadInput) {
    stopped_ = true;
  } else if (status_.ok()) {
    status_ = std::move(s);
  }
}

void Builder::Add(ir::Node node) {
  while (!node.inputs.empty() && node.inputs.back() == ir::kNone) node.inputs.pop_back();
  Infer(graph_->AddNode(std::move(node)));
}

ir::ValueId Builder::Emit(const std::string& op, std::vector<ir::ValueId> inputs, Attrs attrs) {
  const ir::ValueId out = NewValue(op);
  ir::Node node;
  node.op = op;
  node.name = graph_->value(out).name;
  node.attrs = std::move(attrs);
  node.inputs = std::move(inputs);
  node.outputs = {out};
  Add(std::move(node));
  return out;
}

ir::ValueId Builder::Ints(std::vector<int64_t> values) {
  const Shape shape{static_cast<int64_t>(values.size())};
  return Constant(Tensor::FromVector<int64_t>(shape, values));
}

ir::ValueId Builder::ScalarLike(double number, ir::ValueId like) {
  const auto v = static_cast<float>(number);
  switch (value(like).dtype) {
    case DType::kF32: return Constant(Tensor::Scalar<float>(v));
    case DType::kF64: return Constant(Tensor::Scalar<double>(number));
    case DType::kI64: return Constant(Tensor::Scalar<int64_t>(static_cast<int64_t>(number)));
    case DType::kI32: return Constant(Tensor::Scalar<int32_t>(static_cast<int32_t>(number)));
    default: return Emit("CastLike", {Constant(Tensor::Scalar<float>(v)), like});
  }
}

std::optional<int> Builder::Rank(ir::ValueId id) const {
  if (id == ir::kNone || !value(id).shape.has_rank()) return std::nullopt;
  return value(id).shape.rank();
}

std::optional<std::vector<int64_t>> Builder::ConstInts(ir::ValueId id) const {
  if (!graph_->IsConstant(id)) return std::nullopt;
  return ToInt64s(value(id).constant.view());
}

std::optional<std::vector<double>> Builder::ConstDoubles(ir::ValueId id) const {
  if (!graph_->IsConstant(id)) return std::nullopt;
  return ToDoubles(value(id).constant.view());
}

}  // namespace tenon::import::onnx_format
