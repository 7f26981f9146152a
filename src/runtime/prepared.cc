#include "runtime/prepared.h"

#include <algorithm>
#include <atomic>

#include "runtime/executor.h"

namespace tenon::runtime {

using artifact::kAbsent;
using artifact::Program;
using artifact::ProgramValue;
using artifact::Step;
using kernels::ValueInfo;

std::string Describe(const Step& step) {
  return fmt::format("node '{}' ({})", step.name, step.op);
}

void DeclareOutputs(const Program& program, const Step& step, std::span<ValueInfo> infos) {
  for (size_t i = 0; i < infos.size(); ++i) {
    infos[i].present = step.outputs[i] != kAbsent;
    if (infos[i].present) infos[i].is_sequence = program.values[static_cast<size_t>(step.outputs[i])].is_sequence;
  }
}

namespace {

bool IsControlFlow(const Step& step) {
  return !step.bodies.empty();
}

void FillInfo(const ProgramValue& v, bool is_input, View* view, ValueInfo* info) {
  info->present = true;
  info->dtype = v.dtype;
  info->is_sequence = v.is_sequence;
  info->shape = v.shape;
  if (v.constant.defined() && !is_input) {  // an input's constant is only its default
    *view = v.constant.view();
    info->data = view;
  }
}

// What a kernel is told of a step before a run.
struct StepInfos {
  std::vector<View> views;
  std::vector<ValueInfo> in;
  std::vector<ValueInfo> out;

  // The rule also checks arity and attributes, so that a program from a file cannot reach a kernel with nonsense.
  Status Fill(const Program& program, const Step& step) {
    views.resize(step.inputs.size());
    in.resize(step.inputs.size());
    out.resize(step.outputs.size());
    for (size_t i = 0; i < in.size(); ++i) {
      if (step.inputs[i] == kAbsent) continue;
      const bool is_input = std::find(program.inputs.begin(), program.inputs.end(), step.inputs[i]) != program.inputs.end();
      FillInfo(program.values[static_cast<size_t>(step.inputs[i])], is_input, &views[i], &in[i]);
    }
    DeclareOutputs(program, step, out);
    return kernels::InferShapes(step.op, {step.attrs, in, out});
  }

  kernels::Problem ProblemOn(const Step& step, const hw::Machine& machine) const {
    return {step.op, step.attrs, in, out, machine.isa, machine.team.size()};
  }
};

class Preparer {
 public:
  Preparer(const Program& program, hw::Machine& machine, int max_cached_shapes, std::span<PackRecord> records)
      : program_(program), machine_(machine), max_cached_shapes_(max_cached_shapes), records_(records) {}

  Result<Prepared> Run() {
    prepared_.program = &program_;
    FindLastUses();
    prepared_.steps.resize(program_.steps.size());
    // Packing weights is most of the work, and layers differ much in size: each thread takes the next step that is left.
    std::atomic<size_t> next = 0;
    std::atomic<bool> failed = false;
    std::vector<Status> results(program_.steps.size());
    machine_.team.ParallelFor(machine_.team.size(), 1, [&](int64_t, int64_t, int) {
      for (size_t i = next++; i < results.size() && !failed; i = next++) {
        const Step& step = program_.steps[i];
        PackRecord* record = records_.empty() ? nullptr : &records_[i];
        results[i] = PrepareStep(step, record, &prepared_.steps[i]).Within(Describe(step));
        if (!results[i].ok()) failed = true;
      }
    });
    for (Status& s : results) TENON_RETURN_IF_ERROR(std::move(s));
    for (const PreparedStep& s : prepared_.steps) {
      if (s.kernel != nullptr) prepared_.packed_bytes += s.kernel->PackedBytes();
      for (const auto& body : s.bodies) prepared_.packed_bytes += body == nullptr ? 0 : body->packed_bytes();
    }
    prepared_.packs_serve = packs_serve_;
    return std::move(prepared_);
  }

 private:
  void FindLastUses() {
    prepared_.last_use.assign(program_.values.size(), -1);
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      for (auto v : program_.steps[i].inputs) {
        if (v != kAbsent) prepared_.last_use[static_cast<size_t>(v)] = static_cast<int>(i);
      }
    }
    for (auto v : program_.outputs) prepared_.last_use[static_cast<size_t>(v)] = static_cast<int>(program_.steps.size());
    readers_.assign(program_.values.size(), 0);
    for (const Step& s : program_.steps) {
      for (auto v : s.inputs) {
        if (v != kAbsent) ++readers_[static_cast<size_t>(v)];
      }
    }
    for (auto v : program_.outputs) ++readers_[static_cast<size_t>(v)];
  }

  // An exception must not leave the threads' region.
  Status PrepareStep(const Step& step, PackRecord* record, PreparedStep* out) try {
    return IsControlFlow(step) ? PrepareBodies(step, out) : PrepareKernel(step, record, out);
  } catch (const std::bad_alloc&) {
    return ResourceLimit("not enough memory to prepare it");
  }

  Status PrepareBodies(const Step& step, PreparedStep* out) {
    out->step = &step;
    for (const Program& body : step.bodies) {
      auto executor = Executor::Create(body, machine_, max_cached_shapes_);
      // A branch that does not fit the shapes at hand is a fault only if it is taken.
      if (!executor.ok() && (step.op != "If" || executor.status().code() != Code::kBadInput)) return executor.status();
      out->unfit.push_back(executor.status());
      out->bodies.push_back(executor.ok() ? std::move(*executor) : nullptr);
    }
    return Status::Ok();
  }

  Status PrepareKernel(const Step& step, PackRecord* record, PreparedStep* out) {
    out->step = &step;
    out->op = kernels::FindOp(step.op);
    if (out->op == nullptr) return Unsupported("operator {} is not supported", step.op);
    StepInfos infos;
    TENON_RETURN_IF_ERROR(infos.Fill(program_, step));
    kernels::Problem problem = infos.ProblemOn(step, machine_);
    // A kernel that was chosen on another machine may not serve on this one; then the default does.
    auto wished = kernels::ChooseRow(problem, step.kernel);
    if (!wished.ok() && !step.kernel.empty()) wished = kernels::ChooseRow(problem);
    TENON_ASSIGN_OR_RETURN(kernels::Choice choice, std::move(wished));
    out->row = choice.row;
    out->refused = std::move(choice.refused);
    SavedPacks saved(step, choice.row->name);
    problem.packs = record != nullptr ? static_cast<kernels::PackStore*>(record) : step.packed.empty() ? nullptr : &saved;
    if (record != nullptr) record->row = choice.row->name;
    TENON_ASSIGN_OR_RETURN(out->kernel, choice.row->make(problem));
    if (!saved.TookAll()) packs_serve_ = false;
    TENON_RETURN_IF_ERROR(machine_.budget.Charge(out->kernel->PackedBytes(), "packed weights"));
    for (size_t i = 0; i < infos.in.size(); ++i) {
      const bool sole = infos.in[i].data != nullptr && readers_[static_cast<size_t>(step.inputs[i])] == 1;
      if (!sole || !out->kernel->ConsumedConstant(i)) continue;
      GiveBack(program_.values[static_cast<size_t>(step.inputs[i])].constant);
      if (record != nullptr && !record->pieces.empty()) record->consumed.push_back(step.inputs[i]);
    }
    return Status::Ok();
  }

  // Weights that a kernel keeps in a form of its own are not held twice.
  void GiveBack(const Tensor& constant) {
    if (constant.buffer().use_count() == 1) constant.buffer()->Discard();
  }

  const Program& program_;
  hw::Machine& machine_;
  int max_cached_shapes_;
  std::span<PackRecord> records_;
  std::atomic<bool> packs_serve_ = true;
  Prepared prepared_;
  std::vector<int> readers_;
};

}  // namespace

Result<Prepared> Prepare(const Program& program, hw::Machine& machine, int max_cached_shapes, std::span<PackRecord> records) {
  return Preparer(program, machine, max_cached_shapes, records).Run();
}

std::vector<std::string_view> Alternatives(const Program& program, const PreparedStep& step, const hw::Machine& machine) {
  StepInfos infos;
  if (step.row == nullptr || !infos.Fill(program, *step.step).ok()) return {};
  return kernels::OtherRows(infos.ProblemOn(*step.step, machine), *step.row);
}

}  // namespace tenon::runtime
