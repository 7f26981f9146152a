// Chat templates: the Jinja that models carry, rendered as `transformers` does (trim_blocks, lstrip_blocks, its own tojson).
#ifndef TENON_TEXT_CHAT_TEMPLATE_H_
#define TENON_TEXT_CHAT_TEMPLATE_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tenon::text {

struct ChatInput {
  std::string messages_json;   ///< a list of {"role": ..., "content": ...}
  std::string tools_json;      ///< a list, or "" for none
  std::string extra_json;      ///< an object of further variables ("enable_thinking": true), or ""
  std::string bos_token;
  std::string eos_token;
  bool add_generation_prompt = true;
};

class ChatTemplate {
 public:
  /// kBadInput: no template Tenon can read; the message has the line. kResourceLimit: too large or nested too deep.
  static Result<std::shared_ptr<const ChatTemplate>> Parse(std::string_view source);
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  /// `trusted` has one byte a byte of `text`: 1 for what the template itself wrote, 0 for what came from the input. It is what
  /// Tokenizer::EncodeTrusted takes, without adding BOS: the template writes its own.
  struct Rendered {
    std::string text;
    std::string trusted;
  };
  /// kBadInput: the template refuses the messages or does what it cannot; kResourceLimit: too many steps, too much text.
  Result<Rendered> Render(const ChatInput& input) const;
  /// Renders with the variables of a JSON object alone.
  Result<Rendered> RenderVariables(std::string_view json) const;

 private:
  struct State;
  explicit ChatTemplate(std::unique_ptr<State> state);
  std::unique_ptr<const State> state_;
};

/// [{"role": ..., "content": ...}] of pairs.
std::string MessagesJson(const std::vector<std::pair<std::string, std::string>>& messages);

}  // namespace tenon::text

#endif  // TENON_TEXT_CHAT_TEMPLATE_H_
