// Where the values that a model's own are compared with come from: another model's run, or a dump of another runtime's.
#ifndef TENON_GUARD_TRUTH_H_
#define TENON_GUARD_TRUTH_H_

#include <memory>
#include <optional>
#include <string>

#include "artifact/program.h"
#include "guard/data.h"

namespace tenon::guard {

/// Values by the names of the source model's tensors.
class Truth {
 public:
  virtual ~Truth() = default;
  /// From now on Find answers for this sample.
  virtual Status Use(const Sample& sample, const RunOptions& run) = 0;
  /// The value, or nothing when there is none of this name. Its memory is valid until the next Use.
  virtual Result<std::optional<HostTensor>> Find(const std::string& name) = 0;
  virtual std::string Describe() const = 0;
  /// The step that makes it, for reports; empty when not known.
  virtual std::string StepOf(const std::string& name) const = 0;
};

/// A run of `program`, which keeps every value.
Result<std::unique_ptr<Truth>> TruthFromProgram(const artifact::Program& program, const std::string& name,
                                                const SessionOptions& options);

/// An .npz file with arrays named as the tensors, or a folder of .npy files. They belong to one sample.
Result<std::unique_ptr<Truth>> TruthFromDumps(const std::string& path);

/// `inputs` of a dump that holds all of the model's; nothing when it lacks one.
Result<std::optional<Sample>> SampleFromDumps(const std::string& path, const std::vector<TensorInfo>& inputs);

}  // namespace tenon::guard

#endif  // TENON_GUARD_TRUTH_H_
