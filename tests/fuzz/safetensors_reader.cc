// libFuzzer target: a config.json, a zero byte, and a safetensors file, as a folder would hold them. Reading them and building
// the encoder must end with a graph that holds together or with an error; see docs/fuzzing.md.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "import/hf/encoder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t split = std::min(text.find('\0'), size);
  const std::string_view rest = text.substr(std::min(split + 1, size));
  const auto weights = tenon::import::Safetensors::Parse({reinterpret_cast<const std::byte*>(rest.data()), rest.size()});
  const auto json = nlohmann::json::parse(text.substr(0, split), nullptr, false);
  const auto config = tenon::import::hf::ReadConfig(json);
  if (!weights.ok() || !config.ok()) return 0;
  const auto graph = tenon::import::hf::BuildEncoder(*weights, *config);
  if (graph.ok() && !tenon::ir::Verify(*graph).ok()) std::abort();
  return 0;
}
