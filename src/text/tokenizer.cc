// The way of text through added tokens, normalisers, pre-tokenisers and the model; and back.
#include "text/tokenizer.h"

#include <algorithm>
#include <unordered_set>

#include "text/added_tokens.h"
#include "text/model.h"
#include "text/steps.h"
#include "text/unicode.h"

namespace tenon::text {
namespace {

bool HasByteLevel(const TokenizerSpec& spec) {
  const auto is = [](const Step& s) { return s.kind == StepKind::kByteLevel; };
  return std::any_of(spec.pre_tokenizers.begin(), spec.pre_tokenizers.end(), is) ||
         std::any_of(spec.normalizers.begin(), spec.normalizers.end(), is);
}

}  // namespace

struct Tokenizer::State {
  TokenizerSpec spec;
  std::vector<std::string> raw;       // byte-level: the tokens' bytes
  std::vector<bool> special;          // by id
  ModelInput input;
  std::unique_ptr<Model> model;
  Vocabulary by_text;                 // as the file writes them
  AddedTokens added;                  // matched in the text itself
  AddedTokens added_normalized;       // matched in the normalised text
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;

  Status Prepare();
  void PrepareTexts();
  void EncodeText(std::string_view text, const char* trusted, bool special_allowed, std::vector<int32_t>* ids) const;
  void EncodeNormalized(std::string_view text, bool first, PreTokenizer::Work* work, std::vector<int32_t>* ids) const;
};

void Tokenizer::State::PrepareTexts() {
  // By text, as files exist whose control tokens stand in the vocabulary twice.
  std::unordered_set<std::string_view> control;
  for (const AddedToken& a : spec.added) {
    if (a.special) control.insert(a.text);
  }
  special.resize(spec.tokens.size());
  for (size_t i = 0; i < special.size(); ++i) special[i] = control.contains(spec.tokens[i]);
  input.spec = &spec;
  input.byte_level = HasByteLevel(spec) && spec.kind == TokenizerKind::kBpe;
  input.texts.assign(spec.tokens.begin(), spec.tokens.end());
  if (input.byte_level) {
    raw.resize(spec.tokens.size());
    for (size_t i = 0; i < raw.size(); ++i) input.texts[i] = FromAlphabet(spec.tokens[i], &raw[i]) ? raw[i] : std::string_view();
  }
  // What the file names as a control token is never made out of text. The unknown token stays where text may not hold it.
  for (size_t i = 0; i < special.size(); ++i) {
    if (special[i]) input.texts[i] = {};
  }
}

Status Tokenizer::State::Prepare() {
  TENON_RETURN_IF_ERROR(spec.Check());
  for (const std::string& token : spec.tokens) {
    if (!IsValidUtf8(token)) return BadInput("the tokenizer has a token that is no valid UTF-8");
  }
  TENON_ASSIGN_OR_RETURN(normalizer, Normalizer::Make(spec.normalizers));
  TENON_ASSIGN_OR_RETURN(pre_tokenizer, PreTokenizer::Make(spec.pre_tokenizers));
  PrepareTexts();
  input.vocabulary.Build(input.texts);
  by_text.Build(std::vector<std::string_view>(spec.tokens.begin(), spec.tokens.end()));
  input.all = &by_text;
  if (spec.byte_fallback) {
    std::vector<int32_t> bytes(256, -1);
    for (size_t i = 0; i < spec.tokens.size(); ++i) {
      const int byte = ByteOfToken(spec.tokens[i]);
      if (byte >= 0) bytes[static_cast<size_t>(byte)] = static_cast<int32_t>(i);
    }
    if (std::all_of(bytes.begin(), bytes.end(), [](int32_t id) { return id >= 0; })) input.bytes = std::move(bytes);
  }
  std::vector<AddedToken> plain;
  std::vector<AddedToken> normal;
  std::vector<std::string> plain_texts;
  std::vector<std::string> normal_texts;
  for (const AddedToken& a : spec.added) {
    if (!IsValidUtf8(a.text)) return BadInput("the tokenizer has an added token that is no valid UTF-8");
    (a.normalized ? normal : plain).push_back(a);
    (a.normalized ? normal_texts : plain_texts).push_back(a.normalized ? normalizer.Apply(a.text) : a.text);
  }
  added.Build(plain, plain_texts);
  added_normalized.Build(normal, normal_texts);
  auto made = spec.kind == TokenizerKind::kUnigram     ? MakeUnigram(input)
              : spec.kind == TokenizerKind::kWordPiece ? MakeWordPiece(input)
                                                       : MakeBpe(input);
  TENON_ASSIGN_OR_RETURN(model, std::move(made));
  return Status::Ok();
}

void Tokenizer::State::EncodeNormalized(std::string_view text, bool first, PreTokenizer::Work* work,
                                        std::vector<int32_t>* ids) const {
  if (text.empty()) return;
  pre_tokenizer.Apply(text, first, work);
  for (std::string_view piece : work->pieces) model->Encode(piece, ids);
}

void Tokenizer::State::EncodeText(std::string_view text, const char* trusted, bool special_allowed,
                                  std::vector<int32_t>* ids) const {
  PreTokenizer::Work work;
  std::vector<AddedTokens::Part> parts;
  std::vector<AddedTokens::Part> inner;
  added.Split(text, trusted, special_allowed, &parts);
  for (const AddedTokens::Part& part : parts) {
    if (part.id >= 0) {
      ids->push_back(part.id);
      continue;
    }
    std::string_view s = text.substr(part.begin, part.end - part.begin);
    std::string normalized;
    if (!normalizer.empty()) s = normalized = normalizer.Apply(s);
    if (added_normalized.empty()) {
      EncodeNormalized(s, part.begin == 0, &work, ids);
      continue;
    }
    // A normalised text has no bytes of its own to trust: with a mask, its special tokens are text.
    inner.clear();
    const bool all_trusted =
        trusted == nullptr || std::all_of(trusted + part.begin, trusted + part.end, [](char c) { return c != 0; });
    added_normalized.Split(s, nullptr, special_allowed && all_trusted, &inner);
    for (const AddedTokens::Part& p : inner) {
      if (p.id >= 0) {
        ids->push_back(p.id);
      } else {
        EncodeNormalized(s.substr(p.begin, p.end - p.begin), part.begin == 0 && p.begin == 0, &work, ids);
      }
    }
  }
}

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::Create(TokenizerSpec spec) {
  auto state = std::make_unique<State>();
  state->spec = std::move(spec);
  TENON_RETURN_IF_ERROR(state->Prepare());
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(state)));
}

const TokenizerSpec& Tokenizer::spec() const {
  return state_->spec;
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, EncodeOptions options) const {
  std::string repaired;
  if (!IsValidUtf8(text)) text = repaired = Sanitize(text);
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 8);
  if (options.add_special) ids = spec().prefix;
  state_->EncodeText(text, nullptr, options.parse_special, &ids);
  if (options.add_special) ids.insert(ids.end(), spec().suffix.begin(), spec().suffix.end());
  return ids;
}

std::vector<int32_t> Tokenizer::EncodeTrusted(std::string_view text, std::string_view trusted, bool add_special) const {
  CHECK(trusted.size() == text.size());
  std::vector<int32_t> ids;
  if (add_special) ids = spec().prefix;
  state_->EncodeText(text, trusted.data(), true, &ids);
  if (add_special) ids.insert(ids.end(), spec().suffix.begin(), spec().suffix.end());
  return ids;
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (int32_t id : ids) {
    if (id >= 0 && id < size() && !(skip_special && IsSpecial(id))) tokens.push_back(spec().tokens[static_cast<size_t>(id)]);
  }
  return ApplyDecoders(spec().decoders, std::move(tokens));
}

std::string Tokenizer::Piece(int32_t id, bool first) const {
  return id < 0 || id >= size() ? std::string() : DecodePiece(spec().decoders, spec().tokens[static_cast<size_t>(id)], first);
}

int32_t Tokenizer::Find(std::string_view token) const {
  return state_->by_text.Find(token);
}

bool Tokenizer::IsSpecial(int32_t id) const {
  return id >= 0 && id < size() && state_->special[static_cast<size_t>(id)];
}

bool Tokenizer::EndsTurn(int32_t id) const {
  const std::vector<int32_t>& ends = spec().end_of_turn;
  return std::find(ends.begin(), ends.end(), id) != ends.end();
}

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special), strip_(LeadingSpacesToStrip(tokenizer_->spec().decoders)) {}

std::string StreamDecoder::Add(int32_t id) {
  if (id < 0 || id >= tokenizer_->size() || (skip_special_ && tokenizer_->IsSpecial(id))) return "";
  pending_ += tokenizer_->Piece(id, first_);
  first_ = false;
  for (; strip_ > 0 && !pending_.empty(); --strip_) {
    if (pending_[0] != ' ') strip_ = 1;
    if (pending_[0] == ' ') pending_.erase(0, 1);
  }
  std::string out;
  while (!pending_.empty()) {
    bool incomplete = false;
    const size_t valid = ValidPrefix(pending_, &incomplete);
    out.append(pending_, 0, valid);
    pending_.erase(0, valid);
    if (pending_.empty() || incomplete) break;
    // A byte that no later one can complete.
    out += "\xEF\xBF\xBD";
    size_t broken = 1;
    while (broken < pending_.size() && ValidPrefix(std::string_view(pending_).substr(0, broken + 1), &incomplete) == 0 &&
           incomplete) {
      ++broken;
    }
    pending_.erase(0, broken);
  }
  return out;
}

std::string StreamDecoder::Finish() {
  std::string out = Sanitize(pending_);
  pending_.clear();
  return out;
}

}  // namespace tenon::text
