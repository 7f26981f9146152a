// GGUF's tokenizer metadata to TokenizerSpec.
#include <algorithm>

#include "text/spec_support.h"
#include "text/tokenizer_spec.h"

namespace tenon::text {
namespace {

constexpr const char* kSpace = "\xE2\x96\x81";

// Pre-tokenisers by the names that GGUF gives them: each pattern cuts the pieces of the one before.
#define GPT2_PATTERN R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"
#define LLAMA3_PATTERN \
  R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define QWEN2_PATTERN \
  R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define WORDS R"([^\r\n\p{L}\p{N}]?)" UPPER "*" LOWER "+"
#define CAPITALS R"([^\r\n\p{L}\p{N}]?)" UPPER "+" LOWER "*"
#define CONTRACTION R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
#define REST R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"

struct PreRow {
  const char* names;            // separated by spaces
  std::vector<const char*> patterns;
  bool ignore_merges = false;
  bool add_bos = false;         // where the file does not say
};

const std::vector<PreRow>& PreTable() {
  static const auto* table = new std::vector<PreRow>{
      {"gpt-2 gpt2 phi-2 mpt olmo jais trillion granite-docling jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code "
       "jina-v2-en "
       "roberta-bpe gigachat a.x-4.0 mellum modern-bert",
       {GPT2_PATTERN}},
      {"smollm starcoder refact command-r codeshell exaone minerva-7b", {R"(\p{N})", GPT2_PATTERN}},
      {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2", {LLAMA3_PATTERN}, true, true},
      {"dbrx smaug-bpe chatglm-bpe glm4", {LLAMA3_PATTERN}},
      {"qwen2 stablelm2 hunyuan deepseek-r1-qwen megrez", {QWEN2_PATTERN}},
      {"gpt-4o llama4 kanana2", {WORDS CONTRACTION "|" CAPITALS CONTRACTION R"(|\p{N}{1,3}|)" REST}},
      {"tekken", {WORDS "|" CAPITALS R"(|\p{N}|)" REST}, true},
      {"falcon", {R"([\p{P}\$\+<=>\^~\|`]+)", GPT2_PATTERN, "[0-9][0-9][0-9]"}},
      {"deepseek-coder", {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", R"([一-龥ࠀ-一가-퟿]+)", R"(\p{N})"}},
      {"deepseek-v3",
       {R"(\p{N}{1,3})", R"([一-龥぀-ゟ゠-ヿ]+)",
        R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
      {"bloom poro-chat gpt3-finnish", {R"( ?[^(\s|.,!?…。，、।۔،)]+)"}},
      {"viking", {R"( ?[^(\s|.,!?…。，、।۔،)]+)", R"(\p{N})"}},
      {"default", {R"([\p{P}\$\+<=>\^~\|]+)", GPT2_PATTERN, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
  };
  return *table;
}

bool HasName(std::string_view names, std::string_view name) {
  const std::string padded = " " + std::string(names) + " ";
  return padded.find(" " + std::string(name) + " ") != std::string::npos;
}

class Builder {
 public:
  explicit Builder(GgufTokenizer gguf) : in_(std::move(gguf)) {}

  Result<TokenizerSpec> Build() {
    const size_t n = in_.tokens.size();
    if (!in_.token_types.empty() && in_.token_types.size() != n)
      return BadInput("tokenizer.ggml.token_type has {} entries for {} tokens", in_.token_types.size(), n);
    if (!in_.scores.empty() && in_.scores.size() != n)
      return BadInput("tokenizer.ggml.scores has {} entries for {} tokens", in_.scores.size(), n);
    spec_.tokens = std::move(in_.tokens);
    TENON_RETURN_IF_ERROR(ReadIds());
    TENON_RETURN_IF_ERROR(ReadKind());
    AddTokens();
    if (spec_.add_bos && spec_.bos >= 0) spec_.prefix = {spec_.bos};
    if (spec_.add_eos && spec_.eos >= 0) spec_.suffix = {spec_.eos};
    if (spec_.kind == TokenizerKind::kWordPiece) Surround();
    for (const char* key : {"eot_token_id", "eom_token_id"}) {
      const int64_t id = Scalar(key, -1);
      if (id >= 0 && id < static_cast<int64_t>(n)) spec_.end_of_turn.push_back(static_cast<int32_t>(id));
    }
    FillEndOfTurn(&spec_);
    TENON_RETURN_IF_ERROR(spec_.Check());
    return std::move(spec_);
  }

 private:
  int64_t Scalar(const char* key, int64_t otherwise) const {
    const auto it = in_.scalars.find(key);
    return it == in_.scalars.end() ? otherwise : it->second;
  }

  Status ReadIds() {
    const auto read = [&](const char* key, int32_t* id) {
      const int64_t v = Scalar(key, -1);
      // An id of all ones stands for "none" in files that other tools write.
      if (v == -1 || v == 0xFFFFFFFF) return Status::Ok();
      if (v < 0 || v >= static_cast<int64_t>(spec_.tokens.size()))
        return BadInput("tokenizer.ggml.{} is {}; the tokenizer has {} tokens", key, v, spec_.tokens.size());
      *id = static_cast<int32_t>(v);
      return Status::Ok();
    };
    TENON_RETURN_IF_ERROR(read("bos_token_id", &spec_.bos));
    TENON_RETURN_IF_ERROR(read("eos_token_id", &spec_.eos));
    TENON_RETURN_IF_ERROR(read("unknown_token_id", &spec_.unknown));
    TENON_RETURN_IF_ERROR(read("seperator_token_id", &spec_.separator));   // the key's spelling is GGUF's
    TENON_RETURN_IF_ERROR(read("padding_token_id", &spec_.padding));
    TENON_RETURN_IF_ERROR(read("cls_token_id", &spec_.classify));
    return read("mask_token_id", &spec_.mask);
  }

  Status ReadKind() {
    if (in_.model == "gpt2") return ReadGpt2();
    if (in_.model == "llama") return ReadLlama();
    if (in_.model == "t5") return ReadUnigram();
    if (in_.model == "bert") return ReadBert();
    return Unsupported("tokenizer.ggml.model is '{}'; supported are gpt2, llama, t5 and bert", in_.model);
  }

  Status ReadGpt2() {
    const std::string pre = in_.pre.empty() ? "default" : in_.pre;
    const auto& table = PreTable();
    const auto row = std::find_if(table.begin(), table.end(), [&](const PreRow& r) { return HasName(r.names, pre); });
    if (row == table.end()) {
      std::string known;
      for (const PreRow& r : table) known += (known.empty() ? "" : " ") + std::string(r.names);
      return Unsupported("tokenizer.ggml.pre is '{}'; supported are {}", pre, known);
    }
    if (in_.merges.empty()) return BadInput("a gpt2 tokenizer without tokenizer.ggml.merges");
    spec_.kind = TokenizerKind::kBpe;
    spec_.merges = std::move(in_.merges);
    spec_.ignore_merges = row->ignore_merges;
    for (const char* pattern : row->patterns) spec_.pre_tokenizers.push_back({StepKind::kSplit, kRegex | kIsolated, pattern});
    spec_.pre_tokenizers.push_back({StepKind::kByteLevel});
    spec_.decoders = {{StepKind::kByteLevel}};
    spec_.add_bos = Scalar("add_bos_token", row->add_bos) != 0;
    spec_.add_eos = Scalar("add_eos_token", 0) != 0;
    return Status::Ok();
  }

  Status ReadLlama() {
    if (in_.scores.empty()) return BadInput("a llama tokenizer without tokenizer.ggml.scores");
    spec_.kind = TokenizerKind::kScoreBpe;
    spec_.scores.assign(in_.scores.begin(), in_.scores.end());
    spec_.byte_fallback = true;
    spec_.fuse_unknown = true;
    const bool prefix = Scalar("add_space_prefix", 1) != 0;
    if (prefix) spec_.normalizers.push_back({StepKind::kPrepend, 0, kSpace});
    spec_.normalizers.push_back({StepKind::kReplace, 0, " ", kSpace});
    spec_.decoders = {{StepKind::kReplace, 0, kSpace, " "}, {StepKind::kByteFallback}, {StepKind::kFuse}};
    if (prefix) spec_.decoders.push_back({StepKind::kStripPiece, 0, " ", "1 0"});
    spec_.add_bos = Scalar("add_bos_token", 1) != 0;
    spec_.add_eos = Scalar("add_eos_token", 0) != 0;
    return Status::Ok();
  }

  Status ReadUnigram() {
    if (in_.scores.empty()) return BadInput("a t5 tokenizer without tokenizer.ggml.scores");
    spec_.kind = TokenizerKind::kUnigram;
    spec_.scores.assign(in_.scores.begin(), in_.scores.end());
    spec_.fuse_unknown = true;
    const bool prefix = Scalar("add_space_prefix", 1) != 0;
    if (!in_.precompiled_charsmap.empty()) spec_.normalizers.push_back({StepKind::kPrecompiled, 0, in_.precompiled_charsmap});
    if (Scalar("remove_extra_whitespaces", 0) != 0) {
      spec_.normalizers.push_back({StepKind::kStrip, kLeft | kRight});
      spec_.normalizers.push_back({StepKind::kReplace, kRegex, " {2,}", " "});
    }
    const uint32_t scheme = prefix ? uint32_t{kPrependAlways} : 0u;
    spec_.pre_tokenizers = {{StepKind::kMetaspace, scheme | kIndividual, kSpace}};
    spec_.decoders = {{StepKind::kMetaspace, scheme | kIndividual, kSpace}};
    spec_.add_bos = Scalar("add_bos_token", 0) != 0;
    spec_.add_eos = Scalar("add_eos_token", 1) != 0;
    return Status::Ok();
  }

  // GGUF marks beginnings of words where WordPiece marks continuations.
  Status ReadBert() {
    spec_.kind = TokenizerKind::kWordPiece;
    spec_.continuing_prefix = "##";
    for (size_t i = 0; i < spec_.tokens.size(); ++i) {
      std::string& t = spec_.tokens[i];
      const bool control = !in_.token_types.empty() && in_.token_types[i] != 1;
      if (t.starts_with(kSpace)) {
        t.erase(0, 3);
      } else if (!control && !t.empty() && !(t.front() == '[' && t.back() == ']')) {
        t.insert(0, "##");
      }
    }
    const auto named = [&](const char* name) {
      const auto it = std::find(spec_.tokens.begin(), spec_.tokens.end(), name);
      return it == spec_.tokens.end() ? -1 : static_cast<int32_t>(it - spec_.tokens.begin());
    };
    if (spec_.unknown < 0) spec_.unknown = named("[UNK]");
    if (spec_.classify < 0) spec_.classify = spec_.bos >= 0 ? spec_.bos : named("[CLS]");
    if (spec_.separator < 0) spec_.separator = spec_.eos >= 0 ? spec_.eos : named("[SEP]");
    spec_.normalizers = {{StepKind::kBertNormalize, kCleanText | kChineseChars | kStripAccentsFlag | kLowercaseFlag}};
    spec_.pre_tokenizers = {{StepKind::kBertSplit}};
    spec_.decoders = {{StepKind::kWordPieceDecode, kCleanUp, "##"}};
    return Status::Ok();
  }

  void Surround() {
    if (spec_.classify >= 0) spec_.prefix = {spec_.classify};
    if (spec_.separator >= 0) spec_.suffix = {spec_.separator};
  }

  void AddTokens() {
    constexpr int32_t kUnknownType = 2;
    constexpr int32_t kControlType = 3;
    constexpr int32_t kUserDefinedType = 4;
    for (size_t i = 0; i < in_.token_types.size(); ++i) {
      const int32_t type = in_.token_types[i];
      if (spec_.tokens[i].empty() || (type != kControlType && type != kUserDefinedType && type != kUnknownType)) continue;
      AddedToken a;
      a.id = static_cast<int32_t>(i);
      a.text = spec_.tokens[i];
      a.special = type != kUserDefinedType;
      spec_.added.push_back(std::move(a));
    }
  }

  GgufTokenizer in_;
  TokenizerSpec spec_;
};

}  // namespace

Result<TokenizerSpec> SpecFromGguf(GgufTokenizer gguf) {
  return Builder(std::move(gguf)).Build();
}

}  // namespace tenon::text
