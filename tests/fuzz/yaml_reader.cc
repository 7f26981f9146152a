// libFuzzer target: any text as settings: config.pbtxt, the same as JSON, tenon.yaml of a model or of a server; see
// docs/fuzzing.md. The first byte says which.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "server/config_files.h"

namespace {

// What is accepted holds to the limits that the readers promise.
void Check(const tenon::ModelConfig& c) {
  const int max_batch = c.max_batch.value_or(0);
  if (max_batch < 0 || max_batch > 4096 || c.instances < 1 || c.versions_latest < 0 || c.max_queue < 1) std::abort();
  for (size_t i = 1; i < c.preferred_batch.size(); ++i) {
    if (c.preferred_batch[i] < c.preferred_batch[i - 1]) std::abort();
  }
  for (const tenon::EnsemblePart& part : c.ensemble.parts) {
    if (part.model.empty() == part.step.empty()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  tenon::ModelConfig config;
  switch (data[0] % 4) {
    case 0:
      if (tenon::server::ParsePbtxt(text, &config).ok()) Check(config);
      break;
    case 1:
      if (tenon::server::ParseConfigJson(text, &config).ok()) Check(config);
      break;
    case 2:
      if (tenon::server::ParseModelYaml(text, &config).ok()) Check(config);
      break;
    default: {
      const auto server = tenon::server::ParseServerYaml(text, config);
      if (!server.ok()) break;
      for (const tenon::ModelConfig& model : server->models) Check(model);
    }
  }
  return 0;
}
