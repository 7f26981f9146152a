#include "guard/compare_report.h"

#include <fmt/ranges.h>

namespace tenon::guard {
namespace {

// As RFC 4180 quotes; names come from models and may hold anything.
std::string Cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string Number(double v) {
  return fmt::format("{:.6g}", v);
}

constexpr const char* kHeader =
    "Index,OpSequence,OpType,NPUDump,DataType,Address,GroundTruth,DataType,TensorIndex,Shape,OverFlow,CosineSimilarity,"
    "MaxAbsoluteError,AccumulatedRelativeError,RelativeEuclideanDistance,KullbackLeiblerDivergence,StandardDeviation,"
    "MeanAbsoluteError,RootMeanSquareError,MaxRelativeError,MeanRelativeError,CompareFailReason";

std::string ErrorCells(const OpComparison& op) {
  if (!op.compared) return "NaN,NaN,NaN,NaN,NaN,NaN,NaN,NaN,NaN,NaN";
  const Errors& e = op.errors;
  return fmt::format("{},{},{},{},{},{},{},{},{},{}", Number(e.cosine), Number(e.max_abs), Number(e.accumulated_relative),
                     Number(e.relative_euclidean), Number(e.kl_divergence), Cell(e.StandardDeviationText()), Number(e.mean_abs),
                     Number(e.rmse), Number(e.max_relative), Number(e.mean_relative));
}

}  // namespace

std::string ToCsv(const Comparison& comparison, bool single_ops) {
  std::string text = kHeader;
  if (single_ops)
    text +=
        ",SingleOpTruth,SingleOpCosineSimilarity,SingleOpMaxAbsoluteError,SingleOpRelativeEuclideanDistance,SingleOpFailReason";
  text += "\n";
  for (size_t i = 0; i < comparison.ops.size(); ++i) {
    const OpComparison& op = comparison.ops[i];
    const bool overflow = op.nan + op.infinite > 0;
    text += fmt::format("{},{},{},{},{},,{},{},{},{},{},{},{}", i, op.step, Cell(op.type), Cell(op.name), DTypeName(op.dtype),
                        Cell(op.truth_name.empty() && op.compared ? op.value : op.truth_name),
                        op.compared ? DTypeName(op.truth_dtype) : "", Cell(fmt::format("{}:output:{}", op.value, op.index)),
                        Cell(fmt::format("[{}]", fmt::join(op.shape, ","))), overflow ? "YES" : "NO", ErrorCells(op),
                        Cell(op.reason));
    if (single_ops) {
      text += op.own_compared ? fmt::format(",{},{},{},{},", op.own_truth, Number(op.own.cosine), Number(op.own.max_abs),
                                            Number(op.own.relative_euclidean))
                              : fmt::format(",,NaN,NaN,NaN,{}", Cell(op.own_reason));
    }
    text += "\n";
  }
  return text;
}

}  // namespace tenon::guard
