// What a command is, and what all commands share: global flags, errors, output.
#ifndef TENON_CLI_COMMAND_H_
#define TENON_CLI_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "tenon/compile.h"

namespace tenon::cli {

using Json = nlohmann::ordered_json;

/// Flags every command takes, and where its output goes.
struct Context {
  bool json = false;
  bool quiet = false;
  bool no_color = false;
  bool print_config = false;
  std::string command_line;
  Json details = Json::object();   ///< what a failing command has found out: stands beside the error in the document of --json

  /// Prints a line for people on stdout; nothing with --json or --quiet.
  void Say(const std::string& line) const;
  /// A remark on stderr, "note: ..."; nothing with --json or --quiet.
  void Note(const std::string& line) const;
  /// The one document of --json; nothing otherwise.
  void Document(const Json& document) const;
};

struct Command {
  std::string name;
  std::string summary;
  std::string example;
  /// Adds the command's options to `app`; returns what runs it after parsing.
  std::function<std::function<Status(Context&)>(CLI::App& app)> setup;
};

#define COMMAND(name) Command Make_##name();
#include "cli/commands.inc"
#undef COMMAND

/// All commands in the order of commands.inc.
std::vector<Command> AllCommands();

/// Builds the parser with every command's options: for main, completion, knobs.
struct Parser {
  CLI::App app;
  Context context;
  std::vector<std::pair<CLI::App*, std::function<Status(Context&)>>> runners;
};
std::unique_ptr<Parser> MakeParser();

/// Set by Ctrl-C; long work looks at it.
CancelToken& Interrupted();

/// JSON text whose strings are valid UTF-8 whatever names a model holds.
std::string Dump(const Json& document);

/// A table with columns padded to their widest cell; numbers right-aligned.
std::string Table(const std::vector<std::vector<std::string>>& rows);

/// "1.5 MiB".
std::string Bytes(uint64_t bytes);

}  // namespace tenon::cli

#endif  // TENON_CLI_COMMAND_H_
