#include "server/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>

#include "base/mapped_file.h"

namespace tenon::server {
namespace {

constexpr uint64_t kMaxFile = 1 << 20;

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* p) const {
    Free(p);
  }
};
using Bio = std::unique_ptr<BIO, Deleter<BIO_free>>;
using Certificate = std::unique_ptr<X509, Deleter<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;

// Why OpenSSL refused, and nothing left for whoever asks next.
std::string Reason() {
  const unsigned long code = ERR_peek_last_error();   // NOLINT(google-runtime-int): OpenSSL's type
  ERR_clear_error();
  const char* reason = ERR_reason_error_string(code);
  return reason == nullptr ? "unknown reason" : reason;
}

Bio BioOf(const std::string& pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// Nobody is there to type a password.
int NoPassword(char*, int, int, void*) {
  return -1;
}

Result<Certificate> FirstCertificate(const std::string& pem, const std::string& path) {
  Certificate certificate(PEM_read_bio_X509(BioOf(pem).get(), nullptr, NoPassword, nullptr));
  if (certificate == nullptr) return BadInput("'{}' holds no certificate in PEM; {}", path, Reason());
  return certificate;
}

Result<std::string> Read(const std::string& path) {
  auto text = ReadFile(path, kMaxFile);
  if (text.ok()) return text;
  return BadInput("{}", text.status().message());
}

}  // namespace

Result<Tls> ReadTls(const TlsFiles& files) {
  Tls tls;
  if (files.certificate.empty() != files.key.empty())
    return Usage("TLS needs a certificate and its key: --tls-cert FILE and --tls-key FILE");
  if (files.certificate.empty()) {
    if (!files.client_ca.empty()) return Usage("--tls-client-ca goes with --tls-cert and --tls-key");
    return tls;
  }
  TENON_ASSIGN_OR_RETURN(tls.certificate, Read(files.certificate));
  TENON_ASSIGN_OR_RETURN(tls.key, Read(files.key));
  TENON_ASSIGN_OR_RETURN(const Certificate certificate, FirstCertificate(tls.certificate, files.certificate));
  const Key key(PEM_read_bio_PrivateKey(BioOf(tls.key).get(), nullptr, NoPassword, nullptr));
  if (key == nullptr) return BadInput("'{}' holds no key in PEM that needs no password; {}", files.key, Reason());
  if (X509_check_private_key(certificate.get(), key.get()) != 1)
    return BadInput("the key in '{}' is not that of the certificate in '{}'; {}", files.key, files.certificate, Reason());
  if (!files.client_ca.empty()) {
    TENON_ASSIGN_OR_RETURN(tls.client_ca, Read(files.client_ca));
    TENON_ASSIGN_OR_RETURN(const Certificate ca, FirstCertificate(tls.client_ca, files.client_ca));
  }
  return tls;
}

}  // namespace tenon::server
