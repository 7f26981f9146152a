// TLS of the gRPC server, with certificates that may change while it runs.
#ifndef TENON_SERVER_TRANSPORT_GRPC_TLS_H_
#define TENON_SERVER_TRANSPORT_GRPC_TLS_H_

#include <grpc/grpc_security.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <mutex>

#include "server/tls.h"

namespace tenon::server {

/// What gRPC asks before each handshake. Outlives the server.
class GrpcCertificates {
 public:
  explicit GrpcCertificates(Tls tls) : tls_(std::move(tls)) {}

  /// For connections from now on; those that stand keep theirs.
  void Set(Tls tls);
  /// Credentials of this certificate and of those that take its place; none where it is not on.
  std::shared_ptr<grpc::ServerCredentials> Credentials();

 private:
  static grpc_ssl_certificate_config_reload_status Fetch(void* self, grpc_ssl_server_certificate_config** config);

  std::mutex mutex_;
  Tls tls_;
  bool fresh_ = true;   // not fetched yet
};

}  // namespace tenon::server

#endif  // TENON_SERVER_TRANSPORT_GRPC_TLS_H_
