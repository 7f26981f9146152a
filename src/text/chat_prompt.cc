#include "text/chat_prompt.h"

namespace tenon::text {

Result<std::vector<int32_t>> EncodeChat(const ChatTemplate& chat, const Tokenizer& tokenizer,
                                        const std::vector<std::pair<std::string, std::string>>& messages) {
  const TokenizerSpec& spec = tokenizer.spec();
  const auto token = [&](int32_t id) { return id < 0 ? std::string() : spec.tokens[static_cast<size_t>(id)]; };
  ChatInput input;
  input.messages_json = MessagesJson(messages);
  input.bos_token = token(spec.bos), input.eos_token = token(spec.eos);
  TENON_ASSIGN_OR_RETURN(const auto rendered, chat.Render(input));
  return tokenizer.EncodeTrusted(rendered.text, rendered.trusted, false);
}

}  // namespace tenon::text
