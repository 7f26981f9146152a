#include "server/transport/client_tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <csignal>

#include "server/openssl.h"

namespace tenon::server {
namespace {

using SslContext = std::unique_ptr<SSL_CTX, openssl::Deleter<SSL_CTX_free>>;
using Ssl = std::unique_ptr<SSL, openssl::Deleter<SSL_free>>;

// A server that hangs up must not end the process while OpenSSL writes.
class NoSigpipe {
 public:
  NoSigpipe() : before_(std::signal(SIGPIPE, SIG_IGN)) {}
  ~NoSigpipe() { std::signal(SIGPIPE, before_); }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  void (*before_)(int);
};

class TlsStream final : public ByteStream {
 public:
  explicit TlsStream(Ssl ssl) : ssl_(std::move(ssl)) {}
  ~TlsStream() override { SSL_shutdown(ssl_.get()); }
  ssize_t Send(const char* data, size_t bytes) override {
    size_t sent = 0;
    return SSL_write_ex(ssl_.get(), data, bytes, &sent) == 1 ? static_cast<ssize_t>(sent) : -1;
  }
  ssize_t Receive(char* data, size_t bytes) override {
    size_t received = 0;
    if (SSL_read_ex(ssl_.get(), data, bytes, &received) == 1) return static_cast<ssize_t>(received);
    return SSL_get_error(ssl_.get(), 0) == SSL_ERROR_ZERO_RETURN ? 0 : -1;
  }
  std::string Reason() const override { return openssl::Reason(); }

 private:
  NoSigpipe no_sigpipe_;
  Ssl ssl_;
};

Status UseFiles(SSL_CTX* context, const ClientTls& tls) {
  SSL_CTX_set_default_passwd_cb(context, openssl::NoPassword);
  if (tls.ca.empty()) {
    SSL_CTX_set_default_verify_paths(context);
  } else if (SSL_CTX_load_verify_file(context, tls.ca.c_str()) != 1) {
    return Usage("--cacert '{}' holds no certificate in PEM; {}", tls.ca, openssl::Reason());
  }
  if (tls.certificate.empty()) return Status::Ok();
  if (SSL_CTX_use_certificate_chain_file(context, tls.certificate.c_str()) != 1)
    return Usage("--cert '{}' holds no certificate in PEM; {}", tls.certificate, openssl::Reason());
  const std::string& key = tls.key.empty() ? tls.certificate : tls.key;
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1)
    return Usage("--key '{}' holds no key in PEM that needs no password and fits the certificate; {}", key, openssl::Reason());
  return Status::Ok();
}

// An address that clients write as a number is checked as one.
void Expect(SSL* ssl, const std::string& host) {
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1) return;
  SSL_set1_host(ssl, host.c_str());
  SSL_set_tlsext_host_name(ssl, host.c_str());
}

}  // namespace

Result<std::unique_ptr<ByteStream>> OpenTls(int socket, const std::string& host, const ClientTls& tls) {
  const SslContext context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return Internal("no TLS; {}", openssl::Reason());
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context.get(), tls.insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
  TENON_RETURN_IF_ERROR(UseFiles(context.get(), tls));
  Ssl owned(SSL_new(context.get()));
  SSL* ssl = owned.get();
  if (ssl == nullptr) return Internal("no TLS; {}", openssl::Reason());
  Expect(ssl, host);
  SSL_set_fd(ssl, socket);
  auto stream = std::make_unique<TlsStream>(std::move(owned));
  if (SSL_connect(ssl) != 1) {
    const auto verdict = SSL_get_verify_result(ssl);
    if (verdict == X509_V_OK || tls.insecure) return Usage("no TLS with '{}'; {}", host, openssl::Reason());
    ERR_clear_error();
    return Usage("the certificate of '{}' is not trusted: {}; --cacert FILE names who signed it, --insecure takes any", host,
                 X509_verify_cert_error_string(verdict));
  }
  return std::unique_ptr<ByteStream>(std::move(stream));
}

}  // namespace tenon::server
