#include "cli/command.h"

#include <cstdio>

namespace tenon::cli {

void Context::Say(const std::string& line) const {
  if (!json && !quiet) fmt::print("{}\n", line);
}

void Context::Note(const std::string& line) const {
  if (!json && !quiet) fmt::print(stderr, "note: {}\n", line);
}

void Context::Document(const Json& document) const {
  if (json) fmt::print("{}\n", Dump(document));
}

std::string Dump(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::vector<Command> AllCommands() {
  return {
#define COMMAND(name) Make_##name(),
#include "cli/commands.inc"
#undef COMMAND
  };
}

CancelToken& Interrupted() {
  static CancelToken token;
  return token;
}

std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const bool number = !row[i].empty() && row[i].find_first_not_of("0123456789.,%-+ ") == std::string::npos;
      line += i > 0 ? "  " : "";
      line += number ? fmt::format("{:>{}}", row[i], widths[i]) : fmt::format("{:<{}}", row[i], widths[i]);
    }
    line.resize(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  if (!out.empty()) out.pop_back();
  return out;
}

std::string Bytes(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  const char* unit = "B";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return fmt::format("{:.1f} {}", value, unit);
}

}  // namespace tenon::cli
