// Options of commands that take a MODEL: how it is compiled, on what it runs, what it is fed.
#ifndef TENON_CLI_MODEL_OPTIONS_H_
#define TENON_CLI_MODEL_OPTIONS_H_

#include "cli/command.h"

namespace tenon::cli {

struct ModelOptions {
  std::string model;
  std::string device = "cpu";
  std::string cache_dir;
  std::string memory_limit;
  std::vector<std::string> input_shapes;    ///< "a:1..8,3,224,n"
  CompileOptions compile;
  SessionOptions session;

  void AddModel(CLI::App& app);
  void AddCompile(CLI::App& app);
  void AddSession(CLI::App& app);

  /// Checks and completes what was parsed.
  Status Finish(const Context& context);
  Result<std::unique_ptr<Session>> Open(const Context& context);
};

/// "1x3x224x224" -> extents >= 0; kUsage names `what`.
Result<std::vector<int64_t>> ParseShape(const std::string& text, const std::string& what);

/// "256MiB", "2G", "1000000" -> bytes.
Result<uint64_t> ParseBytes(const std::string& text);

/// "5s", "200ms", "1m", "3" (seconds) -> seconds.
Result<double> ParseDuration(const std::string& text);

/// Checks of options that these read.
CLI::Validator IsSize();
CLI::Validator IsDuration();

/// "1,8" -> integers >= 1.
Result<std::vector<int64_t>> ParseIntList(const std::string& text, const std::string& what);

}  // namespace tenon::cli

#endif  // TENON_CLI_MODEL_OPTIONS_H_
