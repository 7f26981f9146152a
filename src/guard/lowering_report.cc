#include "guard/lowering_report.h"

#include <cmath>

namespace tenon::guard {
namespace {

using Json = nlohmann::json;

// JSON has no infinity.
Json Number(double v) {
  return std::isfinite(v) ? Json(v) : Json(v > 0 ? "inf" : v < 0 ? "-inf" : "nan");
}

}  // namespace

Json ToJson(const Drop& drop) {
  return {{"metric", drop.metric},
          {"reference", Number(drop.reference)},
          {"value", Number(drop.value)},
          {"relative", Number(drop.relative)},
          {"interval", {Number(drop.low), Number(drop.high)}},
          {"rows", drop.rows}};
}

Json OpsJson(const LoweringResult& result) {
  Json ops = Json::array();
  for (const NodeChoice& n : result.nodes) {
    Json row = {{"name", n.name},
                {"type", n.op},
                {"precision", n.lowered ? std::string(DTypeName(n.precision)) : "float32"},
                {"chosen", n.chosen},
                {"before_us", n.before_us},
                {"after_us", n.after_us},
                {"error", n.alone_known ? Number(n.alone_error) : Json()},
                {"drop", n.alone_known ? Number(n.alone_drop) : Json()}};
    ops.push_back(std::move(row));
  }
  return ops;
}

Json GuardJson(const LoweringResult& result, const LoweringOptions& options) {
  Json lowered = Json::array();
  Json kept = Json::array();
  for (const NodeChoice& n : result.nodes) {
    Json row = {{"name", n.name}, {"type", n.op}};
    if (n.alone_known) row["error"] = Number(n.alone_error);
    if (n.lowered) row["precision"] = DTypeName(n.precision);
    (n.lowered ? lowered : kept).push_back(std::move(row));
  }
  return {{"metric", options.metric.name},
          {"max_drop", Number(options.max_drop)},
          {"deciding_samples", options.split.deciding.size()},
          {"held_out_samples", options.split.held_out.size()},
          {"complete", result.complete},
          {"lowered", lowered},
          {"kept_f32", kept},
          {"deciding", ToJson(result.deciding)},
          {"held_out", ToJson(result.held_out)},
          {"verdict", result.verdict}};
}

}  // namespace tenon::guard
