// One HTTP request to a running server, for the command line.
#ifndef TENON_SERVER_TRANSPORT_HTTP_CLIENT_H_
#define TENON_SERVER_TRANSPORT_HTTP_CLIENT_H_

#include <string>

#include "base/status.h"

namespace tenon::server {

struct HttpAnswer {
  int status = 0;
  std::string body;
};

struct HttpQuestion {
  std::string method = "GET";
  std::string path;
  std::string body;
  std::string api_key;  ///< printable, without spaces; empty: none is sent
};

/// `address`: "127.0.0.1:8000", a host and a port. Blocks, 30 s at most. kBadInput: nobody answers there.
Result<HttpAnswer> Fetch(const std::string& address, const HttpQuestion& question);

}  // namespace tenon::server

#endif  // TENON_SERVER_TRANSPORT_HTTP_CLIENT_H_
