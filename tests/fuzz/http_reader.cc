// libFuzzer target: any bytes sent to the HTTP server over a socket; see docs/fuzzing.md. Its models are made up, the rest is
// what `tenon serve` runs.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "serve/testing.h"
#include "server/app.h"

namespace {

using namespace tenon;   // NOLINT(google-build-using-namespace): a program of one file

// Answers with its inputs.
class Echo final : public serve::testing::StubServer {
 public:
  std::shared_ptr<InferTicket> Infer(InferRequest request, std::function<void(InferResponse)> done) override {
    InferResponse response;
    response.model = request.model;
    response.version = "1";
    response.id = request.id;
    if (request.check_outputs && !request.check_outputs(request.inputs).ok()) response.outcome = Outcome::kTooLarge;
    if (response.outcome == Outcome::kOk) response.outputs = std::move(request.inputs);
    done(std::move(response));
    return nullptr;
  }
  Status Load(const std::string& name, const std::optional<ModelConfig>&) override {
    return name == "net" ? Status::Ok() : Status(Code::kUsage, "unknown model");
  }
  Status Unload(const std::string& name) override { return Load(name, std::nullopt); }
  std::vector<ModelState> Index() const override { return {{"net", "1", "READY", ""}}; }
  bool ModelReady(const std::string& name, const std::string&) const override { return name == "net"; }
  Result<ModelDescription> Describe(const std::string& name, const std::string&) const override {
    if (name != "net") return Status(Code::kUsage, "unknown model");
    ModelDescription d;
    d.name = name;
    d.version = "1";
    d.versions = {"1"};
    for (const auto& [input, type] : {std::pair("x", DType::kF32), std::pair("text", DType::kString)}) {
      TensorInfo info;
      info.name = input;
      info.dtype = type;
      d.inputs.push_back(info);
    }
    d.outputs = d.inputs;
    return d;
  }
};

struct Running {
  Echo models;
  std::unique_ptr<server::App> app;

  Running() {
    server::AppOptions options;
    options.http_port = 0;
    options.grpc_port = options.metrics_port = -1;
    options.io_threads = 1;
    options.limits.body = 1 << 20;
    options.response_limit = 1 << 20;
    options.upload_limit = 1 << 16;
    options.log_file = "/dev/null";
    options.log = {{"log_verbose_level", uint64_t{1}}};
    auto started = server::App::Start(models, options);
    if (!started.ok()) std::abort();
    app = std::move(started).value();
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Running* running = new Running;   // its threads run until the process ends
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(running->app->http_port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  constexpr timeval kLongest{10, 0};
  setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &kLongest, sizeof(kLongest));
  while (connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno != EADDRNOTAVAIL) std::abort();
    usleep(10000);   // all ports are those of connections that ended just now
  }
  for (size_t sent = 0; sent < size;) {
    const ssize_t n = send(client, data + sent, size - sent, MSG_NOSIGNAL);
    if (n <= 0) break;
    sent += static_cast<size_t>(n);
  }
  shutdown(client, SHUT_WR);
  char piece[1 << 14];
  ssize_t n = 0;
  int silent = 0;   // twice: the first time may be one that the whole process was stopped for
  const auto goes_on = [&] { return errno == EINTR || (errno == EAGAIN && ++silent < 2); };   // EINTR: the fuzzer's own timer
  while ((n = recv(client, piece, sizeof(piece), 0)) > 0 || (n < 0 && goes_on())) {
  }
  if (n < 0 && errno != ECONNRESET) std::abort();   // the server fell silent
  close(client);
  return 0;
}
