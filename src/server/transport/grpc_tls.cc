#include "server/transport/grpc_tls.h"

#include <grpc/grpc.h>

namespace tenon::server {
namespace {

// grpcpp's own credentials take certificates once; those of its C core ask for them.
class FetchingCredentials final : public grpc::ServerCredentials {
 public:
  explicit FetchingCredentials(grpc_server_credentials* credentials) : credentials_(credentials) {}
  ~FetchingCredentials() override { grpc_server_credentials_release(credentials_); }
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}   // keys are checked by call

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }
  grpc_server_credentials* credentials_;
};

}  // namespace

void GrpcCertificates::Set(Tls tls) {
  const std::lock_guard lock(mutex_);
  tls_ = std::move(tls);
  fresh_ = true;
}

std::shared_ptr<grpc::ServerCredentials> GrpcCertificates::Credentials() {
  if (!tls_.on()) return grpc::InsecureServerCredentials();
  const auto clients = tls_.client_ca.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                              : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
  return std::make_shared<FetchingCredentials>(grpc_ssl_server_credentials_create_with_options(
      grpc_ssl_server_credentials_create_options_using_config_fetcher(clients, Fetch, this)));
}

grpc_ssl_certificate_config_reload_status GrpcCertificates::Fetch(void* self, grpc_ssl_server_certificate_config** config) {
  auto& certificates = *static_cast<GrpcCertificates*>(self);
  const std::lock_guard lock(certificates.mutex_);
  if (!certificates.fresh_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  certificates.fresh_ = false;
  const Tls& tls = certificates.tls_;
  const grpc_ssl_pem_key_cert_pair pair = {tls.key.c_str(), tls.certificate.c_str()};
  // The core wants some roots, also where clients are asked for no certificate: then these serve for nothing.
  const std::string& roots = tls.client_ca.empty() ? tls.certificate : tls.client_ca;
  *config = grpc_ssl_server_certificate_config_create(roots.c_str(), &pair, 1);
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

}  // namespace tenon::server
