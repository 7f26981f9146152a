// Token texts back to text.
#include <algorithm>
#include <charconv>

#include "text/model.h"
#include "text/steps.h"
#include "text/unicode.h"

namespace tenon::text {
namespace {

// The tidying that BERT's decoder does; every replacement once over the token.
std::string CleanUp(std::string text) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) text = ReplaceAll(text, from, to);
  return text;
}

std::string BytesOfPiece(const std::string& token) {
  std::string bytes;
  return FromAlphabet(token, &bytes) ? bytes : token;
}

void StripCounts(const Step& step, int* start, int* stop) {
  *start = *stop = 0;
  const char* end = step.with.data() + step.with.size();
  const auto first = std::from_chars(step.with.data(), end, *start);
  if (first.ptr < end) std::from_chars(first.ptr + 1, end, *stop);
}

std::string StripPiece(const Step& step, std::string_view text) {
  int start = 0;
  int stop = 0;
  StripCounts(step, &start, &stop);
  for (; start > 0 && !step.text.empty() && text.starts_with(step.text); --start) text.remove_prefix(step.text.size());
  for (; stop > 0 && !step.text.empty() && text.ends_with(step.text); --stop) text.remove_suffix(step.text.size());
  return std::string(text);
}

std::string Metaspace(const Step& step, const std::string& token, bool first) {
  const bool drop = first && (step.flags & (kPrependFirst | kPrependAlways)) != 0;
  return ReplaceAll(token, step.text, drop ? "" : " ");
}

std::string WordPiecePiece(const Step& step, std::string token, bool first) {
  if (!first) token = token.starts_with(step.text) ? token.substr(step.text.size()) : " " + token;
  return (step.flags & kCleanUp) != 0 ? CleanUp(std::move(token)) : token;
}

// Runs of byte tokens become the text they spell, or U+FFFD a byte where they spell none.
std::vector<std::string> ByteFallback(std::vector<std::string> tokens) {
  std::vector<std::string> out;
  std::string run;
  const auto flush = [&] {
    if (run.empty()) return;
    if (IsValidUtf8(run)) {
      out.push_back(run);
    } else {
      out.insert(out.end(), run.size(), "\xEF\xBF\xBD");
    }
    run.clear();
  };
  for (std::string& token : tokens) {
    const int byte = ByteOfToken(token);
    if (byte >= 0) {
      run.push_back(static_cast<char>(byte));
    } else {
      flush();
      out.push_back(std::move(token));
    }
  }
  flush();
  return out;
}

std::string Joined(const std::vector<std::string>& tokens) {
  std::string s;
  for (const std::string& t : tokens) s += t;
  return s;
}

void ApplyOne(const Step& step, std::vector<std::string>* tokens) {
  switch (step.kind) {
    case StepKind::kByteLevel: {
      std::string bytes;
      for (const std::string& t : *tokens) bytes += BytesOfPiece(t);
      *tokens = {Sanitize(bytes)};
      return;
    }
    case StepKind::kByteFallback: *tokens = ByteFallback(std::move(*tokens)); return;
    case StepKind::kFuse: *tokens = {Joined(*tokens)}; return;
    default: break;
  }
  for (size_t i = 0; i < tokens->size(); ++i) {
    std::string& t = (*tokens)[i];
    switch (step.kind) {
      case StepKind::kReplace: t = ReplaceAll(t, step.text, step.with); break;
      case StepKind::kMetaspace: t = Metaspace(step, t, i == 0); break;
      case StepKind::kStripPiece: t = StripPiece(step, t); break;
      case StepKind::kWordPieceDecode: t = WordPiecePiece(step, std::move(t), i == 0); break;
      case StepKind::kBpeDecode: t = ReplaceAll(t, step.text, i + 1 < tokens->size() ? " " : ""); break;
      default: break;
    }
  }
}

}  // namespace

int ByteOfToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int byte = 0;
  const auto parsed = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  return parsed.ptr == token.data() + 5 ? byte : -1;
}

std::string ApplyDecoders(const std::vector<Step>& steps, std::vector<std::string> tokens) {
  if (steps.empty()) {
    std::string s;
    for (const std::string& t : tokens) s += (s.empty() ? "" : " ") + t;
    return s;
  }
  for (const Step& step : steps) ApplyOne(step, &tokens);
  return Joined(tokens);
}

std::string DecodePiece(const std::vector<Step>& steps, std::string text, bool first) {
  if (steps.empty()) return first ? text : " " + text;
  for (const Step& step : steps) {
    const int byte = step.kind == StepKind::kByteFallback ? ByteOfToken(text) : -1;
    if (byte >= 0) return std::string(1, static_cast<char>(byte));
    switch (step.kind) {
      case StepKind::kByteLevel: text = BytesOfPiece(text); break;
      case StepKind::kReplace: text = ReplaceAll(text, step.text, step.with); break;
      case StepKind::kMetaspace: text = Metaspace(step, text, first); break;
      case StepKind::kWordPieceDecode: text = WordPiecePiece(step, std::move(text), first); break;
      case StepKind::kBpeDecode: text = ReplaceAll(text, step.text, " "); break;
      default: break;
    }
  }
  return text;
}

int LeadingSpacesToStrip(const std::vector<Step>& steps) {
  bool fused = false;
  for (const Step& step : steps) {
    fused = fused || step.kind == StepKind::kFuse;
    if (!fused || step.kind != StepKind::kStripPiece || step.text != " ") continue;
    int start = 0;
    int stop = 0;
    StripCounts(step, &start, &stop);
    return std::clamp(start, 0, 1 << 10);
  }
  return 0;
}

}  // namespace tenon::text
