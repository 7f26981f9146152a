// The trace and the JSON document of `tenon profile`.
#ifndef TENON_CLI_PROFILE_TRACE_H_
#define TENON_CLI_PROFILE_TRACE_H_

#include "cli/command.h"
#include "cli/profile_report.h"

namespace tenon::cli {

/// The object form of the Trace Event Format: the last runs with their operators, arrows from run to run.
Json ProfileTrace(const ProfileReport& report);
/// What --json prints; docs/profile.md has its fields.
Json ProfileJson(const ProfileReport& report);

/// Peaks as `profile` and `doctor` show them.
Json PeaksJson(const hw::Peaks& peaks);
std::string PeaksText(const hw::Peaks& peaks);
/// Measured once for this machine and kept in `cache_dir` ("" for the default place, "none" for nowhere).
hw::Peaks PeaksFor(const std::string& cache_dir, bool anew);

}  // namespace tenon::cli

#endif  // TENON_CLI_PROFILE_TRACE_H_
