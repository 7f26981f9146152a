// Metrics: how good a model's outputs are, sample by sample, and what a change of the model costs.
//
// With labels outputs are judged against them; without, against the outputs of the f32 reference on the same sample.
#ifndef TENON_GUARD_METRICS_H_
#define TENON_GUARD_METRICS_H_

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "guard/data.h"

namespace tenon::guard {

/// A metric as the user names it, NAME or NAME@OUTPUT (OUTPUT: the model's output that is judged).
///
///   metric             a row's value                                                               better
///   top1, top5         1 when the label is (among) the highest score(s) along the last axis        higher
///   token-agreement    share of positions where the highest score is the reference's               higher
///   exact-match        1 when all positions' classes agree                                         higher
///   ctc-exact-match    the same after CTC's greedy decoding (repeats merged, class 0 dropped);
///                      labels padded with 0 or -1                                                  higher
///   cosine             cosine similarity, the worst output's                                       higher
///   rank-agreement     Spearman's correlation between the order in which the other samples are
///                      like this one (cosine of vectors along the last axis, positions averaged,
///                      those an input `attention_mask` leaves out not), and the reference's order  higher
///   rmse               mean squared error, of which the root is taken                              lower
///   max-abs            largest absolute error                                                      lower
///   cmd COMMAND        what COMMAND prints, given a folder with `NNNNNN/<output>.npy` (and
///                      `labels.npy`) per sample: a number for all, or one a line for each sample   higher
///   cmd-lower COMMAND  the same                                                                    lower
struct MetricSpec {
  enum class Kind {
    kTop1,
    kTop5,
    kTokenAgreement,
    kExactMatch,
    kCtcExactMatch,
    kCosine,
    kRankAgreement,
    kRmse,
    kMaxAbs,
    kCommand
  };
  Kind kind = Kind::kTop1;
  std::string name;                 ///< as given, without COMMAND's text for commands
  std::string output;               ///< empty: the first that fits; all of them for cosine, rmse, max-abs
  std::string command;
  bool higher_is_better = true;
};
Result<MetricSpec> ParseMetric(const std::string& text);

/// top1 where labels are integers and the first output looks like scores of classes, else cosine.
MetricSpec DefaultMetric(const Session& session, DataSet& data);

/// True when outputs are judged against those of a reference; then Evaluate needs them.
bool NeedsReference(const MetricSpec& metric, const Sample& sample);

/// Outputs of a reference model by sample, run when first asked for; kept as long as they fit.
class References {
 public:
  References(Session& session, DataSet& data, uint64_t max_bytes = uint64_t{256} << 20)
      : session_(session), data_(data), max_bytes_(max_bytes) {}
  /// Valid until the next call.
  Result<const std::vector<HostTensor>*> Get(size_t sample, const RunOptions& run = {});

 private:
  Session& session_;
  DataSet& data_;
  uint64_t max_bytes_;
  uint64_t bytes_ = 0;
  std::map<size_t, std::vector<HostTensor>> kept_;
  std::vector<HostTensor> last_;
};

/// How clearly one decision of a row fell.
struct Margin {
  size_t row = 0;
  /// Score of the wanted choice less that of the best other one, of logarithms where scores are probabilities; at least 0 where
  /// the wanted one is chosen.
  double lead = 0;
};

/// A model judged on some samples.
struct Evaluation {
  std::string metric;
  bool higher_is_better = true;
  bool against_reference = false;
  /// How values of samples combine: their mean, the root of their mean (rmse keeps squared errors), the largest.
  enum class Combine { kMean, kRootMean, kMax } combine = Combine::kMean;
  std::vector<double> values;  ///< one a row, in the order of the samples; empty when only the whole was judged
  std::vector<double> sizes;  ///< per value: size of the reference's outputs, for errors that are measured against it
  double value = 0;  ///< combined
  /// Where rows are right by the choice of highest scores: those choices, in the order of rows. Else empty.
  std::vector<Margin> margins;
};

struct EvaluateOptions {
  RunOptions run;
  std::function<void(size_t done, size_t total)> progress;
};

/// Runs `session` on `samples` of `data`. `references` may be null where the metric needs none.
Result<Evaluation> Evaluate(Session& session, DataSet& data, std::span<const size_t> samples, const MetricSpec& metric,
                            References* references, const EvaluateOptions& options = {});

}  // namespace tenon::guard

#endif  // TENON_GUARD_METRICS_H_
