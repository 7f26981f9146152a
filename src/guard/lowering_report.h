// What the guard did, as JSON: for --json, --report and the artifact.
#ifndef TENON_GUARD_LOWERING_REPORT_H_
#define TENON_GUARD_LOWERING_REPORT_H_

#include <nlohmann/json.hpp>

#include "guard/lowering.h"

namespace tenon::guard {

/// {metric, reference, value, relative, interval: [low, high], rows}
nlohmann::json ToJson(const Drop& drop);

/// Without times: the same choice gives the same bytes in the artifact.
nlohmann::json GuardJson(const LoweringResult& result, const LoweringOptions& options);

/// [{name, type, precision, before_us, after_us, error, drop, chosen}]: what `tenon tune --json` lists as `ops`.
nlohmann::json OpsJson(const LoweringResult& result);

}  // namespace tenon::guard

#endif  // TENON_GUARD_LOWERING_REPORT_H_
