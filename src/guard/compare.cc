#include "guard/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "guard/slice.h"
#include "guard/values.h"
#include "runtime/open.h"

namespace tenon::guard {

using artifact::kAbsent;
using artifact::Program;
using artifact::Step;
using artifact::ValueIndex;

namespace {

constexpr const char* kRandom = "random";

// What rounding explains: over one operator, with room for sums of thousands of terms, and over all that come before it.
struct TypeBounds {
  double own;
  double total;
};

TypeBounds BoundsOfType(DType t) {
  switch (t) {
    case DType::kBF16: return {5e-2, 0.2};
    case DType::kF16: return {1e-2, 5e-2};
    case DType::kI8:
    case DType::kU8: return {2e-2, 0.2};
    case DType::kF32:
    case DType::kF64:
    case DType::kBool:
    case DType::kI16:
    case DType::kU16:
    case DType::kI32:
    case DType::kU32:
    case DType::kI64:
    case DType::kU64: return {1e-3, 1e-2};
    default: return {0.2, 0.5};   // eight bits of float and less
  }
}

void CountNotFinite(const HostTensor& t, int64_t* nan, int64_t* infinite) {
  if (t.is_sequence || !IsFloat(t.dtype)) return;
  const auto values = Doubles(t);
  if (!values) return;
  for (const double v : *values) {
    *nan += std::isnan(v) ? 1 : 0;
    *infinite += std::isinf(v) ? 1 : 0;
  }
}

// A value's name cut where its last form begins: "conv1:nhwc:bf16" is "conv1:nhwc" as bf16. A number may follow, "_2", where
// there are several.
struct Form {
  std::string source;   // empty: the name has no form that is known
  bool channels_last = false;
};

Form FormOf(const std::string& name) {
  const size_t at = name.rfind(':');
  if (at == std::string::npos) return {};
  std::string form = name.substr(at + 1);
  if (const size_t number = form.rfind('_'); number != std::string::npos) {
    if (form.find_first_not_of("0123456789", number + 1) == std::string::npos) form.resize(number);
  }
  if (form != "nhwc" && form != "bf16") return {};
  return {name.substr(0, at), form == "nhwc"};
}

// [n, c, ...] as [n, ..., c].
HostTensor ChannelsLast(const HostTensor& t, const std::string& name) {
  HostTensor out = t;
  out.name = name;
  const int64_t batch = t.shape[0];
  const int64_t channels = t.shape[1];
  out.shape.erase(out.shape.begin() + 1);
  out.shape.push_back(channels);
  int64_t plane = 1;
  for (size_t i = 2; i < t.shape.size(); ++i) plane *= t.shape[i];
  const auto size = static_cast<size_t>(DTypeBits(t.dtype)) / 8;
  auto bytes = std::make_shared<std::vector<char>>(t.bytes);
  const auto* from = static_cast<const char*>(t.data);
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t p = 0; p < plane; ++p) {
        const auto to = static_cast<size_t>((n * plane + p) * channels + c) * size;
        std::memcpy(bytes->data() + to, from + static_cast<size_t>((n * channels + c) * plane + p) * size, size);
      }
    }
  }
  out.data = bytes->data();
  out.owner = bytes;
  return out;
}

// Constants stay readable although a session packs them: buffers that two programs hold are not given back.
Result<std::unique_ptr<Session>> OpenWithAllOutputs(const Program& program, const SessionOptions& options) {
  return runtime::OpenProgram(WithAllOutputs(program), options);
}

}  // namespace

Result<std::unique_ptr<Comparer>> Comparer::Create(Program program, std::unique_ptr<Truth> truth, const CompareOptions& options) {
  std::unique_ptr<Comparer> comparer(new Comparer(std::move(program), std::move(truth), options));
  comparer->producers_ = Producers(comparer->program_);
  TENON_ASSIGN_OR_RETURN(comparer->session_, OpenWithAllOutputs(comparer->program_, options.session));
  const auto& steps = comparer->program_.steps;
  if (std::none_of(steps.begin(), steps.end(), IsRandom)) {
    TENON_ASSIGN_OR_RETURN(comparer->plain_, runtime::OpenProgram(comparer->program_, options.session));
  }
  return comparer;
}

double Comparer::BoundOf(int step, bool total) const {
  if (options_.bound > 0) return options_.bound;
  double bound = 0;
  const Step& s = program_.steps[static_cast<size_t>(step)];
  for (const auto& list : {s.inputs, s.outputs}) {
    for (const ValueIndex v : list) {
      if (v == kAbsent) continue;
      const TypeBounds bounds = BoundsOfType(program_.values[static_cast<size_t>(v)].dtype);
      bound = std::max(bound, total ? bounds.total : bounds.own);
    }
  }
  return bound;
}

void Comparer::AddRows(Comparison* comparison) const {
  std::vector<KernelReport> kernels = session_->kernels();
  size_t report = 0;
  std::vector<double> bounds(program_.steps.size(), 0);
  std::vector<bool> random(program_.steps.size(), false);
  for (size_t s = 0; s < program_.steps.size(); ++s) {
    const Step& step = program_.steps[s];
    // Reports of bodies stand after that of their step.
    while (report < kernels.size() && (kernels[report].node != step.name || kernels[report].op != step.op)) ++report;
    bounds[s] = BoundOf(static_cast<int>(s), true);
    random[s] = IsRandom(step);
    for (const ValueIndex v : step.inputs) {   // rounding of earlier steps is not undone
      const int producer = v == kAbsent ? -1 : producers_[static_cast<size_t>(v)];
      if (producer < 0) continue;
      bounds[s] = std::max(bounds[s], bounds[static_cast<size_t>(producer)]);
      random[s] = random[s] || random[static_cast<size_t>(producer)];
    }
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      if (step.outputs[i] == kAbsent) continue;
      OpComparison row;
      row.step = static_cast<int>(s);
      row.name = step.name;
      row.type = step.op;
      row.kernel = report < kernels.size() ? kernels[report].kernel : "";
      row.value = program_.values[static_cast<size_t>(step.outputs[i])].name;
      row.dtype = program_.values[static_cast<size_t>(step.outputs[i])].dtype;
      row.truth_name = truth_->StepOf(row.value);
      row.index = static_cast<int>(i);
      row.bound = bounds[s];
      if (random[s]) row.reason = kRandom;
      comparison->ops.push_back(std::move(row));
    }
    ++report;
  }
}

Status Comparer::RunSample(const Sample& sample) {
  auto outputs = session_->Run(sample.inputs, options_.run);
  if (!outputs.ok()) return std::move(outputs).TakeStatus().Within(sample.where);
  values_.clear();
  for (HostTensor& t : *outputs) values_.insert_or_assign(t.name, std::move(t));
  TENON_RETURN_IF_ERROR(truth_->Use(sample, options_.run).Within(sample.where));
  sample_ = &sample;
  return Status::Ok();
}

Result<std::optional<HostTensor>> Comparer::TruthOf(const std::string& name) {
  TENON_ASSIGN_OR_RETURN(auto truth, truth_->Find(name));
  if (truth) return truth;
  const Form form = FormOf(name);
  if (form.source.empty()) return truth;
  TENON_ASSIGN_OR_RETURN(truth, TruthOf(form.source));
  if (!truth || !form.channels_last) return truth;
  if (truth->is_sequence || truth->shape.size() < 3 || DTypeBits(truth->dtype) < 8) return std::optional<HostTensor>();
  return std::optional(ChannelsLast(*truth, name));
}

Status Comparer::CompareRow(OpComparison* row) {
  const auto own = values_.find(row->value);
  if (own == values_.end()) return Status::Ok();
  const HostTensor& value = own->second;
  row->shape = value.shape;
  CountNotFinite(value, &row->nan, &row->infinite);
  if (row->reason == kRandom) return Status::Ok();
  TENON_ASSIGN_OR_RETURN(const auto truth, TruthOf(row->value));
  if (!truth) {
    row->reason = "the other side has no value of this name";
    return Status::Ok();
  }
  row->truth_dtype = truth->dtype;
  const auto errors = CompareValues(value, *truth);
  if (!errors.ok()) {
    row->reason = errors.status().message();
    const auto& outputs = program_.outputs;
    row->bad |= errors.status().code() == Code::kBadInput && std::any_of(outputs.begin(), outputs.end(), [&](ValueIndex v) {
                  return program_.values[static_cast<size_t>(v)].name == row->value;
                });
    return Status::Ok();
  }
  row->errors = row->compared ? Worse(row->errors, *errors) : *errors;
  row->compared = true;
  row->bad |= row->errors.Score() > row->bound;
  return Status::Ok();
}

// Keeping every value takes memory sharing away, and with it the faults of a memory plan.
Status Comparer::ComparePlainRun(const Sample& sample, Comparison* comparison) {
  TENON_ASSIGN_OR_RETURN(const auto outputs, plain_->Run(sample.inputs, options_.run));
  for (const HostTensor& t : outputs) {
    const auto kept = values_.find(t.name);
    const auto row =
        std::find_if(comparison->ops.begin(), comparison->ops.end(), [&](const OpComparison& op) { return op.value == t.name; });
    if (kept == values_.end() || row == comparison->ops.end()) continue;
    const auto errors = CompareValues(t, kept->second);
    if (!errors.ok() || errors->Score() <= row->bound) continue;
    row->bad = true;
    row->reason = "a run that keeps no values gives another result";
  }
  return Status::Ok();
}

Result<Comparison> Comparer::Compare(DataSet& data, std::span<const size_t> samples) {
  Comparison comparison;
  AddRows(&comparison);
  for (const size_t i : samples) {
    TENON_ASSIGN_OR_RETURN(const Sample sample, data.Load(i));
    TENON_RETURN_IF_ERROR(RunSample(sample));
    for (OpComparison& row : comparison.ops) TENON_RETURN_IF_ERROR(CompareRow(&row));
    if (plain_ != nullptr) TENON_RETURN_IF_ERROR(ComparePlainRun(sample, &comparison));
    Report("samples compared", ++comparison.samples, samples.size());
  }
  for (size_t i = 0; i < comparison.ops.size(); ++i) {
    const OpComparison& row = comparison.ops[i];
    comparison.compared += row.compared ? 1 : 0;
    if (row.bad && comparison.first_bad < 0) comparison.first_bad = static_cast<int>(i);
    const bool not_finite = row.compared ? row.errors.overflow() : row.nan + row.infinite > 0;
    if (not_finite && comparison.first_not_finite < 0) comparison.first_not_finite = static_cast<int>(i);
  }
  sample_ = nullptr;
  return comparison;
}

}  // namespace tenon::guard
