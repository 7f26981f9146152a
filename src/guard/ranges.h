// What values a model's tensors take: calibration.
#ifndef TENON_GUARD_RANGES_H_
#define TENON_GUARD_RANGES_H_

#include <map>
#include <span>
#include <string>

#include "artifact/program.h"
#include "guard/data.h"

namespace tenon::guard {

/// Smallest and largest element of every f32 value, by name, over runs of `session` on `samples`: min-max calibration. Inputs of
/// the model are among them; values that are not finite leave a range that is not.
using Ranges = std::map<std::string, std::pair<float, float>, std::less<>>;
Result<Ranges> MeasureRanges(Session& session, DataSet& data, std::span<const size_t> samples, const RunOptions& run);

/// Gives what views of `program` show, which no run reports, the range of what they are views of.
void AddViews(const artifact::Program& program, Ranges* ranges);

}  // namespace tenon::guard

#endif  // TENON_GUARD_RANGES_H_
