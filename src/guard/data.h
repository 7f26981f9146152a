// Data sets: what a model is calibrated with, judged on and compared by. Samples are read one at a time, never all at once.
//
//   a folder or a file of    a sample is
//   .npz                     a file, or a row of its arrays when it holds a batch; arrays named as the model's inputs
//   .npy                     `<input>.npy` side by side (one sample or a batch), sub-folders of such, or, for a model with one
//                            input, any .npy file
//   .jsonl                   a line: {"<input>": [...], "labels": ...}
//   pictures                 a file, prepared as DataOptions::preprocess says
//
// Labels stand in an array or key `labels` (or `label`).
#ifndef TENON_GUARD_DATA_H_
#define TENON_GUARD_DATA_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenon/session.h"
#include "tensor/tensor.h"

namespace tenon::guard {

/// What is given to one run.
struct Sample {
  std::vector<HostTensor> inputs;   ///< in the model's order; own their memory
  Tensor labels;                    ///< [rows, ...]; undefined when the data has none
  int64_t rows = 1;                 ///< samples of a batch that cannot be parted (a model of fixed batch size)
  std::string where;                ///< "data/a.npz, row 3", for messages
};

enum class Batches {
  kAuto,    ///< a file is parted into rows where its labels, or the model's declared shapes, show that it is a batch
  kWhole,   ///< a file is one sample
};

struct DataOptions {
  Batches batches = Batches::kAuto;
  std::string preprocess;           ///< file that says how pictures are prepared (media/preprocess.h)
};

/// The samples of a folder or file in the order of their names. Not thread-safe.
class DataSet {
 public:
  /// Finds the samples and checks shapes, as far as headers tell, against what `session` takes. kBadInput names the file.
  static Result<std::unique_ptr<DataSet>> Open(const std::string& path, const Session& session, const DataOptions& options = {});
  /// `count` samples of made-up values (uniform in [0, 1), integers 0 or 1), symbols set to 1; the same for the same seed.
  static Result<std::unique_ptr<DataSet>> Random(const Session& session, size_t count, uint64_t seed = 42);

  /// Samples at hand; `description` as Describe gives it.
  static std::unique_ptr<DataSet> Of(std::vector<Sample> samples, const std::string& description);

  virtual ~DataSet() = default;
  virtual size_t size() const = 0;
  virtual bool has_labels() const = 0;
  /// Sample `i` < size(). Cheapest in rising order.
  virtual Result<Sample> Load(size_t i) = 0;
  /// What a report should say of where the samples come from: "120 samples, rows of 3 .npz files in 'data'".
  virtual std::string Describe() const = 0;
};

/// Two parts without a sample in common, each in rising order; the same for the same seed.
struct Split {
  std::vector<size_t> deciding;
  std::vector<size_t> held_out;
};
/// `held_out` in (0, 1): its share, rounded, at least one sample. kBadInput for fewer than two samples.
Result<Split> SplitSamples(size_t samples, double held_out = 0.5, uint64_t seed = 42);

}  // namespace tenon::guard

#endif  // TENON_GUARD_DATA_H_
