// dynamic_batching and model_warmup of config.pbtxt.
#ifndef TENON_SERVER_CONFIG_QUEUE_H_
#define TENON_SERVER_CONFIG_QUEUE_H_

#include "base/status.h"
#include "kserve.pb.h"
#include "tenon/server.h"

namespace tenon::server {

/// kBadInput names the field, what it says and what is allowed. `config` has its max_batch.
Status ApplyBatching(const inference::ModelDynamicBatching& m, ModelConfig* config);
Status ApplyWarmUp(const inference::ModelConfig& m, ModelConfig* config);

void BatchingToMessage(const ModelConfig& config, inference::ModelDynamicBatching* message);
void WarmUpToMessage(const ModelConfig& config, inference::ModelConfig* message);

}  // namespace tenon::server

#endif  // TENON_SERVER_CONFIG_QUEUE_H_
