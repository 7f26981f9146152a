// What endpoints work with, and a request on its way to one.
#ifndef TENON_SERVER_CONTEXT_H_
#define TENON_SERVER_CONTEXT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/access.h"
#include "server/log.h"
#include "server/model_loads.h"
#include "server/shared_memory.h"
#include "server/traces.h"
#include "server/transport/http.h"
#include "tenon/server.h"

namespace tenon::server {

struct Context {
  explicit Context(InferenceServer& m) : models(m), loads(m) {}
  InferenceServer& models;
  ModelLoads loads;
  SharedMemory regions;
  AccessControl access;
  Log log;
  Traces traces;
  uint64_t response_limit = uint64_t{256} << 20;         ///< bytes of one answer
  std::function<void(std::function<void()>)> background; ///< runs what may block, one after another
};

struct Call {
  std::shared_ptr<HttpRequest> request;
  std::shared_ptr<Exchange> exchange;
  std::vector<std::string> args;                          ///< path parameters in order
  Context& context;

  void Reply(HttpResponse response) const;
  /// 200 with this JSON text.
  void ReplyJson(std::string body) const;
  void ReplyError(Outcome outcome, const std::string& message, int retry_after_s = 0) const;
};

HttpResponse ErrorResponse(Outcome outcome, const std::string& message, int retry_after_s = 0);

}  // namespace tenon::server

#endif  // TENON_SERVER_CONTEXT_H_
