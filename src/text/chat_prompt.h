// A conversation as the tokens that a model takes.
#ifndef TENON_TEXT_CHAT_PROMPT_H_
#define TENON_TEXT_CHAT_PROMPT_H_

#include <string>
#include <utility>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace tenon::text {

/// Renders {role, content} pairs and encodes the result. Control tokens come from the template alone: in a message they are text.
Result<std::vector<int32_t>> EncodeChat(const ChatTemplate& chat, const Tokenizer& tokenizer,
                                        const std::vector<std::pair<std::string, std::string>>& messages);

}  // namespace tenon::text

#endif  // TENON_TEXT_CHAT_PROMPT_H_
