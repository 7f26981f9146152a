// tokenizer.json and tokenizer_config.json to TokenizerSpec.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "text/spec_support.h"
#include "text/tokenizer_spec.h"

namespace tenon::text {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxJsonBytes = size_t{256} << 20;
constexpr int kMaxNesting = 64;
constexpr int64_t kMaxId = (1 << 24) - 1;

Status CheckNesting(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxNesting) return BadInput("JSON nested deeper than {} at byte {}", kMaxNesting, i);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return Status::Ok();
}

Result<Json> ParseJson(std::string_view text, const char* name) {
  if (text.size() > kMaxJsonBytes)
    return ResourceLimit("{} has {} bytes; at most {} are allowed", name, text.size(), kMaxJsonBytes);
  Status nesting = CheckNesting(text);
  if (!nesting.ok()) return BadInput("{}: {}", name, nesting.message());
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return BadInput("{} is no JSON object", name);
  return json;
}

// The member `key` when it has the type asked for, else the default.
const Json& Member(const Json& j, const char* key) {
  static const Json kNull;
  if (!j.is_object()) return kNull;
  const auto it = j.find(key);
  return it == j.end() ? kNull : *it;
}
std::string Text(const Json& j, const char* key) {
  const Json& m = Member(j, key);
  return m.is_string() ? m.get<std::string>() : std::string();
}
bool Flag(const Json& j, const char* key, bool otherwise = false) {
  const Json& m = Member(j, key);
  return m.is_boolean() ? m.get<bool>() : otherwise;
}
int64_t Number(const Json& j, const char* key, int64_t otherwise) {
  const Json& m = Member(j, key);
  return m.is_number_integer() ? m.get<int64_t>() : otherwise;
}

// The number as `tokenizers` reads it: digits as an integer, then one multiplication or division by a power of ten, which rounds
// twice. Between paths of equal scores the last bit decides.
double AsTokenizersReads(double v) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof(text), std::fabs(v), std::chars_format::scientific).ptr;
  uint64_t digits = 0;
  int scale = 0;
  const char* p = text;
  for (bool fraction = false; p < end && *p != 'e'; ++p) {
    if (*p == '.') {
      fraction = true;
      continue;
    }
    digits = digits * 10 + static_cast<uint64_t>(*p - '0');
    scale -= fraction;
  }
  int exponent = 0;
  if (p < end) std::from_chars(p + (p[1] == '+' ? 2 : 1), end, exponent);
  exponent += scale;
  constexpr int kExact = 300;   // beyond it, powers of ten leave the range
  if (exponent < -kExact || exponent > kExact) return v;
  const double power = std::pow(10.0, std::abs(exponent));
  return std::copysign(exponent < 0 ? static_cast<double>(digits) / power : static_cast<double>(digits) * power, v);
}

class Reader {
 public:
  explicit Reader(const Json& root) : root_(root) {}

  Result<TokenizerSpec> Read() {
    TENON_RETURN_IF_ERROR(ReadModel(Member(root_, "model")));
    TENON_RETURN_IF_ERROR(ReadAdded(Member(root_, "added_tokens")));
    TENON_RETURN_IF_ERROR(ReadNormalizer(Member(root_, "normalizer"), 0));
    TENON_RETURN_IF_ERROR(ReadPreTokenizer(Member(root_, "pre_tokenizer")));
    TENON_RETURN_IF_ERROR(ReadPostProcessor(Member(root_, "post_processor")));
    TENON_RETURN_IF_ERROR(ReadDecoder(Member(root_, "decoder")));
    return std::move(spec_);
  }

 private:
  Status SetToken(const Json& id, const std::string& text) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > kMaxId)
      return BadInput("tokenizer.json: the token '{}' has no id within 0..{}", text, kMaxId);
    const auto at = static_cast<size_t>(id.get<int64_t>());
    // Files with a hole of millions of ids are damaged: a table is not made for them.
    if (at >= spec_.tokens.size() + (size_t{1} << 20))
      return BadInput("tokenizer.json: the token '{}' has the id {}, far beyond all others", text, at);
    if (at >= spec_.tokens.size()) spec_.tokens.resize(at + 1);
    spec_.tokens[at] = text;
    return Status::Ok();
  }

  int32_t IdOf(const std::string& token) const {
    const auto it = std::find(spec_.tokens.begin(), spec_.tokens.end(), token);
    return token.empty() || it == spec_.tokens.end() ? -1 : static_cast<int32_t>(it - spec_.tokens.begin());
  }

  Status ReadModel(const Json& model) {
    const Json& vocab = Member(model, "vocab");
    std::string type = Text(model, "type");
    if (type.empty()) type = vocab.is_array() ? "Unigram" : Member(model, "merges").is_array() ? "BPE" : "WordPiece";
    if (type == "Unigram") return ReadUnigram(model, vocab);
    if (type != "BPE" && type != "WordPiece")
      return Unsupported("tokenizer.json: the model '{}'; supported are BPE, Unigram and WordPiece", type);
    if (!vocab.is_object()) return BadInput("tokenizer.json: the model has no vocabulary");
    spec_.tokens.resize(vocab.size());
    for (const auto& [token, id] : vocab.items()) TENON_RETURN_IF_ERROR(SetToken(id, token));
    spec_.continuing_prefix = Text(model, "continuing_subword_prefix");
    spec_.unknown = IdOf(Text(model, "unk_token"));
    if (type == "WordPiece") {
      spec_.kind = TokenizerKind::kWordPiece;
      spec_.max_word_chars =
          static_cast<int32_t>(std::clamp<int64_t>(Number(model, "max_input_chars_per_word", 100), 1, 1 << 20));
      return Status::Ok();
    }
    spec_.kind = TokenizerKind::kBpe;
    spec_.end_of_word = Text(model, "end_of_word_suffix");
    spec_.byte_fallback = Flag(model, "byte_fallback");
    spec_.fuse_unknown = Flag(model, "fuse_unk");
    spec_.ignore_merges = Flag(model, "ignore_merges");
    return ReadMerges(Member(model, "merges"));
  }

  Status ReadMerges(const Json& merges) {
    if (!merges.is_array()) return BadInput("tokenizer.json: a BPE model without merges");
    spec_.merges.reserve(merges.size());
    for (const Json& m : merges) {
      if (m.is_string()) {
        spec_.merges.push_back(m.get<std::string>());
      } else if (m.is_array() && m.size() == 2 && m[0].is_string() && m[1].is_string()) {
        spec_.merges.push_back(m[0].get<std::string>() + " " + m[1].get<std::string>());
      } else {
        return BadInput("tokenizer.json: merge {} is no pair of tokens", spec_.merges.size());
      }
    }
    return Status::Ok();
  }

  Status ReadUnigram(const Json& model, const Json& vocab) {
    spec_.kind = TokenizerKind::kUnigram;
    if (!vocab.is_array()) return BadInput("tokenizer.json: the model has no vocabulary");
    for (const Json& entry : vocab) {
      if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
        return BadInput("tokenizer.json: entry {} of the vocabulary is no pair of text and score", spec_.tokens.size());
      spec_.tokens.push_back(entry[0].get<std::string>());
      spec_.scores.push_back(AsTokenizersReads(entry[1].get<double>()));
    }
    const int64_t unknown = Number(model, "unk_id", -1);
    if (unknown >= static_cast<int64_t>(spec_.tokens.size()) || unknown < -1)
      return BadInput("tokenizer.json: unk_id is {}; the vocabulary has {} tokens", unknown, spec_.tokens.size());
    spec_.unknown = static_cast<int32_t>(unknown);
    spec_.byte_fallback = Flag(model, "byte_fallback");
    spec_.fuse_unknown = true;
    return Status::Ok();
  }

  Status ReadAdded(const Json& list) {
    for (const Json& a : list.is_array() ? list : Json::array()) {
      AddedToken token;
      token.text = Text(a, "content");
      if (token.text.empty()) continue;
      TENON_RETURN_IF_ERROR(SetToken(Member(a, "id"), token.text));
      token.id = static_cast<int32_t>(Number(a, "id", 0));
      token.special = Flag(a, "special");
      token.lstrip = Flag(a, "lstrip");
      token.rstrip = Flag(a, "rstrip");
      token.single_word = Flag(a, "single_word");
      token.normalized = Flag(a, "normalized", !token.special);
      spec_.added.push_back(std::move(token));
    }
    // Scores of added tokens are never asked for: the model does not see them.
    if (spec_.kind == TokenizerKind::kUnigram) spec_.scores.resize(spec_.tokens.size(), 0);
    return Status::Ok();
  }

  static Step PatternStep(StepKind kind, const Json& j) {
    const Json& pattern = Member(j, "pattern");
    Step step{kind, 0, Text(pattern, "String"), ""};
    if (Member(pattern, "Regex").is_string()) {
      step.text = Text(pattern, "Regex");
      step.flags |= kRegex;
    }
    return step;
  }

  Status ReadNormalizer(const Json& j, int depth) {
    if (j.is_null()) return Status::Ok();
    const std::string type = Text(j, "type");
    const auto add = [&](Step step) {
      spec_.normalizers.push_back(std::move(step));
      return Status::Ok();
    };
    if (type == "Sequence") {
      for (const Json& part : Member(j, "normalizers")) TENON_RETURN_IF_ERROR(ReadNormalizer(part, depth + 1));
      return Status::Ok();
    }
    if (type == "NFC") return add({StepKind::kNfc});
    if (type == "NFD") return add({StepKind::kNfd});
    if (type == "NFKC") return add({StepKind::kNfkc});
    if (type == "NFKD") return add({StepKind::kNfkd});
    if (type == "Lowercase") return add({StepKind::kLowercase});
    if (type == "StripAccents") return add({StepKind::kStripAccents});
    if (type == "Nmt") return add({StepKind::kNmt});
    if (type == "ByteLevel") return add({StepKind::kByteLevel});
    if (type == "Strip")
      return add({StepKind::kStrip, (Flag(j, "strip_left", true) ? kLeft : 0u) | (Flag(j, "strip_right", true) ? kRight : 0u)});
    if (type == "Prepend") return add({StepKind::kPrepend, 0, Text(j, "prepend")});
    if (type == "Replace") {
      Step step = PatternStep(StepKind::kReplace, j);
      step.with = Text(j, "content");
      return add(std::move(step));
    }
    if (type == "BertNormalizer") {
      const bool lower = Flag(j, "lowercase", true);
      return add({StepKind::kBertNormalize,
                  (Flag(j, "clean_text", true) ? kCleanText : 0u) | (Flag(j, "handle_chinese_chars", true) ? kChineseChars : 0u) |
                      (Flag(j, "strip_accents", lower) ? kStripAccentsFlag : 0u) | (lower ? kLowercaseFlag : 0u)});
    }
    if (type == "Precompiled") {
      Step step{StepKind::kPrecompiled};
      if (!DecodeBase64(Text(j, "precompiled_charsmap"), &step.text))
        return BadInput("tokenizer.json: precompiled_charsmap is no base64");
      return step.text.empty() ? Status::Ok() : add(std::move(step));
    }
    return Unsupported("tokenizer.json: the normalizer '{}'", type);
  }

  static Result<uint32_t> Behaviour(const Json& j) {
    const std::string name = Text(j, "behavior");
    if (name == "Removed") return uint32_t{kRemoved};
    if (name == "Isolated" || name.empty()) return uint32_t{kIsolated};
    if (name == "MergedWithPrevious") return uint32_t{kMergedWithPrevious};
    if (name == "MergedWithNext") return uint32_t{kMergedWithNext};
    if (name == "Contiguous") return uint32_t{kContiguous};
    return Unsupported("tokenizer.json: the split behaviour '{}'", name);
  }

  static uint32_t PrependScheme(const Json& j) {
    const std::string scheme = Text(j, "prepend_scheme");
    if (scheme.empty()) return Flag(j, "add_prefix_space", true) ? kPrependAlways : 0u;
    return scheme == "always" ? uint32_t{kPrependAlways} : scheme == "first" ? uint32_t{kPrependFirst} : 0u;
  }

  static Step Metaspace(const Json& j) {
    const std::string mark = Text(j, "replacement");
    return {StepKind::kMetaspace, PrependScheme(j) | (Flag(j, "split", true) ? kIndividual : 0u),
            mark.empty() ? "\xE2\x96\x81" : mark};
  }

  Status ReadPreTokenizer(const Json& j) {
    if (j.is_null()) return Status::Ok();
    const std::string type = Text(j, "type");
    const auto add = [&](Step step) {
      spec_.pre_tokenizers.push_back(std::move(step));
      return Status::Ok();
    };
    if (type == "Sequence") {
      for (const Json& part : Member(j, "pretokenizers")) TENON_RETURN_IF_ERROR(ReadPreTokenizer(part));
      return Status::Ok();
    }
    if (type == "ByteLevel")
      return add({StepKind::kByteLevel,
                  (Flag(j, "add_prefix_space", true) ? kPrefixSpace : 0u) | (Flag(j, "use_regex", true) ? kRegex : 0u)});
    if (type == "Split") {
      Step step = PatternStep(StepKind::kSplit, j);
      TENON_ASSIGN_OR_RETURN(const uint32_t behaviour, Behaviour(j));
      step.flags |= behaviour | (Flag(j, "invert") ? kInvert : 0u);
      return add(std::move(step));
    }
    if (type == "Digits") return add({StepKind::kDigits, Flag(j, "individual_digits") ? kIndividual : 0u});
    if (type == "Punctuation") {
      TENON_ASSIGN_OR_RETURN(const uint32_t behaviour, Behaviour(j));
      return add({StepKind::kPunctuation, behaviour});
    }
    if (type == "Whitespace") return add({StepKind::kWhitespace});
    if (type == "WhitespaceSplit") return add({StepKind::kWhitespaceSplit});
    if (type == "BertPreTokenizer") return add({StepKind::kBertSplit});
    if (type == "Metaspace") return add(Metaspace(j));
    if (type == "CharDelimiterSplit") return add({StepKind::kSplit, kRemoved, Text(j, "delimiter")});
    return Unsupported("tokenizer.json: the pre_tokenizer '{}'", type);
  }

  Status AddIds(const Json& list, std::vector<int32_t>* out) const {
    for (const Json& id : list) {
      if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= static_cast<int64_t>(spec_.tokens.size()))
        return BadInput("tokenizer.json: the post_processor has an id outside of the vocabulary");
      out->push_back(static_cast<int32_t>(id.get<int64_t>()));
    }
    return Status::Ok();
  }

  Status ReadTemplate(const Json& j) {
    std::vector<int32_t>* side = &spec_.prefix;
    for (const Json& piece : Member(j, "single")) {
      if (piece.is_object() && piece.contains("Sequence")) {
        side = &spec_.suffix;
        continue;
      }
      const std::string name = Text(Member(piece, "SpecialToken"), "id");
      TENON_RETURN_IF_ERROR(AddIds(Member(Member(Member(j, "special_tokens"), name.c_str()), "ids"), side));
    }
    return Status::Ok();
  }

  Status ReadPostProcessor(const Json& j) {
    if (j.is_null()) return Status::Ok();
    const std::string type = Text(j, "type");
    if (type == "Sequence") {
      for (const Json& part : Member(j, "processors")) TENON_RETURN_IF_ERROR(ReadPostProcessor(part));
      return Status::Ok();
    }
    if (type == "ByteLevel") return Status::Ok();
    if (type == "TemplateProcessing") return ReadTemplate(j);
    if (type == "BertProcessing" || type == "RobertaProcessing") {
      const Json& cls = Member(j, "cls");
      const Json& sep = Member(j, "sep");
      if (!cls.is_array() || cls.size() != 2 || !sep.is_array() || sep.size() != 2)
        return BadInput("tokenizer.json: {} without cls and sep", type);
      TENON_RETURN_IF_ERROR(AddIds(Json::array({cls[1]}), &spec_.prefix));
      return AddIds(Json::array({sep[1]}), &spec_.suffix);
    }
    return Unsupported("tokenizer.json: the post_processor '{}'", type);
  }

  Status ReadDecoder(const Json& j) {
    if (j.is_null()) return Status::Ok();
    const std::string type = Text(j, "type");
    const auto add = [&](Step step) {
      spec_.decoders.push_back(std::move(step));
      return Status::Ok();
    };
    if (type == "Sequence") {
      for (const Json& part : Member(j, "decoders")) TENON_RETURN_IF_ERROR(ReadDecoder(part));
      return Status::Ok();
    }
    if (type == "ByteLevel") return add({StepKind::kByteLevel});
    if (type == "ByteFallback") return add({StepKind::kByteFallback});
    if (type == "Fuse") return add({StepKind::kFuse});
    if (type == "Metaspace") return add(Metaspace(j));
    if (type == "WordPiece")
      return add({StepKind::kWordPieceDecode, Flag(j, "cleanup", true) ? kCleanUp : 0u, Text(j, "prefix")});
    if (type == "BPEDecoder") return add({StepKind::kBpeDecode, 0, Text(j, "suffix")});
    if (type == "Replace") {
      Step step = PatternStep(StepKind::kReplace, j);
      if ((step.flags & kRegex) != 0) return Unsupported("tokenizer.json: a decoder that replaces by a regular expression");
      step.with = Text(j, "content");
      return add(std::move(step));
    }
    if (type == "Strip")
      return add({StepKind::kStripPiece, 0, Text(j, "content"),
                  std::to_string(Number(j, "start", 0)) + " " + std::to_string(Number(j, "stop", 0))});
    return Unsupported("tokenizer.json: the decoder '{}'", type);
  }

  const Json& root_;
  TokenizerSpec spec_;
};

// A token named by a string or by {"content": ...}.
int32_t NamedToken(const Json& config, const char* key, const TokenizerSpec& spec) {
  const Json& m = Member(config, key);
  const std::string name = m.is_string() ? m.get<std::string>() : Text(m, "content");
  const auto it = std::find(spec.tokens.begin(), spec.tokens.end(), name);
  return name.empty() || it == spec.tokens.end() ? -1 : static_cast<int32_t>(it - spec.tokens.begin());
}

std::string ChatTemplate(const Json& config) {
  const Json& t = Member(config, "chat_template");
  if (t.is_string()) return t.get<std::string>();
  for (const Json& named : t.is_array() ? t : Json::array()) {
    if (Text(named, "name") == "default") return Text(named, "template");
  }
  return "";
}

}  // namespace

Result<TokenizerSpec> SpecFromJson(std::string_view tokenizer_json, std::string_view tokenizer_config_json) {
  TENON_ASSIGN_OR_RETURN(const Json root, ParseJson(tokenizer_json, "tokenizer.json"));
  TENON_ASSIGN_OR_RETURN(TokenizerSpec spec, Reader(root).Read());
  if (!tokenizer_config_json.empty()) {
    TENON_ASSIGN_OR_RETURN(const Json config, ParseJson(tokenizer_config_json, "tokenizer_config.json"));
    spec.bos = NamedToken(config, "bos_token", spec);
    spec.eos = NamedToken(config, "eos_token", spec);
    spec.separator = NamedToken(config, "sep_token", spec);
    spec.padding = NamedToken(config, "pad_token", spec);
    spec.classify = NamedToken(config, "cls_token", spec);
    spec.mask = NamedToken(config, "mask_token", spec);
    spec.chat_template = ChatTemplate(config);
  }
  spec.add_bos = spec.bos >= 0 && !spec.prefix.empty() && spec.prefix.front() == spec.bos;
  spec.add_eos = spec.eos >= 0 && !spec.suffix.empty() && spec.suffix.back() == spec.eos;
  FillEndOfTurn(&spec);
  TENON_RETURN_IF_ERROR(spec.Check());
  return spec;
}

}  // namespace tenon::text
