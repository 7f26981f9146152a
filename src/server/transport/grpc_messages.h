// Messages of the KServe protocol to requests and back.
#ifndef TENON_SERVER_TRANSPORT_GRPC_MESSAGES_H_
#define TENON_SERVER_TRANSPORT_GRPC_MESSAGES_H_

#include "kserve.pb.h"
#include "server/context.h"
#include "server/infer_call.h"

namespace tenon::server {

/// Tensors point into `message`, which must live until the answer.
Result<InferCall> FromMessage(const inference::ModelInferRequest& message, const SharedMemory& regions);
Status ToMessage(const InferCall& call, InferResponse response, const SharedMemory& regions,
                 inference::ModelInferResponse* message);

LogValues FromMessage(const inference::LogSettingsRequest& message);
TraceChanges FromMessage(const inference::TraceSettingRequest& message);
void ToMessage(const LogValues& values, inference::LogSettingsResponse* message);
void ToMessage(const TraceValues& values, inference::TraceSettingResponse* message);
Result<LoadRequest> FromMessage(const inference::RepositoryModelLoadRequest& message);
void ToMessage(const ModelDescription& model, inference::ModelMetadataResponse* message);
void ToMessage(const ModelStatistics& statistics, inference::ModelStatistics* message);

}  // namespace tenon::server

#endif  // TENON_SERVER_TRANSPORT_GRPC_MESSAGES_H_
