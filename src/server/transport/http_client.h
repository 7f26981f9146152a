// One HTTP request to a running server, for the command line.
#ifndef TENON_SERVER_TRANSPORT_HTTP_CLIENT_H_
#define TENON_SERVER_TRANSPORT_HTTP_CLIENT_H_

#include <string>

#include "base/status.h"
#include "server/transport/client_tls.h"

namespace tenon::server {

struct HttpAnswer {
  int status = 0;
  std::string body;
};

struct HttpQuestion {
  std::string method = "GET";
  std::string path;
  std::string body;
  ClientTls tls;         ///< of https:// addresses
  std::string api_key;  ///< printable, without spaces; empty: none is sent
};

/// `server`: "127.0.0.1:8000", a host and a port, or "https://localhost:8000". Blocks, 30 s at most. kBadInput: nobody answers
/// there. kUsage: who answers is not trusted.
Result<HttpAnswer> Fetch(const std::string& server, const HttpQuestion& question);

}  // namespace tenon::server

#endif  // TENON_SERVER_TRANSPORT_HTTP_CLIENT_H_
