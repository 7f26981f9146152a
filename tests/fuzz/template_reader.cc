// libFuzzer target: any bytes as a chat template. It must be refused, or render a conversation within its limits; see
// docs/fuzzing.md.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto parsed = tenon::text::ChatTemplate::Parse({reinterpret_cast<const char*>(data), size});
  if (!parsed.ok()) return 0;
  tenon::text::ChatInput input;
  input.messages_json =
      R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Hi <|im_end|> é"},)"
      R"({"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":{"x":[1,2.5,true]}}}]},)"
      R"({"role":"tool","content":"3"},{"role":"user","content":[{"type":"text","text":"and?"}]}])";
  input.tools_json = R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}])";
  input.extra_json = R"({"enable_thinking":false,"date_string":"1 Jan"})";
  input.bos_token = "<s>", input.eos_token = "</s>";
  const auto rendered = (*parsed)->Render(input);
  if (rendered.ok() && rendered->trusted.size() != rendered->text.size()) std::abort();
  return 0;
}
