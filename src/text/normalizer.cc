// Normalising, step by step.
#include "text/chars_map.h"
#include "text/model.h"
#include "text/steps.h"
#include "text/unicode.h"

namespace tenon::text {
namespace {

std::string Filter(std::string_view text, bool (*drop)(char32_t)) {
  std::string out;
  out.reserve(text.size());
  ForEachChar(text, [&](char32_t c, size_t at, size_t n) {
    if (!drop(c)) out.append(text.substr(at, n));
  });
  return out;
}

std::string Strip(std::string_view text, uint32_t flags) {
  size_t begin = 0;
  while ((flags & kLeft) != 0 && begin < text.size() && IsSpace(DecodeUtf8(text.data() + begin)))
    begin += Utf8Length(text[begin]);
  size_t end = text.size();
  while ((flags & kRight) != 0 && end > begin) {
    size_t at = end - 1;
    while (at > begin && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    if (!IsSpace(DecodeUtf8(text.data() + at))) break;
    end = at;
  }
  return std::string(text.substr(begin, end - begin));
}

// SentencePiece's "nmt" rules.
std::string Nmt(std::string_view text) {
  std::string out;
  ForEachChar(text, [&](char32_t c, size_t at, size_t n) {
    if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F) return;
    const bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 ||
                       c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
    out += space ? std::string_view(" ") : text.substr(at, n);
  });
  return out;
}

bool IsBertControl(char32_t c) {
  return c != '\t' && c != '\n' && c != '\r' && IsOther(c);
}

// Cleaning and CJK spacing in one pass.
std::string BertClean(std::string_view text, bool clean, bool chinese) {
  std::string out;
  out.reserve(text.size() + 16);
  ForEachChar(text, [&](char32_t c, size_t at, size_t n) {
    if (clean) {
      if (c == 0 || c == 0xFFFD || (c < 0x20 || c >= 0x7F ? IsBertControl(c) : false)) return;
      if (IsSpace(c)) {
        out += ' ';
        return;
      }
    }
    const bool cjk = chinese && c >= 0x3400 && IsCjk(c);
    if (cjk) out += ' ';
    out += text.substr(at, n);
    if (cjk) out += ' ';
  });
  return out;
}

std::string Bert(std::string text, uint32_t flags) {
  text = BertClean(text, (flags & kCleanText) != 0, (flags & kChineseChars) != 0);
  if ((flags & kStripAccentsFlag) != 0 && !IsAscii(text)) text = Filter(Normalize(text, NormalForm::kNfd), IsNonspacingMark);
  return (flags & kLowercaseFlag) != 0 ? Lowercase(text) : text;
}

std::string ReplacePattern(std::string_view text, const Pattern& pattern, std::string_view with) {
  Pattern::Search search(pattern);
  std::string out;
  size_t done = 0;
  for (size_t from = 0, begin = 0, end = 0; from <= text.size() && search.Next(text, from, &begin, &end);) {
    if (end == begin) {   // an empty match replaces nothing
      from = end < text.size() ? end + Utf8Length(text[end]) : end + 1;
      continue;
    }
    out += text.substr(done, begin - done);
    out += with;
    from = done = end;
  }
  out += text.substr(done);
  return out;
}

}  // namespace

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to) {
  if (from.empty()) return std::string(text);
  std::string out;
  for (size_t at = text.find(from); at != std::string_view::npos; at = text.find(from)) {
    out += text.substr(0, at);
    out += to;
    text.remove_prefix(at + from.size());
  }
  out += text;
  return out;
}

Result<Normalizer> Normalizer::Make(const std::vector<Step>& steps) {
  Normalizer n;
  for (const Step& step : steps) {
    Ready ready{step, nullptr, nullptr};
    if (step.kind > StepKind::kPrecompiled && step.kind != StepKind::kByteLevel)
      return Unsupported("the tokenizer normalises with a step that is none ({})", static_cast<int>(step.kind));
    if (step.kind == StepKind::kReplace && (step.flags & kRegex) != 0) {
      TENON_ASSIGN_OR_RETURN(Pattern pattern, Pattern::Compile(step.text));
      ready.pattern = std::make_shared<const Pattern>(std::move(pattern));
    }
    if (step.kind == StepKind::kPrecompiled) {
      TENON_ASSIGN_OR_RETURN(ready.map, CharsMap::Parse(step.text));
    }
    n.steps_.push_back(std::move(ready));
  }
  return n;
}

std::string Normalizer::ApplyOne(const Ready& ready, std::string text) {
  const Step& step = ready.step;
  switch (step.kind) {
    case StepKind::kNfc: return IsAscii(text) ? text : Normalize(text, NormalForm::kNfc);
    case StepKind::kNfd: return IsAscii(text) ? text : Normalize(text, NormalForm::kNfd);
    case StepKind::kNfkc: return IsAscii(text) ? text : Normalize(text, NormalForm::kNfkc);
    case StepKind::kNfkd: return IsAscii(text) ? text : Normalize(text, NormalForm::kNfkd);
    case StepKind::kLowercase: return Lowercase(text);
    case StepKind::kStripAccents: return IsAscii(text) ? text : Filter(text, IsMark);
    case StepKind::kNmt: return Nmt(text);
    case StepKind::kStrip: return Strip(text, step.flags);
    case StepKind::kPrepend: return text.empty() ? text : step.text + text;
    case StepKind::kReplace:
      return ready.pattern != nullptr ? ReplacePattern(text, *ready.pattern, step.with) : ReplaceAll(text, step.text, step.with);
    case StepKind::kBertNormalize: return Bert(std::move(text), step.flags);
    case StepKind::kPrecompiled: return ready.map->Apply(text);
    default: return text;   // kByteLevel: the model works on raw bytes
  }
}

std::string Normalizer::Apply(std::string_view text) const {
  std::string s(text);
  for (const Ready& ready : steps_) s = ApplyOne(ready, std::move(s));
  return s;
}

}  // namespace tenon::text
