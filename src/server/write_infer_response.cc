// Answers to inference requests of the KServe HTTP protocol.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include <fmt/ranges.h>

#include "serve/string_bytes.h"
#include "server/datatype.h"
#include "server/infer_call.h"
#include "server/json_text.h"
#include "server/shared_memory.h"

namespace tenon::server {
namespace {

constexpr size_t kTextPerElement = 24;   // the longest number and its comma

template <typename T>
void AppendNumbers(const HostTensor& t, std::string* out) {
  const T* data = static_cast<const T*>(t.data);
  const size_t count = t.bytes / sizeof(T);
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) *out += ',';
    if constexpr (std::is_floating_point_v<T>) {
      AppendJsonNumber(data[i], out);
    } else {
      fmt::format_to(std::back_inserter(*out), "{}", data[i]);
    }
  }
}

Status AppendData(const HostTensor& t, std::string* out) {
  switch (t.dtype) {
    case DType::kBool:
      for (size_t i = 0; i < t.bytes; ++i)
        *out += fmt::format("{}{}", i > 0 ? "," : "", static_cast<const uint8_t*>(t.data)[i] != 0);
      break;
    case DType::kU8: AppendNumbers<uint8_t>(t, out); break;
    case DType::kI8: AppendNumbers<int8_t>(t, out); break;
    case DType::kU16: AppendNumbers<uint16_t>(t, out); break;
    case DType::kI16: AppendNumbers<int16_t>(t, out); break;
    case DType::kU32: AppendNumbers<uint32_t>(t, out); break;
    case DType::kI32: AppendNumbers<int32_t>(t, out); break;
    case DType::kU64: AppendNumbers<uint64_t>(t, out); break;
    case DType::kI64: AppendNumbers<int64_t>(t, out); break;
    case DType::kF32: AppendNumbers<float>(t, out); break;
    case DType::kF64: AppendNumbers<double>(t, out); break;
    case DType::kString:
      for (size_t i = 0; i < t.strings.size(); ++i) {
        if (i > 0) *out += ',';
        AppendJsonString(t.strings[i], out);
      }
      break;
    default: return Usage("output '{}'; {} has no form in JSON; ask for binary data", t.name, DatatypeName(t.dtype));
  }
  return Status::Ok();
}

// The answer up to its outputs.
std::string NamesOf(const InferResponse& response) {
  std::string json = "{\"model_name\":";
  AppendJsonString(response.model, &json);
  json += ",\"model_version\":";
  AppendJsonString(response.version, &json);
  if (!response.id.empty()) {
    json += ",\"id\":";
    AppendJsonString(response.id, &json);
  }
  return json;
}

size_t ElementCount(const HostTensor& t) {
  return t.dtype == DType::kString ? t.strings.size() : t.bytes * 8 / static_cast<size_t>(std::max(1, DTypeBits(t.dtype)));
}

uint64_t TextEstimate(const HostTensor& t) {
  if (t.dtype != DType::kString) return ElementCount(t) * kTextPerElement;
  uint64_t sum = 0;
  for (const std::string& s : t.strings) sum += s.size() * 2 + 8;
  return sum;
}

Result<std::vector<double>> Values(const HostTensor& t) {
  const size_t bits = static_cast<size_t>(std::max(1, DTypeBits(t.dtype)));
  std::vector<double> values(t.bytes * 8 / bits);
  const auto fill = [&]<typename T>(T) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(static_cast<const T*>(t.data)[i]);
  };
  switch (t.dtype) {
    case DType::kF32: fill(float{}); break;
    case DType::kF64: fill(double{}); break;
    case DType::kU8: fill(uint8_t{}); break;
    case DType::kI8: fill(int8_t{}); break;
    case DType::kI32: fill(int32_t{}); break;
    case DType::kI64: fill(int64_t{}); break;
    default: return Usage("output '{}'; classes are for FP32, FP64 and integers; it is {}", t.name, DatatypeName(t.dtype));
  }
  return values;
}

// Header of one output up to its data.
void AppendHead(const HostTensor& t, std::string* json) {
  *json += "{\"name\":";
  AppendJsonString(t.name, json);
  *json += fmt::format(",\"datatype\":\"{}\",\"shape\":[{}]", DatatypeName(t.dtype), fmt::join(t.shape, ","));
}

struct Writer {
  std::string json;
  std::vector<HttpPiece> binary;

  Status Add(const HostTensor& t, const OutputWish& wish, const SharedMemory& regions) {
    AppendHead(t, &json);
    if (!wish.region.region.empty()) {
      TENON_RETURN_IF_ERROR(ToRegion(regions, wish.region, t));
      json += ",\"parameters\":{\"shared_memory_region\":";
      AppendJsonString(wish.region.region, &json);
      json += fmt::format(",\"shared_memory_byte_size\":{}", wish.region.bytes);
      if (wish.region.offset > 0) json += fmt::format(",\"shared_memory_offset\":{}", wish.region.offset);
      json += "}}";
      return Status::Ok();
    }
    if (wish.binary) {
      if (t.dtype == DType::kString) {
        const auto packed = std::make_shared<const std::string>(serve::PackStrings(t.strings));
        binary.push_back({*packed, packed});
      } else {
        CHECK(t.owner != nullptr || t.bytes == 0);   // answers own their memory
        binary.push_back({{static_cast<const char*>(t.data), t.bytes}, t.owner});
      }
      json += fmt::format(",\"parameters\":{{\"binary_data_size\":{}}}}}", binary.back().bytes.size());
      return Status::Ok();
    }
    json += ",\"data\":[";
    TENON_RETURN_IF_ERROR(AppendData(t, &json));
    json += "]}";
    return Status::Ok();
  }
};

}  // namespace

Result<HostTensor> Classify(const HostTensor& output, int64_t classes, const std::vector<std::string>& labels) {
  TENON_ASSIGN_OR_RETURN(const std::vector<double> values, Values(output));
  const int64_t rows = output.shape.size() > 1 ? std::max<int64_t>(1, output.shape[0]) : 1;
  const int64_t width = static_cast<int64_t>(values.size()) / rows;
  const int64_t n = std::min(classes, width);
  HostTensor t;
  t.name = output.name;
  t.dtype = DType::kString;
  if (output.shape.size() > 1) t.shape.push_back(rows);
  t.shape.push_back(n);
  std::vector<int64_t> order(static_cast<size_t>(width));
  for (int64_t r = 0; r < rows; ++r) {
    const double* row = values.data() + r * width;
    std::iota(order.begin(), order.end(), 0);
    const auto better = [row](int64_t a, int64_t b) { return row[a] != row[b] ? row[a] > row[b] : a < b; };
    std::partial_sort(order.begin(), order.begin() + n, order.end(), better);
    for (int64_t i = 0; i < n; ++i) {
      const auto c = static_cast<size_t>(order[static_cast<size_t>(i)]);
      t.strings.push_back(fmt::format("{:f}:{}", row[c], c) + (c < labels.size() ? ":" + labels[c] : ""));
    }
  }
  return t;
}

Result<HostTensor> FromRegion(const SharedMemory& regions, const RegionPart& part, HostTensor tensor, int64_t elements) {
  TENON_ASSIGN_OR_RETURN(const auto memory, regions.Find(part.region, part.offset, part.bytes));
  const std::string what = fmt::format("input '{}'", tensor.name);
  if (tensor.dtype == DType::kString) {
    TENON_ASSIGN_OR_RETURN(tensor.strings, serve::UnpackStrings({memory.get(), part.bytes}, elements, what));
    return tensor;
  }
  const size_t want = DTypeBytes(tensor.dtype, elements);
  if (part.bytes != want) return Usage("{}; {} bytes of shared memory given; shape and type have {}", what, part.bytes, want);
  tensor.data = memory.get();
  tensor.bytes = want;
  tensor.owner = memory;
  if (reinterpret_cast<uintptr_t>(memory.get()) % 8 != 0) tensor = Copy(tensor);
  return tensor;
}

Status ToRegion(const SharedMemory& regions, const RegionPart& part, const HostTensor& tensor) {
  const std::string packed = tensor.dtype == DType::kString ? serve::PackStrings(tensor.strings) : "";
  const size_t bytes = tensor.dtype == DType::kString ? packed.size() : tensor.bytes;
  if (bytes > part.bytes) {
    return Usage("output '{}'; {} bytes of shared memory given; it has {}", tensor.name, part.bytes, bytes);
  }
  TENON_ASSIGN_OR_RETURN(const auto memory, regions.Find(part.region, part.offset, part.bytes));
  if (bytes > 0) std::memcpy(memory.get(), tensor.dtype == DType::kString ? packed.data() : tensor.data, bytes);
  return Status::Ok();
}

Status CheckInferResponse(const InferCall& call, const std::vector<HostTensor>& outputs, const SharedMemory& regions,
                          uint64_t limit) {
  uint64_t estimate = 0;
  for (const HostTensor& t : outputs) {
    const OutputWish wish = call.WishFor(t.name);
    if (wish.classes > 0) {
      TENON_RETURN_IF_ERROR(Values(t).status());
      continue;
    }
    if (!wish.region.region.empty()) {
      const size_t bytes = t.dtype == DType::kString ? serve::PackStrings(t.strings).size() : t.bytes;
      if (bytes > wish.region.bytes)
        return Usage("output '{}'; {} bytes of shared memory given; it has {}", t.name, wish.region.bytes, bytes);
      TENON_RETURN_IF_ERROR(regions.Find(wish.region.region, wish.region.offset, wish.region.bytes).status());
      continue;
    }
    if (DatatypeName(t.dtype) == "INVALID")
      return Unsupported("output '{}'; the protocol has no type for {}", t.name, DTypeName(t.dtype));
    if (!wish.binary && (t.dtype == DType::kF16 || t.dtype == DType::kBF16)) {
      return Usage("output '{}'; {} has no form in JSON; ask for binary data", t.name, DatatypeName(t.dtype));
    }
    if (!wish.binary && !std::all_of(t.strings.begin(), t.strings.end(), IsUtf8)) {
      return Usage("output '{}'; its bytes are no text; ask for binary data", t.name);
    }
    estimate += wish.binary ? t.bytes : TextEstimate(t);
  }
  if (estimate <= limit) return Status::Ok();
  return ResourceLimit("the answer would be about {} bytes; {} are allowed; ask for binary data or fewer outputs", estimate,
                       limit);
}

Result<HttpResponse> WriteGenerateResponse(const InferCall&, InferResponse response, const SharedMemory&) {
  HttpResponse http;
  http.body = NamesOf(response);
  for (const HostTensor& t : response.outputs) {
    http.body += ',';
    AppendJsonString(t.name, &http.body);
    const bool one = ElementCount(t) == 1;
    http.body += one ? ":" : ":[";
    TENON_RETURN_IF_ERROR(AppendData(t, &http.body));
    if (!one) http.body += ']';
  }
  http.body += '}';
  return http;
}

Result<HttpResponse> WriteInferResponse(const InferCall& call, InferResponse response, const SharedMemory& regions) {
  Writer writer;
  writer.json = NamesOf(response) + ",\"outputs\":[";
  bool first = true;
  for (HostTensor& t : response.outputs) {
    const OutputWish wish = call.WishFor(t.name);
    if (wish.classes > 0) {
      TENON_ASSIGN_OR_RETURN(t, Classify(t, wish.classes, {}));
    }
    if (!first) writer.json += ',';
    first = false;
    TENON_RETURN_IF_ERROR(writer.Add(t, wish, regions));
  }
  writer.json += "]}";
  HttpResponse http;
  if (!writer.binary.empty()) {
    http.content_type = "application/octet-stream";
    http.headers.emplace_back("Inference-Header-Content-Length", std::to_string(writer.json.size()));
  }
  http.body = std::move(writer.json);
  http.pieces = std::move(writer.binary);
  return http;
}

}  // namespace tenon::server
