// The KServe protocol over gRPC. gRPC and protobuf stay in grpc*.cc.
#ifndef TENON_SERVER_TRANSPORT_GRPC_H_
#define TENON_SERVER_TRANSPORT_GRPC_H_

#include <chrono>
#include <memory>
#include <string>

#include "server/context.h"

namespace tenon::server {

class GrpcServer {
 public:
  /// Listens at once; port 0: any free one. Messages up to `message_limit` bytes come in and go out.
  static Result<std::unique_ptr<GrpcServer>> Listen(Context& context, const std::string& host, int port, uint64_t message_limit,
                                                    const Tls& tls);
  virtual ~GrpcServer() = default;
  virtual int port() const = 0;
  /// A new certificate, for connections from now on; where there was none, there stays none.
  virtual void SetTls(const Tls& tls) = 0;
  /// No new calls; those running have until `limit`.
  virtual void Stop(std::chrono::milliseconds limit) = 0;
};

}  // namespace tenon::server

#endif  // TENON_SERVER_TRANSPORT_GRPC_H_
