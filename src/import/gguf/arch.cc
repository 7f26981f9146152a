#include "import/gguf/arch.h"

namespace tenon::import::gguf {
namespace {

constexpr Arch kArchs[] = {
    // name, interleaved_rope, gate, scaled_embedding, local_every, local_rope_base, default_window, scaled_by_width
    {"llama", true},
    {"mistral", true},
    {"smollm", true},
    {"granite", true},
    {"qwen2"},
    {"qwen3"},
    {"phi3"},
    {"gemma", false, "gelu", true},
    {"gemma2", false, "gelu", true, 2, 0, 4096, 46},
    {"gemma3", false, "gelu", true, 6, 10000.0f, 0, 62},
};

}  // namespace

const Arch* FindArch(std::string_view name) {
  for (const Arch& a : kArchs) {
    if (a.name == name) return &a;
  }
  return nullptr;
}

}  // namespace tenon::import::gguf
