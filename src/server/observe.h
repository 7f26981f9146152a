// What a request leaves behind: a line in the log, its id in the answer.
#ifndef TENON_SERVER_OBSERVE_H_
#define TENON_SERVER_OBSERVE_H_

#include <memory>
#include <string>
#include <string_view>

#include "server/log.h"
#include "server/transport/http.h"

namespace tenon::server {

/// X-Request-Id as the client gave it where that is up to 128 printable ASCII characters; else a new one.
std::string RequestId(std::string_view given);

/// The W3C trace context as given; empty when it is not one.
std::string_view TraceParent(std::string_view given);

/// An exchange that says in the log how it ended, when `log` wants a line for each request, and echoes the request's id.
std::shared_ptr<Exchange> Observed(std::shared_ptr<Exchange> exchange, const HttpRequest& request, Log& log);

/// The same for a request that is refused before its body is read.
void ObserveRefusal(const HttpRequest& request, const Exchange& exchange, HttpResponse* response, Log& log);

}  // namespace tenon::server

#endif  // TENON_SERVER_OBSERVE_H_
