// First runs before a model is offered: memory is touched, plans for the batch sizes to come are made.
#ifndef TENON_SERVE_WARM_UP_H_
#define TENON_SERVE_WARM_UP_H_

#include "serve/layout.h"
#include "serve/signature.h"
#include "tenon/server.h"

namespace tenon::serve {

/// Runs zeros through `session` for one row, each preferred batch and the largest, where the model's shapes tell all other
/// extents. kResourceLimit when its memory does not hold them; values that the model refuses are no failure.
Status WarmUp(Session& session, const Signature& signature, const ModelConfig& config);

/// What settings ask for. `batched`: rows lie along a leading extent that the dims of `run` do not have. Any failure is one, and
/// names the run.
Status WarmUp(Session& session, const Layout& layout, bool batched, const WarmUpRun& run);

}  // namespace tenon::serve

#endif  // TENON_SERVE_WARM_UP_H_
