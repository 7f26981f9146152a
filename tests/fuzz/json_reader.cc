// libFuzzer target: any bytes as JSON that the server reads; see docs/fuzzing.md. The third byte says as what: the body of an
// inference request in KServe's form, of which the first two bytes say how many are JSON (0: all), plain lists, a ModelConfig.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "check_config.h"
#include "server/datatype.h"
#include "server/infer_call.h"
#include "server/plain_tensors.h"
#include "server/shared_memory.h"

namespace {

using tenon::HostTensor;

// Whoever computes with the tensor trusts its bytes to be those of its shape.
void Check(const HostTensor& t) {
  const auto count = tenon::server::ElementsOf(t.shape, t.name);
  if (!count.ok()) std::abort();
  if (t.dtype == tenon::DType::kString) {
    if (static_cast<int64_t>(t.strings.size()) != *count) std::abort();
    return;
  }
  if (t.bytes != tenon::DTypeBytes(t.dtype, *count)) std::abort();
  unsigned sum = 0;
  for (size_t i = 0; i < t.bytes; ++i) sum += static_cast<const unsigned char*>(t.data)[i];
  if (sum == 1) return;   // the bytes were read
}

void ReadPlain(const std::string& text) {
  const auto body = tenon::server::ReadObject(text);
  if (!body.ok()) return;
  for (const auto& [name, list] : body->items()) {
    for (const tenon::DType type : {tenon::DType::kF32, tenon::DType::kU8, tenon::DType::kI64, tenon::DType::kString}) {
      tenon::TensorInfo info;
      info.name = name;
      info.dtype = type;
      const auto t = tenon::server::FromLists(info, list);
      if (t.ok()) Check(*t);
    }
  }
}

void ReadConfig(const std::string& text) {
  tenon::ModelConfig config;
  if (tenon::server::ParseConfigJson(text, &config).ok()) tenon::fuzz::Check(config);
}

void ReadBody(std::string body, size_t json) {
  auto request = std::make_shared<tenon::server::HttpRequest>();
  request->body = std::move(body);
  request->body.reserve(request->body.size() + tenon::server::kBodyPadding);
  if (json > 0) request->headers.emplace_back("Inference-Header-Content-Length", std::to_string(json));
  const tenon::server::SharedMemory regions;
  auto call = tenon::server::ReadInferCall(request, regions);
  if (!call.ok()) return;
  for (const HostTensor& t : call->request.inputs) Check(t);
  // The inputs as the answer: what the check lets through can be written.
  tenon::InferResponse response;
  response.outputs = call->request.inputs;
  if (!tenon::server::CheckInferResponse(*call, response.outputs, regions, 1 << 20).ok()) return;
  if (!tenon::server::WriteInferResponse(*call, std::move(response), regions).ok()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const size_t json = data[0] | data[1] << 8;
  std::string text(reinterpret_cast<const char*>(data) + 3, size - 3);
  switch (data[2] % 3) {
    case 0: ReadBody(std::move(text), json); break;
    case 1: ReadPlain(text); break;
    default: ReadConfig(text);
  }
  return 0;
}
