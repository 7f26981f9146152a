// libFuzzer target: any text as tenon.yaml, of a model where the first byte is even, of a server where it is odd; see
// docs/fuzzing.md.
#include <cstddef>
#include <cstdint>
#include <string>

#include "check_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  tenon::ModelConfig config;
  if (data[0] % 2 == 0) {
    if (tenon::server::ParseModelYaml(text, &config).ok()) tenon::fuzz::Check(config);
    return 0;
  }
  if (!tenon::server::ParseServerYaml(text).ok()) return 0;
  const auto models = tenon::server::ParseServerModels(text, config);
  if (!models.ok()) return 0;
  for (const tenon::ModelConfig& model : *models) tenon::fuzz::Check(model);
  return 0;
}
