#include "server/transport/grpc_observe.h"

#include <array>
#include <chrono>
#include <string>

#include "server/observe.h"

namespace tenon::server {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::ServerRpcInfo;

std::string_view CodeName(grpc::StatusCode code) {
  static constexpr std::array<std::string_view, 17> kNames = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  const auto i = static_cast<size_t>(code);
  return i < kNames.size() ? kNames[i] : "UNKNOWN";
}

class CallLog final : public grpc::experimental::Interceptor {
 public:
  CallLog(ServerRpcInfo* info, Log& log) : info_(info), log_(log) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS))
      Write(methods->GetSendStatus().error_code());
    methods->Proceed();
  }

 private:
  void Write(grpc::StatusCode code) const {
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin_).count();
    const grpc::ServerContextBase& call = *info_->server_context();
    const std::string client = call.peer(), id = RequestId(Metadata(call, "x-request-id"));
    log_.Write(LogLevel::kVerbose, "request",
               {{"method", "gRPC"},
                {"path", info_->method()},
                {"status", CodeName(code)},
                {"duration_us", static_cast<uint64_t>(us)},
                {"client", client},
                {"request_id", id},
                {"traceparent", TraceParent(Metadata(call, "traceparent"))}});
  }

  ServerRpcInfo* info_;
  Log& log_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

class Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(Log& log) : log_(log) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    return log_.Wants(LogLevel::kVerbose) ? new CallLog(info, log_) : nullptr;
  }

 private:
  Log& log_;
};

}  // namespace

std::string_view Metadata(const grpc::ServerContextBase& call, const char* name) {
  const auto& all = call.client_metadata();
  const auto found = all.find(name);
  return found == all.end() ? std::string_view() : std::string_view(found->second.data(), found->second.size());
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> CallLogs(Log& log) {
  return std::make_unique<Factory>(log);
}

}  // namespace tenon::server
