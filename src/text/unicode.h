// UTF-8 and the properties of characters that tokenizers ask for. All but Sanitize expect valid UTF-8.
#ifndef TENON_TEXT_UNICODE_H_
#define TENON_TEXT_UNICODE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::text {

/// Length in bytes of the sequence that begins with `lead` (1 for bytes that begin none).
inline size_t Utf8Length(char lead) {
  const auto b = static_cast<unsigned char>(lead);
  return b < 0xC0 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}

/// The character at `p`.
inline char32_t DecodeUtf8(const char* p) {
  const auto at = [&](int i) { return static_cast<char32_t>(static_cast<unsigned char>(p[i])); };
  const char32_t b = at(0);
  if (b < 0x80) return b;
  if (b < 0xE0) return (b & 0x1F) << 6 | (at(1) & 0x3F);
  if (b < 0xF0) return (b & 0x0F) << 12 | (at(1) & 0x3F) << 6 | (at(2) & 0x3F);
  return (b & 0x07) << 18 | (at(1) & 0x3F) << 12 | (at(2) & 0x3F) << 6 | (at(3) & 0x3F);
}

void AppendUtf8(char32_t c, std::string* out);

/// The characters of `s` in order: f(character, offset, length).
template <typename F>
void ForEachChar(std::string_view s, F&& f) {
  for (size_t i = 0; i < s.size();) {
    const size_t n = Utf8Length(s[i]);
    f(DecodeUtf8(s.data() + i), i, n);
    i += n;
  }
}

size_t CountChars(std::string_view s);
bool IsAscii(std::string_view s);

/// How many bytes at the front of `s` are whole, valid sequences. `incomplete` (may be null): the rest is the beginning of a
/// sequence that further bytes could complete.
size_t ValidPrefix(std::string_view s, bool* incomplete);
bool IsValidUtf8(std::string_view s);
/// Every maximal part that is no valid sequence becomes U+FFFD, as browsers and Python's "replace" do.
std::string Sanitize(std::string_view s);

bool IsSpace(char32_t c);         ///< White_Space
bool IsPunctuation(char32_t c);   ///< ASCII punctuation and symbols, P*
bool IsNumeric(char32_t c);       ///< N*
bool IsWord(char32_t c);          ///< \w: letters, marks, decimal digits, connectors
bool IsOther(char32_t c);         ///< control, format, private use, surrogate
bool IsNonspacingMark(char32_t c);
bool IsMark(char32_t c);
bool IsCjk(char32_t c);           ///< the blocks that BERT isolates

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };
std::string Normalize(std::string_view s, NormalForm form);
/// Character by character, without regard to neighbours.
std::string Lowercase(std::string_view s);
std::string Uppercase(std::string_view s);

/// f(grapheme) for each extended grapheme cluster.
void ForEachGrapheme(std::string_view s, void (*f)(std::string_view grapheme, void* context), void* context);

}  // namespace tenon::text

#endif  // TENON_TEXT_UNICODE_H_
