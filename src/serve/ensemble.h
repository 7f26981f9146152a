// An ensemble as a session: one request passes through models of the server and built-in steps.
#ifndef TENON_SERVE_ENSEMBLE_H_
#define TENON_SERVE_ENSEMBLE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "serve/core_gate.h"
#include "tenon/server.h"

namespace tenon::serve {

/// What an ensemble needs of the server around it.
struct EnsembleServices {
  std::function<std::shared_ptr<InferTicket>(InferRequest, std::function<void(InferResponse)>)> infer;
  std::function<Result<ModelDescription>(const std::string& model, const std::string& version)> describe;
  std::shared_ptr<CoreGate> gate;    ///< built-in steps run on `core` in turn with models
  TimeShare* share = nullptr;
  int core = 0;
};

/// A session whose failures are those of the models it asked.
class EnsembleSession : public Session {
 public:
  /// How the last run ended, where a model of it said so.
  virtual std::optional<Outcome> outcome() const = 0;
  virtual int retry_after_s() const = 0;

  /// kBadInput names the part: an unknown model, step, input or output, a type that does not fit, a value made twice or by
  /// itself. `memory_limit`: bytes of the values of one run; 0: 1 GiB.
  static Result<std::unique_ptr<EnsembleSession>> Create(const Ensemble& ensemble, EnsembleServices services,
                                                         uint64_t memory_limit);
};

}  // namespace tenon::serve

#endif  // TENON_SERVE_ENSEMBLE_H_
