// What both sources of a TokenizerSpec need.
#ifndef TENON_TEXT_SPEC_SUPPORT_H_
#define TENON_TEXT_SPEC_SUPPORT_H_

#include <string>
#include <string_view>

#include "text/tokenizer_spec.h"

namespace tenon::text {

/// False: no base64 (white space is not allowed).
bool DecodeBase64(std::string_view text, std::string* out);

/// end_of_turn from eos and the control tokens that models end an answer with under well-known names.
void FillEndOfTurn(TokenizerSpec* spec);

}  // namespace tenon::text

#endif  // TENON_TEXT_SPEC_SUPPORT_H_
