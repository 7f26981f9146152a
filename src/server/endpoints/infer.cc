// POST /v2/models/{model}[/versions/{version}]/infer
#include "server/submit.h"

namespace tenon::server {

void Infer(Call& call) {
  auto infer = ReadInferCall(call.request, call.context.regions);
  if (!infer.ok()) return RefuseInfer(call, call.args[0], infer.status());
  infer->request.model = call.args[0];
  if (call.args.size() > 1) infer->request.version = call.args[1];
  Submit(call, std::move(infer).value());
}

}  // namespace tenon::server
