// tenon.yaml of a server: every option of `tenon serve` is a key of it.
#ifndef TENON_CLI_SERVE_SETTINGS_H_
#define TENON_CLI_SERVE_SETTINGS_H_

#include <string>
#include <vector>

#include "cli/command.h"
#include "server/config_files.h"

namespace tenon::cli {

/// Gives `settings` to those options of `app` that neither the command line nor the environment gave. kBadInput names the line: a
/// key that is no option, or a value that the option does not take.
Status ApplySettings(const std::vector<server::ServerSetting>& settings, CLI::App& app);

}  // namespace tenon::cli

#endif  // TENON_CLI_SERVE_SETTINGS_H_
