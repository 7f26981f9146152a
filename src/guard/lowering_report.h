// What the guard did: in words for its verdict, as JSON for --json, --report and the artifact.
#ifndef TENON_GUARD_LOWERING_REPORT_H_
#define TENON_GUARD_LOWERING_REPORT_H_

#include <nlohmann/json.hpp>

#include "guard/lowering.h"

namespace tenon::guard {

/// What was lost, and how much at most, beside what may be.
std::string Fell(const Drop& drop, double max_drop);

/// That as many might show more; nothing for 0.
std::string MoreSamples(size_t rows);

/// {metric, reference, value, relative, expected, interval: [low, high], rows}
nlohmann::json ToJson(const Drop& drop);

/// Without times: the same choice gives the same bytes in the artifact.
nlohmann::json GuardJson(const LoweringResult& result, const LoweringOptions& options);

/// [{name, type, precision, before_us, after_us, error, drop, chosen}]: what `tenon tune --json` lists as `ops`.
nlohmann::json OpsJson(const LoweringResult& result);

}  // namespace tenon::guard

#endif  // TENON_GUARD_LOWERING_REPORT_H_
