// A quantised model for other runtimes: the source model, with what Tenon computes in integers written as QuantizeLinear,
// DequantizeLinear and the operator between them, in the same steps and the same bytes of weights.
#ifndef TENON_QUANTIZE_EXPORT_QDQ_H_
#define TENON_QUANTIZE_EXPORT_QDQ_H_

#include <set>
#include <span>
#include <string>
#include <vector>

#include "artifact/program.h"
#include "quantize/balance.h"

namespace tenon::quantize {

struct QdqReport {
  size_t exported = 0;
  std::vector<std::string> kept;   ///< operators that stay as the source has them: "name: reason"
};

/// Writes `source` (an .onnx file) to `out`. `lowered`: the program made of it; of its steps those whose first output `outputs`
/// names are written as integers. `balanced`: what Balance changed before. Constants beside the source are
/// taken into the file. kUnsupported: an opset before 13, which has no scales per channel; a file beyond what protobuf holds.
Result<QdqReport> ExportQdq(const std::string& source, const std::string& out, const artifact::Program& lowered,
                            const std::set<std::string>& outputs, std::span<const BalancedTensor> balanced);

}  // namespace tenon::quantize

#endif  // TENON_QUANTIZE_EXPORT_QDQ_H_
