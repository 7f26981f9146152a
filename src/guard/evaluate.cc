// Running a model over samples and judging what it gives.
#include <algorithm>

#include "guard/judge.h"
#include "guard/values.h"

namespace tenon::guard {
namespace {

using Kind = MetricSpec::Kind;

bool IsErrorMetric(Kind kind) {
  return kind == Kind::kCosine || kind == Kind::kRmse || kind == Kind::kMaxAbs;
}

}  // namespace

Result<const HostTensor*> ChooseOutput(const MetricSpec& metric, const std::vector<HostTensor>& outputs) {
  std::string known;
  for (const HostTensor& t : outputs) {
    known += (known.empty() ? "'" : ", '") + t.name + "'";
    if (metric.output.empty() ? !t.is_sequence && (IsFloat(t.dtype) || IsInteger(t.dtype)) : t.name == metric.output) return &t;
  }
  if (metric.output.empty()) return Unsupported("the model gives no numbers that '{}' could judge", metric.name);
  return Usage("metric '{}@{}'; the model's outputs are {}", metric.name, metric.output, known);
}

int64_t RowsOf(const HostTensor& output, int64_t rows) {
  return rows > 0 && !output.shape.empty() && output.shape[0] == rows ? rows : 1;
}

Result<std::unique_ptr<Judge>> MakeJudge(const MetricSpec& metric) {
  if (metric.kind == Kind::kCommand) return MakeCommandJudge(metric);
  if (metric.kind == Kind::kRankAgreement) return MakeRankJudge(metric);
  return IsErrorMetric(metric.kind) ? MakeErrorJudge(metric) : MakeClassJudge(metric);
}

bool NeedsReference(const MetricSpec& metric, const Sample& sample) {
  if (metric.kind == Kind::kCommand) return false;
  if (metric.kind == Kind::kTokenAgreement || metric.kind == Kind::kRankAgreement || !sample.labels.defined()) return true;
  return IsErrorMetric(metric.kind) && !IsFloat(sample.labels.dtype());
}

MetricSpec DefaultMetric(const Session& session, DataSet& data) {
  MetricSpec spec{Kind::kCosine, "cosine"};
  if (!data.has_labels() || session.outputs().empty() || data.size() == 0) return spec;
  const TensorInfo& output = session.outputs()[0];
  const auto sample = data.Load(0);
  const bool classes = sample.ok() && IsInteger(sample->labels.dtype()) && IsFloat(output.dtype) && output.has_rank &&
                       output.dims.size() == static_cast<size_t>(sample->labels.shape().rank()) + 1;
  if (classes) return {Kind::kTop1, "top1"};
  return spec;
}

Result<const std::vector<HostTensor>*> References::Get(size_t sample, const RunOptions& run) {
  const auto it = kept_.find(sample);
  if (it != kept_.end()) return &it->second;
  TENON_ASSIGN_OR_RETURN(const Sample loaded, data_.Load(sample));
  auto outputs = session_.Run(loaded.inputs, run);
  if (!outputs.ok()) return std::move(outputs).TakeStatus().Within(loaded.where);
  std::vector<HostTensor> copies;
  uint64_t bytes = 0;
  for (const HostTensor& t : *outputs) {
    copies.push_back(Copy(t));
    bytes += t.bytes;
  }
  if (bytes_ + bytes <= max_bytes_) {
    bytes_ += bytes;
    return &kept_.emplace(sample, std::move(copies)).first->second;
  }
  last_ = std::move(copies);
  return &last_;
}

Result<Evaluation> Evaluate(Session& session, DataSet& data, std::span<const size_t> samples, const MetricSpec& metric,
                            References* references, const EvaluateOptions& options) {
  TENON_ASSIGN_OR_RETURN(const auto judge, MakeJudge(metric));
  size_t done = 0;
  for (const size_t i : samples) {
    TENON_ASSIGN_OR_RETURN(const Sample sample, data.Load(i));
    const std::vector<HostTensor>* reference = nullptr;
    if (NeedsReference(metric, sample)) {
      if (references == nullptr) return Usage("metric '{}' needs labels or a reference; {} has none", metric.name, sample.where);
      TENON_ASSIGN_OR_RETURN(reference, references->Get(i, options.run));
    }
    // After the reference's run: it may be the same session, whose outputs last until the next run.
    auto outputs = session.Run(sample.inputs, options.run);
    if (!outputs.ok()) return std::move(outputs).TakeStatus().Within(sample.where);
    TENON_RETURN_IF_ERROR(judge->Add(sample, *outputs, reference).Within(sample.where));
    if (options.progress) options.progress(++done, samples.size());
  }
  TENON_ASSIGN_OR_RETURN(Evaluation evaluation, judge->Finish());
  evaluation.metric = metric.name;
  evaluation.higher_is_better = metric.higher_is_better;
  return evaluation;
}

}  // namespace tenon::guard
