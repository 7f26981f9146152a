// Ragged batches in config.pbtxt: allow_ragged_batch, batch_input, batch_output; and the parameters that Triton has no field for.
#ifndef TENON_SERVER_CONFIG_RAGGED_H_
#define TENON_SERVER_CONFIG_RAGGED_H_

#include "kserve.pb.h"
#include "tenon/server.h"

namespace tenon::server {

/// kBadInput names the field, what it says and what is allowed.
Status ApplyRagged(const inference::ModelConfig& m, ModelConfig* config);

/// Parameters precision, max_batch_tokens, max_padding and pad.INPUT.
Status ApplyParameters(const inference::ModelConfig& m, ModelConfig* config);

/// What of `config` is ragged, into a message that has its inputs.
void RaggedToMessage(const ModelConfig& config, inference::ModelConfig* message);

}  // namespace tenon::server

#endif  // TENON_SERVER_CONFIG_RAGGED_H_
