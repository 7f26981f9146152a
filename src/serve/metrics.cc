#include "serve/metrics.h"

#include <algorithm>
#include <iterator>

namespace tenon::serve {

void Metrics::Accept() {
  const std::lock_guard lock(mutex_);
  ++counted_.accepted;
  ++counted_.in_flight;
}

void Metrics::Finish(Outcome outcome, uint64_t duration_ns, const InferTimes& times, int64_t rows, int64_t tokens) {
  const auto* edge = std::lower_bound(std::begin(kLatencyBucketsUs), std::end(kLatencyBucketsUs), duration_ns / 1000);
  const std::lock_guard lock(mutex_);
  --counted_.in_flight;
  ++counted_.outcomes[static_cast<size_t>(outcome)];
  if (outcome != Outcome::kOk) {
    counted_.fail.Add(duration_ns);
    if (outcome == Outcome::kCancelled) counted_.cancel.Add(duration_ns);
    return;
  }
  counted_.latency_buckets.resize(std::size(kLatencyBucketsUs) + 1);
  ++counted_.latency_buckets[static_cast<size_t>(edge - std::begin(kLatencyBucketsUs))];
  counted_.success.Add(duration_ns);
  counted_.queue.Add(times.queue);
  counted_.input.Add(times.input);
  counted_.infer.Add(times.infer);
  counted_.output.Add(times.output);
  counted_.rows += static_cast<uint64_t>(rows);
  counted_.tokens += static_cast<uint64_t>(tokens);
}

void Metrics::Ran(int64_t rows, int64_t padding, const InferTimes& times) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::lock_guard lock(mutex_);
  ++counted_.runs;
  counted_.padding += static_cast<uint64_t>(padding);
  counted_.last_ms = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  auto key = static_cast<uint64_t>(rows);
  if (batches_.size() >= kMaxBatchSizes && batches_.count(key) == 0) key = batches_.rbegin()->first;
  BatchStatistics& b = batches_[key];
  b.rows = key;
  b.input.Add(times.input);
  b.infer.Add(times.infer);
  b.output.Add(times.output);
}

ModelStatistics Metrics::Read() const {
  const std::lock_guard lock(mutex_);
  ModelStatistics copy = counted_;
  copy.latency_buckets.resize(std::size(kLatencyBucketsUs) + 1);
  for (const auto& [rows, b] : batches_) copy.batches.push_back(b);
  return copy;
}

}  // namespace tenon::serve
