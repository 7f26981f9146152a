// Which kernel serves each operator, by measurement: candidates are the rows of the operator's table that compute in the same
// types.
//
// Every candidate is timed inside the whole model, with the caches and neighbours it will have, in rotated rounds. A winner must
// beat the default, which is always a candidate, by more than the noise; and the model with all winners must beat the one with
// the defaults, with outputs that agree, or nothing is changed.
#ifndef TENON_TUNE_KERNEL_CHOICE_H_
#define TENON_TUNE_KERNEL_CHOICE_H_

#include <functional>
#include <string>
#include <vector>

#include "artifact/program.h"
#include "guard/data.h"
#include "tenon/session.h"

namespace tenon::tune {

struct Candidate {
  std::string kernel;
  double us = 0;            ///< median over rounds, per run
};

struct KernelDecision {
  std::string node;
  std::string op;
  std::string shapes;       ///< as StepRecord::shapes
  std::vector<Candidate> candidates;   ///< the default first
  std::string winner;
  double noise = 0;         ///< relative, of winner against default
};

struct KernelTuning {
  artifact::Program program;           ///< Step::kernel set where a winner is not the default
  std::vector<KernelDecision> decisions;
  size_t changed = 0;
  double before_us = 0;                ///< a run with the defaults, and with the winners, measured in turn
  double after_us = 0;
  bool accepted = false;
  std::string verdict;
};

struct KernelTuningOptions {
  SessionOptions session;
  RunOptions run;
  int rounds = 15;
  double budget_s = 60;
  std::function<void(const std::string& what, size_t done, size_t total)> progress;
};

/// `samples`: what to measure on, the first of `data` as a rule.
Result<KernelTuning> ChooseKernels(const artifact::Program& program, guard::DataSet& data, size_t sample,
                                   const KernelTuningOptions& options);

}  // namespace tenon::tune

#endif  // TENON_TUNE_KERNEL_CHOICE_H_
