// Hands a request to the models and its answer to the client: what all HTTP endpoints for inference share.
#ifndef TENON_SERVER_SUBMIT_H_
#define TENON_SERVER_SUBMIT_H_

#include "server/context.h"
#include "server/infer_call.h"

namespace tenon::server {

using ResponseWriter = Result<HttpResponse> (*)(const InferCall& call, InferResponse response, const SharedMemory& regions);

/// `infer.request` names its model and version. A client that vanishes cancels its request.
void Submit(const Call& call, InferCall infer, ResponseWriter write = WriteInferResponse);

/// Counts and answers a request whose body could not be read.
void RefuseInfer(const Call& call, const std::string& model, const Status& status);

}  // namespace tenon::server

#endif  // TENON_SERVER_SUBMIT_H_
