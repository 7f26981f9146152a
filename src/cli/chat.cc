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
#include "cli/answer_options.h"
#include "cli/bench_llm.h"
#include "cli/model_options.h"
#include "cli/text_model.h"
#include "generate/text_answer.h"
#include "text/chat_prompt.h"

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
  AnswerOptions answer{1024};
  std::string system;
  bool stats = false;
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
    TENON_ASSIGN_OR_RETURN(sampling_, options_.answer.SamplingOf(session_->metadata()));
    TENON_ASSIGN_OR_RETURN(decoder_, generate::Decoder::Create(*session_, options_.answer.decoder()));
    Reset(options_.system);
    return Status::Ok();
  }

  Status Loop() {
    if (terminal_)
      fmt::print("{} with {} tokens of context, {}. /help lists commands.\n", options_.model.model, decoder_->max_tokens(),
                 CacheText(decoder_->cache()));
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
    if (context_.json)
      context_.Document(
          {{"messages", Json::parse(text::MessagesJson(messages_))},
           {"turns", turns_},
           {"cache", CacheJson(decoder_->cache())},
           {"usage",
            {{"prompt_tokens", prompt_tokens_}, {"cached_tokens", cached_tokens_}, {"completion_tokens", completion_tokens_}}}});
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

  // Answers the last message. What the cache already holds of the conversation is not run again.
  Status Answer() {
    TENON_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, text::EncodeChat(*template_, *tokenizer_, messages_));
    if (static_cast<int64_t>(prompt.size()) >= decoder_->max_tokens())
      return ResourceLimit("the conversation has {} tokens; the context holds {}; /reset begins a new one", prompt.size(),
                           decoder_->max_tokens());
    CancelToken cancel;
    generate::TextOptions how = options_.answer.text(cancel, sampling_);
    how.loop.stop = tokenizer_->spec().end_of_turn;
    how.sampler.seed += static_cast<uint64_t>(turns_);  // an answer asked for again is another one
    running_answer = &cancel;
    const auto answer = generate::AnswerText(*decoder_, tokenizer_, prompt, how, [&](const std::string& piece) {
      if (context_.json) return;
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      std::fflush(stdout);
    });
    running_answer = nullptr;
    TENON_RETURN_IF_ERROR(answer.status());
    if (!context_.json) fmt::print("\n");
    ++turns_;
    prompt_tokens_ += static_cast<int64_t>(prompt.size()), cached_tokens_ += answer->reused;
    completion_tokens_ += static_cast<int64_t>(answer->answer.tokens.size());
    messages_.emplace_back("assistant", answer->text);
    Finished(*answer, static_cast<int64_t>(prompt.size()));
    return Status::Ok();
  }

  void Finished(const generate::TextAnswer& answer, int64_t prompt) const {
    if (answer.answer.finish == generate::Finish::kCancelled && terminal_) fmt::print("(stopped)\n");
    if (stats_ && !context_.json && !context_.quiet) {
      const int64_t run = prompt - answer.reused;
      fmt::print(stderr, "{} tokens in, {} from the cache, {:.0f} per second; {} tokens out, {:.1f} per second ({})\n", run,
                 answer.reused, answer.answer.PrefillRate(run), answer.answer.tokens.size(), answer.answer.DecodeRate(),
                 generate::FinishName(answer.answer.finish));
    }
  }

  const Options& options_;
  Context& context_;
  bool stats_, terminal_ = false, color_ = false;
  Input input_;
  std::unique_ptr<Session> session_;
  std::shared_ptr<const text::ChatTemplate> template_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  generate::SamplerOptions sampling_;
  std::unique_ptr<generate::Decoder> decoder_;
  std::vector<std::pair<std::string, std::string>> messages_;
  int64_t turns_ = 0, prompt_tokens_ = 0, cached_tokens_ = 0, completion_tokens_ = 0;
};

Status Run(const Options& options, Context& context) {
  TENON_RETURN_IF_ERROR(options.answer.sampler.Check());
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
            o->answer.Add(app);
            app.add_flag("--stats", o->stats, "Show tokens per second after each answer");
            o->model.AddCompile(app);
            o->model.AddSession(app);
            return [o](Context& context) { return Run(*o, context); };
          }};
}

}  // namespace tenon::cli
