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

/// `address`: "127.0.0.1:8000", an IP and a port. Blocks, 30 s at most. kBadInput: nobody answers there.
Result<HttpAnswer> Fetch(const std::string& address, const std::string& method, const std::string& path,
                         const std::string& body = "");

}  // namespace tenon::server

#endif  // TENON_SERVER_TRANSPORT_HTTP_CLIENT_H_
