// A line in the log for each gRPC call.
#ifndef TENON_SERVER_TRANSPORT_GRPC_OBSERVE_H_
#define TENON_SERVER_TRANSPORT_GRPC_OBSERVE_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string_view>

#include "server/log.h"

namespace tenon::server {

/// A value that the client sent with its call; empty: it sent none.
std::string_view Metadata(const grpc::ServerContextBase& call, const char* name);

/// Tells `log` of each call when it ends, where the log wants a line for each request.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> CallLogs(Log& log);

}  // namespace tenon::server

#endif  // TENON_SERVER_TRANSPORT_GRPC_OBSERVE_H_
