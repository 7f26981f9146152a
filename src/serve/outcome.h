// Words for outcomes, and outcomes of failed runs.
#ifndef TENON_SERVE_OUTCOME_H_
#define TENON_SERVE_OUTCOME_H_

#include <string_view>

#include "tenon/server.h"

namespace tenon::serve {

/// "ok", "cancelled", "bad_request", ...: the label of metrics.
std::string_view OutcomeName(Outcome outcome);

/// What a session's failure means to who asked.
Outcome OutcomeOf(const Status& status, bool deadline_passed);
/// The code of a run that failed because a request it made ended like this.
Code CodeOf(Outcome outcome);

}  // namespace tenon::serve

#endif  // TENON_SERVE_OUTCOME_H_
