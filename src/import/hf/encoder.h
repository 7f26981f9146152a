// The graph of an encoder: one input, input_ids [batch, seq], and last_hidden_state [batch, seq, width]. Every row is a whole
// text, so nothing is masked and nothing padded.
#ifndef TENON_IMPORT_HF_ENCODER_H_
#define TENON_IMPORT_HF_ENCODER_H_

#include "import/hf/config.h"
#include "import/hf/safetensors.h"
#include "ir/graph.h"

namespace tenon::import::hf {

/// kBadInput: a tensor is missing or of another shape; kUnsupported: a layer has a tensor that is not known.
Result<ir::Graph> BuildEncoder(const Safetensors& weights, const Config& config);

}  // namespace tenon::import::hf

#endif  // TENON_IMPORT_HF_ENCODER_H_
