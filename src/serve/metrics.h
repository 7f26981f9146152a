// What is counted of one version of one model. It outlives reloads, so that counters never fall.
#ifndef TENON_SERVE_METRICS_H_
#define TENON_SERVE_METRICS_H_

#include <map>
#include <mutex>
#include <string>

#include "tenon/server.h"

namespace tenon::serve {

class Metrics {
 public:
  void Accept();
  /// A request ends. `duration_ns`: from arrival to now. `times`, `rows` and `tokens` count only for those that ran.
  void Finish(Outcome outcome, uint64_t duration_ns, const InferTimes& times, int64_t rows, int64_t tokens);
  /// One run of a session. `padding`: tokens of it that belong to no request.
  void Ran(int64_t rows, int64_t padding, const InferTimes& times);

  /// Everything but names and what the model itself knows (queue, memory, instances).
  ModelStatistics Read() const;

 private:
  static constexpr size_t kMaxBatchSizes = 256;   // rows beyond are counted under the largest
  mutable std::mutex mutex_;
  ModelStatistics counted_;
  std::map<uint64_t, BatchStatistics> batches_;
};

}  // namespace tenon::serve

#endif  // TENON_SERVE_METRICS_H_
