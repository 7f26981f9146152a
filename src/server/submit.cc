#include "server/submit.h"

#include "server/status_map.h"

namespace tenon::server {
namespace {

std::shared_ptr<Trace> BeginTrace(Context& context, const std::string& model, const HttpRequest& request) {
  auto trace = context.traces.Begin(model);
  if (trace == nullptr) return nullptr;
  trace->Add("HTTP_RECV_START", TraceTime(request.begin));
  trace->Add("HTTP_RECV_END", TraceTime(request.end));
  return trace;
}

void EndTrace(Context& context, const std::shared_ptr<Trace>& trace, HttpResponse* response) {
  trace->Add("HTTP_SEND_START", TraceTime());
  response->done = [trace, &context](bool) {
    trace->Add("HTTP_SEND_END", TraceTime());
    context.log.Write("traces end", context.traces.Write(*trace));
  };
}

HttpResponse Answer(const InferCall& wanted, Context& context, ResponseWriter write, InferResponse answer) {
  if (answer.outcome != Outcome::kOk) return ErrorResponse(answer.outcome, answer.message, answer.retry_after_s);
  auto written = write(wanted, std::move(answer), context.regions);
  if (!written.ok()) return ErrorResponse(OutcomeOfRefusal(written.status()), written.status().message());
  return std::move(written).value();
}

}  // namespace

void Submit(const Call& call, InferCall infer, ResponseWriter write) {
  const auto wanted = std::make_shared<InferCall>(std::move(infer));
  InferRequest request = std::move(wanted->request);
  Context* context = &call.context;
  request.check_outputs = [wanted, context](const std::vector<HostTensor>& outputs) {
    return CheckInferResponse(*wanted, outputs, context->regions, context->response_limit);
  };
  const auto exchange = call.exchange;
  const std::shared_ptr<Trace> trace = BeginTrace(*context, request.model, *call.request);
  if (trace != nullptr) trace->AddTensors(Trace::kQueueInput, request.inputs);
  const uint64_t begin = trace == nullptr ? 0 : TraceTime();
  const auto ticket =
      context->models.Infer(std::move(request), [wanted, context, exchange, write, trace, begin](InferResponse response) {
        if (trace != nullptr) trace->AddRequest(begin, response);
        exchange->Respond([wanted, context, write, trace, answer = std::make_shared<InferResponse>(std::move(response))] {
          if (trace != nullptr) trace->AddTensors(Trace::kBackendOutput, answer->outputs);
          HttpResponse made = Answer(*wanted, *context, write, std::move(*answer));
          if (trace != nullptr) EndTrace(*context, trace, &made);
          return made;
        });
      });
  if (ticket != nullptr) exchange->OnGone([ticket] { ticket->Cancel(); });
}

void RefuseInfer(const Call& call, const std::string& model, const Status& status) {
  const Outcome outcome = OutcomeOfRefusal(status);
  call.context.models.CountRefused(model, outcome);
  call.ReplyError(outcome, fmt::format("model '{}'; {}", model, status.message()));
}

}  // namespace tenon::server
