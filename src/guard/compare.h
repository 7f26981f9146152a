// Comparing a model operator by operator with another one, or with what another runtime dumped, and finding the operator that
// is to blame.
//
// Values are matched by name: passes keep the names of the source model where a value survives, and name another form of it after
// it: "<name>:nhwc" has the channels last, "<name>:bf16" is lowered. A model is compared best with itself at optimisation level 0
// on the reference kernels.
#ifndef TENON_GUARD_COMPARE_H_
#define TENON_GUARD_COMPARE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "artifact/program.h"
#include "guard/errors.h"
#include "guard/truth.h"

namespace tenon::guard {

struct CompareOptions {
  SessionOptions session;
  RunOptions run;
  std::function<void(const std::string& what, size_t done, size_t total)> progress;
  /// For Errors::Score. 0: by element type, for one operator alone and for a value after all before it (f32 1e-3 and 1e-2, f16
  /// 1e-2 and 5e-2, bf16 5e-2 and 0.2, 8-bit integers 2e-2 and 0.2).
  double bound = 0;
};

/// One output of one step.
struct OpComparison {
  int step = 0;
  std::string name;  ///< of the node
  std::string type;  ///< operator
  std::string kernel;
  std::string value;  ///< name of the tensor
  DType dtype = DType::kUndefined;
  std::string truth_name;  ///< the node of the other model
  DType truth_dtype = DType::kUndefined;
  int index = 0;  ///< which output of the step
  std::vector<int64_t> shape;
  bool compared = false;
  std::string reason;  ///< why not
  Errors errors;  ///< worst of the samples
  int64_t nan = 0;  ///< NaN and infinite elements, compared or not
  int64_t infinite = 0;
  double bound = 0;
  bool bad = false;  ///< errors.Score() > bound

  // Single-operator mode: the step alone on right inputs.
  bool own_compared = false;
  std::string own_reason;  ///< why not
  std::string own_truth;  ///< "values" of the other side, or "reference kernel" on this side's
  Errors own;
  bool own_bad = false;
};

struct Comparison {
  std::vector<OpComparison> ops;  ///< in order of execution
  int first_bad = -1;  ///< index of the first bad one
  int first_not_finite = -1;  ///< index of the first with NaN or infinity although the other side has none
  size_t samples = 0;
  size_t compared = 0;
};

/// Who is to blame.
struct Verdict {
  int guilty = -1;  ///< index in Comparison::ops; -1: nobody alone (errors add up), or nothing is bad
  std::vector<int> region;  ///< steps among which it is, when values between them are not known on the other side
  Errors own;  ///< its own error, its inputs being right
  double bound = 0;
  std::string explanation;
};

class Comparer {
 public:
  /// `program` is shared, not copied: its constants stay readable although the session packs them.
  static Result<std::unique_ptr<Comparer>> Create(artifact::Program program, std::unique_ptr<Truth> truth,
                                                  const CompareOptions& options);

  const Session& session() const { return *session_; }
  Truth& truth() { return *truth_; }

  /// Every value of every sample; the worst of the samples per value.
  Result<Comparison> Compare(DataSet& data, std::span<const size_t> samples);
  /// Fills in the single-operator columns.
  Status SingleOps(DataSet& data, std::span<const size_t> samples, Comparison* comparison);
  /// Goes through the bad values in order and takes the first whose own error is over its bound although its inputs are right.
  Result<Verdict> Bisect(DataSet& data, std::span<const size_t> samples, const Comparison& comparison);

 private:
  struct Own {
    Errors errors;
    std::string truth;
  };
  Comparer(artifact::Program program, std::unique_ptr<Truth> truth, const CompareOptions& options)
      : program_(std::move(program)), truth_(std::move(truth)), options_(options) {}
  void Report(const char* what, size_t done, size_t total) const {
    if (options_.progress) options_.progress(what, done, total);
  }
  void AddRows(Comparison* comparison) const;
  Status RunSample(const Sample& sample);
  Status CompareRow(OpComparison* row);
  Status ComparePlainRun(const Sample& sample, Comparison* comparison);
  /// For one step alone, or for the value it gives after all that come before it.
  double BoundOf(int step, bool total = false) const;
  Result<std::optional<HostTensor>> TruthOf(const std::string& name);
  Result<std::optional<HostTensor>> KnownValue(artifact::ValueIndex v);
  Result<std::vector<int>> RegionOf(int step);
  Result<std::vector<HostTensor>> RunSlice(const artifact::Program& slice, const std::vector<HostTensor>& inputs) const;
  Result<std::optional<Errors>> OwnAgainstTruth(const std::vector<int>& region, artifact::ValueIndex value);
  Result<std::optional<Errors>> OwnAgainstReference(int step, artifact::ValueIndex value);
  Result<std::optional<Verdict>> Blame(const Comparison& comparison, int row);
  Status NarrowRegion(const Comparison& comparison, Verdict* verdict);
  Status PrepareReference(const Sample& sample);

  artifact::Program program_;
  std::vector<int> producers_;
  std::unique_ptr<Truth> truth_;
  CompareOptions options_;
  std::unique_ptr<Session> session_;  // gives every value
  std::unique_ptr<Session> plain_;  // as it ships: values share memory; null when two runs may differ
  std::map<std::string, HostTensor> values_;  // of this side, for the current sample
  const Sample* sample_ = nullptr;
  std::unique_ptr<Session> reference_;  // this program on reference kernels; made when first needed
  std::map<std::string, HostTensor> reference_values_;
  const Sample* reference_sample_ = nullptr;
};

}  // namespace tenon::guard

#endif  // TENON_GUARD_COMPARE_H_
