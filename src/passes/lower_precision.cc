// LowerPrecision: operators that the policy allows compute in bf16 or int8. Weights become constants of that type, tensors
// between operators in bf16 are bf16, and Casts stand at the borders only; integer operators read f32 and quantise it themselves.
// Runs after the layouts are settled, so that "is there a kernel" is asked about what will really run. Sums and everything inside
// a kernel stay f32, or int32.
#include <algorithm>
#include <array>
#include <deque>
#include <unordered_map>

#include "base/half.h"
#include "passes/lower_int8.h"
#include "passes/pass.h"
#include "passes/precision.h"

namespace tenon::passes {
namespace {

// Inputs of an operator that follow its element type, as bits; others (indices, scales, shapes, biases) stay as they are.
constexpr uint32_t kAll = ~0u;
struct Operands {
  std::string_view op;
  uint32_t mask;
};
constexpr std::array kOperands = {
    Operands{"AveragePool", 1},
    Operands{"Concat", kAll},
    Operands{"Expand", 1},
    Operands{"Flatten", 1},
    Operands{"Gather", 1},
    Operands{"GlobalAveragePool", 1},
    Operands{"GlobalMaxPool", 1},
    Operands{"MaxPool", 1},
    Operands{"Pad", 1 | 4},
    Operands{"ReduceMax", 1},
    Operands{"ReduceMean", 1},
    Operands{"Reshape", 1},
    Operands{"Resize", 1},
    Operands{"Slice", 1},
    Operands{"Split", 1},
    Operands{"Squeeze", 1},
    Operands{"Transpose", 1},
    Operands{"Unsqueeze", 1},
    Operands{"Softmax", 1},
    Operands{"LayerNormalization", kAll},
    Operands{"RMSNormalization", kAll},
    Operands{"Where", 2 | 4},
};

// Operators whose kernels read f32 inputs and bf16 weights side by side and write either.
bool MixesTypes(std::string_view op) {
  return op == "FusedConv" || op == "Conv" || op == "FusedMatMul" || op == "MatMul" || op == "Gemm";
}

class Lowering {
 public:
  Lowering(Rewriter& r, const PrecisionPolicy& policy, PrecisionOutcome* outcome) : r_(r), policy_(policy), outcome_(outcome) {}

  Status Run() {
    TENON_ASSIGN_OR_RETURN(order_, r_.graph().TopologicalOrder());
    const size_t slots = r_.graph().num_node_slots();
    kind_.assign(slots, Kind::kFull);
    for (NodeId id : order_) kind_[Index(id)] = Classify(id);
    if (!policy_.isolated) KeepGreyBetweenLowered();
    for (NodeId id : order_) {
      if (!PoolBytes(id) && kind_[Index(id)] != Kind::kFull) Lower(id);
    }
    for (ValueId back : backs_) r_.EraseIfUnused(r_.value(back).producer);
    return Status::Ok();
  }

 private:
  enum class Kind { kFull, kGrey, kWhite, kInteger };

  static size_t Index(NodeId id) { return static_cast<size_t>(id); }

  bool Listed(const std::set<std::string, std::less<>>& list, std::string_view op) const {
    const auto parts = PartsOf(op);
    return std::any_of(parts.begin(), parts.end(), [&](std::string_view p) { return list.contains(p); });
  }

  Kind Classify(NodeId id) {
    const ir::Node& n = r_.node(id);
    if (policy_.keep_nodes.contains(n.name)) {
      outcome_->kept.insert(n.name);
      return Kind::kFull;
    }
    if (!n.bodies.empty() || n.outputs.empty() || n.outputs[0] == kNone || r_.TypeOf(n.outputs[0]) != DType::kF32) {
      return Kind::kFull;
    }
    const bool white = Listed(policy_.white, n.op);
    if (Listed(policy_.black, n.op) || (!white && !Listed(policy_.grey, n.op))) return Kind::kFull;
    DType wish = policy_.int8 && white ? DType::kI8 : DType::kBF16;
    if (policy_.only) {
      const auto it = policy_.only->find(r_.value(n.outputs[0]).name);
      if (it == policy_.only->end()) return Kind::kFull;
      wish = it->second;
    }
    if (wish == DType::kI8 && white) return Kind::kInteger;
    if (!policy_.bf16) return Kind::kFull;
    return ClassifyBf16(id, white);
  }

  Kind ClassifyBf16(NodeId id, bool white) {
    const ir::Node& n = r_.node(id);
    if (!Serves(id, white)) {
      const std::string reason = fmt::format("no bf16 kernel for this {}", n.op);
      r_.Refuse(reason);
      if (white) outcome_->refused.push_back({n.name, n.op, reason});
      return Kind::kFull;
    }
    return white ? Kind::kWhite : Kind::kGrey;
  }

  // Which inputs would be lowered.
  uint32_t Mask(NodeId id) const {
    const ir::Node& n = r_.node(id);
    if (MixesTypes(n.op)) return n.op == "FusedConv" || n.op == "FusedMatMul" ? (1u | 2u | 8u) : (1u | 2u);
    for (const Operands& o : kOperands) {
      if (o.op == n.op) return o.mask;
    }
    return kAll;
  }

  bool Follows(NodeId id, size_t i, uint32_t mask) const {
    const ValueId v = r_.In(id, i);
    return v != kNone && (mask >> std::min<size_t>(i, 31) & 1) != 0 && r_.TypeOf(v) == DType::kF32;
  }

  // Would a fast kernel, or for what only moves bytes the same kernel as now, run the lowered node?
  bool Serves(NodeId id, bool white) {
    const ir::Node& n = r_.node(id);
    ir::Node trial;
    trial.inputs = n.inputs;
    std::vector<View> storage;
    auto in = ops::InputInfos(r_.graph(), trial, &storage);
    const std::string full = RowFor(n, in);
    const uint32_t mask = Mask(id);
    bool any = false;
    for (size_t i = 0; i < in.size(); ++i) {
      if (!Follows(id, i, mask)) continue;
      in[i].dtype = DType::kBF16;
      any = true;
      if (in[i].data == nullptr) continue;
      lowered_views_.push_back(*in[i].data);
      lowered_views_.back().dtype = DType::kBF16;
      in[i].data = &lowered_views_.back();
    }
    if (!any) return false;
    const std::string low = RowFor(n, in);
    lowered_views_.clear();
    return low == "view" || (!low.empty() && (low != "reference" || (!white && full == "reference")));
  }

  // Name of the row that serves the node with these inputs; "view" for what is none, "" when nothing does.
  std::string RowFor(const ir::Node& n, const std::vector<kernels::ValueInfo>& in) const {
    const kernels::OpKernels* op = kernels::FindOp(n.op);
    if (op == nullptr) return "";
    std::vector<kernels::ValueInfo> out(n.outputs.size());
    for (size_t i = 0; i < out.size(); ++i) out[i].present = n.outputs[i] != kNone;
    if (!kernels::InferShapes(n.op, {n.attrs, in, out}).ok()) return "";
    if (op->is_view) return "view";
    const auto choice = kernels::ChooseRow({n.op, n.attrs, in, out, r_.context().isa, 1});
    return choice.ok() ? std::string(choice->row->name) : "";
  }

  // Grey nodes stay lowered when a lowered node feeds them and one reads them, through other grey nodes if need be.
  void KeepGreyBetweenLowered() {
    const size_t n = kind_.size();
    std::vector<bool> fed(n, false);
    std::vector<bool> read(n, false);
    for (NodeId id : order_) {
      if (kind_[Index(id)] == Kind::kFull) continue;
      fed[Index(id)] = kind_[Index(id)] >= Kind::kWhite;  // integer operators can write bf16, but do not read it
      for (ValueId v : r_.node(id).inputs) {
        const NodeId p = v == kNone ? kNone : r_.value(v).producer;
        if (p != kNone && fed[Index(p)]) fed[Index(id)] = true;
      }
    }
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      const NodeId id = *it;
      if (kind_[Index(id)] == Kind::kFull) continue;
      read[Index(id)] = kind_[Index(id)] == Kind::kWhite;
      for (ValueId v : r_.node(id).outputs) {
        if (v == kNone) continue;
        for (NodeId c : r_.value(v).consumers) read[Index(id)] = read[Index(id)] || read[Index(c)];
      }
    }
    for (size_t i = 0; i < n; ++i) {
      if (kind_[i] == Kind::kGrey && (!fed[i] || !read[i])) kind_[i] = Kind::kFull;
    }
  }

  ValueId LoweredConstant(ValueId v) {
    const Tensor& t = r_.value(v).constant;
    auto low = Tensor::Allocate(DType::kBF16, t.shape());
    if (!low.ok()) return kNone;
    const auto* from = t.Data<float>();
    auto* to = low->MutableData<BFloat16>();
    for (int64_t i = 0, n = t.shape().num_elements(); i < n; ++i) to[i] = BFloat16(from[i]);
    return r_.Constant(r_.value(v).name, *std::move(low));
  }

  // `v` in bf16, made once.
  ValueId Low(ValueId v, NodeId origin) {
    if (const auto it = low_.find(v); it != low_.end()) return it->second;
    ValueId low = kNone;
    if (r_.IsConst(v)) {
      low = LoweredConstant(v);
    } else {
      Attrs attrs;
      attrs.Set("to", static_cast<int64_t>(DType::kBF16));
      low = r_.Add("Cast", {v}, attrs, origin);
      if (low != kNone) r_.patch().NameAfter(low, v, "bf16");
    }
    if (low != kNone) low_[v] = low;
    return low;
  }

  // Somebody reads the result in bf16.
  bool ReadLowered(NodeId id) const {
    for (NodeId c : r_.value(r_.Out(id)).consumers) {
      if (Index(c) < kind_.size() && (kind_[Index(c)] == Kind::kGrey || kind_[Index(c)] == Kind::kWhite)) return true;
    }
    return false;
  }
  bool ReadByIntegers(NodeId id) const {
    for (NodeId c : r_.value(r_.Out(id)).consumers) {
      if (Index(c) < kind_.size() && kind_[Index(c)] == Kind::kInteger) return true;
    }
    return false;
  }

  // The grid of the result when every reader takes bytes of it: integer operators, and pools of the largest before these.
  std::optional<ByteGrid> PassesBytes(ValueId v) const {
    const ir::Value& value = r_.value(v);
    if (policy_.isolated || r_.graph().IsOutput(v) || value.consumers.empty()) return std::nullopt;
    std::optional<ByteGrid> grid;
    for (NodeId c : value.consumers) {
      if (Index(c) >= kind_.size()) return std::nullopt;
      const ir::Node& n = r_.node(c);
      if (n.op == "MaxPool" && n.outputs.size() == 1 && value.consumers.size() == 1) return PassesBytes(n.outputs[0]);
      if (kind_[Index(c)] != Kind::kInteger) return std::nullopt;
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        if (n.inputs[i] == v && !ReadsBytes(r_, c, i)) return std::nullopt;
      }
      if (!grid && n.inputs[0] == v) grid = GridOf(r_, v, policy_);
    }
    return grid;
  }

  void LowerToInteger(NodeId id) {
    const std::string name = r_.node(id).name;
    const std::string op = r_.node(id).op;
    const ValueId full = r_.Out(id);
    std::string reason;
    Int8Request request;
    ValueId y = kNone;
    if (const auto grid = PassesBytes(full)) {
      request = {DType::kU8, *grid};
      y = AddInt8(r_, id, policy_, bytes_, request, &reason);
    }
    if (y == kNone) {
      request = {ReadLowered(id) && !ReadByIntegers(id) ? DType::kBF16 : DType::kF32, {}};
      y = AddInt8(r_, id, policy_, bytes_, request, &reason);
    }
    if (y != kNone) {
      const DType precision = policy_.weights_only != DType::kUndefined ? policy_.weights_only : DType::kI8;
      outcome_->lowered.push_back({name, op, r_.value(full).name, precision, true});
      if (request.output == DType::kU8)
        DefineBytes(full, {y, request.grid}, id);
      else
        Define(full, y, id);
      return;
    }
    // Next best.
    kind_[Index(id)] = policy_.bf16 ? ClassifyBf16(id, true) : Kind::kFull;
    if (kind_[Index(id)] == Kind::kWhite) return Lower(id);
    if (policy_.bf16 || reason.empty()) return;
    r_.Refuse(reason);
    outcome_->refused.push_back({name, op, reason});
  }

  // The largest of bytes is the byte of the largest.
  bool PoolBytes(NodeId id) {
    const ir::Node& n = r_.node(id);
    if (n.op != "MaxPool" || n.outputs.size() != 1) return false;
    const auto it = bytes_.find(n.inputs[0]);
    if (it == bytes_.end()) return false;
    const ByteGrid grid = it->second.grid;
    const ValueId full = r_.Out(id);
    const ValueId y = r_.Add("MaxPool", {it->second.value}, n.attrs, id);
    if (y == kNone) return false;
    DefineBytes(full, {y, grid}, id);
    return true;
  }

  void Lower(NodeId id) {
    if (kind_[Index(id)] == Kind::kInteger) return LowerToInteger(id);
    const ir::Node n{r_.node(id).op, r_.node(id).name, r_.node(id).attrs, r_.node(id).inputs, r_.node(id).outputs, {}, false};
    const bool mixes = MixesTypes(n.op);
    const bool keep_full_output = mixes && !policy_.isolated && !ReadLowered(id);
    const uint32_t mask = Mask(id);
    std::vector<ValueId> inputs = n.inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!Follows(id, i, mask)) continue;
      // A product reads its f32 operands as they are; only the weights decide.
      if (mixes && i != 1 && !low_.contains(inputs[i])) continue;
      inputs[i] = Low(inputs[i], id);
      if (inputs[i] == kNone) return;
    }
    Attrs attrs = n.attrs;
    if (mixes) attrs.Set("output_dtype", static_cast<int64_t>(keep_full_output ? DType::kF32 : DType::kBF16));
    const auto outputs = r_.AddN(n.op, inputs, attrs, n.outputs.size(), id);
    if (outputs.empty()) {
      r_.Refuse(fmt::format("types of {} do not fit", n.op));
      return;
    }
    outcome_->lowered.push_back({n.name, n.op, r_.value(n.outputs[0]).name, DType::kBF16, kind_[Index(id)] == Kind::kWhite});
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      if (n.outputs[i] != kNone) Define(n.outputs[i], outputs[i], id);
    }
  }

  // `full` is `low` from now on; who wants f32 reads it through a Cast, which goes again when nobody does.
  void Define(ValueId full, ValueId low, NodeId origin) {
    if (r_.TypeOf(low) != DType::kBF16) {
      r_.Replace(full, low);
      return;
    }
    Attrs attrs;
    attrs.Set("to", static_cast<int64_t>(DType::kF32));
    const ValueId back = r_.Add("Cast", {low}, attrs, origin);
    CHECK(back != kNone);
    r_.Replace(full, back);
    r_.patch().NameAfter(low, back, "bf16");
    low_[back] = low;
    backs_.push_back(back);
  }

  // `full` is what `bytes` say; who cannot read bytes reads them through DequantizeLinear.
  void DefineBytes(ValueId full, const Bytes& bytes, NodeId origin) {
    auto scale = Tensor::Allocate(DType::kF32, Shape({}));
    auto zero = Tensor::Allocate(DType::kU8, Shape({}));
    CHECK(scale.ok() && zero.ok());
    *scale->MutableData<float>() = bytes.grid.scale;
    *zero->MutableData<uint8_t>() = static_cast<uint8_t>(bytes.grid.zero);
    const std::string& name = r_.value(full).name;
    const ValueId s = r_.Constant(name + "_scale", *std::move(scale));
    const ValueId z = r_.Constant(name + "_zero_point", *std::move(zero));
    const ValueId back = r_.Add("DequantizeLinear", {bytes.value, s, z}, {}, origin);
    CHECK(back != kNone);
    r_.Replace(full, back);
    r_.patch().NameAfter(bytes.value, back, "u8");
    bytes_[back] = bytes;
    backs_.push_back(back);
  }

  Rewriter& r_;
  const PrecisionPolicy& policy_;
  PrecisionOutcome* outcome_;
  std::vector<NodeId> order_;
  std::vector<Kind> kind_;
  std::unordered_map<ValueId, ValueId> low_;
  BytesOf bytes_;
  std::vector<ValueId> backs_;
  std::deque<View> lowered_views_;
};

}  // namespace

Status LowerPrecision(Rewriter& r) {
  const PrecisionPolicy& policy = r.context().precision;
  if (!policy.lowers()) return Status::Ok();
  PrecisionOutcome unused;
  PrecisionOutcome* outcome = r.context().precision_outcome;
  return Lowering(r, policy, outcome != nullptr ? outcome : &unused).Run();
}

}  // namespace tenon::passes
