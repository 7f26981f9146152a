// What all readers of settings promise of what they accept.
#ifndef TENON_TESTS_FUZZ_CHECK_CONFIG_H_
#define TENON_TESTS_FUZZ_CHECK_CONFIG_H_

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "server/config_files.h"

namespace tenon::fuzz {

inline void Check(const ModelConfig& c) {
  const int max_batch = c.max_batch.value_or(0);
  if (max_batch < 0 || max_batch > 4096 || c.instances < 1 || c.versions_latest < 0 || c.queue.max_queue < 1) std::abort();
  for (size_t i = 1; i < c.preferred_batch.size(); ++i) {
    if (c.preferred_batch[i] < c.preferred_batch[i - 1]) std::abort();
  }
  for (const auto& [priority, limits] : c.priority_queues) {
    if (priority < 1 || priority > c.priority_levels || limits.max_queue < 1) std::abort();
  }
  for (const WarmUpRun& run : c.warm_up) {
    if (run.rows < 1 || run.rows > std::max(1, max_batch) || run.count < 1 || run.count > 1000) std::abort();
    for (const auto& [name, input] : run.inputs) {
      const std::filesystem::path file(input.file);
      if (file.is_absolute() || std::find(file.begin(), file.end(), "..") != file.end()) std::abort();
    }
  }
  for (const EnsemblePart& part : c.ensemble.parts) {
    if (part.model.empty() == part.step.empty()) std::abort();
  }
}

}  // namespace tenon::fuzz

#endif  // TENON_TESTS_FUZZ_CHECK_CONFIG_H_
