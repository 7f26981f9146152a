// One table from how a request ended to what HTTP and gRPC call it.
#ifndef TENON_SERVER_STATUS_MAP_H_
#define TENON_SERVER_STATUS_MAP_H_

#include "tenon/server.h"

namespace tenon::server {

struct WireStatus {
  int http;
  int grpc;   ///< grpc::StatusCode
};

WireStatus WireStatusOf(Outcome outcome);

/// What a failure before a request was handed in means.
Outcome OutcomeOfRefusal(const Status& status);

}  // namespace tenon::server

#endif  // TENON_SERVER_STATUS_MAP_H_
