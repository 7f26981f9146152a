#include "guard/slice.h"

#include <algorithm>
#include <map>

#include "kernels/kernel.h"

namespace tenon::guard {

using artifact::kAbsent;
using artifact::Program;
using artifact::ProgramValue;
using artifact::Step;
using artifact::ValueIndex;

std::vector<int> Producers(const Program& program) {
  std::vector<int> producers(program.values.size(), -1);
  for (size_t s = 0; s < program.steps.size(); ++s) {
    for (const ValueIndex v : program.steps[s].outputs) {
      if (v != kAbsent) producers[static_cast<size_t>(v)] = static_cast<int>(s);
    }
  }
  return producers;
}

bool IsRandom(const Step& step) {
  const kernels::OpKernels* op = kernels::FindOp(step.op);
  if (op != nullptr && op->is_random) return true;
  return std::any_of(step.bodies.begin(), step.bodies.end(),
                     [](const Program& body) { return std::any_of(body.steps.begin(), body.steps.end(), IsRandom); });
}

Program WithAllOutputs(const Program& program) {
  Program out = program;
  const std::set<ValueIndex> own(out.outputs.begin(), out.outputs.end());
  for (const Step& step : out.steps) {
    for (const ValueIndex v : step.outputs) {
      if (v != kAbsent && !own.contains(v)) out.outputs.push_back(v);
    }
  }
  return out;
}

namespace {

// The reference row's name when it serves the step; else empty: the preferred row.
std::string ReferenceRow(const Program& program, const Step& step) {
  const kernels::OpKernels* op = kernels::FindOp(step.op);
  if (op == nullptr || op->rows.empty()) return "";
  const kernels::Row& last = op->rows.back();
  if (last.name.find("reference") == std::string_view::npos) return "";
  if (last.can == nullptr) return std::string(last.name);
  std::vector<View> views(step.inputs.size());
  std::vector<kernels::ValueInfo> in(step.inputs.size());
  std::vector<kernels::ValueInfo> made(step.outputs.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (step.inputs[i] == kAbsent) continue;
    const ProgramValue& value = program.values[static_cast<size_t>(step.inputs[i])];
    in[i] = {value.dtype, true, value.is_sequence, value.shape, nullptr, {}};
    const bool input = std::find(program.inputs.begin(), program.inputs.end(), step.inputs[i]) != program.inputs.end();
    if (!value.constant.defined() || input) continue;
    views[i] = value.constant.view();
    in[i].data = &views[i];
  }
  for (size_t i = 0; i < made.size(); ++i) {
    made[i].present = step.outputs[i] != kAbsent;
    if (made[i].present) made[i].is_sequence = program.values[static_cast<size_t>(step.outputs[i])].is_sequence;
  }
  if (!kernels::InferShapes(step.op, {step.attrs, in, made}).ok()) return "";
  const auto choice = kernels::ChooseRow({step.op, step.attrs, in, made, hw::kBaseline, 1}, last.name);
  return choice.ok() ? std::string(last.name) : "";
}

}  // namespace

Program WithReferenceKernels(const Program& program) {
  Program out = program;
  for (Step& step : out.steps) {
    for (Program& body : step.bodies) body = WithReferenceKernels(body);
    step.kernel = ReferenceRow(program, step);
  }
  return out;
}

Program Slice(const Program& program, std::span<const int> steps, const std::set<ValueIndex>& outputs) {
  Program out;
  out.name = program.name;
  std::map<ValueIndex, ValueIndex> index;
  std::set<ValueIndex> made;
  for (const int s : steps) {
    for (const ValueIndex v : program.steps[static_cast<size_t>(s)].outputs) made.insert(v);
  }
  const auto take = [&](ValueIndex v) {
    if (v == kAbsent) return kAbsent;
    const auto [it, fresh] = index.emplace(v, static_cast<ValueIndex>(out.values.size()));
    if (!fresh) return it->second;
    const ProgramValue& value = program.values[static_cast<size_t>(v)];
    const bool input = std::find(program.inputs.begin(), program.inputs.end(), v) != program.inputs.end();
    out.values.push_back(value);
    if (input) out.values.back().constant = Tensor();   // an input's default
    if (!made.contains(v) && (input || !value.constant.defined())) out.inputs.push_back(it->second);
    return it->second;
  };
  for (const int s : steps) {
    Step step = program.steps[static_cast<size_t>(s)];
    for (ValueIndex& v : step.inputs) v = take(v);
    for (ValueIndex& v : step.outputs) v = take(v);
    out.steps.push_back(std::move(step));
  }
  for (const ValueIndex v : outputs) out.outputs.push_back(take(v));
  return out;
}

}  // namespace tenon::guard
