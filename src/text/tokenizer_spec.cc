// TokenizerSpec as one string, and its checks.
#include "text/tokenizer_spec.h"

#include <cmath>
#include <cstring>

namespace tenon::text {
namespace {

constexpr std::string_view kMagic = "tenon.tokenizer.1";
constexpr size_t kMaxTokens = size_t{1} << 24;

class Writer {
 public:
  void Bytes(const void* data, size_t size) { out_.append(static_cast<const char*>(data), size); }
  void Number(uint64_t v) {
    for (; v >= 0x80; v >>= 7) out_.push_back(static_cast<char>(v | 0x80));
    out_.push_back(static_cast<char>(v));
  }
  void Id(int32_t id) { Number(static_cast<uint64_t>(static_cast<int64_t>(id) + 1)); }
  void Text(std::string_view s) {
    Number(s.size());
    Bytes(s.data(), s.size());
  }
  void Texts(const std::vector<std::string>& list) {
    Number(list.size());
    for (const std::string& s : list) Text(s);
  }
  void Ids(const std::vector<int32_t>& list) {
    Number(list.size());
    for (int32_t id : list) Id(id);
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

// Every read is checked; after a failure all reads give zeros and `ok` stays false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }
  uint64_t Number() {
    uint64_t v = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      v |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return v;
    }
    ok_ = false;
    return 0;
  }
  int32_t Id() {
    const uint64_t v = Number();
    if (v > kMaxTokens) ok_ = false;
    return ok_ ? static_cast<int32_t>(v) - 1 : -1;
  }
  // A count of items that take at least `bytes` each: never more than the input can hold.
  size_t Count(size_t bytes = 1) {
    const uint64_t v = Number();
    if (v > rest_.size() / bytes) ok_ = false;
    return ok_ ? static_cast<size_t>(v) : 0;
  }
  std::string Text() {
    const size_t n = Count();
    std::string s(rest_.substr(0, n));
    rest_.remove_prefix(n);
    return s;
  }
  void Texts(std::vector<std::string>* list) {
    list->resize(Count());
    for (std::string& s : *list) s = Text();
  }
  void Ids(std::vector<int32_t>* list) {
    list->resize(Count());
    for (int32_t& id : *list) id = Id();
  }
  void Doubles(std::vector<double>* list) {
    const size_t n = Count(sizeof(double));
    list->resize(n);
    if (n > 0) std::memcpy(list->data(), rest_.data(), n * sizeof(double));
    rest_.remove_prefix(n * sizeof(double));
  }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

void WriteSteps(const std::vector<Step>& steps, Writer* w) {
  w->Number(steps.size());
  for (const Step& s : steps) {
    w->Number(static_cast<uint64_t>(s.kind));
    w->Number(s.flags);
    w->Text(s.text);
    w->Text(s.with);
  }
}

bool ReadSteps(Reader* r, std::vector<Step>* steps) {
  steps->resize(r->Count(4));
  for (Step& s : *steps) {
    const uint64_t kind = r->Number();
    if (kind > static_cast<uint64_t>(StepKind::kBpeDecode)) return false;
    s.kind = static_cast<StepKind>(kind);
    s.flags = static_cast<uint32_t>(r->Number());
    s.text = r->Text();
    s.with = r->Text();
  }
  return r->ok();
}

uint64_t AddedFlags(const AddedToken& a) {
  return uint64_t{a.special} | uint64_t{a.lstrip} << 1 | uint64_t{a.rstrip} << 2 | uint64_t{a.single_word} << 3 |
         uint64_t{a.normalized} << 4;
}

// The ids that stand alone, in the order they are written.
template <typename Spec>
auto SingleIds(Spec& s) {
  return std::vector{&s.bos, &s.eos, &s.unknown, &s.separator, &s.padding, &s.classify, &s.mask};
}

}  // namespace

std::string TokenizerSpec::Serialize() const {
  Writer w;
  w.Bytes(kMagic.data(), kMagic.size());
  w.Number(static_cast<uint64_t>(kind));
  w.Texts(tokens);
  w.Number(scores.size());
  w.Bytes(scores.data(), scores.size() * sizeof(double));
  w.Texts(merges);
  w.Number(added.size());
  for (const AddedToken& a : added) {
    w.Id(a.id);
    w.Text(a.text);
    w.Number(AddedFlags(a));
  }
  WriteSteps(normalizers, &w);
  WriteSteps(pre_tokenizers, &w);
  WriteSteps(decoders, &w);
  w.Ids(prefix);
  w.Ids(suffix);
  w.Text(continuing_prefix);
  w.Text(end_of_word);
  w.Id(max_word_chars);
  w.Number(uint64_t{byte_fallback} | uint64_t{fuse_unknown} << 1 | uint64_t{ignore_merges} << 2 | uint64_t{add_bos} << 3 |
           uint64_t{add_eos} << 4);
  for (const int32_t* id : SingleIds(*this)) w.Id(*id);
  w.Ids(end_of_turn);
  w.Text(chat_template);
  return w.Take();
}

Result<TokenizerSpec> TokenizerSpec::Parse(std::string_view bytes) {
  const Status damaged = BadInput("damaged tokenizer in the artifact's metadata; compile the model again");
  if (bytes.substr(0, kMagic.size()) != kMagic) return damaged;
  Reader r(bytes.substr(kMagic.size()));
  TokenizerSpec s;
  const uint64_t kind = r.Number();
  if (kind > static_cast<uint64_t>(TokenizerKind::kWordPiece)) return damaged;
  s.kind = static_cast<TokenizerKind>(kind);
  r.Texts(&s.tokens);
  r.Doubles(&s.scores);
  r.Texts(&s.merges);
  s.added.resize(r.Count(3));
  for (AddedToken& a : s.added) {
    a.id = r.Id();
    a.text = r.Text();
    const uint64_t flags = r.Number();
    a.special = flags & 1;
    a.lstrip = flags & 2;
    a.rstrip = flags & 4;
    a.single_word = flags & 8;
    a.normalized = flags & 16;
  }
  if (!ReadSteps(&r, &s.normalizers) || !ReadSteps(&r, &s.pre_tokenizers) || !ReadSteps(&r, &s.decoders)) return damaged;
  r.Ids(&s.prefix);
  r.Ids(&s.suffix);
  s.continuing_prefix = r.Text();
  s.end_of_word = r.Text();
  s.max_word_chars = r.Id();
  const uint64_t flags = r.Number();
  s.byte_fallback = flags & 1;
  s.fuse_unknown = flags & 2;
  s.ignore_merges = flags & 4;
  s.add_bos = flags & 8;
  s.add_eos = flags & 16;
  for (int32_t* id : SingleIds(s)) *id = r.Id();
  r.Ids(&s.end_of_turn);
  s.chat_template = r.Text();
  if (!r.ok() || !r.at_end()) return damaged;
  TENON_RETURN_IF_ERROR(s.Check());
  return s;
}

Status TokenizerSpec::Check() const {
  if (tokens.empty()) return BadInput("the tokenizer has no tokens");
  if (tokens.size() > kMaxTokens)
    return BadInput("the tokenizer has {} tokens; at most {} are allowed", tokens.size(), kMaxTokens);
  const bool scored = kind == TokenizerKind::kUnigram || kind == TokenizerKind::kScoreBpe;
  if (scored && scores.size() != tokens.size())
    return BadInput("the tokenizer has {} scores for {} tokens", scores.size(), tokens.size());
  for (double score : scores) {
    if (!std::isfinite(score)) return BadInput("the tokenizer has a score that is no finite number");
  }
  const auto n = static_cast<int64_t>(tokens.size());
  const auto check = [&](int32_t id, const char* what) {
    return id < n ? Status::Ok() : BadInput("the tokenizer's {} is {}; it has {} tokens", what, id, n);
  };
  for (const AddedToken& a : added) {
    if (a.id < 0 || a.text.empty()) return BadInput("the tokenizer has an added token without id or text");
    TENON_RETURN_IF_ERROR(check(a.id, "added token"));
  }
  for (const auto* list : {&prefix, &suffix, &end_of_turn}) {
    for (int32_t id : *list) {
      if (id < 0) return BadInput("the tokenizer has a negative special id");
      TENON_RETURN_IF_ERROR(check(id, "special id"));
    }
  }
  for (const int32_t* id : SingleIds(*this)) TENON_RETURN_IF_ERROR(check(*id, "special id"));
  return Status::Ok();
}

}  // namespace tenon::text
