// What users of OpenSSL share.
#ifndef TENON_SERVER_OPENSSL_H_
#define TENON_SERVER_OPENSSL_H_

#include <openssl/err.h>

#include <string>

namespace tenon::server::openssl {

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* p) const {
    Free(p);
  }
};

/// Why OpenSSL refused, and nothing left for whoever asks next.
inline std::string Reason() {
  const unsigned long code = ERR_peek_last_error();   // NOLINT(google-runtime-int): OpenSSL's type
  ERR_clear_error();
  const char* reason = ERR_reason_error_string(code);
  return reason == nullptr ? "unknown reason" : reason;
}

/// Nobody is there to type a password.
inline int NoPassword(char*, int, int, void*) {
  return -1;
}

}  // namespace tenon::server::openssl

#endif  // TENON_SERVER_OPENSSL_H_
