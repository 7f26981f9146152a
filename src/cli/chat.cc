// tenon chat: a conversation in the terminal, or through a pipe with one message a line.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>

#include "base/mapped_file.h"
#include "cli/bench_llm.h"
#include "cli/model_options.h"
#include "cli/text_model.h"
#include "generate/generate.h"
#include "generate/sampler.h"
#include "generate/stop.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace tenon::cli {
namespace {

// The answer that Ctrl-C stops; null while none is made. Without one it drops the line that is being written.
std::atomic<CancelToken*> running_answer{nullptr};
std::atomic<bool> line_dropped{false};

extern "C" void OnChatInterrupt(int) {
  if (CancelToken* answer = running_answer.load()) {
    answer->Cancel();
  } else {
    line_dropped.store(true);
  }
}

// Until standard input can be read; false when Ctrl-C came first. SIGINT is let through only while this waits, so that none falls
// between a look and the wait.
bool AwaitInput() {
  sigset_t interrupt, before;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupt, &before);
  pollfd input{STDIN_FILENO, POLLIN, 0};
  int ready = 0;
  while (!line_dropped.load() && (ready = ppoll(&input, 1, nullptr, &before)) < 0 && errno == EINTR) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return !line_dropped.exchange(false);
}

struct Options {
  ModelOptions model;
  std::string system;
  std::vector<std::string> stop;
  int64_t max_tokens = 1024;
  int64_t context = 0;
  bool stats = false;
  generate::SamplerOptions sampler;
};

constexpr const char* kHelp =
    "/help          this list\n"
    "/reset         forget the conversation\n"
    "/system TEXT   begin anew with TEXT as the system message (none: without one)\n"
    "/stats         show or hide tokens per second after each answer\n"
    "/save FILE     write the conversation as JSON\n"
    "/quit          end (Ctrl-D too); Ctrl-C stops an answer\n"
    "A line that ends in \\ goes on in the next one; \"\"\" begins and ends a text of several lines.";

// Lines of standard input without a buffer that a signal could tear: Ctrl-C drops the line that is being written.
class Input {
 public:
  enum class Got { kLine, kEnd, kInterrupted };
  Got Line(std::string* line) {
    while (true) {
      const size_t end = buffer_.find('\n');
      if (end != std::string::npos) {
        *line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return Got::kLine;
      }
      if (!AwaitInput()) {
        buffer_.clear();
        return Got::kInterrupted;
      }
      char chunk[4096];
      const ssize_t n = read(STDIN_FILENO, chunk, sizeof(chunk));
      if (n > 0) {
        buffer_.append(chunk, static_cast<size_t>(n));
      } else if (n < 0 && errno == EINTR) {
        continue;
      } else if (!buffer_.empty()) {
        line->swap(buffer_);
        buffer_.clear();
        return Got::kLine;
      } else {
        return Got::kEnd;
      }
    }
  }

 private:
  std::string buffer_;
};

class Chat {
 public:
  Chat(const Options& options, Context& context) : options_(options), context_(context), stats_(options.stats) {
    terminal_ = isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0 && !context.json && !context.quiet;
    color_ = terminal_ && !context.no_color;
  }

  Status Open() {
    ModelOptions model = options_.model;
    TENON_ASSIGN_OR_RETURN(session_, model.Open(context_));
    if (!IsLanguageModel(*session_)) return Usage("'{}' is no language model that chats", model.model);
    TENON_ASSIGN_OR_RETURN(text::TokenizerSpec spec, LoadTokenizerSpec(model.model));
    if (spec.chat_template.empty())
      return Unsupported("{}: the model has no chat template; 'tenon generate --raw' continues a text", model.model);
    TENON_ASSIGN_OR_RETURN(template_, text::ChatTemplate::Parse(spec.chat_template));
    TENON_ASSIGN_OR_RETURN(tokenizer_, text::Tokenizer::Create(std::move(spec)));
    TENON_ASSIGN_OR_RETURN(decoder_, generate::Decoder::Create(*session_, {.max_tokens = options_.context}));
    Reset(options_.system);
    return Status::Ok();
  }

  Status Loop() {
    if (terminal_)
      fmt::print("{} with {} tokens of context. /help lists commands.\n", options_.model.model, decoder_->max_tokens());
    std::string text;
    while (ReadMessage(&text)) {
      if (text.empty()) continue;
      if (text[0] == '/' && !context_.json) {
        if (!Command(text)) break;
        continue;
      }
      messages_.emplace_back("user", text);
      const Status status = Answer();
      if (status.ok()) continue;
      messages_.pop_back();
      if (!terminal_) return status;
      fmt::print(stderr, "tenon: {}\n", status.message());  // the conversation stays as it was
    }
    if (terminal_) fmt::print("\n");
    if (context_.json) context_.Document({{"messages", Json::parse(text::MessagesJson(messages_))}, {"turns", turns_}});
    return Status::Ok();
  }

 private:
  void Reset(const std::string& system) {
    messages_.clear();
    if (!system.empty()) messages_.emplace_back("system", system);
  }

  void Prompt(const char* mark) const {
    if (!terminal_) return;
    fmt::print("{}{}{}", color_ ? "\x1b[1;32m" : "", mark, color_ ? "\x1b[0m" : "");
    std::fflush(stdout);
  }

  // False: the end of input.
  bool ReadMessage(std::string* text) {
    text->clear();
    bool block = false;
    bool more = false;
    while (true) {
      Prompt(block || more ? ". " : "> ");
      std::string line;
      const Input::Got got = input_.Line(&line);
      if (got == Input::Got::kEnd) return block || more;
      if (got == Input::Got::kInterrupted) {
        if (terminal_) fmt::print("\n(/quit or Ctrl-D ends)\n");
        if (!terminal_) return false;
        text->clear();
        block = more = false;
        continue;
      }
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (line == "\"\"\"") {
        if (block) return true;
        block = true;
        continue;
      }
      const bool goes_on = !block && !line.empty() && line.back() == '\\';
      if (goes_on) line.pop_back();
      *text += (text->empty() && !more ? "" : "\n") + line;
      more = goes_on;
      if (!block && !goes_on) return true;
    }
  }

  // False: /quit.
  bool Command(const std::string& line) {
    const size_t space = std::min(line.find(' '), line.size());
    const std::string name = line.substr(0, space);
    const std::string rest = space < line.size() ? line.substr(space + 1) : "";
    if (name == "/quit" || name == "/exit") return false;
    if (name == "/help") {
      context_.Say(kHelp);
    } else if (name == "/reset") {
      Reset(messages_.empty() || messages_[0].first != "system" ? "" : std::string(messages_[0].second));
      context_.Say("(a new conversation)");
    } else if (name == "/system") {
      Reset(rest);
      context_.Say(rest.empty() ? "(a new conversation without a system message)"
                                : "(a new conversation with this system message)");
    } else if (name == "/stats") {
      stats_ = !stats_;
      context_.Say(stats_ ? "(statistics are shown)" : "(statistics are hidden)");
    } else if (name == "/save") {
      const Status saved = Save(rest);
      context_.Say(saved.ok() ? "(saved in " + rest + ")" : "tenon: " + saved.message());
    } else {
      context_.Say("unknown command " + name + "; /help lists them");
    }
    return true;
  }

  Status Save(const std::string& path) const {
    if (path.empty()) return Usage("no file given; /save FILE");
    TENON_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
    const std::string json = Json::parse(text::MessagesJson(messages_)).dump(2) + "\n";
    TENON_RETURN_IF_ERROR(file.Append(json.data(), json.size()));
    return file.Commit();
  }

  std::string TokenText(int32_t id) const { return id < 0 ? std::string() : tokenizer_->spec().tokens[static_cast<size_t>(id)]; }

  Result<std::vector<int32_t>> Encode() const {
    text::ChatInput input;
    input.messages_json = text::MessagesJson(messages_);
    input.bos_token = TokenText(tokenizer_->spec().bos);
    input.eos_token = TokenText(tokenizer_->spec().eos);
    TENON_ASSIGN_OR_RETURN(const auto rendered, template_->Render(input));
    return tokenizer_->EncodeTrusted(rendered.text, rendered.trusted, false);
  }

  // Answers the last message. What the cache already holds of the conversation is not run again.
  Status Answer() {
    TENON_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, Encode());
    if (static_cast<int64_t>(prompt.size()) >= decoder_->max_tokens())
      return ResourceLimit("the conversation has {} tokens; the context holds {}; /reset begins a new one", prompt.size(),
                           decoder_->max_tokens());
    const size_t most = std::min(cached_.size(), prompt.size() - 1);
    const auto kept = std::mismatch(cached_.begin(), cached_.begin() + static_cast<std::ptrdiff_t>(most), prompt.begin()).first -
                      cached_.begin();
    decoder_->Truncate(kept);
    cached_ = prompt;

    CancelToken cancel;
    generate::LoopOptions loop;
    loop.max_tokens = options_.max_tokens;
    loop.stop = tokenizer_->spec().end_of_turn;
    loop.run.cancel = &cancel;
    generate::SamplerOptions sampling = options_.sampler;
    sampling.seed += static_cast<uint64_t>(turns_);  // an answer asked for again is another one
    generate::Sampler sampler(sampling);
    generate::StopStrings stops(options_.stop);
    text::StreamDecoder stream(tokenizer_);
    std::string answer_text;
    const auto show = [&](const std::string& piece) {
      answer_text += piece;
      if (context_.json) return;
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      std::fflush(stdout);
    };
    running_answer = &cancel;
    auto answer = generate::Generate(
        *decoder_, std::span(prompt).subspan(static_cast<size_t>(kept)), loop,
        [&](std::span<const float> logits) { return sampler.Sample(logits); },
        [&](int32_t token) {
          show(stops.Add(stream.Add(token)));
          return !stops.stopped();
        });
    running_answer = nullptr;
    if (answer.ok()) cached_.insert(cached_.end(), answer->tokens.begin(), answer->tokens.end());
    cached_.resize(std::min(cached_.size(), static_cast<size_t>(decoder_->length())));
    if (!answer.ok() && answer.status().code() != Code::kCancelled) return answer.status();
    show(stops.Add(stream.Finish()) + stops.Finish());
    if (!context_.json) fmt::print("\n");
    ++turns_;
    messages_.emplace_back("assistant", answer_text);
    Finished(answer.ok() ? &*answer : nullptr, static_cast<int64_t>(prompt.size()) - kept, kept);
    return Status::Ok();
  }

  void Finished(const generate::Answer* answer, int64_t prompt, int64_t kept) const {
    if ((answer == nullptr || answer->finish == generate::Finish::kCancelled) && terminal_) fmt::print("(stopped)\n");
    if (answer != nullptr && stats_ && !context_.json && !context_.quiet) {
      fmt::print(stderr, "{} tokens in, {} from the cache, {:.0f} per second; {} tokens out, {:.1f} per second ({})\n", prompt,
                 kept, answer->PrefillRate(prompt), answer->tokens.size(), answer->DecodeRate(),
                 generate::FinishName(answer->finish));
    }
  }

  const Options& options_;
  Context& context_;
  bool stats_, terminal_ = false, color_ = false;
  Input input_;
  std::unique_ptr<Session> session_;
  std::shared_ptr<const text::ChatTemplate> template_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::unique_ptr<generate::Decoder> decoder_;
  std::vector<std::pair<std::string, std::string>> messages_;
  std::vector<int32_t> cached_;  // what the decoder holds
  int64_t turns_ = 0;
};

Status Run(const Options& options, Context& context) {
  TENON_RETURN_IF_ERROR(options.sampler.Check());
  Chat chat(options, context);
  TENON_RETURN_IF_ERROR(chat.Open());
  struct sigaction action{};
  action.sa_handler = OnChatInterrupt;
  sigaction(SIGINT, &action, nullptr);
  return chat.Loop();
}

}  // namespace

Command Make_chat() {
  return {"chat", "talk with a language model", "tenon chat model.gguf --system 'Answer in one sentence.'", [](CLI::App& app) {
            auto o = std::make_shared<Options>();
            o->model.AddModel(app);
            app.add_option("--system", o->system, "The system message");
            app.add_option("--stop", o->stop, "Text that ends an answer (repeatable)");
            app.add_option("--max-tokens", o->max_tokens, "Most tokens of an answer")
                ->capture_default_str()
                ->check(CLI::Range(int64_t{1}, int64_t{1} << 32));
            app.add_option("--context", o->context, "Most tokens of the conversation; 0: as the model was trained")
                ->capture_default_str()
                ->check(CLI::Range(int64_t{0}, int64_t{1} << 32));
            app.add_option("--temperature", o->sampler.temperature, "0: the most likely token always")->capture_default_str();
            app.add_option("--top-k", o->sampler.top_k, "Choose among the best k; 0: all")->capture_default_str();
            app.add_option("--top-p", o->sampler.top_p, "Choose among the best that add up to p; 1: all")->capture_default_str();
            app.add_option("--min-p", o->sampler.min_p, "Choose among those with this part of the best one's probability")
                ->capture_default_str();
            app.add_option("--repetition-penalty", o->sampler.repetition_penalty, "Above 1: against repeating")
                ->capture_default_str();
            app.add_option("--seed", o->sampler.seed, "The same seed gives the same answers")->capture_default_str();
            app.add_flag("--stats", o->stats, "Show tokens per second after each answer");
            o->model.AddCompile(app);
            o->model.AddSession(app);
            return [o](Context& context) { return Run(*o, context); };
          }};
}

}  // namespace tenon::cli
