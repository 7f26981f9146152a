// POST /v2/models/{model}/generate and generate_stream: fields of a JSON object are the model's inputs, its outputs fields of the
// answer.
#include <nlohmann/json.hpp>

#include <algorithm>

#include "server/plain_tensors.h"
#include "server/status_map.h"
#include "server/submit.h"

namespace tenon::server {
namespace {

using Json = nlohmann::json;

const TensorInfo* InputOf(const ModelDescription& model, const std::string& name) {
  const auto it = std::find_if(model.inputs.begin(), model.inputs.end(), [&](const TensorInfo& i) { return i.name == name; });
  return it == model.inputs.end() ? nullptr : &*it;
}

// A value with fewer levels than the input has dimensions is one element along those that come first.
Result<HostTensor> ReadField(const TensorInfo& info, const Json& value) {
  TENON_ASSIGN_OR_RETURN(HostTensor t, FromLists(info, value));
  if (info.has_rank && t.shape.size() < info.dims.size()) t.shape.insert(t.shape.begin(), info.dims.size() - t.shape.size(), 1);
  return t;
}

Status ReadParameter(const std::string& name, const Json& value, InferRequest* request) {
  if (name != "priority" && name != "timeout") return Status::Ok();  // others mean something to language models
  if (!value.is_number_unsigned()) return Usage("{}; a number >= 0 is expected", name);
  constexpr uint64_t kMost = uint64_t{1} << 50;  // microseconds: longer than any run
  const auto n = std::min(value.get<uint64_t>(), kMost);
  if (name == "timeout") request->timeout = std::chrono::microseconds(n);
  if (name == "priority") request->priority = static_cast<uint32_t>(std::min<uint64_t>(n, std::numeric_limits<uint32_t>::max()));
  return Status::Ok();
}

// Inputs stand beside "id" and "parameters", or among the parameters.
Status ReadFields(const Json& fields, const ModelDescription& model, bool parameters, InferRequest* request) {
  for (const auto& [name, value] : fields.items()) {
    if (const TensorInfo* info = InputOf(model, name)) {
      TENON_ASSIGN_OR_RETURN(HostTensor t, ReadField(*info, value));
      request->inputs.push_back(std::move(t));
    } else if (parameters) {
      TENON_RETURN_IF_ERROR(ReadParameter(name, value, request));
    } else if (name == "parameters") {
      if (!value.is_object()) return Usage("parameters; an object is expected");
      TENON_RETURN_IF_ERROR(ReadFields(value, model, true, request));
    } else if (name == "id") {
      if (!value.is_string()) return Usage("id; a text is expected");
      request->id = value.get<std::string>();
    } else {
      return Usage("unknown input '{}'", name);
    }
  }
  return Status::Ok();
}

Result<InferCall> ReadGenerate(const Call& call, const ModelDescription& model) {
  TENON_ASSIGN_OR_RETURN(const Json body, ReadObject(call.request->body));
  InferCall infer;
  TENON_RETURN_IF_ERROR(ReadFields(body, model, false, &infer.request));
  infer.request.model = model.name;
  infer.request.version = call.args.size() > 1 ? call.args[1] : "";
  return infer;
}

// A model of tensors answers once: a stream of one event.
Result<HttpResponse> WriteEvent(const InferCall& call, InferResponse response, const SharedMemory& regions) {
  TENON_ASSIGN_OR_RETURN(HttpResponse r, WriteGenerateResponse(call, std::move(response), regions));
  r.content_type = "text/event-stream; charset=utf-8";
  r.headers.emplace_back("Cache-Control", "no-cache");
  r.body = "data: " + r.body + "\n\n";
  return r;
}

void Run(Call& call, ResponseWriter write) {
  const auto model = call.context.models.Describe(call.args[0], call.args.size() > 1 ? call.args[1] : "");
  if (!model.ok()) return call.ReplyError(Outcome::kNotFound, model.status().message());
  auto infer = ReadGenerate(call, *model);
  if (!infer.ok()) return RefuseInfer(call, call.args[0], infer.status());
  Submit(call, std::move(infer).value(), write);
}

}  // namespace

void Generate(Call& call) {
  Run(call, WriteGenerateResponse);
}

void GenerateStream(Call& call) {
  Run(call, WriteEvent);
}

}  // namespace tenon::server
