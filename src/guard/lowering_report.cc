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

std::string Fell(const Drop& drop, double max_drop) {
  std::string text = fmt::format("{} fell by {:.3f} % on held-out samples", drop.metric, 100 * drop.relative);
  if (drop.rows > 1) text += fmt::format(" (95 %: at most {:.3f} %)", 100 * drop.high);
  if (!std::isfinite(max_drop)) return text;
  text += fmt::format(", allowed {:.2f} %", 100 * max_drop);
  if (drop.step > max_drop && max_drop > 0)
    text += fmt::format("; {} are few: one answer is {:.2f} %", drop.rows, 100 * drop.step);
  return text;
}

std::string MoreSamples(size_t rows) {
  return rows == 0 ? "" : fmt::format("; with about {} samples in each part more may be allowed", rows);
}

Json ToJson(const Drop& drop) {
  return {{"metric", drop.metric},
          {"reference", Number(drop.reference)},
          {"value", Number(drop.value)},
          {"relative", Number(drop.relative)},
          {"expected", Number(drop.expected)},
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
