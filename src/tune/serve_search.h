// How a model is served best on this machine: instances x threads x batch x delay, by measured load on a server in this process.
//
// Load is closed: a number of clients that each send the next request when they have the answer. A setting is loaded with one
// client (what a lone request takes) and with as many as fill its instances and batches; it counts where the 99th percentile
// stays within the target. Larger batches and delays are tried as long as they gain.
#ifndef TENON_TUNE_SERVE_SEARCH_H_
#define TENON_TUNE_SERVE_SEARCH_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tenon/server.h"

namespace tenon::tune {

struct ServeSetting {
  int instances = 1;
  int threads = 1;                           ///< of one instance
  int max_batch = 0;                         ///< rows; 0: requests never join
  std::chrono::microseconds max_delay{0};
};

struct ServeTrial {
  ServeSetting setting;
  int clients = 0;
  size_t requests = 0;
  size_t failed = 0;
  double per_s = 0;                          ///< answers
  double p50_ms = 0;
  double p99_ms = 0;
  double alone_ms = 0;                       ///< median with one client
  bool within = false;                       ///< p99 within the target, nothing failed
};

struct ServeSearchOptions {
  double p99_ms = 0;                         ///< target; 0: none, throughput alone counts
  int cores = 1;
  int most_batch = 16;                       ///< 1 or less: requests of this model cannot join
  double budget_s = 60;
  double slice_s = 1;                        ///< of one measurement
  std::function<bool()> cancelled;           ///< ends the search with what it has
  std::function<void(const std::string& what, size_t done, size_t total)> progress;
};

struct ServeSearch {
  std::vector<ServeTrial> trials;            ///< in the order they were measured
  size_t best = 0;                           ///< most answers a second within the target; where none is, the smallest p99
  bool complete = true;                      ///< false: stopped by budget or user
};

/// A server that has loaded the one model with this setting.
using ServerMaker = std::function<Result<std::unique_ptr<InferenceServer>>(const ServeSetting& setting)>;

/// `requests`: what clients send in turn; at least one. Fails when no setting could be loaded.
Result<ServeSearch> SearchServing(const ServerMaker& make, const std::vector<InferRequest>& requests,
                                  const ServeSearchOptions& options);

}  // namespace tenon::tune

#endif  // TENON_TUNE_SERVE_SEARCH_H_
