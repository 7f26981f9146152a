#include "server/observe.h"

#include <algorithm>
#include <atomic>
#include <random>

namespace tenon::server {
namespace {

constexpr int kGone = 499;   // the client vanished before its answer

// A request as the log tells of it.
struct Record {
  std::string method, path, client, id, parent;
  uint64_t bytes_in = 0;
  std::chrono::steady_clock::time_point begin;

  Record(const HttpRequest& request, const Exchange& exchange)
      : method(request.method),
        path(request.target.substr(0, request.target.find('?'))),   // what follows may hold what is nobody's business
        client(exchange.Client()),
        id(RequestId(request.Header("X-Request-Id"))),
        parent(TraceParent(request.Header("traceparent"))),
        bytes_in(request.body.size()),
        begin(request.begin) {}

  void Write(Log& log, int status, uint64_t bytes_out) const {
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin).count();
    log.Write(LogLevel::kVerbose, "request",
              {{"method", method},
               {"path", path},
               {"status", static_cast<uint64_t>(status)},
               {"bytes_in", bytes_in},
               {"bytes_out", bytes_out},
               {"duration_us", static_cast<uint64_t>(us)},
               {"client", client},
               {"request_id", id},
               {"traceparent", parent}});
  }

  void Attach(const std::shared_ptr<const Record>& self, HttpResponse* response, Log& log) const {
    response->headers.emplace_back("X-Request-Id", id);
    response->done = [self, &log, status = response->status, bytes = response->size(),
                      then = std::move(response->done)](bool sent) {
      if (then) then(sent);
      self->Write(log, sent ? status : kGone, bytes);
    };
  }
};

class ObservedExchange final : public Exchange {
 public:
  ObservedExchange(std::shared_ptr<Exchange> inner, const HttpRequest& request, Log& log)
      : inner_(std::move(inner)), record_(std::make_shared<Record>(request, *inner_)), log_(log) {
    OnGone({});
  }
  void Respond(std::function<HttpResponse()> make) override {
    inner_->Respond([make = std::move(make), record = record_, &log = log_] {
      HttpResponse r = make();
      record->Attach(record, &r, log);
      return r;
    });
  }
  void OnGone(std::function<void()> gone) override {
    inner_->OnGone([gone = std::move(gone), record = record_, &log = log_] {
      record->Write(log, kGone, 0);
      if (gone) gone();
    });
  }
  std::string Client() const override { return inner_->Client(); }

 private:
  std::shared_ptr<Exchange> inner_;
  std::shared_ptr<const Record> record_;
  Log& log_;
};

}  // namespace

std::string RequestId(std::string_view given) {
  constexpr size_t kLongest = 128;
  const bool usable = !given.empty() && given.size() <= kLongest &&
                      std::all_of(given.begin(), given.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (usable) return std::string(given);
  static const uint64_t start = std::random_device{}() | uint64_t{std::random_device{}()} << 32;
  static std::atomic<uint64_t> next{0};
  return fmt::format("{:016x}-{}", start, next.fetch_add(1, std::memory_order_relaxed));
}

std::string_view TraceParent(std::string_view given) {
  constexpr std::string_view kForm = "00-00000000000000000000000000000000-0000000000000000-00";
  const bool valid = given.size() == kForm.size() && std::equal(given.begin(), given.end(), kForm.begin(), [](char c, char form) {
                       return form == '-' ? c == '-' : (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                     });
  return valid ? given : std::string_view();
}

std::shared_ptr<Exchange> Observed(std::shared_ptr<Exchange> exchange, const HttpRequest& request, Log& log) {
  if (!log.Wants(LogLevel::kVerbose)) return exchange;
  return std::make_shared<ObservedExchange>(std::move(exchange), request, log);
}

void ObserveRefusal(const HttpRequest& request, const Exchange& exchange, HttpResponse* response, Log& log) {
  if (!log.Wants(LogLevel::kVerbose)) return;
  const auto record = std::make_shared<Record>(request, exchange);
  record->Attach(record, response, log);
}

}  // namespace tenon::server
