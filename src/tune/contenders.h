// Variants of one program that differ in their kernels, and the times of their steps.
#ifndef TENON_TUNE_CONTENDERS_H_
#define TENON_TUNE_CONTENDERS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "artifact/program.h"
#include "tenon/session.h"

namespace tenon::tune {

/// Step of the program -> kernel it shall have.
using KernelWishes = std::map<size_t, std::string>;

/// A session on the program with those kernels whose reports name each top-level step by its index.
class Contender {
 public:
  static Result<std::unique_ptr<Contender>> Enter(const artifact::Program& program, const KernelWishes& wishes,
                                                  const SessionOptions& options);

  struct StepInfo {
    bool ran = false;
    std::string kernel;
    std::string shapes;
    StepDetails details;
  };
  /// What each top-level step is and which kernel it has, by one run.
  Result<std::vector<StepInfo>> Describe(const std::vector<HostTensor>& inputs, const RunOptions& run);
  /// One run: microseconds of each top-level step.
  Result<std::vector<double>> Time(const std::vector<HostTensor>& inputs, const RunOptions& run);
  /// By step, other kernels that could serve it.
  std::vector<std::vector<std::string>> Alternatives() const;

  Session& session() { return *session_; }

 private:
  size_t steps_ = 0;
  std::unique_ptr<Session> session_;
};

}  // namespace tenon::tune

#endif  // TENON_TUNE_CONTENDERS_H_
