// What a tuning record belongs to: a machine, a build of the kernels, a problem. Texts that people can read, the same wherever
// they are made.
#ifndef TENON_TUNE_FINGERPRINT_H_
#define TENON_TUNE_FINGERPRINT_H_

#include <span>
#include <string>

#include "artifact/program.h"
#include "hw/isa.h"
#include "tenon/session.h"

namespace tenon::tune {

struct Fingerprint {
  std::string machine;   ///< processor, instruction sets in use, sizes of its caches, cores this process may use
  std::string build;     ///< digest of every operator's table of kernels and of the version
};
Fingerprint ThisMachine(hw::IsaMask isa);

/// Operator, attributes, types and shapes of operands (and which are constant), the kernels to choose from (the default first)
/// and threads. Of one length at most: what would be longer ends in its digest.
std::string ProblemOf(const artifact::Program& program, const artifact::Step& step, const StepDetails& details,
                      std::span<const std::string> kernels, int threads);

/// Of all that a run depends on: operators, attributes, constants. Not of names. Constants are read.
std::string ProgramDigest(const artifact::Program& program);

/// Of the files at `path` (one, or all below a folder), by name and content.
Result<std::string> FilesDigest(const std::string& path);

}  // namespace tenon::tune

#endif  // TENON_TUNE_FINGERPRINT_H_
