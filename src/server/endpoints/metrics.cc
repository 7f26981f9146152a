// GET /metrics: Prometheus text, under our own names and Triton's.
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include "serve/outcome.h"
#include "server/context.h"

namespace tenon::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

using Labels = std::vector<ClientMetric::Label>;

Labels LabelsOf(const ModelStatistics& s) {
  return {{"model", s.name}, {"version", s.version}};
}

class Families {
 public:
  void Add(const char* name, const char* help, MetricType type, Labels labels, double value) {
    ClientMetric metric;
    metric.label = std::move(labels);
    if (type == MetricType::Counter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
    Family(name, help, type).metric.push_back(std::move(metric));
  }
  void Counter(const char* name, const char* help, Labels labels, uint64_t value) {
    Add(name, help, MetricType::Counter, std::move(labels), static_cast<double>(value));
  }
  void Gauge(const char* name, const char* help, Labels labels, uint64_t value) {
    Add(name, help, MetricType::Gauge, std::move(labels), static_cast<double>(value));
  }
  void Latency(const ModelStatistics& s) {
    ClientMetric metric;
    metric.label = LabelsOf(s);
    uint64_t sum = 0;
    for (size_t i = 0; i < s.latency_buckets.size(); ++i) {
      sum += s.latency_buckets[i];
      const double edge = i < std::size(kLatencyBucketsUs) ? static_cast<double>(kLatencyBucketsUs[i]) * 1e-6
                                                           : std::numeric_limits<double>::infinity();
      metric.histogram.bucket.push_back({sum, edge});
    }
    metric.histogram.sample_count = sum;
    metric.histogram.sample_sum = static_cast<double>(s.success.ns) * 1e-9;
    Family("tenon_request_duration_seconds", "From arrival to answer, of requests that ended well", MetricType::Histogram)
        .metric.push_back(std::move(metric));
  }
  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  MetricFamily& Family(const char* name, const char* help, MetricType type) {
    for (MetricFamily& f : families_) {
      if (f.name == name) return f;
    }
    families_.push_back({name, help, type, {}});
    return families_.back();
  }
  std::vector<MetricFamily> families_;
};

const char* TritonReason(Outcome outcome) {
  switch (outcome) {
    case Outcome::kCancelled: return "CANCELED";
    case Outcome::kOverload:
    case Outcome::kDeadline: return "REJECTED";
    case Outcome::kInternal: return "BACKEND";
    default: return "OTHER";
  }
}

Labels With(Labels labels, const char* name, std::string_view value) {
  labels.push_back({name, std::string(value)});
  return labels;
}

// accepted = sum over outcomes + in flight, always: one reading under one lock.
void AddOwn(const ModelStatistics& s, Families* f) {
  const Labels labels = LabelsOf(s);
  f->Counter("tenon_requests_accepted_total", "Requests that arrived; the sum of all outcomes and of those in flight", labels,
             s.accepted);
  for (int i = 0; i < kOutcomes; ++i) {
    f->Counter("tenon_requests_total", "Requests that ended, by outcome",
               With(labels, "outcome", serve::OutcomeName(static_cast<Outcome>(i))), s.outcomes[i]);
  }
  f->Gauge("tenon_requests_in_flight", "Requests that wait or run", labels, s.in_flight);
  f->Gauge("tenon_requests_queued", "Requests that wait", labels, s.queued);
  f->Counter("tenon_rows_total", "Rows answered", labels, s.rows);
  f->Counter("tenon_tokens_total", "Tokens answered: rows times the extents that the model leaves open", labels, s.tokens);
  f->Counter("tenon_padding_tokens_total", "Tokens that ran as padding of shorter requests", labels, s.padding);
  f->Counter("tenon_runs_total", "Runs of sessions", labels, s.runs);
  f->Gauge("tenon_model_memory_bytes", "Bytes charged to the model's sessions", labels, s.memory_bytes);
  f->Gauge("tenon_model_threads", "Threads of all instances", labels,
           static_cast<uint64_t>(s.instances) * static_cast<uint64_t>(s.threads));
  f->Latency(s);
}

void AddTriton(const ModelStatistics& s, Families* f) {
  const Labels labels = LabelsOf(s);
  f->Counter("nv_inference_request_success", "Requests answered", labels, s.success.count);
  uint64_t by_reason[4] = {};
  static constexpr const char* kReasons[4] = {"REJECTED", "CANCELED", "BACKEND", "OTHER"};
  for (int i = 1; i < kOutcomes; ++i) {
    for (int r = 0; r < 4; ++r) {
      if (std::string_view(kReasons[r]) == TritonReason(static_cast<Outcome>(i))) by_reason[r] += s.outcomes[i];
    }
  }
  for (int r = 0; r < 4; ++r) {
    f->Counter("nv_inference_request_failure", "Requests that failed, by reason", With(labels, "reason", kReasons[r]),
               by_reason[r]);
  }
  f->Counter("nv_inference_count", "Rows answered", labels, s.rows);
  f->Counter("nv_inference_exec_count", "Runs of the model", labels, s.runs);
  f->Counter("nv_inference_request_duration_us", "Sum of request durations", labels, s.success.ns / 1000);
  f->Counter("nv_inference_queue_duration_us", "Sum of waiting times", labels, s.queue.ns / 1000);
  f->Counter("nv_inference_compute_input_duration_us", "Sum of times to join inputs", labels, s.input.ns / 1000);
  f->Counter("nv_inference_compute_infer_duration_us", "Sum of run times", labels, s.infer.ns / 1000);
  f->Counter("nv_inference_compute_output_duration_us", "Sum of times to part outputs", labels, s.output.ns / 1000);
  f->Gauge("nv_inference_pending_request_count", "Requests that wait", labels, s.queued);
}

}  // namespace

void MetricsText(Call& call) {
  Families f;
  InferenceServer& models = call.context.models;
  for (const ModelStatistics& s : models.Statistics()) {
    AddOwn(s, &f);
    if (!s.name.empty()) AddTriton(s, &f);
  }
  f.Gauge("tenon_memory_used_bytes", "Bytes charged to sessions", {}, models.memory_used());
  f.Gauge("tenon_memory_limit_bytes", "Limit of that; 0: none", {}, models.memory_limit());
  f.Gauge("tenon_cores", "Cores that models run on", {}, static_cast<uint64_t>(models.cores()));
  f.Gauge("tenon_ready", "1 when models are loaded and requests are taken", {}, models.Ready() ? 1 : 0);
  HttpResponse r;
  r.content_type = "text/plain; version=0.0.4; charset=utf-8";
  r.body = prometheus::TextSerializer().Serialize(f.Take());
  call.Reply(std::move(r));
}

}  // namespace tenon::server
