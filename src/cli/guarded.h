// What the commands share that change a model under the accuracy guard.
#ifndef TENON_CLI_GUARDED_H_
#define TENON_CLI_GUARDED_H_

#include "cli/command.h"
#include "guard/lowering.h"

namespace tenon::cli {

/// "0.5%" or "0.005", the value of --max-drop.
Result<double> ParseShare(const std::string& text);

/// --metric, --held-out and --seed: how a choice is judged.
void AddJudgingOptions(CLI::App& app, std::string* metric, double* held_out, uint64_t* seed);

/// Two tables: operators with their precision and times, and the combinations that were judged.
void ShowLowering(const guard::LoweringResult& result, const Context& context);

}  // namespace tenon::cli

#endif  // TENON_CLI_GUARDED_H_
