// What a model takes and gives, and whether a request fits it.
#ifndef TENON_SERVE_SIGNATURE_H_
#define TENON_SERVE_SIGNATURE_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tenon/session.h"

namespace tenon::serve {

/// Inputs and outputs of a model, and whether rows of different requests may share a run.
struct Signature {
  std::vector<TensorInfo> inputs, outputs;

  /// Of that name; null: the model has none.
  const TensorInfo* Input(std::string_view name) const;
  const TensorInfo* Output(std::string_view name) const;
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

/// A symbol alone, no number and no expression.
bool IsSymbol(const std::string& dim);

}  // namespace tenon::serve

#endif  // TENON_SERVE_SIGNATURE_H_
