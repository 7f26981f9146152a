#include "runtime/executor.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>

#include "hw/team_width.h"
#include "kernels/cost.h"
#include "runtime/host_tensor.h"

namespace tenon::runtime {

using artifact::kAbsent;
using artifact::Program;
using artifact::Step;
using artifact::ValueIndex;
using kernels::ValueInfo;

namespace {

uint64_t NowNs() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

// After this many runs below half of the arena, the arena shrinks to what they needed.
constexpr uint64_t kShrinkAfterRuns = 64;

}  // namespace

Arena::~Arena() {
  Free();
}

void Arena::Free() {
  if (data_ != nullptr) munmap(data_, charged_.bytes());
  data_ = nullptr;
  (void)charged_.Resize(0, "");
}

Status Arena::Reserve(uint64_t bytes) {
  constexpr uint64_t kPage = 4096;
  constexpr uint64_t kHugePage = 2 << 20;
  bytes = (bytes + kPage - 1) / kPage * kPage;
  if (bytes <= charged_.bytes()) return Status::Ok();
  Free();
  TENON_RETURN_IF_ERROR(charged_.Resize(bytes, "activations"));
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) {
    (void)charged_.Resize(0, "");
    return ResourceLimit("cannot map {} bytes for activations", bytes);
  }
  if (bytes >= 2 * kHugePage) madvise(p, bytes, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(p);
  return Status::Ok();
}

Executor::Executor(const Program& program, hw::Machine& machine, int max_cached_shapes)
    : program_(&program),
      machine_(machine),
      max_plans_(static_cast<size_t>(std::max(1, max_cached_shapes))),
      arena_(machine.budget),
      pool_(machine.budget),
      outputs_(program.outputs.size()),
      results_(program.outputs.size()),
      owned_(program.outputs.size(), false),
      late_(program.values.size()),
      late_cache_(program.steps.size()),
      dies_after_(program.steps.size()) {}

Result<std::unique_ptr<Executor>> Executor::Create(const Program& program, hw::Machine& machine, int max_cached_shapes) {
  std::unique_ptr<Executor> executor(new Executor(program, machine, max_cached_shapes));
  TENON_ASSIGN_OR_RETURN(executor->prepared_, Prepare(program, machine, max_cached_shapes));
  for (size_t v = 0; v < program.values.size(); ++v) {
    const int last = executor->prepared_.last_use[v];
    if (last >= 0 && last < static_cast<int>(program.steps.size())) {
      executor->dies_after_[static_cast<size_t>(last)].push_back(static_cast<ValueIndex>(v));
    }
  }
  return executor;
}

Status Executor::SelectPlan(std::span<const View> inputs) {
  ++clock_;
  const auto matches = [&](const ShapePlan& plan) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!(plan.input_shapes[i] == inputs[i].shape)) return false;
    }
    return true;
  };
  if (current_ == nullptr || !matches(*current_)) {
    current_ = nullptr;
    for (const auto& plan : plans_) {
      if (matches(*plan)) current_ = plan.get();
    }
  }
  if (current_ == nullptr) {
    if (plans_.size() >= max_plans_) {
      plans_.erase(std::min_element(plans_.begin(), plans_.end(),
                                    [](const auto& a, const auto& b) { return a->last_used < b->last_used; }));
    }
    TENON_ASSIGN_OR_RETURN(auto plan, MakeShapePlan(prepared_, machine_, inputs));
    plans_.push_back(std::move(plan));
    current_ = plans_.back().get();
  }
  current_->last_used = clock_;
  return Status::Ok();
}

void Executor::ShrinkArenaWhenIdle() {
  recent_peak_ = std::max(recent_peak_, current_->memory.peak);
  if (clock_ % kShrinkAfterRuns != 0) return;
  if (recent_peak_ < arena_.bytes() / 2) arena_.Free();
  recent_peak_ = current_->memory.peak;
}

Status Executor::ReserveMemory() {
  ShrinkArenaWhenIdle();
  TENON_RETURN_IF_ERROR(arena_.Reserve(current_->memory.peak));
  if (current_->resolved_for != arena_.data()) {
    ResolveArena(arena_.data(), current_);
    for (size_t s = 0; s < program_->steps.size(); ++s) {
      const PlannedStep& planned = current_->steps[s];
      if (planned.kind != StepKind::kRun) continue;
      const Step& step = program_->steps[s];
      for (size_t i = 0; i < step.inputs.size(); ++i) {
        if (step.inputs[i] != kAbsent)
          current_->in[planned.first_in + i].data = current_->values[static_cast<size_t>(step.inputs[i])].view.data;
      }
      for (size_t i = 0; i < step.outputs.size(); ++i) {
        if (step.outputs[i] == kAbsent) continue;
        current_->out[planned.first_out + i].data =
            const_cast<void*>(current_->values[static_cast<size_t>(step.outputs[i])].view.data);
      }
    }
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    OutputBuffer& o = outputs_[i];
    const uint64_t bytes = current_->output_bytes[i];
    o.in_use = NoBytes();
    if (bytes == 0) continue;
    if (o.bound != nullptr && o.bound_bytes >= bytes) {
      o.in_use = static_cast<std::byte*>(o.bound);
      continue;
    }
    auto& memory = o.memory[o.flip];
    if (memory == nullptr) memory = std::make_unique<Arena>(machine_.budget);
    TENON_RETURN_IF_ERROR(memory->Reserve(bytes));
    o.in_use = memory->data();
  }
  return Status::Ok();
}

void Executor::ApplyPatches(std::span<const View> inputs) {
  for (const ShapePlan::Patch& p : current_->patches) {
    const auto index = static_cast<size_t>(p.index);
    void* data = p.is_output_buffer ? outputs_[index].in_use : const_cast<void*>(inputs[index].data);
    if (p.in >= 0) current_->in[static_cast<size_t>(p.in)].data = data;
    if (p.out >= 0) current_->out[static_cast<size_t>(p.out)].data = data;
  }
}

Status Executor::Run(std::span<const View> inputs, const RunOptions& options) {
  CHECK(inputs.size() == program_->inputs.size());
  inputs_ = inputs;
  TENON_RETURN_IF_ERROR(SelectPlan(inputs));
  TENON_RETURN_IF_ERROR(ReserveMemory());
  ApplyPatches(inputs);
  Status status = RunSteps(options);
  if (status.ok()) CollectOutputs();
  return status;
}

Status Executor::RunSteps(const RunOptions& options) {
  for (LateValue& v : late_) {
    if (v.view.present()) v.Clear(&pool_);
  }
  const bool timed = options.deadline != std::chrono::steady_clock::time_point::max();
  for (size_t i = 0; i < prepared_.steps.size(); ++i) {
    const StepKind kind = current_->steps[i].kind;
    if (kind == StepKind::kSkip) continue;
    if (options.cancel != nullptr && options.cancel->cancelled()) return {Code::kCancelled, "run cancelled"};
    if (timed && std::chrono::steady_clock::now() >= options.deadline)
      return {Code::kCancelled, "run cancelled; its deadline passed"};
    const bool control = kind == StepKind::kControl;
    const bool observed = options.observer != nullptr && (!control || options.observer->WantsControl());
    uint64_t start = 0;
    if (observed) {
      if (!control) options.observer->BeforeStep();
      hw::TakeTeamWidth();
      start = NowNs();
    }
    Status s;
    switch (kind) {
      case StepKind::kRun: s = RunPlanned(i); break;
      case StepKind::kLate: s = RunLate(i); break;
      case StepKind::kControl: s = RunControl(i, options); break;
      case StepKind::kSkip: break;
    }
    if (!s.ok()) return std::move(s).Within(Describe(program_->steps[i]));
    if (observed) Record(i, start, options);
    if (kind != StepKind::kRun || current_->has_late) ReleaseDead(i);
  }
  return Status::Ok();
}

Status Executor::RunPlanned(size_t index) {
  const PlannedStep& planned = current_->steps[index];
  const Step& step = program_->steps[index];
  std::byte* scratch = nullptr;
  if (planned.scratch_block >= 0) scratch = arena_.data() + current_->blocks[static_cast<size_t>(planned.scratch_block)].offset;
  const kernels::RunArgs args{{current_->in.data() + planned.first_in, step.inputs.size()},
                              {current_->out.data() + planned.first_out, step.outputs.size()},
                              planned.configured.state.get(),
                              scratch,
                              machine_.team,
                              nullptr,
                              kv_};
  return prepared_.steps[index].kernel->Run(args);
}

View Executor::Resolve(ValueIndex v) const {
  if (v == kAbsent) return View{};
  const LateValue& late = late_[static_cast<size_t>(v)];
  if (late.view.present()) return late.view;
  const PlannedValue& planned = current_->values[static_cast<size_t>(v)];
  View view = planned.view;
  if (planned.place == Place::kInput) view.data = inputs_[static_cast<size_t>(planned.index)].data;
  if (planned.place == Place::kOutput) view.data = outputs_[static_cast<size_t>(planned.index)].in_use;
  if (planned.place != Place::kUnknown) return view;
  // Sequences among the inputs are not planned.
  for (size_t i = 0; i < program_->inputs.size(); ++i) {
    if (program_->inputs[i] == v) return inputs_[i];
  }
  return View{};
}

void Executor::ReleaseDead(size_t index) {
  for (ValueIndex v : dies_after_[index]) {
    LateValue& late = late_[static_cast<size_t>(v)];
    if (late.view.present()) late.Clear(&pool_);
  }
}

void Executor::CollectOutputs() {
  for (size_t i = 0; i < program_->outputs.size(); ++i) {
    const ValueIndex v = program_->outputs[i];
    results_[i] = Resolve(v);
    const Place place = current_->values[static_cast<size_t>(v)].place;
    const LateValue& late = late_[static_cast<size_t>(v)];
    owned_[i] = late.view.present() ? late.buffer != nullptr || late.view.sequence != nullptr : place != Place::kInput;
  }
}

StepDetails Executor::DetailsOf(size_t index) const {
  const Step& step = program_->steps[index];
  const PlannedStep& planned = current_->steps[index];
  StepDetails details;
  const auto collect = [&](const std::vector<ValueIndex>& values, std::vector<OperandRecord>* records) {
    std::vector<View> views;
    for (ValueIndex v : values) {
      views.push_back(Resolve(v));
      const View& view = views.back();
      records->push_back({view.sequence != nullptr ? DType::kUndefined : view.dtype, {view.shape.begin(), view.shape.end()}});
    }
    return views;
  };
  const std::vector<View> in = collect(step.inputs, &details.inputs), out = collect(step.outputs, &details.outputs);
  kernels::Cost cost;   // of a body: that of its operators
  if (planned.kind != StepKind::kControl) cost = kernels::CostOf(step.op, step.attrs, in, out);
  details.flops = cost.flops, details.bytes = cost.bytes, details.product = cost.product;
  details.threads = hw::TakeTeamWidth();
  details.dynamic = planned.kind == StepKind::kLate;
  return details;
}

void Executor::Record(size_t index, uint64_t start, const RunOptions& options) const {
  const uint64_t end = NowNs();
  const Step& step = program_->steps[index];
  StepObserver& observer = *options.observer;
  const kernels::Row* row = prepared_.steps[index].row;
  StepRecord record{step.name, step.op, row != nullptr ? row->name : std::string_view(), start, end - start, {}, {},
                    &step,     nullptr};
  if (observer.WantsShapes()) {
    const auto join = [&](const std::vector<ValueIndex>& values) {
      bool first = true;
      for (ValueIndex v : values) {
        if (v == kAbsent) continue;
        record.shapes += (first ? "" : ",") + Resolve(v).shape.ToString();
        first = false;
      }
    };
    join(step.inputs);
    record.shapes += "->";
    join(step.outputs);
  }
  if (observer.WantsValues()) {
    for (ValueIndex v : step.outputs) {
      if (v == kAbsent) continue;
      const artifact::ProgramValue& value = program_->values[static_cast<size_t>(v)];
      record.outputs.push_back(ToHost(value.name, value.dtype, Resolve(v)));
    }
  }
  StepDetails details;
  if (observer.WantsDetails()) {
    details = DetailsOf(index);
    record.details = &details;
  }
  observer.OnStep(record);
}

uint64_t Executor::output_bytes() const {
  uint64_t bytes = 0;
  for (const OutputBuffer& o : outputs_) {
    for (const auto& m : o.memory) bytes += m != nullptr ? m->bytes() : 0;
  }
  return bytes;
}

void Executor::Trim() {
  for (LateValue& v : late_) v.Clear(&pool_);
  plans_.clear();
  current_ = nullptr;
  arena_.Free();
  pool_.Trim();
  for (OutputBuffer& o : outputs_) {
    for (auto& m : o.memory) m.reset();
    o.in_use = nullptr;
  }
  for (LateCache& c : late_cache_) c = LateCache{};
  for (PreparedStep& s : prepared_.steps) {
    for (auto& body : s.bodies) {
      if (body != nullptr) body->Trim();
    }
  }
}

}  // namespace tenon::runtime
