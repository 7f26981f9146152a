// What `tenon profile` finds out, for its table, its JSON, its CSV files and its trace.
#ifndef TENON_CLI_PROFILE_REPORT_H_
#define TENON_CLI_PROFILE_REPORT_H_

#include <deque>
#include <string>
#include <vector>

#include "hw/counters.h"
#include "hw/peaks.h"
#include "tenon/session.h"

namespace tenon::cli {

/// One operator with one set of shapes, over all measured runs.
struct ProfileRow {
  std::string name, op, kernel;
  std::vector<std::pair<std::string, std::string>> refused;   ///< kernels before it and why they declined
  std::string shapes;          ///< "1x3x48x320,32x3x3x3->1x32x24x160"
  StepDetails details;
  size_t calls = 0;            ///< in all runs
  /// Without the operators of its bodies, which have rows of their own.
  double total_us = 0, min_us = 0, max_us = 0;
  double wait_us = 0;          ///< between the end of what ran before and its start, in all runs
  double start_us = 0;         ///< in the last run, of its first call
  hw::Counts counts{-1, -1, -1};   ///< of one call
  double roof_us = 0;          ///< what one call would take at this machine's peaks
  bool compute_bound = false;  ///< the roof is arithmetic, else memory

  double us() const { return calls == 0 ? 0 : total_us / static_cast<double>(calls); }
  /// "compute" or "memory"; "-" where there is nothing to do but control flow.
  const char* bound() const { return roof_us == 0 ? "-" : compute_bound ? "compute" : "memory"; }
  /// Share of the peak; 0 when nothing is known.
  double peak() const { return total_us > 0 ? roof_us / us() : 0; }
  double gflops() const { return us() > 0 ? details.flops / us() / 1e3 : 0; }
  double gbytes() const { return us() > 0 ? details.bytes / us() / 1e3 : 0; }
};

/// All operators of one type that one kernel serves.
struct ProfileType {
  std::string op, kernel;
  size_t calls = 0;
  double total_us = 0, min_us = 0, max_us = 0;
  double flops = 0, bytes = 0, roof_us = 0;   ///< of all runs
};

struct ProfileEvent {
  size_t row = 0;
  double start_us = 0, us = 0;   ///< on the clock of steady_clock; bodies included
};

struct ProfileRun {
  double start_us = 0, us = 0;
  std::vector<ProfileEvent> events;
};

struct ProfileReport {
  std::string model;
  int threads = 1;
  int runs = 0;
  double run_us = 0;           ///< mean of measured runs
  double steps_us = 0;         ///< of which in operators
  double plain_us = 0;         ///< mean of runs without an observer, taken in between
  std::vector<ProfileRow> rows;      ///< in order of execution
  std::vector<ProfileType> types;    ///< by time
  std::deque<ProfileRun> last;       ///< the last runs
  hw::Peaks peaks;
  bool counted = false;
  std::string counters_note;   ///< why hardware counters are missing
  double cpu_share = 1;        ///< of the measured runs' time, in which the calling thread had a CPU
  double overhead_us() const { return run_us - steps_us; }
};

/// Runs and measures. `counters` were made before the session, so that they see its threads.
Result<ProfileReport> MeasureProfile(Session* session, const std::vector<HostTensor>& inputs, int runs, hw::IsaMask isa,
                                     const hw::Peaks& peaks, const hw::Counters& counters, const CancelToken& cancel);

/// msprof's op_summary and op_statistic, see docs/profile.md.
std::string ProfileCsv(const ProfileReport& report);
std::string ProfileStatisticCsv(const ProfileReport& report);

}  // namespace tenon::cli

#endif  // TENON_CLI_PROFILE_REPORT_H_
