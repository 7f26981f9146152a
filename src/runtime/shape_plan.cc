#include "runtime/shape_plan.h"

#include <algorithm>

namespace tenon::runtime {

using artifact::kAbsent;
using artifact::Program;
using artifact::Step;
using artifact::ValueIndex;
using kernels::ValueInfo;

namespace {

// Values up to this many elements are computed while planning when all their inputs are known: shape arithmetic.
constexpr int64_t kFoldElements = 4096;

class Planner {
 public:
  Planner(const Prepared& prepared, hw::Machine& machine)
      : prepared_(prepared), program_(*prepared.program), machine_(machine), plan_(std::make_unique<ShapePlan>()) {}

  Result<std::unique_ptr<ShapePlan>> Run(std::span<const View> inputs) {
    plan_->values.resize(program_.values.size());
    plan_->steps.resize(program_.steps.size());
    storage_.assign(program_.values.size(), -1);
    for (size_t i = 0; i < program_.values.size(); ++i) {
      const Tensor& t = program_.values[i].constant;
      if (t.defined()) plan_->values[i] = {Place::kConstant, 0, t.view()};
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      plan_->input_shapes.push_back(inputs[i].shape);
      if (inputs[i].sequence != nullptr || !inputs[i].present()) continue;
      View v{inputs[i].dtype, inputs[i].shape, nullptr, nullptr};
      plan_->values[static_cast<size_t>(program_.inputs[i])] = {Place::kInput, static_cast<int>(i), v};
    }
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      if (Status s = PlanStep(static_cast<int>(i)); !s.ok()) return std::move(s).Within(Describe(program_.steps[i]));
      const StepKind kind = plan_->steps[i].kind;
      plan_->has_late |= kind == StepKind::kLate || kind == StepKind::kControl;
    }
    PlaceOutputs();
    PlaceBlocks();
    CollectViews();
    return std::move(plan_);
  }

 private:
  // Memory that one or more values share (views, in-place results).
  struct Storage {
    Place place = Place::kArena;
    int index = 0;
    uint64_t bytes = 0;
    int first = 0;
    int last = 0;
  };

  // `n` new elements in memory that all steps use.
  template <typename T>
  static std::span<T> Cleared(std::vector<T>* memory, size_t n) {
    memory->clear();
    memory->resize(n);
    return *memory;
  }

  PlannedValue& value(ValueIndex v) { return plan_->values[static_cast<size_t>(v)]; }
  int last_use(ValueIndex v) const { return prepared_.last_use[static_cast<size_t>(v)]; }

  Status PlanStep(int index) {
    const PreparedStep& prepared = prepared_.steps[static_cast<size_t>(index)];
    PlannedStep& planned = plan_->steps[static_cast<size_t>(index)];
    const Step& step = *prepared.step;
    const bool late_input = std::any_of(step.inputs.begin(), step.inputs.end(),
                                        [&](ValueIndex v) { return v != kAbsent && value(v).place == Place::kUnknown; });
    if (prepared.is_control_flow() || late_input) {
      planned.kind = prepared.is_control_flow() ? StepKind::kControl : StepKind::kLate;
      return Status::Ok();
    }
    const std::span<ValueInfo> in = Cleared(&in_infos_, step.inputs.size()), out = Cleared(&out_infos_, step.outputs.size());
    for (size_t i = 0; i < in.size(); ++i) {
      if (step.inputs[i] == kAbsent) continue;
      const PlannedValue& v = value(step.inputs[i]);
      in[i].present = true;
      in[i].dtype = v.view.dtype;
      in[i].shape = v.view.shape;
      if (v.place == Place::kConstant) in[i].data = &v.view;
    }
    DeclareOutputs(program_, step, out);
    TENON_RETURN_IF_ERROR(kernels::InferShapes(step.op, {step.attrs, in, out}));
    const bool known = std::all_of(out.begin(), out.end(),
                                   [](const ValueInfo& v) { return !v.present || (!v.is_sequence && v.shape.is_const()); });
    if (!known) {
      planned.kind = StepKind::kLate;
      return Status::Ok();
    }
    for (size_t i = 0; i < out.size(); ++i) {
      if (!out[i].present) continue;
      dims_.clear();
      for (const Dim& d : out[i].shape.dims()) dims_.push_back(d.value());
      TENON_ASSIGN_OR_RETURN(const Shape shape, CheckedShape(dims_));
      value(step.outputs[i]).view = View{out[i].dtype, shape, nullptr, nullptr};
    }
    if (FoldElements(step, out)) return Status::Ok();
    if (prepared.op->is_view) return PlanView(step);
    TENON_ASSIGN_OR_RETURN(const bool folded, FoldByRunning(prepared));
    if (folded) return Status::Ok();
    // Strings are objects: they do not live in the arena.
    if (std::any_of(out.begin(), out.end(), [](const ValueInfo& v) { return v.dtype == DType::kString; })) {
      planned.kind = StepKind::kLate;
      return Status::Ok();
    }
    return PlanRun(prepared, index, &planned);
  }

  // The rule itself knew the elements (Shape of a known shape and the arithmetic behind it).
  bool FoldElements(const Step& step, std::span<const ValueInfo> out) {
    if (out.size() != 1 || !out[0].present || !out[0].elements) return false;
    const DType dtype = out[0].dtype;
    if (dtype != DType::kI64 && dtype != DType::kI32) return false;
    for (const Dim& d : *out[0].elements) {
      if (!d.is_const()) return false;
    }
    PlannedValue& v = value(step.outputs[0]);
    if (v.view.num_elements() != static_cast<int64_t>(out[0].elements->size())) return false;
    auto tensor = Tensor::Allocate(dtype, v.view.shape);
    if (!tensor.ok()) return false;
    for (size_t i = 0; i < out[0].elements->size(); ++i) {
      const int64_t n = (*out[0].elements)[i].value();
      if (dtype == DType::kI64) tensor->MutableData<int64_t>()[i] = n;
      if (dtype == DType::kI32) tensor->MutableData<int32_t>()[i] = static_cast<int32_t>(n);
    }
    SetConstant(step.outputs[0], *std::move(tensor));
    return true;
  }

  void SetConstant(ValueIndex index, Tensor tensor) {
    PlannedValue& v = value(index);
    v.place = Place::kConstant;
    v.view = tensor.view();
    plan_->folded.push_back(std::move(tensor));
  }

  Result<bool> FoldByRunning(const PreparedStep& prepared) {
    const Step& step = *prepared.step;
    if (prepared.op->is_random || step.inputs.empty()) return false;
    int64_t size = 0;
    for (ValueIndex v : step.inputs) {
      if (v == kAbsent) continue;
      if (value(v).place != Place::kConstant) return false;
      size += value(v).view.num_elements();
    }
    for (ValueIndex v : step.outputs) size += v == kAbsent ? 0 : value(v).view.num_elements();
    if (size > kFoldElements) return false;
    std::vector<View> in(step.inputs.size());
    for (size_t i = 0; i < in.size(); ++i) {
      if (step.inputs[i] != kAbsent) in[i] = value(step.inputs[i]).view;
    }
    std::vector<Tensor> tensors(step.outputs.size());
    std::vector<MutView> out(step.outputs.size());
    std::vector<View> out_views(step.outputs.size());
    for (size_t i = 0; i < out.size(); ++i) {
      if (step.outputs[i] == kAbsent) continue;
      const View& v = value(step.outputs[i]).view;
      TENON_ASSIGN_OR_RETURN(tensors[i], Tensor::Allocate(v.dtype, v.shape));
      out[i] = tensors[i].mutable_view();
      out_views[i] = out[i];
    }
    TENON_ASSIGN_OR_RETURN(const kernels::Configured configured, prepared.kernel->Configure(in, out_views));
    const auto scratch = Buffer::Allocate(configured.scratch_bytes);
    if (scratch == nullptr) return ResourceLimit("no memory for {} bytes of scratch", configured.scratch_bytes);
    TENON_RETURN_IF_ERROR(prepared.kernel->Run(
        {in, out, configured.state.get(), static_cast<std::byte*>(scratch->data()), machine_.team, nullptr}));
    for (size_t i = 0; i < out.size(); ++i) {
      if (step.outputs[i] != kAbsent) SetConstant(step.outputs[i], std::move(tensors[i]));
    }
    return true;
  }

  Status PlanView(const Step& step) {
    const PlannedValue source = value(step.inputs[0]);
    PlannedValue& v = value(step.outputs[0]);
    if (v.view.bytes() != source.view.bytes()) return Internal("a view changes its size");
    v.place = source.place;
    v.index = source.index;
    v.view.data = source.view.data;
    Share(step.outputs[0], step.inputs[0]);
    return Status::Ok();
  }

  void Share(ValueIndex v, ValueIndex with) {
    const int s = storage_[static_cast<size_t>(with)];
    storage_[static_cast<size_t>(v)] = s;
    if (s >= 0) storages_[static_cast<size_t>(s)].last = std::max(storages_[static_cast<size_t>(s)].last, last_use(v));
  }

  Status PlanRun(const PreparedStep& prepared, int index, PlannedStep* planned) {
    const Step& step = *prepared.step;
    planned->kind = StepKind::kRun;
    const std::span<View> in = Cleared(&in_views_, step.inputs.size()), out = Cleared(&out_views_, step.outputs.size());
    for (size_t i = 0; i < in.size(); ++i) {
      if (step.inputs[i] != kAbsent) in[i] = value(step.inputs[i]).view;
    }
    for (size_t i = 0; i < out.size(); ++i) {
      if (step.outputs[i] != kAbsent) out[i] = value(step.outputs[i]).view;
    }
    TENON_ASSIGN_OR_RETURN(planned->configured, prepared.kernel->Configure(in, out));
    const int in_place = FindInPlace(prepared, index);
    for (size_t i = 0; i < out.size(); ++i) {
      const ValueIndex v = step.outputs[i];
      if (v == kAbsent) continue;
      value(v).place = Place::kArena;
      if (i == 0 && in_place >= 0) {
        Share(v, step.inputs[static_cast<size_t>(in_place)]);
        continue;
      }
      storage_[static_cast<size_t>(v)] = static_cast<int>(storages_.size());
      storages_.push_back({Place::kArena, 0, out[i].bytes(), index, std::max(index, last_use(v))});
    }
    if (planned->configured.scratch_bytes > 0) {
      planned->scratch_block = static_cast<int>(scratch_.size());
      scratch_.push_back({planned->configured.scratch_bytes, index, index, 0});
    }
    return Status::Ok();
  }

  // The input whose memory output 0 may take over: in the arena, of the same size, read by nobody later.
  int FindInPlace(const PreparedStep& prepared, int index) {
    const Step& step = *prepared.step;
    const uint32_t allowed = prepared.kernel->InPlaceInputs();
    if (allowed == 0 || step.outputs.empty() || step.outputs[0] == kAbsent) return -1;
    const View& out = value(step.outputs[0]).view;
    for (size_t i = 0; i < step.inputs.size() && i < 32; ++i) {
      const ValueIndex v = step.inputs[i];
      if ((allowed >> i & 1) == 0 || v == kAbsent) continue;
      const int s = storage_[static_cast<size_t>(v)];
      if (s < 0 || storages_[static_cast<size_t>(s)].last > index) continue;
      if (value(v).view.bytes() != out.bytes() || storages_[static_cast<size_t>(s)].bytes != out.bytes()) continue;
      if (std::count(step.inputs.begin(), step.inputs.end(), v) > 1) continue;
      // Another input may be a view of the same memory.
      const bool doubled = std::any_of(step.inputs.begin(), step.inputs.end(), [&](ValueIndex o) {
        return o != kAbsent && o != v && storage_[static_cast<size_t>(o)] == s;
      });
      if (!doubled) return static_cast<int>(i);
    }
    return -1;
  }

  // Values that leave the program go straight into output buffers; the first output to claim a storage gets it.
  void PlaceOutputs() {
    plan_->output_bytes.assign(program_.outputs.size(), 0);
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      const int s = storage_[static_cast<size_t>(program_.outputs[i])];
      if (s < 0 || storages_[static_cast<size_t>(s)].place != Place::kArena) continue;
      Storage& storage = storages_[static_cast<size_t>(s)];
      storage.place = Place::kOutput;
      storage.index = static_cast<int>(i);
      plan_->output_bytes[i] = storage.bytes;
    }
  }

  void PlaceBlocks() {
    for (Storage& s : storages_) {
      if (s.place != Place::kArena) continue;
      s.index = static_cast<int>(plan_->blocks.size());
      plan_->blocks.push_back({s.bytes, s.first, s.last, 0});
    }
    const int first_scratch = static_cast<int>(plan_->blocks.size());
    plan_->blocks.insert(plan_->blocks.end(), scratch_.begin(), scratch_.end());
    for (PlannedStep& step : plan_->steps) {
      if (step.scratch_block >= 0) step.scratch_block += first_scratch;
    }
    for (size_t i = 0; i < storage_.size(); ++i) {
      if (storage_[i] < 0) continue;
      const Storage& s = storages_[static_cast<size_t>(storage_[i])];
      plan_->values[i].place = s.place;
      plan_->values[i].index = s.index;
    }
    plan_->memory = PlanMemory(plan_->blocks);
  }

  void CollectViews() {
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      PlannedStep& planned = plan_->steps[i];
      if (planned.kind != StepKind::kRun) continue;
      planned.first_in = static_cast<uint32_t>(plan_->in.size());
      planned.first_out = static_cast<uint32_t>(plan_->out.size());
      for (ValueIndex v : program_.steps[i].inputs) {
        plan_->in.push_back(v == kAbsent ? View{} : value(v).view);
        if (v != kAbsent) AddPatch(value(v), static_cast<int32_t>(plan_->in.size()) - 1, -1);
      }
      for (ValueIndex v : program_.steps[i].outputs) {
        MutView m;
        if (v != kAbsent) m = MutView{value(v).view.dtype, value(v).view.shape, nullptr, nullptr};
        plan_->out.push_back(m);
        if (v != kAbsent) AddPatch(value(v), -1, static_cast<int32_t>(plan_->out.size()) - 1);
      }
    }
  }

  void AddPatch(const PlannedValue& v, int32_t in, int32_t out) {
    if (v.place == Place::kInput || v.place == Place::kOutput) {
      plan_->patches.push_back({v.index, v.place == Place::kOutput, in, out});
    }
  }

  const Prepared& prepared_;
  const Program& program_;
  hw::Machine& machine_;
  std::unique_ptr<ShapePlan> plan_;
  std::vector<Storage> storages_;
  std::vector<Block> scratch_;
  std::vector<int> storage_;   // per value: index into storages_, -1 for constants, inputs and late values
  // Of the step at hand.
  std::vector<ValueInfo> in_infos_, out_infos_;
  std::vector<View> in_views_, out_views_;
  std::vector<int64_t> dims_;
};

}  // namespace

Result<std::unique_ptr<ShapePlan>> MakeShapePlan(const Prepared& prepared, hw::Machine& machine, std::span<const View> inputs) {
  return Planner(prepared, machine).Run(inputs);
}

std::byte* NoBytes() {
  alignas(64) static std::byte nothing[64];
  return nothing;
}

void ResolveArena(std::byte* arena, ShapePlan* plan) {
  std::byte* base = arena != nullptr ? arena : NoBytes();
  for (PlannedValue& v : plan->values) {
    if (v.place == Place::kArena) v.view.data = base + plan->blocks[static_cast<size_t>(v.index)].offset;
  }
  plan->resolved_for = arena;
}

}  // namespace tenon::runtime
