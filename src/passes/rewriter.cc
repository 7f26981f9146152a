#include "passes/rewriter.h"

#include <algorithm>
#include <cmath>

#include "base/half.h"

namespace tenon::passes {
namespace {

// Rules shrink graphs or move them towards a normal form; more sweeps than this mean that two rules undo each other.
constexpr int kMaxSweeps = 50;

}  // namespace

ValueId Rewriter::In(NodeId id, size_t i) const {
  const auto& in = node(id).inputs;
  return i < in.size() ? in[i] : kNone;
}

NodeId Rewriter::Producer(ValueId v, std::string_view op) const {
  if (v == kNone || value(v).producer == kNone) return kNone;
  const NodeId p = value(v).producer;
  if (!op.empty() && node(p).op != op) return kNone;
  return node(p).outputs[0] == v ? p : kNone;
}

bool Rewriter::OneReader(ValueId v) const {
  return value(v).consumers.size() == 1 && !graph_.IsOutput(v);
}

NodeId Rewriter::SoleReader(ValueId v) const {
  return OneReader(v) ? value(v).consumers[0] : kNone;
}

NodeId Rewriter::SoleProducer(ValueId v, std::string_view op) const {
  const NodeId p = Producer(v, op);
  return p != kNone && OneReader(v) ? p : kNone;
}

int64_t Rewriter::ExtentOf(ValueId v, int axis) const {
  const SymShape& s = value(v).shape;
  if (!s.has_rank()) return -1;
  if (axis < 0) axis += s.rank();
  if (axis < 0 || axis >= s.rank() || !s[axis].is_const()) return -1;
  return s[axis].value();
}

std::optional<double> Rewriter::Scalar(ValueId v) const {
  if (!IsConst(v) || value(v).constant.shape().num_elements() != 1) return std::nullopt;
  const View view = value(v).constant.view();
  if (auto d = ToDoubles(view)) return (*d)[0];
  if (auto i = ToInt64s(view)) return static_cast<double>((*i)[0]);
  return std::nullopt;
}

bool Rewriter::IsScalar(ValueId v, double x) const {
  const auto s = Scalar(v);
  if (!s) return false;
  // Exporters write constants such as sqrt(2) with seven or more digits; anything closer than f32 (f16) rounding is meant.
  const DType t = TypeOf(v);
  const double tolerance = t == DType::kF16 ? 1e-3 : t == DType::kBF16 ? 8e-3 : 2e-6;
  return std::abs(*s - x) <= tolerance * std::abs(x);
}

std::optional<std::vector<int64_t>> Rewriter::ConstInts(ValueId v) const {
  if (v == kNone) return std::nullopt;
  if (IsConst(v)) return ToInt64s(value(v).constant.view());
  if (!value(v).elements) return std::nullopt;
  std::vector<int64_t> out;
  for (const Dim& d : *value(v).elements) {
    if (!d.is_const()) return std::nullopt;
    out.push_back(d.value());
  }
  return out;
}

const float* Rewriter::ConstFloats(ValueId v) const {
  return IsConst(v) && TypeOf(v) == DType::kF32 ? value(v).constant.Data<float>() : nullptr;
}

std::optional<std::pair<ValueId, ValueId>> Rewriter::SplitConst(NodeId id) const {
  const ValueId a = In(id, 0);
  const ValueId b = In(id, 1);
  if (a == kNone || b == kNone || IsConst(a) == IsConst(b)) return std::nullopt;
  return IsConst(b) ? std::pair(a, b) : std::pair(b, a);
}

bool Rewriter::KernelExists(std::string_view op, const Attrs& attrs, const std::vector<ValueId>& inputs) {
  if (ops::KernelExists(graph_, op, attrs, inputs, context_.isa)) return true;
  Refuse(fmt::format("no kernel for {}", op));
  return false;
}

bool Rewriter::FastKernelExists(std::string_view op, const Attrs& attrs, const std::vector<ValueId>& inputs) const {
  ir::Node node;
  node.inputs = inputs;
  std::vector<View> storage;
  const auto in = ops::InputInfos(graph_, node, &storage);
  std::vector<kernels::ValueInfo> out(1);
  out[0].present = true;
  if (!kernels::InferShapes(op, {attrs, in, out}).ok()) return false;
  const auto choice = kernels::ChooseRow({op, attrs, in, out, context_.isa, 1});
  return choice.ok() && choice->row->name != "reference";
}

ValueId Rewriter::Ints(const std::string& hint, const std::vector<int64_t>& values) {
  return Constant(hint, Tensor::FromVector<int64_t>({static_cast<int64_t>(values.size())}, values));
}

ValueId Rewriter::ScalarLike(ValueId like, double x) {
  switch (TypeOf(like)) {
    case DType::kF64: return Constant("scalar", Tensor::Scalar<double>(x));
    case DType::kF16: return Constant("scalar", Tensor::Scalar<Half>(Half(static_cast<float>(x))));
    case DType::kBF16: return Constant("scalar", Tensor::Scalar<BFloat16>(BFloat16(static_cast<float>(x))));
    default: return Constant("scalar", Tensor::Scalar<float>(static_cast<float>(x)));
  }
}

ValueId Rewriter::Add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs, NodeId origin) {
  const auto outputs = AddN(op, std::move(inputs), std::move(attrs), 1, origin);
  return outputs.empty() ? kNone : outputs[0];
}

std::vector<ValueId> Rewriter::AddN(std::string_view op, std::vector<ValueId> inputs, Attrs attrs, size_t outputs,
                                    NodeId origin) {
  // The name of the source node stays with what replaces it, for profiles and messages.
  const std::string name = origin == kNone ? std::string(op) : node(origin).name;
  const std::vector<std::pair<DType, SymShape>> types(outputs);
  auto values = patch_.NodeN(std::string(op), std::move(inputs), std::move(attrs), types, name);
  const NodeId added = value(values[0]).producer;
  if (!ops::InferNode(graph_, added).ok()) {
    graph_.RemoveNode(added);
    Refuse(fmt::format("{} does not fit here", op));
    return {};
  }
  return values;
}

void Rewriter::EraseIfUnused(NodeId id) {
  std::vector<NodeId> work{id};
  while (!work.empty()) {
    const NodeId n = work.back();
    work.pop_back();
    if (n == kNone || node(n).dead) continue;
    const bool used = std::any_of(node(n).outputs.begin(), node(n).outputs.end(),
                                  [&](ValueId v) { return v != kNone && graph_.UseCount(v) > 0; });
    if (used) continue;
    for (ValueId v : node(n).inputs) {
      if (v != kNone) work.push_back(value(v).producer);
    }
    graph_.RemoveNode(n);
  }
}

void Rewriter::Replace(ValueId from, ValueId to) {
  Changed();
  const NodeId producer = value(from).producer;
  // What was known of the old value holds for the new one.
  ir::Value& now = graph_.value(to);
  const ir::Value& before = value(from);
  if (!now.constant.defined()) {
    if (!now.shape.has_rank()) now.shape = before.shape;
    for (int i = 0; i < now.shape.rank() && before.shape.has_rank() && before.shape.rank() == now.shape.rank(); ++i) {
      if (!now.shape[i].is_const() && before.shape[i].is_const()) now.shape[i] = before.shape[i];
    }
    if (!now.elements) now.elements = before.elements;
  }
  patch_.Replace(from, to);
  EraseIfUnused(producer);
}

void Rewriter::SetInput(NodeId id, size_t index, ValueId v) {
  const ValueId old = node(id).inputs[index];
  if (old == v) return;
  Changed();
  graph_.SetNodeInput(id, index, v);
  if (old != kNone) EraseIfUnused(value(old).producer);
}

Status ApplyRules(Rewriter& r, std::initializer_list<std::string_view> roots, std::initializer_list<Rule> rules) {
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    const int before = r.changes();
    TENON_ASSIGN_OR_RETURN(const auto order, r.graph().TopologicalOrder());
    for (NodeId id : order) {
      if (r.node(id).dead) continue;
      if (roots.size() != 0 && std::find(roots.begin(), roots.end(), r.node(id).op) == roots.end()) continue;
      for (Rule rule : rules) {
        if (rule(r, id)) break;
      }
    }
    if (r.changes() == before) break;
  }
  return Status::Ok();
}

}  // namespace tenon::passes
