// What all readers of settings promise of what they accept.
#ifndef TENON_TESTS_FUZZ_CHECK_CONFIG_H_
#define TENON_TESTS_FUZZ_CHECK_CONFIG_H_

#include <cstdlib>

#include "server/config_files.h"

namespace tenon::fuzz {

inline void Check(const ModelConfig& c) {
  const int max_batch = c.max_batch.value_or(0);
  if (max_batch < 0 || max_batch > 4096 || c.instances < 1 || c.versions_latest < 0 || c.queue.max_queue < 1) std::abort();
  for (size_t i = 1; i < c.preferred_batch.size(); ++i) {
    if (c.preferred_batch[i] < c.preferred_batch[i - 1]) std::abort();
  }
  for (const EnsemblePart& part : c.ensemble.parts) {
    if (part.model.empty() == part.step.empty()) std::abort();
  }
}

}  // namespace tenon::fuzz

#endif  // TENON_TESTS_FUZZ_CHECK_CONFIG_H_
