// Base64, and the tokens that end an answer.
#include "text/spec_support.h"

#include <algorithm>

namespace tenon::text {

bool DecodeBase64(std::string_view text, std::string* out) {
  while (text.ends_with('=')) text.remove_suffix(1);
  out->clear();
  uint32_t bits = 0;
  int have = 0;
  for (char c : text) {
    const int v = c >= 'A' && c <= 'Z'   ? c - 'A'
                  : c >= 'a' && c <= 'z' ? c - 'a' + 26
                  : c >= '0' && c <= '9' ? c - '0' + 52
                  : c == '+'             ? 62
                  : c == '/'             ? 63
                                         : -1;
    if (v < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(v);
    have += 6;
    if (have >= 8) {
      have -= 8;
      out->push_back(static_cast<char>(bits >> have));
    }
  }
  return true;
}

void FillEndOfTurn(TokenizerSpec* spec) {
  const auto add = [&](int32_t id) {
    std::vector<int32_t>& ends = spec->end_of_turn;
    if (id >= 0 && std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
  };
  add(spec->eos);
  static constexpr std::string_view kNames[] = {
      "<|im_end|>", "<|eot_id|>",    "<|eom_id|>",      "<end_of_turn>", "<|end|>",
      "<|eot|>",    "<|endoftext|>", "<|end_of_text|>", "<|return|>",    "<|END_OF_TURN_TOKEN|>"};
  for (const AddedToken& a : spec->added) {
    if (a.special && std::find(std::begin(kNames), std::end(kNames), a.text) != std::end(kNames)) add(a.id);
  }
}

}  // namespace tenon::text
