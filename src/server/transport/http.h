// An HTTP/1.1 server as the rest sees it: requests in, one answer each. Boost stays in http.cc.
#ifndef TENON_SERVER_TRANSPORT_HTTP_H_
#define TENON_SERVER_TRANSPORT_HTTP_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/tls.h"

namespace tenon::server {

struct HttpRequest {
  std::string method;
  std::string target;                                          ///< path and query as sent
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;                                            ///< at least kBodyPadding bytes of memory behind it
  std::chrono::steady_clock::time_point begin{}, end{};        ///< when its header and all of it had arrived
  /// Value of a header, compared without case; empty when absent.
  std::string_view Header(std::string_view name) const;
};
inline constexpr size_t kBodyPadding = 64;

struct HttpPiece {
  std::string_view bytes;
  std::shared_ptr<const void> owner;
};

/// Of a body that goes on in pieces.
inline size_t BytesOf(const std::string& body, const std::vector<HttpPiece>& pieces) {
  size_t sum = body.size();
  for (const HttpPiece& piece : pieces) sum += piece.bytes.size();
  return sum;
}

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::vector<HttpPiece> pieces;                               ///< sent after `body`, not copied
  std::function<void(bool sent)> done;                         ///< when it was sent, or could not be
  size_t size() const { return BytesOf(body, pieces); }
};

/// One request being answered.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// `make` builds the answer on a thread of the server; called once. Any thread.
  virtual void Respond(std::function<HttpResponse()> make) = 0;
  /// `gone` runs when the client vanishes before the answer. Set during handling only.
  virtual void OnGone(std::function<void()> gone) = 0;
  /// Address and port of the client.
  virtual std::string Client() const = 0;
};

/// Runs on a thread of the server and must not block.
using HttpHandler = std::function<void(std::shared_ptr<HttpRequest>, std::shared_ptr<Exchange>)>;
/// Sees a request without its body; an answer of its own ends it before the body is read.
using HttpGate = std::function<std::optional<HttpResponse>(const HttpRequest& head, const Exchange& exchange)>;

struct HttpLimits {
  uint64_t body = uint64_t{256} << 20;
  uint32_t header = 64 << 10;
  uint64_t chunks = 100000;                 ///< of a chunked body
  size_t connections = 4096;
  std::chrono::milliseconds idle{120000};   ///< between requests
  std::chrono::milliseconds transfer{60000}; ///< for a whole request, and for a whole answer
  std::chrono::seconds handshake{10};       ///< of TLS
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 0;                             ///< 0: any free one
  int threads = 1;                          ///< of the common loop of events; those of groups have no more
  HttpLimits limits;
  Tls tls;                                  ///< without a certificate: none
  HttpGate gate;                            ///< may be empty
  HttpHandler handler;
};

class HttpServer {
 public:
  /// Listens at once. kUsage: bad address; kResourceLimit: the port is taken.
  static Result<std::unique_ptr<HttpServer>> Listen(HttpOptions options);
  virtual ~HttpServer() = default;
  virtual int port() const = 0;
  virtual size_t connections() const = 0;
  /// A new certificate, for connections from now on; where there was none, there stays none. kBadInput: it cannot be used, and
  /// the old one stays.
  virtual Status SetTls(const Tls& tls) = 0;
  /// No new connections; open ones end after their answer.
  virtual void StopAccepting() = 0;
};

}  // namespace tenon::server

#endif  // TENON_SERVER_TRANSPORT_HTTP_H_
