// How the tensors of requests lie in one run: side by side along the leading extent, there padded to the longest where the
// settings say so, or ragged, one after the other without padding.
#ifndef TENON_SERVE_LAYOUT_H_
#define TENON_SERVE_LAYOUT_H_

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "serve/signature.h"
#include "tenon/server.h"

namespace tenon::serve {

/// A request as far as others may join it.
struct Fit {
  std::string key;                ///< equal for requests that may join; empty: only alone
  int64_t rows = 1;               ///< the leading extent of all its inputs
  std::vector<int64_t> extents;   ///< those that the model leaves open; of a run each is the largest of its requests
  int64_t tokens = 1;             ///< rows times extents; ragged: of the ragged input that has most
};

/// Rows times extents; never so many that sums of them were no numbers.
int64_t TokensOf(int64_t rows, const std::vector<int64_t>& extents);

using Request = std::vector<HostTensor>;

class Layout {
 public:
  Layout() = default;
  /// `model`: as its session has it. kBadInput: settings that do not fit the model.
  static Result<Layout> Make(const ModelConfig& config, Signature model);

  /// What requests bring and get: rows of any shape where inputs are ragged, and no inputs that tell how requests lie.
  const Signature& requests() const { return requests_; }
  /// Rows of different requests may share a run.
  bool joins() const { return joins_; }
  /// Even a request alone has to be joined.
  bool ragged() const { return !ragged_.empty(); }

  /// kUsage: ragged inputs that are missing, or whose leading extents differ. `inputs` have been checked against requests().
  Result<Fit> FitOf(const Request& inputs) const;

  /// The inputs of one run, of requests of one key. `buffers` keeps their memory and is used again. kResourceLimit: a count that
  /// its type does not hold.
  Status Join(const std::vector<const Request*>& requests, std::vector<std::vector<char>>* buffers, Request* joined) const;

 private:
  friend class Parting;
  using Extents = std::map<std::string, int64_t, std::less<>>;

  Status MakeRagged(const ModelConfig& config);
  Status MakePadded(const ModelConfig& config);
  static Status CheckPaddedInput(const TensorInfo& info, double value);
  Status CheckPaddedOutputs() const;
  Result<Fit> FitOfRagged(const Request& inputs) const;
  bool Padded(std::string_view input) const { return pad_.find(input) != pad_.end(); }
  Extents ExtentsOf(const Request& inputs) const;
  Status AddBatchInputs(const std::vector<const Request*>& requests, std::vector<std::vector<char>>* buffers,
                        Request* joined) const;

  Signature model_, requests_;
  bool joins_ = false;
  std::map<std::string, std::vector<int64_t>, std::less<>> ragged_;  // extents of a row; -1: open
  std::vector<BatchInput> batch_inputs_;
  std::map<std::string, BatchOutput> batch_outputs_;  // by output
  std::map<std::string, std::string, std::less<>> pad_;  // by input: the bytes of one element
};

/// Parts the outputs of a run among its requests, in the order in which they were joined.
class Parting {
 public:
  /// `rows`: of all requests. All of these outlive the object.
  Parting(const Layout& layout, const std::vector<HostTensor>& outputs, int64_t rows)
      : layout_(layout), outputs_(outputs), rows_(rows) {}

  /// Copies of the outputs `wanted` (all, where there are none) that belong to the next request. kInternal: outputs that do not
  /// part in this way.
  Result<std::vector<HostTensor>> Next(const Request& inputs, int64_t rows, const std::vector<std::string>& wanted);
  /// On to the request after it.
  void Advance(const Request& inputs, int64_t rows);

 private:
  Result<HostTensor> Cut(const HostTensor& output, const Request& inputs, int64_t rows) const;
  Result<HostTensor> CutRagged(const HostTensor& output, const BatchOutput& how, const Request& inputs, int64_t rows) const;
  Result<HostTensor> CutPadding(HostTensor part, const Layout::Extents& extents) const;

  const Layout& layout_;
  const std::vector<HostTensor>& outputs_;
  int64_t rows_;
  int64_t row_ = 0;  // of the next request
  std::map<std::string, int64_t> element_;  // of the next request, by ragged output
};

}  // namespace tenon::serve

#endif  // TENON_SERVE_LAYOUT_H_
