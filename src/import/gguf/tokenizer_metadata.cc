// The keys tokenizer.ggml.* as text::GgufTokenizer.
#include "import/gguf/tokenizer_metadata.h"

namespace tenon::import {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";

std::string TextOf(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.Find(key);
  const auto text = value != nullptr ? value->String() : std::nullopt;
  return std::string(text.value_or(""));
}

// An array under `key`, read by `get`; absent is fine, of another type is not.
template <typename T, typename Get>
Status ReadArray(const GgufFile& file, const char* key, Get&& get, std::vector<T>* out) {
  const GgufValue* value = file.Find(key);
  if (value == nullptr) return Status::Ok();
  auto array = get(*value);
  if (!array) return BadInput("{} holds elements of a wrong type", key);
  out->assign(array->begin(), array->end());
  return Status::Ok();
}

}  // namespace

Result<text::TokenizerSpec> ReadGgufTokenizer(const GgufFile& file) {
  text::GgufTokenizer t;
  t.model = TextOf(file, "tokenizer.ggml.model");
  if (t.model.empty()) return BadInput("the file has no tokenizer (no tokenizer.ggml.model)");
  t.pre = TextOf(file, "tokenizer.ggml.pre");
  const auto strings = [](const GgufValue& v) { return v.Strings(); };
  TENON_RETURN_IF_ERROR(ReadArray(file, "tokenizer.ggml.tokens", strings, &t.tokens));
  TENON_RETURN_IF_ERROR(ReadArray(file, "tokenizer.ggml.merges", strings, &t.merges));
  TENON_RETURN_IF_ERROR(ReadArray(file, "tokenizer.ggml.scores", [](const GgufValue& v) { return v.Floats(); }, &t.scores));
  std::vector<int64_t> numbers;
  const auto integers = [](const GgufValue& v) { return v.Ints(); };
  TENON_RETURN_IF_ERROR(ReadArray(file, "tokenizer.ggml.token_type", integers, &numbers));
  for (int64_t n : numbers) t.token_types.push_back(n >= 0 && n <= 6 ? static_cast<int32_t>(n) : 0);
  numbers.clear();
  TENON_RETURN_IF_ERROR(ReadArray(file, "tokenizer.ggml.precompiled_charsmap", integers, &numbers));
  for (int64_t n : numbers) t.precompiled_charsmap.push_back(static_cast<char>(n));
  for (const auto& [key, value] : file.metadata()) {
    if (!key.starts_with(kPrefix) || value.is_array()) continue;
    const auto flag = value.Bool();
    const auto number = value.Int();
    if (flag || number) t.scalars[key.substr(kPrefix.size())] = flag ? *flag : *number;
  }
  TENON_ASSIGN_OR_RETURN(text::TokenizerSpec spec, text::SpecFromGguf(std::move(t)));
  spec.chat_template = TextOf(file, "tokenizer.chat_template");
  return spec;
}

}  // namespace tenon::import
