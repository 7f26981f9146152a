// The protocols in front of an InferenceServer: opens the ports and hands requests over.
#ifndef TENON_SERVER_APP_H_
#define TENON_SERVER_APP_H_

#include <memory>
#include <string>

#include "server/transport/http.h"
#include "tenon/server.h"

namespace tenon::server {

struct AppOptions {
  std::string host = "127.0.0.1";
  int http_port = 8000;        ///< 0: any free port; < 0: none
  int grpc_port = 8001;
  int metrics_port = 8002;
  int io_threads = 2;
  HttpLimits limits;
  uint64_t response_limit = uint64_t{256} << 20;
};

class App {
 public:
  static Result<std::unique_ptr<App>> Start(InferenceServer& models, const AppOptions& options);
  virtual ~App() = default;
  /// The port in use; -1: none.
  virtual int http_port() const = 0;
  virtual int grpc_port() const = 0;
  virtual int metrics_port() const = 0;
  virtual void StopAccepting() = 0;
};

}  // namespace tenon::server

#endif  // TENON_SERVER_APP_H_
