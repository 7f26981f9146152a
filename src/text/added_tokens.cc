// Finding added tokens.
#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode.h"

namespace tenon::text {
namespace {

size_t CharBefore(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

bool AloneAsWord(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && IsWord(DecodeUtf8(text.data() + CharBefore(text, begin)))) return false;
  return end == text.size() || !IsWord(DecodeUtf8(text.data() + end));
}

}  // namespace

void AddedTokens::Build(const std::vector<AddedToken>& tokens, const std::vector<std::string>& texts) {
  tokens_.clear();
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!texts[i].empty()) tokens_.push_back({tokens[i], texts[i]});
  }
  const auto byte = [](const Token& t) { return static_cast<unsigned char>(t.text[0]); };
  std::stable_sort(tokens_.begin(), tokens_.end(), [&](const Token& a, const Token& b) {
    return byte(a) != byte(b) ? byte(a) < byte(b) : a.text.size() > b.text.size();
  });
  first_[0].assign(256, 0);
  first_[1].assign(256, 0);
  for (size_t i = tokens_.size(); i > 0; --i) {
    const unsigned char b = byte(tokens_[i - 1]);
    if (first_[1][b] == 0) first_[1][b] = static_cast<uint32_t>(i);
    first_[0][b] = static_cast<uint32_t>(i - 1);
  }
}

const AddedTokens::Token* AddedTokens::MatchAt(std::string_view text, size_t at, const char* trusted, bool special) const {
  const auto b = static_cast<unsigned char>(text[at]);
  for (uint32_t i = first_[0][b]; i < first_[1][b]; ++i) {
    const Token& t = tokens_[i];
    if (t.text.size() > text.size() - at || text.compare(at, t.text.size(), t.text) != 0) continue;
    if (!t.token.special) return &t;
    if (!special) continue;
    if (trusted == nullptr || std::all_of(trusted + at, trusted + at + t.text.size(), [](char c) { return c != 0; })) return &t;
  }
  return nullptr;
}

void AddedTokens::Split(std::string_view text, const char* trusted, bool special, std::vector<Part>* parts) const {
  size_t done = 0;
  for (size_t at = 0; at < text.size() && !tokens_.empty();) {
    const Token* t = MatchAt(text, at, trusted, special);
    if (t == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = at + t->text.size();
    at = end;
    if (t->token.single_word && !AloneAsWord(text, begin, end)) continue;
    if (begin < done) continue;   // taken with the white space after the last one
    while (t->token.lstrip && begin > done) {
      const size_t before = CharBefore(text, begin);
      if (!IsSpace(DecodeUtf8(text.data() + before))) break;
      begin = before;
    }
    while (t->token.rstrip && end < text.size() && IsSpace(DecodeUtf8(text.data() + end))) end += Utf8Length(text[end]);
    if (done < begin) parts->push_back({-1, done, begin});
    parts->push_back({t->token.id, begin, end});
    done = end;
  }
  if (done < text.size()) parts->push_back({-1, done, text.size()});
}

}  // namespace tenon::text
