#include "tune/serve_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "base/status.h"

namespace tenon::tune {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

// Clients that keep `clients` requests in flight until `end`. Answers come on threads of the server, which send the next request.
class ClosedLoop {
 public:
  ClosedLoop(InferenceServer& server, const std::vector<InferRequest>& requests, Clock::time_point count_from,
             Clock::time_point end)
      : server_(server), requests_(requests), count_from_(count_from), end_(end) {}

  void Run(int clients) {
    in_flight_ = clients;
    for (int i = 0; i < clients; ++i) Send();
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return in_flight_ == 0; });
  }

  /// Of the answers since `count_from`, ascending.
  std::vector<double> Milliseconds() {
    std::sort(ms_.begin(), ms_.end());
    return std::move(ms_);
  }
  size_t failed() const { return failed_; }

 private:
  void Send() {
    const auto start = Clock::now();
    InferRequest request = requests_[next_.fetch_add(1, std::memory_order_relaxed) % requests_.size()];
    server_.Infer(std::move(request),
                  [this, start](const InferResponse& response) { Answered(start, response.outcome == Outcome::kOk); });
  }

  void Answered(Clock::time_point start, bool ok) {
    const auto now = Clock::now();
    {
      std::lock_guard lock(mutex_);
      if (!ok) ++failed_;
      if (ok && start >= count_from_ && now <= end_) ms_.push_back(Seconds(now - start) * 1e3);
      // A server that refuses at once would be asked without end.
      if (now >= end_ || !ok) {
        if (--in_flight_ == 0) idle_.notify_one();
        return;
      }
    }
    Send();
  }

  InferenceServer& server_;
  const std::vector<InferRequest>& requests_;
  const Clock::time_point count_from_, end_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable idle_;
  int in_flight_ = 0;
  size_t failed_ = 0;
  std::vector<double> ms_;
};

double Percentile(const std::vector<double>& sorted, double p) {
  return sorted.empty() ? 0 : sorted[static_cast<size_t>(p * static_cast<double>(sorted.size() - 1) + 0.5)];
}

ServeTrial Load(InferenceServer& server, const std::vector<InferRequest>& requests, int clients, double seconds) {
  const auto part = [](double s) { return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s)); };
  const auto count_from = Clock::now() + part(0.2 * seconds);
  const auto end = count_from + part(seconds);
  ClosedLoop loop(server, requests, count_from, end);
  loop.Run(clients);
  ServeTrial t;
  t.failed = loop.failed();
  const std::vector<double> ms = loop.Milliseconds();
  t.clients = clients;
  t.requests = ms.size();
  t.per_s = static_cast<double>(ms.size()) / seconds;
  t.p50_ms = Percentile(ms, 0.5);
  t.p99_ms = Percentile(ms, 0.99);
  return t;
}

class Search {
 public:
  Search(const ServerMaker& make, const std::vector<InferRequest>& requests, const ServeSearchOptions& options)
      : make_(make), requests_(requests), options_(options), start_(Clock::now()) {}

  Result<ServeSearch> Run() {
    std::vector<ServeSetting> splits;
    for (int instances = 1; instances <= options_.cores; instances *= 2)
      splits.push_back({instances, options_.cores / instances, 0, {}});
    const int steps = options_.most_batch > 1 ? 4 : 1;
    total_ = splits.size() * static_cast<size_t>(steps) + (options_.most_batch > 1 ? 2 : 0);
    for (const ServeSetting& split : splits) TENON_RETURN_IF_ERROR(GrowBatch(split));
    if (!found_.trials.empty()) TENON_RETURN_IF_ERROR(GrowDelay());
    if (found_.trials.empty()) return last_failure_.ok() ? Usage("the budget allows no measurement") : last_failure_;
    return std::move(found_);
  }

 private:
  // Larger batches as long as they gain, each twice the last.
  Status GrowBatch(ServeSetting setting) {
    double best = 0;
    for (int batch = 0; batch <= options_.most_batch; batch = batch == 0 ? 2 : batch * 2) {
      setting.max_batch = batch;
      const auto trial = Try(setting);
      if (!trial) break;
      if (trial->per_s < 0.97 * best || (options_.p99_ms > 0 && !trial->within && batch > 0)) break;
      best = std::max(best, trial->per_s);
      if (options_.most_batch <= 1) break;
    }
    return Status::Ok();
  }

  // Waiting for company, at the best setting so far.
  Status GrowDelay() {
    ServeSetting setting = found_.trials[found_.best].setting;
    if (setting.max_batch < 2) return Status::Ok();
    const double run_us = found_.trials[found_.best].alone_ms * 1e3;
    for (double part : {0.25, 1.0}) {
      setting.max_delay = std::chrono::microseconds(std::max<int64_t>(50, static_cast<int64_t>(part * run_us)));
      if (!Try(setting)) break;
    }
    return Status::Ok();
  }

  // Nullopt: no time is left, or it could not be loaded.
  std::optional<ServeTrial> Try(const ServeSetting& setting) {
    const bool enough = Seconds(Clock::now() - start_) + 1.7 * options_.slice_s > options_.budget_s && !found_.trials.empty();
    if (enough || (options_.cancelled && options_.cancelled())) {
      found_.complete = false;
      return std::nullopt;
    }
    if (options_.progress) {
      options_.progress(fmt::format("{} x {} threads, batch {}", setting.instances, setting.threads, setting.max_batch),
                        std::min(found_.trials.size(), total_ - 1), total_);
    }
    auto server = make_(setting);
    if (!server.ok()) {
      last_failure_ = server.status();
      return std::nullopt;
    }
    const double alone_ms = Load(**server, requests_, 1, 0.25 * options_.slice_s).p50_ms;
    ServeTrial trial = Load(**server, requests_, setting.instances * 2 * std::max(1, setting.max_batch), options_.slice_s);
    trial.setting = setting;
    trial.alone_ms = alone_ms;
    trial.within = trial.failed == 0 && trial.requests > 0 && (options_.p99_ms <= 0 || trial.p99_ms <= options_.p99_ms);
    found_.trials.push_back(trial);
    if (Better(trial, found_.trials[found_.best])) found_.best = found_.trials.size() - 1;
    return trial;
  }

  static bool Better(const ServeTrial& a, const ServeTrial& b) {
    if (a.within != b.within) return a.within;
    return a.within ? a.per_s > b.per_s : a.requests > 0 && (b.requests == 0 || a.p99_ms < b.p99_ms);
  }

  const ServerMaker& make_;
  const std::vector<InferRequest>& requests_;
  const ServeSearchOptions& options_;
  const Clock::time_point start_;
  size_t total_ = 1;
  ServeSearch found_;
  Status last_failure_ = Status::Ok();
};

}  // namespace

Result<ServeSearch> SearchServing(const ServerMaker& make, const std::vector<InferRequest>& requests,
                                  const ServeSearchOptions& options) {
  if (requests.empty()) return Usage("no requests to load the server with");
  return Search(make, requests, options).Run();
}

}  // namespace tenon::tune
