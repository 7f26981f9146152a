#include "server/app.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "server/compress.h"
#include "server/observe.h"
#include "server/router.h"
#include "server/status_map.h"
#include "server/transport/grpc.h"

namespace tenon::server {
namespace {

constexpr size_t kWorthCompressing = 4096;

// One thread for what blocks: loading and unloading.
class Background {
 public:
  Background() : thread_([this] { Work(); }) {}
  ~Background() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void Add(std::function<void()> job) {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    changed_.notify_all();
  }

 private:
  void Work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (stopping_) return;
      auto job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      lock.lock();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::thread thread_;
};

// Packs the answer as the client allows.
class PackingExchange final : public Exchange {
 public:
  PackingExchange(std::shared_ptr<Exchange> inner, bool gzip) : inner_(std::move(inner)), gzip_(gzip) {}
  void Respond(std::function<HttpResponse()> make) override {
    inner_->Respond([make = std::move(make), gzip = gzip_] {
      HttpResponse r = make();
      for (const HttpPiece& piece : r.pieces) r.body += piece.bytes;
      r.pieces.clear();
      if (r.body.size() < kWorthCompressing) return r;
      std::string packed = Deflate(r.body, gzip);
      if (packed.empty()) return r;
      r.body = std::move(packed);
      r.headers.emplace_back("Content-Encoding", gzip ? "gzip" : "deflate");
      return r;
    });
  }
  void OnGone(std::function<void()> gone) override { inner_->OnGone(std::move(gone)); }
  std::string Client() const override { return inner_->Client(); }

 private:
  std::shared_ptr<Exchange> inner_;
  bool gzip_;
};

class LocalApp final : public App {
 public:
  LocalApp(InferenceServer& models, const AppOptions& options) : options_(options), context_(models) {
    context_.response_limit = options.response_limit;
    context_.background = [this](std::function<void()> job) { background_.Add(std::move(job)); };
    context_.access.SetOpen(options.open_health, options.open_metrics);
    context_.loads.Configure(options.defaults, options.upload_limit);
    context_.traces.SetFile(options.trace_file);
  }

  Status Open() {
    TENON_RETURN_IF_ERROR(context_.log.Open(options_.log_file, options_.log_format));
    TENON_RETURN_IF_ERROR(context_.log.Change(options_.log));
    TENON_RETURN_IF_ERROR(context_.traces.Update("", options_.trace));
    if (!options_.api_keys.empty()) TENON_RETURN_IF_ERROR(context_.access.Load(options_.api_keys));
    TENON_ASSIGN_OR_RETURN(const Tls tls, ReadTls(options_.tls));
    HttpOptions http{options_.host, options_.http_port, options_.io_threads, options_.limits, tls, {}, {}};
    if (context_.access.on()) {
      http.gate = [this](const HttpRequest& head, const Exchange& exchange) {
        auto refusal = Refusal(head);
        if (refusal) ObserveRefusal(head, exchange, &*refusal, context_.log);
        return refusal;
      };
    }
    http.handler = [this](std::shared_ptr<HttpRequest> request, std::shared_ptr<Exchange> exchange) {
      auto observed = Observed(std::move(exchange), *request, context_.log);
      Handle(std::move(request), std::move(observed));
    };
    if (options_.http_port >= 0) {
      TENON_ASSIGN_OR_RETURN(http_, HttpServer::Listen(http));
    }
    if (options_.grpc_port >= 0) {
      TENON_ASSIGN_OR_RETURN(grpc_, GrpcServer::Listen(context_, options_.host, options_.grpc_port, options_.limits.body, tls));
    }
    // That port is open to whoever collects metrics: nothing else is reached through it.
    http.port = options_.metrics_port;
    http.threads = 1;
    if (options_.open_metrics) http.tls.client_ca.clear();
    http.handler = [this](std::shared_ptr<HttpRequest> request, std::shared_ptr<Exchange> exchange) {
      const bool allowed =
          request->method == "GET" && (request->target.starts_with("/metrics") || request->target.starts_with("/v2/health"));
      if (allowed) return Handle(std::move(request), std::move(exchange));
      exchange->Respond([] { return ErrorResponse(Outcome::kNotFound, "this port has /metrics and /v2/health"); });
    };
    if (options_.metrics_port >= 0) {
      TENON_ASSIGN_OR_RETURN(metrics_, HttpServer::Listen(std::move(http)));
    }
    return Status::Ok();
  }

  int http_port() const override { return http_ == nullptr ? -1 : http_->port(); }
  int grpc_port() const override { return grpc_ == nullptr ? -1 : grpc_->port(); }
  int metrics_port() const override { return metrics_ == nullptr ? -1 : metrics_->port(); }
  void StopAccepting() override {
    if (http_ != nullptr) http_->StopAccepting();
  }
  void Reload() override {
    Status status = context_.access.Reload();
    if (Status tls = ReloadTls(); status.ok()) status = std::move(tls);
    if (Status log = context_.log.Reopen(); status.ok()) status = std::move(log);
    context_.log.Write(status.ok() ? LogLevel::kInfo : LogLevel::kError, "reload", {{"reason", status.message()}});
  }

 private:
  // On all ports or on none: HTTP is asked first, and refuses what OpenSSL refuses.
  Status ReloadTls() {
    TENON_ASSIGN_OR_RETURN(Tls tls, ReadTls(options_.tls));
    if (http_ != nullptr) TENON_RETURN_IF_ERROR(http_->SetTls(tls));
    if (grpc_ != nullptr) grpc_->SetTls(tls);
    if (options_.open_metrics) tls.client_ca.clear();
    return metrics_ == nullptr ? Status::Ok() : metrics_->SetTls(tls);
  }

  // Whoever may not ask is told before the body is read.
  std::optional<HttpResponse> Refusal(const HttpRequest& head) const {
    const Verdict verdict = context_.access.Check(AccessOf(head.method, head.target), head.Header("Authorization"));
    if (verdict == Verdict::kAllowed) return std::nullopt;
    const bool known = verdict == Verdict::kForbidden;
    HttpResponse r = ErrorResponse(Outcome::kBadRequest, RefusalText(verdict));
    r.status = known ? 403 : 401;
    if (!known) r.headers.emplace_back("WWW-Authenticate", "Bearer");
    return r;
  }

  // A page of another site that a user has open must not change what this server does.
  static bool ForeignPage(const HttpRequest& request) {
    const std::string_view origin = request.Header("Origin");
    const size_t scheme = origin.find("://");
    return !origin.empty() && request.method != "GET" &&
           (scheme == std::string_view::npos || origin.substr(scheme + 3) != request.Header("Host"));
  }

  void Handle(std::shared_ptr<HttpRequest> request, std::shared_ptr<Exchange> exchange) {
    if (ForeignPage(*request)) {
      HttpResponse r = ErrorResponse(Outcome::kBadRequest, "requests from pages of other sites are not served");
      r.status = 403;
      return exchange->Respond([r] { return r; });
    }
    const std::string_view encoding = request->Header("Content-Encoding");
    if (!encoding.empty() && encoding != "identity") {
      if (encoding != "gzip" && encoding != "deflate") {
        HttpResponse r =
            ErrorResponse(Outcome::kBadRequest, fmt::format("Content-Encoding '{}'; allowed: gzip, deflate", encoding));
        r.status = 415;
        return exchange->Respond([r] { return r; });
      }
      auto body = Inflate(request->body, options_.limits.body);
      if (!body.ok()) {
        const HttpResponse r = ErrorResponse(OutcomeOfRefusal(body.status()), body.status().message());
        return exchange->Respond([r] { return r; });
      }
      request->body = std::move(body).value();
      request->body.reserve(request->body.size() + kBodyPadding);
    }
    const std::string_view accepts = request->Header("Accept-Encoding");
    const bool gzip = accepts.find("gzip") != std::string_view::npos;
    if (gzip || accepts.find("deflate") != std::string_view::npos)
      exchange = std::make_shared<PackingExchange>(std::move(exchange), gzip);
    Route(context_, std::move(request), std::move(exchange));
  }

  AppOptions options_;
  Context context_;
  Background background_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<HttpServer> metrics_;
  std::unique_ptr<GrpcServer> grpc_;
};

}  // namespace

Result<std::unique_ptr<App>> App::Start(InferenceServer& models, const AppOptions& options) {
  auto app = std::make_unique<LocalApp>(models, options);
  TENON_RETURN_IF_ERROR(app->Open());
  return std::unique_ptr<App>(std::move(app));
}

}  // namespace tenon::server
