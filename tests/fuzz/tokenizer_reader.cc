// libFuzzer target: a text, a zero byte, and a tokenizer.json (with a tokenizer_config.json after another zero byte). What the
// reader accepts must encode, decode and survive being kept; see docs/fuzzing.md.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace {

std::string_view Part(std::string_view* rest) {
  const size_t end = std::min(rest->find('\0'), rest->size());
  const std::string_view part = rest->substr(0, end);
  rest->remove_prefix(std::min(end + 1, rest->size()));
  return part;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const std::string_view text = Part(&rest), json = Part(&rest), config = Part(&rest);
  auto spec = tenon::text::SpecFromJson(json, config);
  if (!spec.ok()) return 0;
  const auto kept = tenon::text::TokenizerSpec::Parse(spec->Serialize());
  if (spec->Check().ok() != kept.ok()) std::abort();
  const auto tokenizer = tenon::text::Tokenizer::Create(std::move(spec).value());
  if (!tokenizer.ok()) return 0;
  const auto ids = (*tokenizer)->Encode(text);
  for (int32_t id : ids) {
    if (id < 0 || id >= (*tokenizer)->size()) std::abort();
  }
  (void)(*tokenizer)->Decode(ids);
  tenon::text::StreamDecoder stream(*tokenizer);
  std::string streamed;
  for (int32_t id : ids) streamed += stream.Add(id);
  streamed += stream.Finish();
  return 0;
}
