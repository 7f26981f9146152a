// The machine in words and in JSON, as benchmarks and reports state it.
#ifndef TENON_CLI_MACHINE_H_
#define TENON_CLI_MACHINE_H_

#include <string>

#include "cli/command.h"

namespace tenon::cli {

Json MachineJson();        ///< {cpu, isa, cores}
std::string MachineText();

}  // namespace tenon::cli

#endif  // TENON_CLI_MACHINE_H_
