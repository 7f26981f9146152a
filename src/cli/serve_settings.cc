#include "cli/serve_settings.h"

#include <array>

namespace tenon::cli {
namespace {

// The file has a list of models under the name of the option for a folder of them.
constexpr const char* kFolderKey = "models_dir";
constexpr const char* kFolderOption = "models";
// Of the command, not of the server.
constexpr std::array<std::string_view, 6> kNoKeys = {"config", "help", "json", "no_color", "print_config", "quiet"};

std::string KeyOf(const CLI::Option& option) {
  if (option.get_lnames().empty()) return "";
  std::string key = option.get_lnames()[0];
  std::replace(key.begin(), key.end(), '-', '_');
  if (std::find(kNoKeys.begin(), kNoKeys.end(), key) != kNoKeys.end()) return "";
  return key == kFolderOption ? kFolderKey : key;
}

Result<CLI::Option*> OptionOf(const server::ServerSetting& setting, CLI::App& app) {
  std::string allowed = "groups, models";
  for (CLI::Option* option : app.get_options()) {
    const std::string key = KeyOf(*option);
    if (key == setting.key) return option;
    if (!key.empty()) allowed += ", " + key;
  }
  return BadInput("line {}; unknown key '{}'; allowed: {}", setting.line, setting.key, allowed);
}

}  // namespace

Status ApplySettings(const std::vector<server::ServerSetting>& settings, CLI::App& app) {
  for (const server::ServerSetting& setting : settings) {
    TENON_ASSIGN_OR_RETURN(CLI::Option* const option, OptionOf(setting, app));
    if (option->count() > 0) continue;
    try {
      option->add_result(setting.values);
      option->run_callback();
    } catch (const CLI::Error& e) {
      return BadInput("line {}; {}: {}", setting.line, setting.key, e.what());
    }
  }
  return Status::Ok();
}

}  // namespace tenon::cli
