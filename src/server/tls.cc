#include "server/tls.h"

#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>

#include "base/mapped_file.h"
#include "server/openssl.h"

namespace tenon::server {
namespace {

constexpr uint64_t kMaxFile = 1 << 20;

using Bio = std::unique_ptr<BIO, openssl::Deleter<BIO_free>>;
using Certificate = std::unique_ptr<X509, openssl::Deleter<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, openssl::Deleter<EVP_PKEY_free>>;

Bio BioOf(const std::string& pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

Result<Certificate> FirstCertificate(const std::string& pem, const std::string& path) {
  Certificate certificate(PEM_read_bio_X509(BioOf(pem).get(), nullptr, openssl::NoPassword, nullptr));
  if (certificate == nullptr) return BadInput("'{}' holds no certificate in PEM; {}", path, openssl::Reason());
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
  const Key key(PEM_read_bio_PrivateKey(BioOf(tls.key).get(), nullptr, openssl::NoPassword, nullptr));
  if (key == nullptr) return BadInput("'{}' holds no key in PEM that needs no password; {}", files.key, openssl::Reason());
  if (X509_check_private_key(certificate.get(), key.get()) != 1)
    return BadInput("the key in '{}' is not that of the certificate in '{}'; {}", files.key, files.certificate,
                    openssl::Reason());
  if (!files.client_ca.empty()) {
    TENON_ASSIGN_OR_RETURN(tls.client_ca, Read(files.client_ca));
    TENON_ASSIGN_OR_RETURN(const Certificate ca, FirstCertificate(tls.client_ca, files.client_ca));
  }
  return tls;
}

}  // namespace tenon::server
