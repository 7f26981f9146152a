// Single-operator mode and the search for the operator to blame.
#include <algorithm>

#include "guard/compare.h"
#include "guard/slice.h"
#include "guard/source.h"
#include "guard/values.h"
#include "runtime/open.h"

namespace tenon::guard {

using artifact::kAbsent;
using artifact::Program;
using artifact::Step;
using artifact::ValueIndex;

namespace {

Result<std::optional<Errors>> ErrorsOf(const HostTensor& value, const HostTensor& truth) {
  const auto errors = CompareValues(value, truth);
  if (errors.ok()) return std::optional(*errors);
  return std::optional<Errors>();
}

const HostTensor* FindByName(const std::vector<HostTensor>& tensors, const std::string& name) {
  const auto it = std::find_if(tensors.begin(), tensors.end(), [&](const HostTensor& t) { return t.name == name; });
  return it == tensors.end() ? nullptr : &*it;
}

std::string Number(double v) {
  return fmt::format("{:.3g}", v);
}

}  // namespace

// The right value of `v`, as this side would take it: an input of the model, or the other side's value of the same name, shape
// and kind of type.
Result<std::optional<HostTensor>> Comparer::KnownValue(ValueIndex v) {
  const artifact::ProgramValue& value = program_.values[static_cast<size_t>(v)];
  if (const HostTensor* input = FindByName(sample_->inputs, value.name)) return std::optional(*input);
  const auto own = values_.find(value.name);
  if (own == values_.end() || own->second.is_sequence) return std::optional<HostTensor>();
  TENON_ASSIGN_OR_RETURN(const auto truth, TruthOf(value.name));
  if (!truth || truth->is_sequence || truth->shape != own->second.shape) return std::optional<HostTensor>();
  if (truth->dtype == own->second.dtype) return truth;
  TENON_ASSIGN_OR_RETURN(Tensor copy, Tensor::CopyOf(ViewOf(*truth)));
  auto tensor = ToType({std::move(copy), false}, own->second.dtype);
  if (!tensor.ok()) return std::optional<HostTensor>();
  return std::optional(ToHost(value.name, *tensor));
}

// The steps between values that the other side has too and the outputs of `step`, `step` included.
Result<std::vector<int>> Comparer::RegionOf(int step) {
  std::set<int> region = {step};
  std::vector<int> work = {step};
  while (!work.empty()) {
    const int s = work.back();
    work.pop_back();
    for (const ValueIndex v : program_.steps[static_cast<size_t>(s)].inputs) {
      const int producer = v == kAbsent ? -1 : producers_[static_cast<size_t>(v)];
      if (producer < 0 || region.contains(producer)) continue;
      TENON_ASSIGN_OR_RETURN(const auto known, KnownValue(v));
      if (known) continue;
      region.insert(producer);
      work.push_back(producer);
    }
  }
  return std::vector<int>(region.begin(), region.end());
}

Result<std::vector<HostTensor>> Comparer::RunSlice(const Program& slice, const std::vector<HostTensor>& inputs) const {
  Program program = slice;
  // What the slice is fed has one shape; expressions of symbols it does not know would only confuse.
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    auto& value = program.values[static_cast<size_t>(program.inputs[i])];
    const bool plain = std::all_of(value.shape.dims().begin(), value.shape.dims().end(),
                                   [](const Dim& d) { return d.is_const() || d.symbol().has_value(); });
    if (!value.shape.has_rank() || !plain) value.shape = SymShape(Shape(std::span<const int64_t>(inputs[i].shape)));
  }
  TENON_ASSIGN_OR_RETURN(const auto session, runtime::OpenProgram(std::move(program), options_.session));
  TENON_ASSIGN_OR_RETURN(const auto outputs, session->Run(inputs, options_.run));
  std::vector<HostTensor> copies;
  for (const HostTensor& t : outputs) copies.push_back(Copy(t));
  return copies;
}

Result<std::optional<Errors>> Comparer::OwnAgainstTruth(const std::vector<int>& region, ValueIndex value) {
  const Program slice = Slice(program_, region, {value});
  std::vector<HostTensor> inputs;
  for (const ValueIndex v : slice.inputs) {
    const std::string& name = slice.values[static_cast<size_t>(v)].name;
    const auto it = std::find_if(program_.values.begin(), program_.values.end(), [&](const auto& p) { return p.name == name; });
    TENON_ASSIGN_OR_RETURN(const auto known, KnownValue(static_cast<ValueIndex>(it - program_.values.begin())));
    if (!known) return std::optional<Errors>();
    inputs.push_back(*known);
  }
  const std::string& name = program_.values[static_cast<size_t>(value)].name;
  TENON_ASSIGN_OR_RETURN(const auto truth, TruthOf(name));
  if (!truth) return std::optional<Errors>();
  TENON_ASSIGN_OR_RETURN(const auto outputs, RunSlice(slice, inputs));
  return ErrorsOf(outputs[0], *truth);
}

Status Comparer::PrepareReference(const Sample& sample) {
  if (reference_ == nullptr) {
    TENON_ASSIGN_OR_RETURN(reference_, runtime::OpenProgram(WithAllOutputs(WithReferenceKernels(program_)), options_.session));
  }
  if (reference_sample_ == &sample) return Status::Ok();
  TENON_ASSIGN_OR_RETURN(auto outputs, reference_->Run(sample.inputs, options_.run));
  reference_values_.clear();
  for (const HostTensor& t : sample.inputs) reference_values_.emplace(t.name, t);
  for (HostTensor& t : outputs) reference_values_.insert_or_assign(t.name, std::move(t));
  reference_sample_ = &sample;
  return Status::Ok();
}

Result<std::optional<Errors>> Comparer::OwnAgainstReference(int step, ValueIndex value) {
  TENON_RETURN_IF_ERROR(PrepareReference(*sample_));
  const int steps[] = {step};
  const Program slice = Slice(program_, steps, {value});
  std::vector<HostTensor> inputs;
  for (const ValueIndex v : slice.inputs) {
    const auto it = reference_values_.find(slice.values[static_cast<size_t>(v)].name);
    if (it == reference_values_.end()) return std::optional<Errors>();
    inputs.push_back(it->second);
  }
  const auto truth = reference_values_.find(program_.values[static_cast<size_t>(value)].name);
  if (truth == reference_values_.end()) return std::optional<Errors>();
  TENON_ASSIGN_OR_RETURN(const auto outputs, RunSlice(slice, inputs));
  return ErrorsOf(outputs[0], truth->second);
}

Status Comparer::SingleOps(DataSet& data, std::span<const size_t> samples, Comparison* comparison) {
  for (const size_t i : samples) {
    TENON_ASSIGN_OR_RETURN(const Sample sample, data.Load(i));
    TENON_RETURN_IF_ERROR(RunSample(sample));
    size_t done = 0;
    for (OpComparison& row : comparison->ops) {
      Report("operators run alone", done++, comparison->ops.size());
      const Step& step = program_.steps[static_cast<size_t>(row.step)];
      const ValueIndex value = step.outputs[static_cast<size_t>(row.index)];
      if (IsRandom(step)) {
        row.own_reason = "random";
        continue;
      }
      TENON_ASSIGN_OR_RETURN(const auto region, RegionOf(row.step));
      std::optional<Errors> own;
      std::string truth = "values";
      if (region.size() == 1) {
        TENON_ASSIGN_OR_RETURN(own, OwnAgainstTruth(region, value));
      }
      if (!own) {
        truth = "reference kernel";
        TENON_ASSIGN_OR_RETURN(own, OwnAgainstReference(row.step, value));
      }
      if (!own) {
        row.own_reason = "its type is not compared";
        continue;
      }
      row.own = row.own_compared ? Worse(row.own, *own) : *own;
      row.own_compared = true;
      row.own_truth = truth;
      row.own_bad |= row.own.Score() > BoundOf(row.step);
    }
    sample_ = nullptr;
    reference_sample_ = nullptr;
  }
  return Status::Ok();
}

// In a region whose inner values the other side does not know: the step whose kernel departs from the reference kernel.
Status Comparer::NarrowRegion(const Comparison& comparison, Verdict* verdict) {
  for (const int s : verdict->region) {
    for (size_t r = 0; r < comparison.ops.size(); ++r) {
      const OpComparison& row = comparison.ops[r];
      if (row.step != s) continue;
      const ValueIndex value = program_.steps[static_cast<size_t>(s)].outputs[static_cast<size_t>(row.index)];
      TENON_ASSIGN_OR_RETURN(const auto own, OwnAgainstReference(s, value));
      if (!own || own->Score() <= BoundOf(s)) continue;
      verdict->guilty = static_cast<int>(r);
      verdict->own = *own;
      verdict->bound = BoundOf(s);
      verdict->region = {s};
      verdict->explanation = fmt::format("on right inputs its kernel departs from the reference kernel by {}, bound {}",
                                         Number(own->Score()), Number(verdict->bound));
      return Status::Ok();
    }
  }
  return Status::Ok();
}

Result<std::optional<Verdict>> Comparer::Blame(const Comparison& comparison, int index) {
  const OpComparison& row = comparison.ops[static_cast<size_t>(index)];
  const ValueIndex value = program_.steps[static_cast<size_t>(row.step)].outputs[static_cast<size_t>(row.index)];
  TENON_ASSIGN_OR_RETURN(auto region, RegionOf(row.step));
  TENON_ASSIGN_OR_RETURN(const auto own, OwnAgainstTruth(region, value));
  if (!own) return std::optional<Verdict>();
  Verdict verdict;
  for (const int s : region) verdict.bound = std::max(verdict.bound, BoundOf(s));
  verdict.own = *own;
  verdict.guilty = index;
  verdict.region = std::move(region);
  if (own->Score() <= verdict.bound) {
    verdict.guilty = -1;
    return std::optional(std::move(verdict));
  }
  verdict.explanation = fmt::format("on right inputs its error is {}, bound {}", Number(own->Score()), Number(verdict.bound));
  if (verdict.region.size() > 1) {
    verdict.explanation += fmt::format("; among {} operators whose values the other side does not have", verdict.region.size());
    TENON_RETURN_IF_ERROR(NarrowRegion(comparison, &verdict));
  }
  return std::optional(std::move(verdict));
}

Result<Verdict> Comparer::Bisect(DataSet& data, std::span<const size_t> samples, const Comparison& comparison) {
  Verdict largest;
  int suspect = -1;
  for (const size_t i : samples) {
    TENON_ASSIGN_OR_RETURN(const Sample sample, data.Load(i));
    TENON_RETURN_IF_ERROR(RunSample(sample));
    reference_sample_ = nullptr;
    for (size_t r = 0; r < comparison.ops.size(); ++r) {
      Report("values examined", r, comparison.ops.size());
      const OpComparison& op = comparison.ops[r];
      if (!op.compared || op.errors.Score() <= BoundOf(op.step)) continue;
      TENON_ASSIGN_OR_RETURN(const auto verdict, Blame(comparison, static_cast<int>(r)));
      if (!verdict) continue;
      if (verdict->guilty >= 0) {
        sample_ = nullptr;
        reference_sample_ = nullptr;
        return *verdict;
      }
      if (suspect < 0 || verdict->own.Score() > largest.own.Score()) {
        largest = *verdict;
        suspect = static_cast<int>(r);
      }
    }
    sample_ = nullptr;
    reference_sample_ = nullptr;
  }
  if (suspect >= 0) {
    const OpComparison& row = comparison.ops[static_cast<size_t>(suspect)];
    largest.explanation = fmt::format(
        "no operator is over its bound on right inputs: errors add up; the largest own error, {}, is that of '{}' ({})",
        Number(largest.own.Score()), row.name, row.type);
  } else {
    largest.explanation =
        comparison.first_bad < 0 ? "no value is over its bound" : "the bad values cannot be computed from right ones";
  }
  return largest;
}

}  // namespace tenon::guard
