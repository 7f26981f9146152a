// Upgrades of RNN, GRU, LSTM and Scan.
#include "import/onnx/upgrade.h"

namespace tenon::import::onnx_format {

// `output_sequence` said whether Y is wanted; now an output's presence says so.
Status RecurrentTo7(Builder* /*b*/, Pending* p) {
  p->node.attrs.Erase("output_sequence");
  return Status::Ok();
}

// Scan-8 carries a batch axis and sequence lengths.
Status ScanTo9(Builder* /*b*/, Pending* /*p*/) {
  return Unsupported("Scan of opset 8 (with a batch axis) is not supported; export with opset 9 or newer");
}

}  // namespace tenon::import::onnx_format
