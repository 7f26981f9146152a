// tenon tokenize: text to token ids and back.
#include <charconv>

#include "cli/command.h"
#include "cli/text_model.h"
#include "text/tokenizer.h"

namespace tenon::cli {
namespace {

struct Options {
  std::string model;
  std::vector<std::string> text;
  std::string lines;
  bool no_special = false;
  bool no_parse_special = false;
  bool decode = false;
  bool pieces = false;
};

Result<std::vector<int32_t>> ParseIds(const std::string& line) {
  std::vector<int32_t> ids;
  const char* p = line.data();
  const char* end = p + line.size();
  while (p < end) {
    if (*p == ' ' || *p == ',' || *p == '[' || *p == ']' || *p == '\t' || *p == '\r') {
      ++p;
      continue;
    }
    int32_t id = 0;
    const auto parsed = std::from_chars(p, end, id);
    if (parsed.ec != std::errc())
      return BadInput("'{}' holds no token ids; allowed: numbers parted by spaces or commas", line.substr(0, 80));
    ids.push_back(id);
    p = parsed.ptr;
  }
  return ids;
}

Status Decode(const text::Tokenizer& tokenizer, const Options& options, const std::vector<std::string>& inputs,
              Context& context) {
  Json texts = Json::array();
  for (const std::string& line : inputs) {
    TENON_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, ParseIds(line));
    for (int32_t id : ids) {
      if (id < 0 || id >= tokenizer.size()) return BadInput("token id {}; allowed: 0..{}", id, tokenizer.size() - 1);
    }
    std::string decoded = tokenizer.Decode(ids, options.no_special);
    context.Say(decoded);
    texts.push_back(std::move(decoded));
  }
  if (options.lines.empty() && texts.size() == 1) {
    context.Document({{"text", texts[0]}});
  } else {
    context.Document({{"texts", texts}});
  }
  return Status::Ok();
}

void Encode(const text::Tokenizer& tokenizer, const Options& options, const std::vector<std::string>& inputs, Context& context) {
  const text::EncodeOptions how{!options.no_special, !options.no_special && !options.no_parse_special};
  Json all = Json::array();
  Json pieces = Json::array();
  for (const std::string& line : inputs) {
    const std::vector<int32_t> ids = tokenizer.Encode(line, how);
    if (!context.json) {
      std::string text;
      for (int32_t id : ids) {
        text += (text.empty() ? "" : " ") + std::to_string(id);
        if (options.pieces) text += ":" + Json(tokenizer.spec().tokens[static_cast<size_t>(id)]).dump();
      }
      context.Say(text);
      continue;
    }
    all.push_back(ids);
    Json row = Json::array();
    for (int32_t id : ids) row.push_back(tokenizer.spec().tokens[static_cast<size_t>(id)]);
    pieces.push_back(std::move(row));
  }
  if (!context.json) return;
  const bool one = options.lines.empty() && all.size() == 1;
  Json document = {{"ids", one ? all[0] : all}};
  if (options.pieces) document["pieces"] = one ? pieces[0] : pieces;
  context.Document(document);
}

Status Run(const Options& options, Context& context) {
  if (options.text.empty() == options.lines.empty()) return Usage("give either --text or --lines");
  TENON_ASSIGN_OR_RETURN(text::TokenizerSpec spec, LoadTokenizerSpec(options.model));
  TENON_ASSIGN_OR_RETURN(const auto tokenizer, text::Tokenizer::Create(std::move(spec)));
  std::vector<std::string> inputs = options.text;
  if (!options.lines.empty()) {
    TENON_ASSIGN_OR_RETURN(inputs, ReadLines(options.lines));
  }
  if (options.decode) return Decode(*tokenizer, options, inputs, context);
  Encode(*tokenizer, options, inputs, context);
  return Status::Ok();
}

}  // namespace

Command Make_tokenize() {
  return {"tokenize", "turn text into token ids, or ids into text", "tenon tokenize model.gguf --text 'Hello world' --json",
          [](CLI::App& app) {
            auto o = std::make_shared<Options>();
            app.add_option("MODEL", o->model, "A model with a tokenizer: .gguf, .tenon, a Hugging Face folder, tokenizer.json")
                ->required();
            app.add_option("--text", o->text, "Text (repeatable); with --decode, token ids");
            app.add_option("--lines", o->lines, "A file of texts, one a line; .jsonl: one JSON string a line");
            app.add_flag("--no-special", o->no_special,
                         "No control tokens: none added, none read in the text; with --decode, left out")
                ->envname("TENON_NO_SPECIAL");
            app.add_flag("--no-parse-special", o->no_parse_special, "Control tokens written in the text stay text");
            app.add_flag("--decode", o->decode, "Token ids to text");
            app.add_flag("--pieces", o->pieces, "Show the tokens beside their ids");
            return [o](Context& context) { return Run(*o, context); };
          }};
}

}  // namespace tenon::cli
