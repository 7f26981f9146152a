// From a request's method and path to the function that answers it, by the table of endpoints.inc.
#ifndef TENON_SERVER_ROUTER_H_
#define TENON_SERVER_ROUTER_H_

#include <span>
#include <string_view>

#include "server/context.h"

namespace tenon::server {

struct Endpoint {
  std::string_view method;
  std::string_view path;
  std::string_view function;
  Access access;
  std::string_view summary;
  void (*run)(Call&);
};

std::span<const Endpoint> Endpoints();

/// What a request asks for, by method and target; kInfer where there is no such endpoint.
Access AccessOf(std::string_view method, std::string_view target);

/// Finds the endpoint of a request and runs it; 404 and 405 where there is none.
void Route(Context& context, std::shared_ptr<HttpRequest> request, std::shared_ptr<Exchange> exchange);

}  // namespace tenon::server

#endif  // TENON_SERVER_ROUTER_H_
