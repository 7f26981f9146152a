// tenon embed: texts to vectors, as sentence-transformers makes them from the same folder.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "cli/model_options.h"
#include "cli/text_model.h"
#include "media/npy.h"
#include "text/tokenizer.h"

namespace tenon::cli {
namespace {

struct Options {
  ModelOptions model;
  std::vector<std::string> text;
  std::string lines;
  std::string output;
  std::string pooling;
  std::string normalize;
  std::string prefix;
  bool has_prefix = false;
  std::string prompt_name;
  int64_t batch = 32;
  bool truncate = false;
};

// What the model says about its vectors; flags of the command line come first.
struct Recipe {
  std::string pooling = "mean";
  bool normalize = false;
  int64_t max_tokens = 512;
  std::string prefix;

  static Result<Recipe> Of(const Session& session, const Options& options) {
    Recipe r;
    const auto get = [&](const char* key) {
      const auto it = session.metadata().find(key);
      return it == session.metadata().end() ? std::string() : it->second;
    };
    if (!get("tenon.pooling").empty()) r.pooling = get("tenon.pooling");
    if (!options.pooling.empty()) r.pooling = options.pooling;
    r.normalize = options.normalize.empty() ? get("tenon.normalize") == "1" : options.normalize == "yes";
    r.prefix = options.prefix;
    const std::string name = options.prompt_name.empty() ? get("tenon.default_prompt") : options.prompt_name;
    if (!options.has_prefix && !name.empty()) {
      const auto prompt = session.metadata().find("tenon.prompt." + name);
      if (prompt == session.metadata().end()) return Usage("the model has no prompt '{}'", name);
      r.prefix = prompt->second;
    }
    const std::string longest = get("tenon.max_tokens");
    if (!longest.empty()) {
      TENON_ASSIGN_OR_RETURN(const auto list, ParseIntList(longest, "the model's tenon.max_tokens"));
      r.max_tokens = list.front();
    }
    return r;
  }
};

// The states of one text, [tokens, width], to one vector.
std::vector<float> Pool(const float* states, int64_t tokens, int64_t width, const Recipe& recipe) {
  std::vector<float> v(static_cast<size_t>(width));
  for (int64_t d = 0; d < width; ++d) {
    float& out = v[static_cast<size_t>(d)];
    if (recipe.pooling == "cls") {
      out = states[d];
    } else if (recipe.pooling == "last") {
      out = states[(tokens - 1) * width + d];
    } else if (recipe.pooling == "max") {
      out = states[d];
      for (int64_t t = 1; t < tokens; ++t) out = std::max(out, states[t * width + d]);
    } else {
      for (int64_t t = 0; t < tokens; ++t) out += states[t * width + d];
      out /= static_cast<float>(tokens);
    }
  }
  if (recipe.normalize) {
    double sum = 0;
    for (float x : v) sum += static_cast<double>(x) * x;
    const auto scale = static_cast<float>(1 / std::max(std::sqrt(sum), 1e-12));
    for (float& x : v) x *= scale;
  }
  return v;
}

// Texts of one length run together: nothing is padded, so no answer depends on its neighbours.
Status RunBatch(Session& session, const std::vector<std::vector<int32_t>>& ids, std::span<const size_t> rows,
                const Recipe& recipe, std::vector<std::vector<float>>* vectors) {
  const auto n = static_cast<int64_t>(ids[rows[0]].size());
  std::vector<int64_t> flat;
  for (size_t row : rows) flat.insert(flat.end(), ids[row].begin(), ids[row].end());
  HostTensor input;
  input.name = session.inputs()[0].name;
  input.dtype = DType::kI64;
  input.shape = {static_cast<int64_t>(rows.size()), n};
  input.data = flat.data();
  input.bytes = flat.size() * sizeof(int64_t);
  RunOptions run;
  run.cancel = &Interrupted();
  TENON_ASSIGN_OR_RETURN(const auto outputs, session.Run({input}, run));
  const HostTensor& states = outputs.front();
  if (states.dtype != DType::kF32 || states.shape.size() != 3 || states.shape[0] != input.shape[0] || states.shape[1] != n)
    return Unsupported("the model's first output is no [texts, tokens, width] of f32");
  const int64_t width = states.shape[2];
  for (size_t i = 0; i < rows.size(); ++i) {
    const float* of_text = static_cast<const float*>(states.data) + static_cast<int64_t>(i) * n * width;
    (*vectors)[rows[i]] = Pool(of_text, n, width, recipe);
  }
  return Status::Ok();
}

Status RunAll(Session& session, const std::vector<std::vector<int32_t>>& ids, const Recipe& recipe, int64_t batch,
              std::vector<std::vector<float>>* vectors) {
  std::map<size_t, std::vector<size_t>> by_length;
  for (size_t i = 0; i < ids.size(); ++i) by_length[ids[i].size()].push_back(i);
  for (const auto& [length, rows] : by_length) {
    for (size_t begin = 0; begin < rows.size(); begin += static_cast<size_t>(batch)) {
      const size_t count = std::min(static_cast<size_t>(batch), rows.size() - begin);
      TENON_RETURN_IF_ERROR(RunBatch(session, ids, std::span(rows).subspan(begin, count), recipe, vectors));
    }
  }
  return Status::Ok();
}

// Ids of each text; one that is too long is refused, or cut on wish, with both numbers in the message.
Result<std::vector<std::vector<int32_t>>> Encode(const text::Tokenizer& tokenizer, const std::vector<std::string>& texts,
                                                 const Options& options, const Recipe& recipe) {
  const int64_t max_tokens = recipe.max_tokens;
  std::vector<std::vector<int32_t>> all;
  for (const std::string& t : texts) {
    std::vector<int32_t> ids = tokenizer.Encode(recipe.prefix + t, {.add_special = true, .parse_special = false});
    if (static_cast<int64_t>(ids.size()) > max_tokens) {
      if (!options.truncate)
        return BadInput("text {} has {} tokens; the model takes {} (--truncate cuts)", all.size() + 1, ids.size(), max_tokens);
      const std::vector<int32_t>& suffix = tokenizer.spec().suffix;
      if (static_cast<int64_t>(suffix.size()) >= max_tokens)
        return BadInput("the model takes {} tokens, fewer than it adds", max_tokens);
      ids.resize(static_cast<size_t>(max_tokens));
      std::copy(suffix.begin(), suffix.end(), ids.end() - static_cast<std::ptrdiff_t>(suffix.size()));
    }
    if (ids.empty()) return BadInput("text {} has no tokens", all.size() + 1);
    all.push_back(std::move(ids));
  }
  return all;
}

Status Write(const std::string& path, const std::vector<std::vector<float>>& vectors) {
  const auto rows = static_cast<int64_t>(vectors.size());
  const auto width = rows == 0 ? 0 : static_cast<int64_t>(vectors[0].size());
  std::vector<float> flat;
  for (const auto& v : vectors) flat.insert(flat.end(), v.begin(), v.end());
  return media::WriteNpy(path, View{DType::kF32, Shape({rows, width}), flat.data(), nullptr});
}

Result<std::shared_ptr<const text::Tokenizer>> TokenizerOf(const Session& session, const std::string& model) {
  const auto it = session.metadata().find("tenon.tokenizer");
  if (it == session.metadata().end()) return BadInput("{}: the model has no tokenizer", model);
  TENON_ASSIGN_OR_RETURN(text::TokenizerSpec spec, text::TokenizerSpec::Parse(it->second));
  return text::Tokenizer::Create(std::move(spec));
}

Status Run(const Options& given, Context& context) {
  Options options = given;
  if (options.text.empty() == options.lines.empty()) return Usage("give either --text or --lines");
  std::vector<std::string> texts = options.text;
  if (!options.lines.empty()) {
    TENON_ASSIGN_OR_RETURN(texts, ReadLines(options.lines));
  }
  TENON_ASSIGN_OR_RETURN(auto session, options.model.Open(context));
  TENON_ASSIGN_OR_RETURN(const auto tokenizer, TokenizerOf(*session, options.model.model));
  if (session->inputs().size() != 1 || session->inputs()[0].dtype != DType::kI64)
    return Unsupported("{}: no encoder with the one input input_ids", options.model.model);
  TENON_ASSIGN_OR_RETURN(const Recipe recipe, Recipe::Of(*session, options));
  TENON_ASSIGN_OR_RETURN(const auto ids, Encode(*tokenizer, texts, options, recipe));
  std::vector<std::vector<float>> vectors(ids.size());
  const auto start = std::chrono::steady_clock::now();
  TENON_RETURN_IF_ERROR(RunAll(*session, ids, recipe, options.batch, &vectors));
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (!options.output.empty()) TENON_RETURN_IF_ERROR(Write(options.output, vectors));
  int64_t tokens = 0;
  for (const auto& list : ids) tokens += static_cast<int64_t>(list.size());
  if (context.json) {
    context.Document({{"embeddings", vectors},
                      {"pooling", recipe.pooling},
                      {"normalize", recipe.normalize},
                      {"max_tokens", recipe.max_tokens},
                      {"prefix", recipe.prefix},
                      {"usage", {{"prompt_tokens", tokens}}},
                      {"time_ms", ms}});
    return Status::Ok();
  }
  for (const auto& v : vectors) {
    if (!options.output.empty()) break;
    std::string line;
    for (float x : v) line += fmt::format("{}{:.6g}", line.empty() ? "" : " ", x);
    context.Say(line);
  }
  if (!options.output.empty()) {
    context.Say(fmt::format("{} vectors of {} in {} ({} pooling{}); {} tokens, {:.1f} ms", vectors.size(),
                            vectors.empty() ? 0 : vectors[0].size(), options.output, recipe.pooling,
                            recipe.normalize ? ", normalised" : "", tokens, ms));
  }
  return Status::Ok();
}

}  // namespace

Command Make_embed() {
  return {
      "embed", "turn texts into vectors", "tenon embed models/minilm --lines texts.txt --output vectors.npy", [](CLI::App& app) {
        auto o = std::make_shared<Options>();
        o->model.AddModel(app);
        app.add_option("--text", o->text, "Text (repeatable)");
        app.add_option("--lines", o->lines, "A file of texts, one a line; .jsonl: one JSON string a line");
        app.add_option("--output", o->output, "A .npy file for the vectors, [texts, width]");
        CLI::Option* prefix = app.add_option("--prefix", o->prefix, "Put before each text, in place of the model's own prompt");
        app.add_option("--prompt-name", o->prompt_name, "The model's prompt of that name before each text; else its default one")
            ->excludes(prefix);
        app.add_option("--pooling", o->pooling, "In place of the model's own")
            ->check(CLI::IsMember({"mean", "cls", "max", "last"}));
        app.add_option("--normalize", o->normalize, "In place of the model's own")->check(CLI::IsMember({"yes", "no"}));
        app.add_option("--batch", o->batch, "Most texts of one run")->capture_default_str()->check(CLI::Range(1, 4096));
        app.add_flag("--truncate", o->truncate, "Cut texts that are too long for the model");
        o->model.AddCompile(app);
        o->model.AddSession(app);
        return [o, prefix](Context& context) {
          o->has_prefix = prefix->count() > 0;
          return Run(*o, context);
        };
      }};
}

}  // namespace tenon::cli
