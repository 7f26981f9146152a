// A comparison as a file that msaccucmp's users know: result_*.csv, the same columns in the same order.
#ifndef TENON_GUARD_COMPARE_REPORT_H_
#define TENON_GUARD_COMPARE_REPORT_H_

#include <string>

#include "guard/compare.h"

namespace tenon::guard {

/// One row an output of a step. NPUDump is the node on this side, GroundTruth that of the other; Address is empty. What
/// single-operator mode found follows in columns of our own when `single_ops`.
std::string ToCsv(const Comparison& comparison, bool single_ops);

}  // namespace tenon::guard

#endif  // TENON_GUARD_COMPARE_REPORT_H_
