// Unicode by ICU.
#include "text/unicode.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/ubrk.h>
#include <unicode/uchar.h>
#include <unicode/utext.h>

#include "base/status.h"

namespace tenon::text {
namespace {

// The general category as `tokenizers` sees it where it asks the Rust crate unicode_categories, which knows Unicode 8.
uint32_t OldMask(char32_t c) {
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(c), age);
  return age[0] == 0 || age[0] > 8 ? 0 : U_GET_GC_MASK(static_cast<UChar32>(c));
}

uint32_t Mask(char32_t c) {
  return U_GET_GC_MASK(static_cast<UChar32>(c));
}

// The bytes that may follow `lead` first, and the sequence's length; 0 where `lead` begins no sequence.
int SequenceOf(unsigned char lead, unsigned char* low, unsigned char* high) {
  *low = 0x80;
  *high = 0xBF;
  if (lead < 0xC2 || lead > 0xF4) return lead < 0x80 ? 1 : 0;
  if (lead == 0xE0) *low = 0xA0;
  if (lead == 0xED) *high = 0x9F;
  if (lead == 0xF0) *low = 0x90;
  if (lead == 0xF4) *high = 0x8F;
  return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// The longest part of `s` that is a beginning of a valid sequence (at least 1); *complete: it is a whole one.
size_t MaximalPart(std::string_view s, bool* complete, bool* more_could_help) {
  unsigned char low = 0;
  unsigned char high = 0;
  const int length = SequenceOf(static_cast<unsigned char>(s[0]), &low, &high);
  *complete = length == 1;
  *more_could_help = false;
  if (length < 2) return 1;
  for (int i = 1; i < length; ++i) {
    if (static_cast<size_t>(i) == s.size()) {
      *more_could_help = true;
      return s.size();
    }
    const auto b = static_cast<unsigned char>(s[static_cast<size_t>(i)]);
    if (b < low || b > high) return static_cast<size_t>(i);
    low = 0x80;
    high = 0xBF;
  }
  *complete = true;
  return static_cast<size_t>(length);
}

const icu::Normalizer2* Instance(NormalForm form) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* n = form == NormalForm::kNfc    ? icu::Normalizer2::getNFCInstance(error)
                              : form == NormalForm::kNfd  ? icu::Normalizer2::getNFDInstance(error)
                              : form == NormalForm::kNfkc ? icu::Normalizer2::getNFKCInstance(error)
                                                          : icu::Normalizer2::getNFKDInstance(error);
  CHECK(U_SUCCESS(error));
  return n;
}

}  // namespace

void AppendUtf8(char32_t c, std::string* out) {
  const auto put = [&](char32_t b) { out->push_back(static_cast<char>(b)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

size_t CountChars(std::string_view s) {
  size_t n = 0;
  for (char c : s) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return n;
}

bool IsAscii(std::string_view s) {
  unsigned char all = 0;
  for (char c : s) all |= static_cast<unsigned char>(c);
  return all < 0x80;
}

size_t ValidPrefix(std::string_view s, bool* incomplete) {
  if (incomplete != nullptr) *incomplete = false;
  size_t i = 0;
  while (i < s.size()) {
    if (static_cast<unsigned char>(s[i]) < 0x80) {
      ++i;
      continue;
    }
    bool complete = false;
    bool more = false;
    const size_t n = MaximalPart(s.substr(i), &complete, &more);
    if (!complete) {
      if (incomplete != nullptr) *incomplete = more;
      return i;
    }
    i += n;
  }
  return i;
}

bool IsValidUtf8(std::string_view s) {
  return ValidPrefix(s, nullptr) == s.size();
}

std::string Sanitize(std::string_view s) {
  std::string out;
  out.reserve(s.size() + 8);
  while (!s.empty()) {
    const size_t valid = ValidPrefix(s, nullptr);
    out.append(s.substr(0, valid));
    s.remove_prefix(valid);
    if (s.empty()) break;
    bool complete = false;
    bool more = false;
    s.remove_prefix(MaximalPart(s, &complete, &more));
    out += "\xEF\xBF\xBD";
  }
  return out;
}

bool IsSpace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0;
}

bool IsPunctuation(char32_t c) {
  if (c < 0x80) return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  return (OldMask(c) & U_GC_P_MASK) != 0 || c == 0x166D;   // a symbol only since Unicode 12
}

bool IsNumeric(char32_t c) {
  return (Mask(c) & U_GC_N_MASK) != 0;
}

bool IsWord(char32_t c) {
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_ALPHABETIC) != 0 ||
         (Mask(c) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0 || c == 0x200C || c == 0x200D;
}

bool IsOther(char32_t c) {
  return (OldMask(c) & (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK | U_GC_CS_MASK)) != 0;
}

bool IsNonspacingMark(char32_t c) {
  if (c == 0x1734) return true;                     // until Unicode 14
  if (c == 0x1885 || c == 0x1886) return false;     // letters until Unicode 9
  return (OldMask(c) & U_GC_MN_MASK) != 0;
}

bool IsMark(char32_t c) {
  return (Mask(c) & U_GC_M_MASK) != 0;
}

bool IsCjk(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

std::string Normalize(std::string_view s, NormalForm form) {
  std::string out;
  out.reserve(s.size() + 8);
  icu::StringByteSink<std::string> sink(&out);
  UErrorCode error = U_ZERO_ERROR;
  Instance(form)->normalizeUTF8(0, icu::StringPiece(s.data(), static_cast<int32_t>(s.size())), sink, nullptr, error);
  CHECK(U_SUCCESS(error));
  return out;
}

std::string Lowercase(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  ForEachChar(s, [&](char32_t c, size_t, size_t) {
    if (c == 0x130) {   // the one character whose lower case is two
      out += "i\xCC\x87";
    } else {
      AppendUtf8(c < 0x80 ? (c >= 'A' && c <= 'Z' ? c + 32 : c) : static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))),
                 &out);
    }
  });
  return out;
}

std::string Uppercase(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  ForEachChar(s, [&](char32_t c, size_t, size_t) {
    if (c == 0xDF) {
      out += "SS";
    } else {
      AppendUtf8(static_cast<char32_t>(u_toupper(static_cast<UChar32>(c))), &out);
    }
  });
  return out;
}

void ForEachGrapheme(std::string_view s, void (*f)(std::string_view, void*), void* context) {
  UErrorCode error = U_ZERO_ERROR;
  UText text = UTEXT_INITIALIZER;
  utext_openUTF8(&text, s.data(), static_cast<int64_t>(s.size()), &error);
  UBreakIterator* breaks = ubrk_open(UBRK_CHARACTER, "en", nullptr, 0, &error);
  CHECK(U_SUCCESS(error));
  ubrk_setUText(breaks, &text, &error);
  int32_t begin = ubrk_first(breaks);
  for (int32_t end = ubrk_next(breaks); end != UBRK_DONE; end = ubrk_next(breaks)) {
    f(s.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)), context);
    begin = end;
  }
  ubrk_close(breaks);
  utext_close(&text);
}

}  // namespace tenon::text
