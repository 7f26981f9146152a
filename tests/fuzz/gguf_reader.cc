// libFuzzer target: any bytes as a GGUF file. Reading it, its tokenizer and its graph must end with what holds together or with
// an error; see docs/fuzzing.md.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "import/gguf/tokenizer_metadata.h"
#include "import/import.h"
#include "ir/graph.h"
#include "tensor/gguf.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = tenon::GgufFile::Parse({reinterpret_cast<const std::byte*>(data), size});
  if (!file.ok()) return 0;
  for (const auto& [key, value] : file->metadata()) (void)value.Text();
  if (auto spec = tenon::import::ReadGgufTokenizer(*file); spec.ok()) {
    // What the reader accepts, the tokenizer either takes or refuses, and then it encodes.
    if (const auto tokenizer = tenon::text::Tokenizer::Create(std::move(spec).value()); tokenizer.ok()) {
      (void)(*tokenizer)->Decode((*tokenizer)->Encode("Hello, wörld <s> 42\n"));
    }
  }
  const auto graph = tenon::import::ImportGguf(*file);
  if (graph.ok() && !tenon::ir::Verify(*graph).ok()) std::abort();
  return 0;
}
