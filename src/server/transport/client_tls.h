// TLS of a client: who the server must be, and who the client is.
#ifndef TENON_SERVER_TRANSPORT_CLIENT_TLS_H_
#define TENON_SERVER_TRANSPORT_CLIENT_TLS_H_

#include <memory>
#include <string>

#include "base/status.h"

namespace tenon::server {

struct ClientTls {
  std::string ca;            ///< file of certificates (PEM) of who may have signed the server's; empty: those of the system
  std::string certificate;   ///< of the client, with those that signed it (PEM); empty: none
  std::string key;           ///< its key (PEM); empty: in the same file
  bool insecure = false;     ///< take any server
};

/// Both ends of a connection.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// How many bytes went or came; 0: the other end is done; < 0: failure.
  virtual ssize_t Send(const char* data, size_t bytes) = 0;
  virtual ssize_t Receive(char* data, size_t bytes) = 0;
  /// Of the last failure.
  virtual std::string Reason() const = 0;
};

/// Agrees with the server behind `socket` on a cipher. kUsage: a file that cannot be used; the server is not
/// `host`, as far as its certificate tells; or it refuses. The socket outlives the stream and stays the caller's.
Result<std::unique_ptr<ByteStream>> OpenTls(int socket, const std::string& host, const ClientTls& tls);

}  // namespace tenon::server

#endif  // TENON_SERVER_TRANSPORT_CLIENT_TLS_H_
