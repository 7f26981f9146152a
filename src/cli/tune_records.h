// tenon tune export|import|prune|merge: tuning records between machines.
#ifndef TENON_CLI_TUNE_RECORDS_H_
#define TENON_CLI_TUNE_RECORDS_H_

#include <functional>

#include "cli/command.h"

namespace tenon::cli {

/// Adds the sub-commands; what is returned runs the one that was asked for, if any was.
std::function<std::optional<Status>(Context&)> AddRecordCommands(CLI::App& tune);

}  // namespace tenon::cli

#endif  // TENON_CLI_TUNE_RECORDS_H_
