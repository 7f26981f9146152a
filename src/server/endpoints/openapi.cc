// GET /openapi.json: the table of endpoints as OpenAPI 3.1.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>

#include "base/version.h"
#include "server/router.h"

namespace tenon::server {
namespace {

using Json = nlohmann::ordered_json;

// What requests and answers hold, as KServe's v2 protocol and its extensions say; readers ignore what they do not know.
constexpr const char* kSchemas = R"json({
"Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}},
"Parameters": {"type": "object", "additionalProperties": true},
"Tensor": {"type": "object", "required": ["name", "datatype", "shape"], "properties": {
  "name": {"type": "string"},
  "datatype": {"enum": ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BF16", "BYTES"]},
  "shape": {"type": "array", "items": {"type": "integer"}},
  "parameters": {"$ref": "#/components/schemas/Parameters"},
  "data": {"type": "array", "description": "elements in row-major order, nested or flat; absent when they follow as bytes"}}},
"OutputRequest": {"type": "object", "required": ["name"], "properties": {
  "name": {"type": "string"}, "parameters": {"$ref": "#/components/schemas/Parameters"}}},
"InferRequest": {"type": "object", "required": ["inputs"], "properties": {
  "id": {"type": "string"},
  "parameters": {"$ref": "#/components/schemas/Parameters"},
  "inputs": {"type": "array", "items": {"$ref": "#/components/schemas/Tensor"}},
  "outputs": {"type": "array", "items": {"$ref": "#/components/schemas/OutputRequest"}}}},
"InferResponse": {"type": "object", "required": ["model_name", "outputs"], "properties": {
  "model_name": {"type": "string"}, "model_version": {"type": "string"}, "id": {"type": "string"},
  "outputs": {"type": "array", "items": {"$ref": "#/components/schemas/Tensor"}}}},
"PlainRequest": {"type": "object", "description": "one nested list for each input, by its name", "additionalProperties": {"type": "array"}},
"GenerateRequest": {"type": "object", "description": "inputs by their names: values, or nested lists of them", "properties": {
  "id": {"type": "string"}, "parameters": {"$ref": "#/components/schemas/Parameters"}}},
"GenerateResponse": {"type": "object", "description": "outputs by their names: a value, or a flat list", "required": ["model_name", "model_version"],
  "properties": {"id": {"type": "string"}, "model_name": {"type": "string"}, "model_version": {"type": "string"}}},
"ServerMetadata": {"type": "object", "required": ["name", "version", "extensions"], "properties": {
  "name": {"type": "string"}, "version": {"type": "string"}, "extensions": {"type": "array", "items": {"type": "string"}}}},
"ModelMetadata": {"type": "object", "required": ["name", "versions", "platform", "inputs", "outputs"], "properties": {
  "name": {"type": "string"}, "versions": {"type": "array", "items": {"type": "string"}}, "platform": {"type": "string"},
  "inputs": {"type": "array", "items": {"$ref": "#/components/schemas/Tensor"}},
  "outputs": {"type": "array", "items": {"$ref": "#/components/schemas/Tensor"}}}},
"ModelConfig": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "max_batch_size": {"type": "integer"}}},
"Statistics": {"type": "object", "required": ["model_stats"], "properties": {"model_stats": {"type": "array", "items": {"type": "object"}}}},
"IndexRequest": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
"Index": {"type": "array", "items": {"type": "object", "required": ["name", "state", "reason"], "properties": {
  "name": {"type": "string"}, "version": {"type": "string"}, "state": {"enum": ["READY", "LOADING", "UNLOADING", "UNAVAILABLE"]},
  "reason": {"type": "string"}}}},
"RepositoryRequest": {"type": "object", "properties": {"parameters": {"$ref": "#/components/schemas/Parameters"}}},
"Empty": {"type": "object"},
"Regions": {"type": "array", "items": {"type": "object", "required": ["name", "key", "offset", "byte_size"], "properties": {
  "name": {"type": "string"}, "key": {"type": "string"}, "offset": {"type": "integer"}, "byte_size": {"type": "integer"}}}},
"RegionRequest": {"type": "object", "required": ["key", "byte_size"], "properties": {
  "key": {"type": "string"}, "offset": {"type": "integer", "minimum": 0}, "byte_size": {"type": "integer", "minimum": 0}}},
"LogSettings": {"type": "object", "properties": {
  "log_file": {"type": "string"}, "log_error": {"type": "boolean"}, "log_warning": {"type": "boolean"}, "log_info": {"type": "boolean"},
  "log_verbose_level": {"type": "integer", "minimum": 0}, "log_format": {"type": "string"}}},
"TraceSettings": {"type": "object", "properties": {
  "trace_file": {"type": ["string", "null"]}, "trace_level": {"type": ["array", "null"], "items": {"enum": ["OFF", "TIMESTAMPS"]}},
  "trace_rate": {"type": ["string", "integer", "null"]}, "trace_count": {"type": ["string", "integer", "null"]},
  "log_frequency": {"type": ["string", "integer", "null"]}}},
"Devices": {"type": "object", "required": ["devices"], "properties": {"devices": {"type": "array", "items": {"type": "object"}}}},
"DeviceRequest": {"type": "object", "additionalProperties": false, "properties": {
  "cores": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 4096}},
  "memory_limit": {"type": "integer", "minimum": 0}, "exclusive": {"type": "boolean"},
  "weight": {"type": "number", "minimum": 0.001, "maximum": 1000}}},
"Health": {"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}},
"Status": {"type": "object", "required": ["version", "ready", "models"], "properties": {
  "version": {"type": "string"}, "ready": {"type": "boolean"}, "models": {"type": "array", "items": {"type": "object"}}}},
"OpenApi": {"type": "object", "required": ["openapi"], "properties": {"openapi": {"type": "string"}}}
})json";

constexpr const char* kJson = "application/json";

// Bodies of a function's requests and answers; no schema: text, or nothing.
struct Bodies {
  std::string_view function;
  const char* request;
  const char* response;
  const char* type = kJson;
};
constexpr Bodies kBodies[] = {{"ServerMetadata", "", "ServerMetadata"},
                              {"HealthLive", "", "", ""},
                              {"HealthReady", "", "", ""},
                              {"AllStatistics", "", "Statistics"},
                              {"ModelMetadata", "", "ModelMetadata"},
                              {"ModelReady", "", "", ""},
                              {"ModelConfiguration", "", "ModelConfig"},
                              {"Statistics", "", "Statistics"},
                              {"Infer", "InferRequest", "InferResponse"},
                              {"Generate", "GenerateRequest", "GenerateResponse"},
                              {"GenerateStream", "GenerateRequest", "", "text/event-stream"},
                              {"RepositoryIndex", "IndexRequest", "Index"},
                              {"RepositoryLoad", "RepositoryRequest", "Empty"},
                              {"RepositoryUnload", "RepositoryRequest", "Empty"},
                              {"SharedMemoryStatus", "", "Regions"},
                              {"SharedMemoryRegister", "RegionRequest", "Empty"},
                              {"SharedMemoryUnregister", "", "Empty"},
                              {"LogSettings", "", "LogSettings"},
                              {"LogChange", "LogSettings", "LogSettings"},
                              {"TraceSettings", "", "TraceSettings"},
                              {"TraceChange", "TraceSettings", "TraceSettings"},
                              {"Devices", "", "Devices"},
                              {"DeviceSet", "DeviceRequest", "Empty"},
                              {"DeviceRemove", "", "Empty"},
                              {"Health", "", "Health"},
                              {"PlainInfer", "PlainRequest", "InferResponse"},
                              {"MetricsText", "", "", "text/plain"},
                              {"Page", "", "", "text/html"},
                              {"ServerStatus", "", "Status"},
                              {"OpenApi", "", "OpenApi"}};

constexpr const Bodies* FindBodies(std::string_view function) {
  return std::find_if(std::begin(kBodies), std::end(kBodies), [&](const Bodies& b) { return b.function == function; });
}
#define ENDPOINT(method, path, function, access, summary) \
  static_assert(FindBodies(#function) != std::end(kBodies), "a row of kBodies is missing: " #function);
#include "server/endpoints.inc"
#undef ENDPOINT

Json Reference(const std::string& schema) {
  return {{"$ref", "#/components/schemas/" + schema}};
}

// "getV2ModelsModelReady" for GET /v2/models/{model}/ready.
std::string OperationId(const Endpoint& e) {
  std::string id(e.method);
  std::transform(id.begin(), id.end(), id.begin(), [](char c) { return static_cast<char>(std::tolower(c)); });
  bool upper = true;
  for (const char c : e.path) {
    const bool letter = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (letter) id += upper ? static_cast<char>(std::toupper(c)) : c;
    upper = !letter;
  }
  return id;
}

Json PathParameters(std::string_view path) {
  Json list = Json::array();
  for (size_t at = path.find('{'); at != std::string_view::npos; at = path.find('{', at + 1)) {
    const std::string name(path.substr(at + 1, path.find('}', at) - at - 1));
    list.push_back({{"name", name}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}});
  }
  return list;
}

Json RequestBody(const Bodies& bodies) {
  Json content = {{kJson, {{"schema", Reference(bodies.request)}}}};
  // Tensors as bytes behind the JSON; pictures.
  if (std::string_view(bodies.response) == "InferResponse") content["application/octet-stream"] = Json::object();
  return {{"required", std::string_view(bodies.request) != "RepositoryRequest"}, {"content", content}};
}

Json Operation(const Endpoint& e, const AccessControl& access) {
  Json operation = {{"operationId", OperationId(e)}, {"summary", e.summary}};
  if (Json parameters = PathParameters(e.path); !parameters.empty()) operation["parameters"] = std::move(parameters);
  Json good = {{"description", "done"}};
  const Bodies& bodies = *FindBodies(e.function);
  if (bodies.request[0] != 0) operation["requestBody"] = RequestBody(bodies);
  if (bodies.type[0] != 0)
    good["content"][bodies.type] = bodies.response[0] == 0 ? Json::object() : Json({{"schema", Reference(bodies.response)}});
  operation["responses"] = {
      {"200", good},
      {"default",
       {{"description", "refused; docs/serving.md has the statuses"}, {"content", {{kJson, {{"schema", Reference("Error")}}}}}}}};
  operation["security"] = Json::array();
  if (access.Check(e.access, "") != Verdict::kAllowed) operation["security"].push_back({{"key", Json::array()}});
  return operation;
}

}  // namespace

void OpenApi(Call& call) {
  const AccessControl& access = call.context.access;
  Json paths = Json::object();
  for (const Endpoint& e : Endpoints()) {
    std::string method(e.method);
    std::transform(method.begin(), method.end(), method.begin(), [](char c) { return static_cast<char>(std::tolower(c)); });
    paths[std::string(e.path)][method] = Operation(e, access);
  }
  Json components = {{"schemas", Json::parse(kSchemas)}};
  if (access.on()) components["securitySchemes"] = {{"key", {{"type", "http"}, {"scheme", "bearer"}}}};
  const Json document = {{"openapi", "3.1.0"},
                         {"info", {{"title", "Tenon"}, {"version", kVersionString}}},
                         {"paths", paths},
                         {"components", components}};
  call.ReplyJson(document.dump());
}

}  // namespace tenon::server
