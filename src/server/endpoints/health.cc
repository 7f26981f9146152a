// Health of the server and of models.
#include "server/context.h"

namespace tenon::server {
namespace {

void ReplyHealth(const Call& call, bool good, int otherwise) {
  HttpResponse r;
  r.status = good ? 200 : otherwise;
  call.Reply(std::move(r));
}

}  // namespace

void HealthLive(Call& call) {
  ReplyHealth(call, true, 503);
}
void HealthReady(Call& call) {
  ReplyHealth(call, call.context.models.Ready(), 503);
}

void ModelReady(Call& call) {
  ReplyHealth(call, call.context.models.ModelReady(call.args[0], call.args.size() > 1 ? call.args[1] : ""), 400);
}

void Health(Call& call) {
  const bool ready = call.context.models.Ready();
  HttpResponse r;
  r.status = ready ? 200 : 503;
  r.body = ready ? R"({"status":"ok"})" : R"({"status":"not ready"})";
  call.Reply(std::move(r));
}

}  // namespace tenon::server
