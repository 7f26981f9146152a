// Requests as one run: checking them, joining their tensors along the leading extent, parting the results.
#ifndef TENON_SERVE_BATCH_H_
#define TENON_SERVE_BATCH_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "tenon/session.h"

namespace tenon::serve {

/// Inputs and outputs of a model, and whether rows of different requests may share a run.
struct Signature {
  std::vector<TensorInfo> inputs, outputs;

  /// The leading extent of every input and output is one symbol: independent rows, as far as shapes tell.
  bool LeadingExtentShared() const;
  /// That, and its name says that it is a batch ("batch...", "N", "B").
  bool LooksBatched() const;
  /// kUsage names the tensor, what was expected and what was given. Missing inputs are the session's business (some have
  /// defaults).
  Status Check(const std::vector<HostTensor>& inputs) const;
  /// kUsage: an output that the model does not give.
  Status CheckOutputs(const std::vector<std::string>& names) const;
};

/// Equal for requests that may join: names, types and all extents but the leading one. `rows`: the leading extent they all share;
/// empty when a request has none.
std::string JoinKey(const std::vector<HostTensor>& inputs, int64_t* rows);

/// The inputs of all requests, in the first one's order, joined. `buffers` keeps the memory (one per input, reused).
std::vector<HostTensor> Join(const std::vector<const std::vector<HostTensor>*>& requests,
                             std::vector<std::vector<char>>* buffers);

/// Rows [begin, begin + rows) of `total` of each output, copied. kInternal when an output's leading extent is no multiple of
/// `total`.
Result<std::vector<HostTensor>> Part(const std::vector<HostTensor>& outputs, int64_t begin, int64_t rows, int64_t total,
                                     const std::vector<std::string>& wanted);

}  // namespace tenon::serve

#endif  // TENON_SERVE_BATCH_H_
