// libFuzzer target: any bytes as an ONNX model. Import, with upgrades and inference of types and shapes, must end with a graph
// that holds together or with an error; see docs/fuzzing.md.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "import/import.h"
#include "ir/graph.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tenon::import::ImportOptions options;
  options.max_expanded_bytes = size_t{16} << 20;
  options.max_nodes = 20'000;
  tenon::import::ImportReport report;
  const auto graph =
      tenon::import::ImportOnnxBytes({reinterpret_cast<const char*>(data), size}, /*base_dir=*/"", options, &report);
  if (!graph.ok()) return 0;
  // What the reader accepts, the passes take for sound.
  if (!tenon::ir::Verify(*graph).ok()) std::abort();
  (void)tenon::import::CheckSupported(*graph);
  return 0;
}
