#include "server/transport/grpc.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>

#include <deque>
#include <map>
#include <mutex>

#include "base/version.h"
#include "health.grpc.pb.h"
#include "kserve.grpc.pb.h"
#include "server/config_message.h"
#include "server/model_json.h"
#include "server/status_map.h"
#include "server/transport/grpc_messages.h"
#include "server/transport/grpc_observe.h"
#include "server/transport/grpc_tls.h"

namespace tenon::server {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

grpc::Status ToGrpc(Outcome outcome, const std::string& message) {
  return {static_cast<grpc::StatusCode>(WireStatusOf(outcome).grpc), message};
}

grpc::Status ToGrpc(const Status& status, Outcome otherwise) {
  return status.ok() ? grpc::Status::OK : ToGrpc(otherwise, status.message());
}

// OK, or why this client may not ask.
grpc::Status Checked(const Context& context, const CallbackServerContext& call, Access access) {
  if (!context.access.on()) return grpc::Status::OK;
  const Verdict verdict = context.access.Check(access, Metadata(call, "authorization"));
  if (verdict == Verdict::kAllowed) return grpc::Status::OK;
  return {verdict == Verdict::kForbidden ? grpc::StatusCode::PERMISSION_DENIED : grpc::StatusCode::UNAUTHENTICATED,
          RefusalText(verdict)};
}

// What a client gives until its deadline; 0: it has none.
std::chrono::microseconds TimeLeft(const CallbackServerContext& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return std::chrono::microseconds(0);
  const auto left = std::chrono::duration_cast<std::chrono::microseconds>(deadline - std::chrono::system_clock::now());
  constexpr auto kForever = std::chrono::hours(24 * 365);
  if (left > kForever) return std::chrono::microseconds(0);
  return std::max(left, std::chrono::microseconds(1));
}

// Hands a message in. `done` gets the answer or the reason why there is none.
std::shared_ptr<InferTicket> Submit(Context& context, const inference::ModelInferRequest& message, std::chrono::microseconds left,
                                    const std::shared_ptr<Trace>& trace,
                                    std::function<void(const InferCall&, InferResponse)> done) {
  auto read = FromMessage(message, context.regions);
  if (!read.ok()) {
    InferResponse refusal;
    refusal.outcome = OutcomeOfRefusal(read.status());
    refusal.message = fmt::format("model '{}'; {}", message.model_name(), read.status().message());
    context.models.CountRefused(message.model_name(), refusal.outcome);
    done({}, std::move(refusal));
    return nullptr;
  }
  const auto call = std::make_shared<InferCall>(std::move(read).value());
  InferRequest request = std::move(call->request);
  if (left.count() > 0 && (request.timeout.count() == 0 || left < request.timeout)) request.timeout = left;
  request.check_outputs = [call, &context](const std::vector<HostTensor>& outputs) {
    return CheckInferResponse(*call, outputs, context.regions, context.response_limit);
  };
  if (trace != nullptr) trace->AddTensors(Trace::kQueueInput, request.inputs);
  const uint64_t begin = trace == nullptr ? 0 : TraceTime();
  return context.models.Infer(std::move(request), [call, trace, begin, done = std::move(done)](InferResponse response) {
    if (trace != nullptr) {
      trace->AddRequest(begin, response);
      trace->AddTensors(Trace::kBackendOutput, response.outputs);
    }
    done(*call, std::move(response));
  });
}

void EndTrace(Context& context, Trace& trace) {
  trace.Add("GRPC_SEND_END", TraceTime());
  context.log.Write("traces end", context.traces.Write(trace));
}

// Nothing reaches a reactor before its constructor's caller has returned it: gRPC keeps what is started earlier.
class InferReactor final : public ServerUnaryReactor {
 public:
  InferReactor(Context& context, CallbackServerContext& call, const inference::ModelInferRequest& request,
               inference::ModelInferResponse* response)
      : context_(context) {
    trace_ = context.traces.Begin(request.model_name());
    ticket_ = Submit(context, request, TimeLeft(call), trace_,
                     [this, &context, response](const InferCall& infer, InferResponse answer) {
                       if (trace_ != nullptr) trace_->Add("GRPC_SEND_START", TraceTime());
                       if (answer.outcome != Outcome::kOk) return Finish(ToGrpc(answer.outcome, answer.message));
                       const Status status = ToMessage(infer, std::move(answer), context.regions, response);
                       Finish(ToGrpc(status, OutcomeOfRefusal(status)));
                     });
  }
  void OnCancel() override {
    if (ticket_ != nullptr) ticket_->Cancel();
  }
  void OnDone() override {
    if (trace_ != nullptr) EndTrace(context_, *trace_);
    delete this;
  }

 private:
  Context& context_;
  std::shared_ptr<Trace> trace_;
  std::shared_ptr<InferTicket> ticket_;
};

// Requests of a stream run side by side; answers go out as they come, failures as messages of the stream.
class StreamReactor final : public grpc::ServerBidiReactor<inference::ModelInferRequest, inference::ModelStreamInferResponse> {
 public:
  /// `refusal`: all that the client gets, unless it is OK.
  StreamReactor(Context& context, CallbackServerContext& call, const grpc::Status& refusal) : context_(context), call_(call) {
    if (refusal.ok()) {
      Read();
    } else {
      finished_ = true;
      Finish(refusal);
    }
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      std::unique_lock lock(mutex_);
      reading_ = false;
      return FinishIfOver(lock);
    }
    const auto request = std::move(request_);
    const auto trace = context_.traces.Begin(request->model_name());
    if (trace != nullptr) {
      trace->Add("GRPC_WAITREAD_START", reading_since_);
      trace->Add("GRPC_WAITREAD_END", TraceTime());
    }
    uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      number = next_++;
      open_.emplace(number, nullptr);
    }
    auto ticket = Submit(
        context_, *request, TimeLeft(call_), trace, [this, number, request, trace](const InferCall& infer, InferResponse answer) {
          auto message = std::make_unique<inference::ModelStreamInferResponse>();
          std::string error = answer.outcome == Outcome::kOk ? "" : answer.message;
          const std::string id = answer.id.empty() ? request->id() : answer.id;
          if (error.empty())
            error = ToMessage(infer, std::move(answer), context_.regions, message->mutable_infer_response()).message();
          message->set_error_message(error);
          message->mutable_infer_response()->set_id(id);
          Send(number, {std::move(message), trace});
        });
    {
      const std::lock_guard lock(mutex_);
      const auto it = open_.find(number);
      if (it != open_.end()) it->second = std::move(ticket);
      if (cancelled_ && it != open_.end()) ticket = it->second;
    }
    if (ticket != nullptr) ticket->Cancel();
    Read();
  }

  void OnWriteDone(bool ok) override {
    std::vector<std::shared_ptr<Trace>> over;
    {
      std::unique_lock lock(mutex_);
      broken_ = broken_ || !ok;
      do {
        over.push_back(std::move(writes_.front().trace));
        writes_.pop_front();
      } while (broken_ && !writes_.empty());
    }
    // Before the stream may end: whoever saw its last answer finds its trace.
    for (const auto& trace : over) {
      if (trace != nullptr) EndTrace(context_, *trace);
    }
    std::unique_lock lock(mutex_);
    if (!writes_.empty()) return WriteFirst();
    writing_ = false;
    FinishIfOver(lock);
  }

  void OnCancel() override {
    std::vector<std::shared_ptr<InferTicket>> open;
    {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
      for (const auto& [number, ticket] : open_) {
        if (ticket != nullptr) open.push_back(ticket);
      }
    }
    for (const auto& ticket : open) ticket->Cancel();
  }
  void OnDone() override { delete this; }

 private:
  struct Answer {
    std::unique_ptr<inference::ModelStreamInferResponse> message;
    std::shared_ptr<Trace> trace;   // null: it is not traced
  };

  void Read() {
    request_ = std::make_shared<inference::ModelInferRequest>();
    reading_since_ = TraceTime();
    StartRead(request_.get());
  }

  void Send(uint64_t number, Answer answer) {
    std::unique_lock lock(mutex_);
    open_.erase(number);
    if (broken_) return FinishIfOver(lock);
    writes_.push_back(std::move(answer));
    if (writing_) return;
    writing_ = true;
    WriteFirst();
  }

  void WriteFirst() {
    if (writes_.front().trace != nullptr) writes_.front().trace->Add("GRPC_SEND_START", TraceTime());
    StartWrite(writes_.front().message.get());
  }

  void FinishIfOver(std::unique_lock<std::mutex>& lock) {
    if (reading_ || writing_ || !open_.empty() || finished_) return;
    finished_ = true;
    lock.unlock();
    Finish(grpc::Status::OK);
  }

  Context& context_;
  CallbackServerContext& call_;
  std::shared_ptr<inference::ModelInferRequest> request_;
  std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<InferTicket>> open_;   // requests handed in and not answered
  std::deque<Answer> writes_;
  uint64_t reading_since_ = 0;
  uint64_t next_ = 0;
  bool reading_ = true;
  bool writing_ = false;
  bool cancelled_ = false;
  bool broken_ = false;
  bool finished_ = false;
};

class KserveService final : public inference::GRPCInferenceService::CallbackService {
 public:
  explicit KserveService(Context& context) : context_(context) {}

  ServerUnaryReactor* ModelInfer(CallbackServerContext* c, const inference::ModelInferRequest* request,
                                 inference::ModelInferResponse* response) override {
    if (auto* denied = Denied(c, Access::kInfer)) return denied;
    return new InferReactor(context_, *c, *request, response);
  }
  grpc::ServerBidiReactor<inference::ModelInferRequest, inference::ModelStreamInferResponse>* ModelStreamInfer(
      CallbackServerContext* c) override {
    return new StreamReactor(context_, *c, Checked(context_, *c, Access::kInfer));
  }
  ServerUnaryReactor* ServerLive(CallbackServerContext* c, const inference::ServerLiveRequest*,
                                 inference::ServerLiveResponse* r) override {
    if (auto* denied = Denied(c, Access::kHealth)) return denied;
    r->set_live(true);
    return Answer(c);
  }
  ServerUnaryReactor* ServerReady(CallbackServerContext* c, const inference::ServerReadyRequest*,
                                  inference::ServerReadyResponse* r) override {
    if (auto* denied = Denied(c, Access::kHealth)) return denied;
    r->set_ready(context_.models.Ready());
    return Answer(c);
  }
  ServerUnaryReactor* ModelReady(CallbackServerContext* c, const inference::ModelReadyRequest* q,
                                 inference::ModelReadyResponse* r) override {
    if (auto* denied = Denied(c, Access::kHealth)) return denied;
    r->set_ready(context_.models.ModelReady(q->name(), q->version()));
    return Answer(c);
  }
  ServerUnaryReactor* ServerMetadata(CallbackServerContext* c, const inference::ServerMetadataRequest*,
                                     inference::ServerMetadataResponse* r) override {
    if (auto* denied = Denied(c, Access::kInfer)) return denied;
    r->set_name("tenon");
    r->set_version(kVersionString);
    for (const std::string& name : Extensions()) r->add_extensions(name);
    return Answer(c);
  }
  ServerUnaryReactor* ModelMetadata(CallbackServerContext* c, const inference::ModelMetadataRequest* q,
                                    inference::ModelMetadataResponse* r) override {
    if (auto* denied = Denied(c, Access::kInfer)) return denied;
    const auto model = context_.models.Describe(q->name(), q->version());
    if (model.ok()) ToMessage(*model, r);
    return Answer(c, ToGrpc(model.status(), Outcome::kNotFound));
  }
  ServerUnaryReactor* ModelConfig(CallbackServerContext* c, const inference::ModelConfigRequest* q,
                                  inference::ModelConfigResponse* r) override {
    if (auto* denied = Denied(c, Access::kInfer)) return denied;
    const auto model = context_.models.Describe(q->name(), q->version());
    if (model.ok()) *r->mutable_config() = ConfigMessage(*model);
    return Answer(c, ToGrpc(model.status(), Outcome::kNotFound));
  }
  ServerUnaryReactor* ModelStatistics(CallbackServerContext* c, const inference::ModelStatisticsRequest* q,
                                      inference::ModelStatisticsResponse* r) override {
    if (auto* denied = Denied(c, Access::kInfer)) return denied;
    if (!q->name().empty()) {
      const auto model = context_.models.Describe(q->name(), q->version());
      if (!model.ok()) return Answer(c, ToGrpc(model.status(), Outcome::kNotFound));
    }
    for (const auto& s : context_.models.Statistics(q->name(), q->version())) {
      if (!s.name.empty()) ToMessage(s, r->add_model_stats());
    }
    return Answer(c);
  }
  ServerUnaryReactor* RepositoryIndex(CallbackServerContext* c, const inference::RepositoryIndexRequest* q,
                                      inference::RepositoryIndexResponse* r) override {
    if (auto* denied = Denied(c, Access::kInfer)) return denied;
    for (const ModelState& m : context_.models.Index()) {
      if (q->ready() && m.state != "READY") continue;
      auto* out = r->add_models();
      out->set_name(m.name);
      out->set_version(m.version);
      out->set_state(m.state);
      out->set_reason(m.reason);
    }
    return Answer(c);
  }
  ServerUnaryReactor* RepositoryModelLoad(CallbackServerContext* c, const inference::RepositoryModelLoadRequest* q,
                                          inference::RepositoryModelLoadResponse*) override {
    if (auto* denied = Denied(c, Access::kAdmin)) return denied;
    auto load = FromMessage(*q);
    if (!load.ok()) return Answer(c, ToGrpc(load.status(), Outcome::kBadRequest));
    return Admin(c, "load", q->model_name(),
                 [this, name = q->model_name(), load = std::move(load).value()] { return context_.loads.Load(name, load); });
  }
  ServerUnaryReactor* RepositoryModelUnload(CallbackServerContext* c, const inference::RepositoryModelUnloadRequest* q,
                                            inference::RepositoryModelUnloadResponse*) override {
    if (auto* denied = Denied(c, Access::kAdmin)) return denied;
    return Admin(c, "unload", q->model_name(), [this, name = q->model_name()] { return context_.loads.Unload(name); });
  }
  ServerUnaryReactor* SystemSharedMemoryStatus(CallbackServerContext* c, const inference::SystemSharedMemoryStatusRequest* q,
                                               inference::SystemSharedMemoryStatusResponse* r) override {
    if (auto* denied = Denied(c, Access::kInfer)) return denied;
    const auto regions = context_.regions.List(q->name());
    if (!regions.ok()) return Answer(c, ToGrpc(regions.status(), Outcome::kBadRequest));
    for (const auto& region : *regions) {
      auto& out = (*r->mutable_regions())[region.name];
      out.set_name(region.name);
      out.set_key(region.key);
      out.set_offset(region.offset);
      out.set_byte_size(region.bytes);
    }
    return Answer(c);
  }
  ServerUnaryReactor* SystemSharedMemoryRegister(CallbackServerContext* c, const inference::SystemSharedMemoryRegisterRequest* q,
                                                 inference::SystemSharedMemoryRegisterResponse*) override {
    if (auto* denied = Denied(c, Access::kInfer)) return denied;
    const Status status = context_.regions.Register(q->name(), q->key(), q->offset(), q->byte_size());
    return Answer(c, ToGrpc(status, OutcomeOfRefusal(status)));
  }
  ServerUnaryReactor* SystemSharedMemoryUnregister(CallbackServerContext* c,
                                                   const inference::SystemSharedMemoryUnregisterRequest* q,
                                                   inference::SystemSharedMemoryUnregisterResponse*) override {
    if (auto* denied = Denied(c, Access::kInfer)) return denied;
    context_.regions.Unregister(q->name());
    return Answer(c);
  }
  ServerUnaryReactor* LogSettings(CallbackServerContext* c, const inference::LogSettingsRequest* q,
                                  inference::LogSettingsResponse* r) override {
    if (auto* denied = Denied(c, Access::kAdmin)) return denied;
    const Status status = context_.log.Change(FromMessage(*q));
    ToMessage(context_.log.Values(), r);
    return Answer(c, ToGrpc(status, OutcomeOfRefusal(status)));
  }
  ServerUnaryReactor* TraceSetting(CallbackServerContext* c, const inference::TraceSettingRequest* q,
                                   inference::TraceSettingResponse* r) override {
    if (auto* denied = Denied(c, Access::kAdmin)) return denied;
    if (!q->model_name().empty()) {
      const auto model = context_.models.Describe(q->model_name());
      if (!model.ok()) return Answer(c, ToGrpc(model.status(), Outcome::kNotFound));
    }
    Status status;
    if (!q->settings().empty()) status = context_.traces.Update(q->model_name(), FromMessage(*q));
    ToMessage(context_.traces.Read(q->model_name()), r);
    return Answer(c, ToGrpc(status, OutcomeOfRefusal(status)));
  }

 private:
  static ServerUnaryReactor* Answer(CallbackServerContext* c, const grpc::Status& status = grpc::Status::OK) {
    auto* reactor = c->DefaultReactor();
    reactor->Finish(status);
    return reactor;
  }
  // The end of a call that its client may not make; null when it may.
  ServerUnaryReactor* Denied(CallbackServerContext* c, Access access) const {
    const grpc::Status status = Checked(context_, *c, access);
    return status.ok() ? nullptr : Answer(c, status);
  }
  ServerUnaryReactor* Admin(CallbackServerContext* c, const char* what, const std::string& model, std::function<Status()> work) {
    auto* reactor = c->DefaultReactor();
    context_.background([this, reactor, what, model, work = std::move(work)] {
      const Status status = work();
      LogLoad(context_.log, what, model, status, context_.models);
      reactor->Finish(ToGrpc(status, OutcomeOfRefusal(status)));
    });
    return reactor;
  }
  Context& context_;
};

class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  explicit HealthService(Context& context) : context_(context) {}
  ServerUnaryReactor* Check(CallbackServerContext* c, const grpc::health::v1::HealthCheckRequest* q,
                            grpc::health::v1::HealthCheckResponse* r) override {
    auto* reactor = c->DefaultReactor();
    const grpc::Status denied = Checked(context_, *c, Access::kHealth);
    if (!denied.ok()) {
      reactor->Finish(denied);
      return reactor;
    }
    const bool known = q->service().empty() || q->service() == inference::GRPCInferenceService::service_full_name();
    r->set_status(context_.models.Ready() ? grpc::health::v1::HealthCheckResponse::SERVING
                                          : grpc::health::v1::HealthCheckResponse::NOT_SERVING);
    reactor->Finish(known ? grpc::Status::OK : grpc::Status(grpc::StatusCode::NOT_FOUND, "unknown service"));
    return reactor;
  }

 private:
  Context& context_;
};

class Server final : public GrpcServer {
 public:
  Server(Context& context, Tls tls) : log_(context.log), kserve_(context), health_(context), certificates_(std::move(tls)) {}

  Status Open(const std::string& host, int port, uint64_t message_limit) {
    grpc::EnableDefaultHealthCheckService(false);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    const std::string address =
        host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
    const auto limit = static_cast<int>(std::min<uint64_t>(message_limit, std::numeric_limits<int>::max()));
    builder.SetMaxReceiveMessageSize(limit);
    builder.SetMaxSendMessageSize(limit);
    // Two servers on one port would share the clients by chance.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddListeningPort(address, certificates_.Credentials(), &port_);
    builder.RegisterService(&kserve_);
    builder.RegisterService(&health_);
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> observers;
    observers.push_back(CallLogs(log_));
    builder.experimental().SetInterceptorCreators(std::move(observers));
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) return ResourceLimit("cannot listen on {} for gRPC", address);
    return Status::Ok();
  }
  ~Server() override { Stop(std::chrono::milliseconds(0)); }
  int port() const override { return port_; }
  void SetTls(const Tls& tls) override { certificates_.Set(tls); }
  void Stop(std::chrono::milliseconds limit) override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + limit);
  }

 private:
  Log& log_;
  KserveService kserve_;
  HealthService health_;
  GrpcCertificates certificates_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace

Result<std::unique_ptr<GrpcServer>> GrpcServer::Listen(Context& context, const std::string& host, int port,
                                                       uint64_t message_limit, const Tls& tls) {
  auto server = std::make_unique<Server>(context, tls);
  TENON_RETURN_IF_ERROR(server->Open(host, port, message_limit));
  return std::unique_ptr<GrpcServer>(std::move(server));
}

}  // namespace tenon::server
