// The protocols in front of an InferenceServer: opens the ports and hands requests over.
#ifndef TENON_SERVER_APP_H_
#define TENON_SERVER_APP_H_

#include <memory>
#include <string>

#include "server/log.h"
#include "server/tls.h"
#include "server/traces.h"
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
  std::string api_keys;        ///< file of keys; empty: everybody may ask everything
  bool open_health = true;     ///< answered without a key
  bool open_metrics = true;
  TlsFiles tls;                ///< of all ports
  std::string log_file;        ///< empty: stderr
  Log::Format log_format = Log::Format::kText;
  LogValues log;               ///< what is not as Log has it by default
  std::string trace_file;
  TraceChanges trace;
  ModelConfig defaults;        ///< what settings of a request to load begin with
  uint64_t upload_limit = uint64_t{1} << 30;   ///< bytes of files of requests to load
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
  /// Reads keys and certificates again and opens the log's file again, and tells the log. What cannot be read stays as it was.
  virtual void Reload() = 0;
};

}  // namespace tenon::server

#endif  // TENON_SERVER_APP_H_
