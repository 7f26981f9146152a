// libFuzzer target: any text as config.pbtxt; see docs/fuzzing.md.
#include <cstddef>
#include <cstdint>
#include <string>

#include "check_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tenon::ModelConfig config;
  if (tenon::server::ParsePbtxt(std::string(reinterpret_cast<const char*>(data), size), &config).ok()) tenon::fuzz::Check(config);
  return 0;
}
