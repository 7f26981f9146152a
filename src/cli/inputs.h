// Inputs of `run`, `bench` and `profile`: files, pictures, made-up values.
#ifndef TENON_CLI_INPUTS_H_
#define TENON_CLI_INPUTS_H_

#include "cli/command.h"

namespace tenon::cli {

struct InputOptions {
  std::vector<std::string> inputs;   ///< NAME=FILE.npy | FILE.bin | picture | random | zeros | ones
  std::vector<std::string> shapes;   ///< NAME=1x3x224x224

  void Add(CLI::App& app);
  /// One tensor per input of the model; those not mentioned are random. `batch` > 0 replaces the first extent where it is free.
  Result<std::vector<HostTensor>> Load(const Session& session, int64_t batch, const Context& context) const;
};

}  // namespace tenon::cli

#endif  // TENON_CLI_INPUTS_H_
