// The binary: parses, runs one command, turns its status into message and exit code.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <system_error>

#include "base/mapped_file.h"
#include "cli/command.h"
#include "hw/isa.h"

namespace tenon::cli {
namespace {

extern "C" void OnInterrupt(int signal) {
  static volatile std::sig_atomic_t count = 0;
  count = count + 1;
  Interrupted().Cancel();
  // Long work ends by itself within one operator. What cannot (import, writing) is cut off here; nothing half-written stays.
  alarm(2);
  if (count < 2 && signal != SIGALRM) return;
  RemoveTemporaryFiles();
  _exit(130);
}

void HandleSignals() {
  struct sigaction action{};
  action.sa_handler = OnInterrupt;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGALRM, &action, nullptr);
}

int Report(const Status& status, const std::string& where, const Context& context) {
  if (status.ok()) return 0;
  // One line: names from files may hold line breaks.
  std::string message = status.message();
  for (char& c : message) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  if (context.json) {
    Json error = {{"error", {{"code", CodeName(status.code())}, {"message", message}, {"where", where}}}};
    error.update(context.details);
    fmt::print("{}\n", Dump(error));
  }
  fmt::print(stderr, "tenon: {}\n", message);
  if (status.code() == Code::kInternal)
    fmt::print(stderr, "  this is a fault of Tenon itself: please report it with the command line\n");
  if (status.code() == Code::kUsage) fmt::print(stderr, "  'tenon help {}' shows what is allowed\n", where);
  return static_cast<int>(status.code());
}

void PrintConfig(const CLI::App& command) {
  fmt::print("# tenon {}\n", command.get_name());
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty() || option->get_name() == "--help") continue;
    std::string value;
    for (const std::string& r : option->results()) value += (value.empty() ? "" : " ") + r;
    if (value.empty()) value = option->get_default_str();
    fmt::print("{}={}\n", option->get_lnames()[0], value);
  }
}

std::string Overview(const std::vector<Command>& commands) {
  std::string text = "tenon COMMAND [options]: cuts trained models to fit the silicon they run on\n\n";
  for (const Command& c : commands) text += fmt::format("  {:<11} {}\n", c.name, c.summary);
  return text + "\n'tenon help COMMAND' has the options and an example that works.";
}

int Help(Parser& parser, const std::string& topic) {
  const std::vector<Command> commands = AllCommands();
  if (topic.empty()) {
    fmt::print("{}\n", Overview(commands));
    return 0;
  }
  for (size_t i = 0; i < commands.size(); ++i) {
    if (commands[i].name != topic) continue;
    fmt::print("{}", parser.runners[i].first->help());
    return 0;
  }
  return Report(Usage("unknown command '{}'; 'tenon help' lists them", topic), "", parser.context);
}

bool WantsJson(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--json") return true;
  }
  return false;
}

int Main(int argc, char** argv) {
  HandleSignals();
  auto parser = MakeParser();
  Context& context = parser->context;
  for (int i = 0; i < argc; ++i) context.command_line += (i > 0 ? " " : "") + std::string(i == 0 ? "tenon" : argv[i]);
  const std::string first = argc > 1 ? argv[1] : "";
  if (first.empty() || first == "--help" || first == "-h") return Help(*parser, "");
  if (first == "help") return Help(*parser, argc > 2 ? argv[2] : "");
  try {
    parser->app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    for (auto& [command, run] : parser->runners) {
      if (command->parsed()) fmt::print("{}", command->help());
    }
    return 0;
  } catch (const CLI::ParseError& e) {
    context.json = WantsJson(argc, argv);
    return Report(Usage("{}", e.what()), first, context);
  }
  if (auto isa = hw::ActiveIsa(); !isa.ok()) return Report(isa.status(), first, context);
  for (auto& [command, run] : parser->runners) {
    if (!command->parsed()) continue;
    if (context.print_config) {
      PrintConfig(*command);
      return 0;
    }
    Status status = run(context);
    if (status.ok() && std::fflush(stdout) != 0) status = ResourceLimit("cannot write to standard output");
    return Report(status, command->get_name(), context);
  }
  return Report(Usage("no command given"), "", context);
}

}  // namespace

std::unique_ptr<Parser> MakeParser() {
  auto parser = std::make_unique<Parser>();
  parser->app.name("tenon");
  parser->app.require_subcommand(0, 1);
  Context* context = &parser->context;
  for (const Command& command : AllCommands()) {
    CLI::App* app = parser->app.add_subcommand(command.name, command.summary);
    app->footer("Example:\n  " + command.example);
    app->add_flag("--json", context->json, "One JSON document on stdout and nothing else")->envname("TENON_JSON");
    app->add_flag("--quiet", context->quiet, "Say nothing but errors")->envname("TENON_QUIET");
    app->add_flag("--no-color", context->no_color, "Plain text (output is plain off terminals anyway)")
        ->envname("TENON_NO_COLOR");
    app->add_flag("--print-config", context->print_config, "Show the options in force and stop");
    parser->runners.emplace_back(app, command.setup(*app));
  }
  return parser;
}

}  // namespace tenon::cli

int main(int argc, char** argv) {
  try {
    return tenon::cli::Main(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("tenon: out of memory\n", stderr);
    return 6;
  } catch (const std::system_error& e) {
    std::fprintf(stderr, "tenon: %s\n", e.what());   // standard output is full or gone
    return 6;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tenon: internal error: %s\n", e.what());
    return 1;
  }
}
