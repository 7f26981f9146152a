// Which kernel serves each operator, by measurement: candidates are the rows of the operator's table that compute in the same
// types.
//
// Operators with the same problem (tune/fingerprint.h) are decided together. Every candidate is timed inside the whole model,
// with the caches and neighbours it will have, in rotated rounds. A winner must beat the default, which is always a candidate, by
// more than the noise; and the model with all winners must beat the one with the defaults, with outputs that agree, or nothing is
// changed. What the records know is not measured again; what is decided goes there at once.
#ifndef TENON_TUNE_KERNEL_CHOICE_H_
#define TENON_TUNE_KERNEL_CHOICE_H_

#include <functional>
#include <string>
#include <vector>

#include "artifact/program.h"
#include "guard/data.h"
#include "tenon/session.h"
#include "tune/records.h"

namespace tenon::tune {

struct Candidate {
  std::string kernel;
  double us = 0;  ///< median over rounds, per run, of all operators of the problem together
  double noise = 0;  ///< relative, of its ratio to the default; 0 for the default
  int rounds = 0;
  std::string failure;  ///< why it could not run; empty for all others
};

/// One problem.
struct KernelDecision {
  std::vector<std::string> nodes;
  std::vector<size_t> steps;  ///< of the program, in its order
  std::string op;
  std::string shapes;  ///< as StepRecord::shapes
  std::string problem;  ///< ProblemOf
  std::vector<Candidate> candidates;  ///< the default first
  std::string winner;
  bool decided = false;  ///< false: stopped before enough was measured; the default stays
  bool recorded = false;  ///< from the records, not measured now
  std::string why;  ///< one line
};

struct KernelTuning {
  artifact::Program program;  ///< Step::kernel set where a winner is not the default
  std::vector<KernelDecision> decisions;
  size_t changed = 0;  ///< operators
  double before_us = 0;  ///< a run with the defaults, and with the winners, measured in turn; 0: by the records
  double after_us = 0;
  bool accepted = false;
  bool complete = true;  ///< false: stopped by budget or user
  std::string verdict;
};

struct KernelTuningOptions {
  SessionOptions session;
  RunOptions run;  ///< cancelled or past its deadline: the search ends with what it has
  int rounds = 15;
  Records* records = nullptr;
  std::function<void(const std::string& what, size_t done, size_t total)> progress;
};

/// `sample` of `data` is what all is measured on.
Result<KernelTuning> ChooseKernels(const artifact::Program& program, guard::DataSet& data, size_t sample,
                                   const KernelTuningOptions& options);

}  // namespace tenon::tune

#endif  // TENON_TUNE_KERNEL_CHOICE_H_
