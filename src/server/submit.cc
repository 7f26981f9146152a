#include "server/submit.h"

#include "server/status_map.h"

namespace tenon::server {

void Submit(const Call& call, InferCall infer) {
  const auto wanted = std::make_shared<InferCall>(std::move(infer));
  InferRequest request = std::move(wanted->request);
  Context* context = &call.context;
  request.check_outputs = [wanted, context](const std::vector<HostTensor>& outputs) {
    return CheckInferResponse(*wanted, outputs, context->regions, context->response_limit);
  };
  const auto exchange = call.exchange;
  const auto ticket = context->models.Infer(std::move(request), [wanted, context, exchange](InferResponse response) {
    exchange->Respond([wanted, context, answer = std::make_shared<InferResponse>(std::move(response))] {
      if (answer->outcome != Outcome::kOk) return ErrorResponse(answer->outcome, answer->message, answer->retry_after_s);
      auto written = WriteInferResponse(*wanted, std::move(*answer), context->regions, {});
      if (!written.ok()) return ErrorResponse(OutcomeOfRefusal(written.status()), written.status().message());
      return std::move(written).value();
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
