// Cutting text into the pieces that the model sees one by one.
#include "text/steps.h"
#include "text/unicode.h"

namespace tenon::text {
namespace {

constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Collects alternating parts of a text and applies the behaviour of a split to them.
class Splitter {
 public:
  Splitter(std::string_view text, uint32_t flags, std::vector<std::string_view>* out) : text_(text), flags_(flags), out_(out) {
    first_ = out->size();
  }
  // [begin, end) matches; what lies before it since the last match does not.
  void Match(size_t begin, size_t end) {
    if (begin > done_) Part(done_, begin, false);
    if (end > begin) Part(begin, end, true);
    done_ = end;
  }
  void Finish() {
    if (done_ < text_.size()) Part(done_, text_.size(), false);
    Flush();
  }

 private:
  void Part(size_t begin, size_t end, bool match) {
    if ((flags_ & kInvert) != 0) match = !match;
    if ((flags_ & kRemoved) != 0) {
      if (!match) Put(begin, end);
    } else if ((flags_ & kContiguous) != 0) {
      Join(begin, end, match, have_ && match == held_match_);
    } else if ((flags_ & kMergedWithPrevious) != 0) {
      Join(begin, end, match, have_ && match && !held_match_);
    } else if ((flags_ & kMergedWithNext) != 0) {
      Join(begin, end, match, have_ && held_match_ && !match);
    } else {
      Put(begin, end);
    }
  }
  void Join(size_t begin, size_t end, bool match, bool with_held) {
    if (!with_held) {
      Flush();
      held_ = begin;
      have_ = true;
    }
    held_end_ = end;
    held_match_ = match;
  }
  void Flush() {
    if (have_) Put(held_, held_end_);
    have_ = false;
  }
  void Put(size_t begin, size_t end) { out_->push_back(text_.substr(begin, end - begin)); }

  std::string_view text_;
  uint32_t flags_;
  std::vector<std::string_view>* out_;
  size_t first_ = 0;
  size_t done_ = 0;
  size_t held_ = 0;
  size_t held_end_ = 0;
  bool have_ = false;
  bool held_match_ = false;
};

template <typename IsMatch>
void SplitByChar(std::string_view text, uint32_t flags, IsMatch&& is_match, std::vector<std::string_view>* out) {
  Splitter splitter(text, flags, out);
  ForEachChar(text, [&](char32_t c, size_t at, size_t n) {
    if (is_match(c)) splitter.Match(at, at + n);
  });
  splitter.Finish();
}

void SplitByPattern(std::string_view text, uint32_t flags, Pattern::Search* search, std::vector<std::string_view>* out) {
  Splitter splitter(text, flags, out);
  for (size_t from = 0, begin = 0, end = 0; from < text.size() && search->Next(text, from, &begin, &end);) {
    if (end > begin) splitter.Match(begin, end);
    from = end > begin ? end : end < text.size() ? end + Utf8Length(text[end]) : end + 1;
  }
  splitter.Finish();
}

void SplitByText(std::string_view text, std::string_view mark, uint32_t flags, std::vector<std::string_view>* out) {
  Splitter splitter(text, flags, out);
  for (size_t at = text.find(mark); at != std::string_view::npos; at = text.find(mark, at + mark.size())) {
    splitter.Match(at, at + mark.size());
  }
  splitter.Finish();
}

// \w+|[^\w\s]+, white space left out.
void SplitWords(std::string_view text, std::vector<std::string_view>* out) {
  size_t begin = 0;
  int kind = 0;   // of the run from `begin`: 0 space, 1 word, 2 other
  ForEachChar(text, [&](char32_t c, size_t at, size_t) {
    const int now = IsWord(c) ? 1 : IsSpace(c) ? 0 : 2;
    if (now == kind) return;
    if (kind != 0) out->push_back(text.substr(begin, at - begin));
    begin = at;
    kind = now;
  });
  if (kind != 0) out->push_back(text.substr(begin));
}

void SplitBert(std::string_view text, std::vector<std::string_view>* out) {
  size_t begin = 0;
  const auto flush = [&](size_t end) {
    if (end > begin) out->push_back(text.substr(begin, end - begin));
  };
  ForEachChar(text, [&](char32_t c, size_t at, size_t n) {
    const bool space = IsSpace(c);
    if (!space && !IsPunctuation(c)) return;
    flush(at);
    if (!space) out->push_back(text.substr(at, n));
    begin = at + n;
  });
  flush(text.size());
}

}  // namespace

Result<PreTokenizer> PreTokenizer::Make(const std::vector<Step>& steps) {
  PreTokenizer p;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    Ready ready{step, nullptr};
    if (step.kind < StepKind::kByteLevel || step.kind > StepKind::kMetaspace)
      return Unsupported("the tokenizer cuts text with a step that is none ({})", static_cast<int>(step.kind));
    if (step.kind == StepKind::kByteLevel && i + 1 < steps.size())
      return Unsupported("a tokenizer that cuts text again after its byte-level step");
    const bool gpt2 = step.kind == StepKind::kByteLevel && (step.flags & kRegex) != 0;
    if (gpt2 || (step.kind == StepKind::kSplit && (step.flags & kRegex) != 0)) {
      TENON_ASSIGN_OR_RETURN(Pattern pattern, Pattern::Compile(gpt2 ? kGpt2Pattern : step.text));
      ready.pattern = std::make_shared<const Pattern>(std::move(pattern));
    } else if ((step.kind == StepKind::kSplit || step.kind == StepKind::kMetaspace) && step.text.empty()) {
      return BadInput("the tokenizer splits at an empty text");
    }
    p.steps_.push_back(std::move(ready));
  }
  return p;
}

void PreTokenizer::ApplyOne(size_t index, bool first, Work* work) const {
  const Step& step = steps_[index].step;
  const auto keep = [&](std::string s) -> std::string_view { return work->owned.emplace_back(std::move(s)); };
  bool first_piece = first;
  for (std::string_view piece : work->pieces) {
    switch (step.kind) {
      case StepKind::kByteLevel:
        if ((step.flags & kPrefixSpace) != 0 && !piece.starts_with(' ')) piece = keep(" " + std::string(piece));
        if ((step.flags & kRegex) != 0) {
          SplitByPattern(piece, kIsolated, work->searches[index].get(), &work->next);
        } else {
          work->next.push_back(piece);
        }
        break;
      case StepKind::kSplit:
        if ((step.flags & kRegex) != 0) {
          SplitByPattern(piece, step.flags, work->searches[index].get(), &work->next);
        } else {
          SplitByText(piece, step.text, step.flags, &work->next);
        }
        break;
      case StepKind::kDigits:
        SplitByChar(piece, (step.flags & kIndividual) != 0 ? kIsolated : kContiguous, IsNumeric, &work->next);
        break;
      case StepKind::kPunctuation: SplitByChar(piece, step.flags, IsPunctuation, &work->next); break;
      case StepKind::kWhitespace: SplitWords(piece, &work->next); break;
      case StepKind::kWhitespaceSplit: SplitByChar(piece, kRemoved, IsSpace, &work->next); break;
      case StepKind::kBertSplit: SplitBert(piece, &work->next); break;
      default: {   // kMetaspace
        std::string marked = ReplaceAll(piece, " ", step.text);
        const bool prepend = (step.flags & kPrependAlways) != 0 || ((step.flags & kPrependFirst) != 0 && first_piece);
        if (prepend && !marked.starts_with(step.text)) marked.insert(0, step.text);
        piece = keep(std::move(marked));
        if ((step.flags & kIndividual) != 0) {
          SplitByText(piece, step.text, kMergedWithNext, &work->next);
        } else {
          work->next.push_back(piece);
        }
      }
    }
    first_piece = false;
  }
  work->pieces.swap(work->next);
  work->next.clear();
}

void PreTokenizer::Apply(std::string_view text, bool first, Work* work) const {
  work->pieces.assign(1, text);
  work->owned.clear();
  work->searches.resize(steps_.size());
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].pattern != nullptr && work->searches[i] == nullptr)
      work->searches[i] = std::make_unique<Pattern::Search>(*steps_[i].pattern);
    ApplyOne(i, first, work);
  }
}

}  // namespace tenon::text
