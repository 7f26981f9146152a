// Certificates and keys of the server.
#ifndef TENON_SERVER_TLS_H_
#define TENON_SERVER_TLS_H_

#include <string>

#include "base/status.h"

namespace tenon::server {

struct TlsFiles {
  std::string certificate;   ///< PEM: the server's certificate, then those that signed it
  std::string key;           ///< PEM, not encrypted
  std::string client_ca;     ///< PEM; empty: clients need no certificate
};

/// What the files hold.
struct Tls {
  std::string certificate, key, client_ca;
  bool on() const { return !certificate.empty(); }
};

/// kUsage: one of certificate and key is missing; kBadInput: a file cannot be read, holds no PEM, or the key is not the
/// certificate's. No file: Tls that is not on.
Result<Tls> ReadTls(const TlsFiles& files);

}  // namespace tenon::server

#endif  // TENON_SERVER_TLS_H_
