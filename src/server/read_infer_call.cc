// Inference requests of the KServe HTTP protocol: JSON, and tensors as bytes after it.
#include <simdjson.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "serve/string_bytes.h"
#include "server/datatype.h"
#include "server/infer_call.h"
#include "server/shared_memory.h"

namespace tenon::server {
namespace {

namespace dom = simdjson::dom;

constexpr size_t kMaxDepth = 32;
constexpr size_t kKeptParser = 1 << 20;   // a parser for more than this is not kept between requests
constexpr size_t kMaxTensors = 1024;

std::string_view TypeName(dom::element e) {
  switch (e.type()) {
    case dom::element_type::ARRAY: return "an array";
    case dom::element_type::OBJECT: return "an object";
    case dom::element_type::STRING: return "a string";
    case dom::element_type::BOOL: return "a boolean";
    case dom::element_type::NULL_VALUE: return "null";
    default: return "a number";
  }
}

Status WrongType(const std::string& what, std::string_view expected, dom::element given) {
  return Usage("{}; {} is expected, {} given", what, expected, TypeName(given));
}

Result<std::string> ReadText(dom::element e, const std::string& what) {
  std::string_view text;
  if (e.get(text) != simdjson::SUCCESS) return WrongType(what, "a string", e);
  return std::string(text);
}

Result<uint64_t> ReadUnsigned(dom::element e, const std::string& what) {
  uint64_t n = 0;
  if (e.get(n) != simdjson::SUCCESS) return WrongType(what, "a number >= 0", e);
  return n;
}

Result<bool> ReadBool(dom::element e, const std::string& what) {
  bool b = false;
  if (e.get(b) != simdjson::SUCCESS) return WrongType(what, "true or false", e);
  return b;
}

Result<std::vector<int64_t>> ReadShape(dom::element e, const std::string& what) {
  dom::array array;
  if (e.get(array) != simdjson::SUCCESS) return WrongType(what, "an array of extents", e);
  std::vector<int64_t> shape;
  for (dom::element extent : array) {
    int64_t n = 0;
    if (extent.get(n) != simdjson::SUCCESS) return WrongType(what, "an integer extent", extent);
    shape.push_back(n);
  }
  return shape;
}

// Elements of nested arrays in order. `limit`: more elements than the shape has are refused at once.
template <typename F>
Status ForEachLeaf(dom::element e, const std::string& what, F&& leaf) {
  dom::array array;
  if (e.get(array) != simdjson::SUCCESS) return leaf(e);
  for (dom::element child : array) TENON_RETURN_IF_ERROR(ForEachLeaf(child, what, leaf));
  return Status::Ok();
}

template <typename T>
Status ReadNumber(dom::element e, const std::string& what, T* out) {
  if constexpr (std::is_floating_point_v<T>) {
    double d = 0;
    if (e.get(d) != simdjson::SUCCESS) {
      if (!e.is_null()) return WrongType(what, "a number", e);
      d = std::numeric_limits<double>::quiet_NaN();   // JSON has no other word for it
    }
    *out = static_cast<T>(d);
    return Status::Ok();
  } else {
    if (int64_t i = 0; e.get(i) == simdjson::SUCCESS) {
      if (std::in_range<T>(i)) {
        *out = static_cast<T>(i);
        return Status::Ok();
      }
      return Usage("{}; {} is outside {}..{}", what, i, std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
    }
    if (uint64_t u = 0; e.get(u) == simdjson::SUCCESS && std::in_range<T>(u)) {
      *out = static_cast<T>(u);
      return Status::Ok();
    }
    return WrongType(what, "an integer in range", e);
  }
}

template <typename T>
Status ReadNumbers(dom::element data, const std::string& what, int64_t count, HostTensor* t) {
  auto values = std::make_shared<std::vector<T>>();
  TENON_RETURN_IF_ERROR(ForEachLeaf(data, what, [&](dom::element e) -> Status {
    T value{};
    if (e.is_bool() && sizeof(T) == 1 && t->dtype == DType::kBool) {
      value = static_cast<T>(static_cast<bool>(e));
    } else {
      TENON_RETURN_IF_ERROR(ReadNumber<T>(e, what, &value));
      if (t->dtype == DType::kBool && value > 1)
        return Usage("{}; a boolean is expected, {} given", what, static_cast<int>(value));
    }
    values->push_back(value);
    return Status::Ok();
  }));
  if (static_cast<int64_t>(values->size()) != count) {
    return Usage("{}; {} elements given; the shape has {}", what, values->size(), count);
  }
  t->data = values->data();
  t->bytes = values->size() * sizeof(T);
  t->owner = values;
  return Status::Ok();
}

Status ReadStrings(dom::element data, const std::string& what, int64_t count, HostTensor* t) {
  TENON_RETURN_IF_ERROR(ForEachLeaf(data, what, [&](dom::element e) -> Status {
    TENON_ASSIGN_OR_RETURN(std::string text, ReadText(e, what));
    t->strings.push_back(std::move(text));
    return Status::Ok();
  }));
  if (static_cast<int64_t>(t->strings.size()) == count) return Status::Ok();
  return Usage("{}; {} elements given; the shape has {}", what, t->strings.size(), count);
}

Status ReadData(dom::element data, const std::string& what, int64_t count, HostTensor* t) {
  if (!data.is_array()) return WrongType(what + "; data", "an array", data);
  switch (t->dtype) {
    case DType::kBool:
    case DType::kU8: return ReadNumbers<uint8_t>(data, what, count, t);
    case DType::kI8: return ReadNumbers<int8_t>(data, what, count, t);
    case DType::kU16: return ReadNumbers<uint16_t>(data, what, count, t);
    case DType::kI16: return ReadNumbers<int16_t>(data, what, count, t);
    case DType::kU32: return ReadNumbers<uint32_t>(data, what, count, t);
    case DType::kI32: return ReadNumbers<int32_t>(data, what, count, t);
    case DType::kU64: return ReadNumbers<uint64_t>(data, what, count, t);
    case DType::kI64: return ReadNumbers<int64_t>(data, what, count, t);
    case DType::kF32: return ReadNumbers<float>(data, what, count, t);
    case DType::kF64: return ReadNumbers<double>(data, what, count, t);
    case DType::kString: return ReadStrings(data, what, count, t);
    default: return Usage("{}; {} has no form in JSON; send it as binary data", what, DatatypeName(t->dtype));
  }
}

// Bytes [begin, begin + size) of the body as the tensor's elements, not copied where alignment allows.
Status ReadBinary(const std::shared_ptr<HttpRequest>& request, size_t begin, size_t size, const std::string& what, int64_t count,
                  HostTensor* t) {
  const std::string_view bytes(request->body.data() + begin, size);
  if (t->dtype == DType::kString) {
    TENON_ASSIGN_OR_RETURN(t->strings, serve::UnpackStrings(bytes, count, what));
    return Status::Ok();
  }
  const size_t want = DTypeBytes(t->dtype, count);
  if (size != want) return Usage("{}; {} bytes given; shape and type have {}", what, size, want);
  t->bytes = size;
  const size_t element = static_cast<size_t>(DTypeBits(t->dtype)) / 8;
  if (reinterpret_cast<uintptr_t>(bytes.data()) % element == 0) {
    t->data = bytes.data();
    t->owner = request;
    return Status::Ok();
  }
  const auto copy = std::shared_ptr<char[]>(new char[size]);
  if (size > 0) std::memcpy(copy.get(), bytes.data(), size);
  t->data = copy.get();
  t->owner = copy;
  return Status::Ok();
}

Status ReadRegion(dom::object parameters, const std::string& what, RegionPart* part) {
  for (const auto& [key, value] : parameters) {
    if (key == "shared_memory_region") {
      TENON_ASSIGN_OR_RETURN(part->region, ReadText(value, what + "; shared_memory_region"));
    } else if (key == "shared_memory_byte_size") {
      TENON_ASSIGN_OR_RETURN(part->bytes, ReadUnsigned(value, what + "; shared_memory_byte_size"));
    } else if (key == "shared_memory_offset") {
      TENON_ASSIGN_OR_RETURN(part->offset, ReadUnsigned(value, what + "; shared_memory_offset"));
    }
  }
  return Status::Ok();
}

struct Reader {
  const std::shared_ptr<HttpRequest>& request;
  const SharedMemory& regions;
  size_t binary_at;      // where the next binary tensor begins

  Result<HostTensor> ReadInput(dom::element e) {
    dom::object object;
    if (e.get(object) != simdjson::SUCCESS) return WrongType("inputs", "an object", e);
    HostTensor t;
    std::string what = "input";
    dom::element member;
    if (object["name"].get(member) != simdjson::SUCCESS) return Usage("an input has no \"name\"");
    TENON_ASSIGN_OR_RETURN(t.name, ReadText(member, "name of an input"));
    what = fmt::format("input '{}'", t.name);
    if (object["datatype"].get(member) != simdjson::SUCCESS) return Usage("{} has no \"datatype\"", what);
    TENON_ASSIGN_OR_RETURN(const std::string datatype, ReadText(member, what + "; datatype"));
    const auto type = DatatypeFromName(datatype);
    if (!type) return Usage("{}; unknown datatype '{}'; allowed are those of KServe, as FP32, INT64, BYTES", what, datatype);
    t.dtype = *type;
    if (object["shape"].get(member) != simdjson::SUCCESS) return Usage("{} has no \"shape\"", what);
    TENON_ASSIGN_OR_RETURN(t.shape, ReadShape(member, what + "; shape"));
    TENON_ASSIGN_OR_RETURN(const int64_t count, ElementsOf(t.shape, what));
    dom::object parameters;
    if (object["parameters"].get(parameters) == simdjson::SUCCESS) {
      RegionPart part;
      TENON_RETURN_IF_ERROR(ReadRegion(parameters, what, &part));
      if (!part.region.empty()) return FromRegion(regions, part, std::move(t), count);
      if (parameters["binary_data_size"].get(member) == simdjson::SUCCESS) {
        TENON_ASSIGN_OR_RETURN(const uint64_t size, ReadUnsigned(member, what + "; binary_data_size"));
        const size_t left = request->body.size() - binary_at;
        if (size > left) return Usage("{}; binary_data_size is {}; {} bytes are left in the body", what, size, left);
        TENON_RETURN_IF_ERROR(ReadBinary(request, binary_at, size, what, count, &t));
        binary_at += size;
        return t;
      }
    }
    if (object["data"].get(member) != simdjson::SUCCESS) return Usage("{} has neither \"data\" nor binary data", what);
    TENON_RETURN_IF_ERROR(ReadData(member, what, count, &t));
    return t;
  }
};

Status ReadOutputs(dom::element e, InferCall* call) {
  dom::array array;
  if (e.get(array) != simdjson::SUCCESS) return WrongType("outputs", "an array", e);
  if (array.size() > kMaxTensors) return Usage("{} outputs asked for; at most {} are allowed", array.size(), kMaxTensors);
  for (dom::element item : array) {
    dom::element member;
    dom::object object;
    if (item.get(object) != simdjson::SUCCESS) return WrongType("outputs", "an object", item);
    if (object["name"].get(member) != simdjson::SUCCESS) return Usage("an output has no \"name\"");
    TENON_ASSIGN_OR_RETURN(const std::string name, ReadText(member, "name of an output"));
    const std::string what = fmt::format("output '{}'", name);
    OutputWish wish;
    wish.binary = call->binary_default;
    dom::object parameters;
    if (object["parameters"].get(parameters) == simdjson::SUCCESS) {
      if (parameters["binary_data"].get(member) == simdjson::SUCCESS) {
        TENON_ASSIGN_OR_RETURN(wish.binary, ReadBool(member, what + "; binary_data"));
      }
      if (parameters["classification"].get(member) == simdjson::SUCCESS) {
        TENON_ASSIGN_OR_RETURN(const uint64_t classes, ReadUnsigned(member, what + "; classification"));
        wish.classes = static_cast<int64_t>(std::min<uint64_t>(classes, std::numeric_limits<int32_t>::max()));
      }
      TENON_RETURN_IF_ERROR(ReadRegion(parameters, what, &wish.region));
    }
    if (!call->wishes.emplace(name, wish).second) return Usage("{} is asked for twice", what);
    call->request.outputs.push_back(name);
  }
  return Status::Ok();
}

Status ReadParameters(dom::object parameters, InferCall* call) {
  for (const auto& [key, value] : parameters) {
    if (key == "binary_data_output") {
      TENON_ASSIGN_OR_RETURN(call->binary_default, ReadBool(value, "binary_data_output"));
    } else if (key == "priority") {
      TENON_ASSIGN_OR_RETURN(const uint64_t n, ReadUnsigned(value, "priority"));
      call->request.priority = static_cast<uint32_t>(std::min<uint64_t>(n, std::numeric_limits<uint32_t>::max()));
    } else if (key == "timeout") {
      TENON_ASSIGN_OR_RETURN(const uint64_t us, ReadUnsigned(value, "timeout"));
      constexpr uint64_t kMost = uint64_t{1} << 50;   // microseconds: longer than any run
      call->request.timeout = std::chrono::microseconds(std::min(us, kMost));
    }
  }
  return Status::Ok();
}

// Where the JSON ends: the header says so, else it is the whole body.
Result<size_t> JsonLength(const HttpRequest& request) {
  const std::string_view header = request.Header("Inference-Header-Content-Length");
  if (header.empty()) return request.body.size();
  size_t length = 0;
  const auto [end, error] = std::from_chars(header.data(), header.data() + header.size(), length);
  if (error != std::errc() || end != header.data() + header.size() || length > request.body.size()) {
    return Usage("Inference-Header-Content-Length is '{}'; a number up to the body's {} bytes is expected", header,
                 request.body.size());
  }
  return length;
}

Result<InferCall> ReadDocument(const std::shared_ptr<HttpRequest>& request, const SharedMemory& regions, dom::element document,
                               size_t json_length) {
  dom::object root;
  if (document.get(root) != simdjson::SUCCESS) return WrongType("the body", "an object", document);
  InferCall call;
  dom::element member;
  if (root["id"].get(member) == simdjson::SUCCESS && !member.is_null()) {
    TENON_ASSIGN_OR_RETURN(call.request.id, ReadText(member, "id"));
  }
  if (root["parameters"].get(member) == simdjson::SUCCESS && !member.is_null()) {
    dom::object parameters;
    if (member.get(parameters) != simdjson::SUCCESS) return WrongType("parameters", "an object", member);
    TENON_RETURN_IF_ERROR(ReadParameters(parameters, &call));
  }
  if (root["inputs"].get(member) != simdjson::SUCCESS) return Usage("the body has no \"inputs\"");
  dom::array inputs;
  if (member.get(inputs) != simdjson::SUCCESS) return WrongType("inputs", "an array", member);
  if (inputs.size() > kMaxTensors) return Usage("{} inputs given; at most {} are allowed", inputs.size(), kMaxTensors);
  Reader reader{request, regions, json_length};
  for (dom::element e : inputs) {
    TENON_ASSIGN_OR_RETURN(HostTensor t, reader.ReadInput(e));
    call.request.inputs.push_back(std::move(t));
  }
  if (reader.binary_at != request->body.size()) {
    return Usage("{} bytes follow the last tensor; binary_data_size of the inputs must add up to the body",
                 request->body.size() - reader.binary_at);
  }
  if (root["outputs"].get(member) == simdjson::SUCCESS && !member.is_null()) TENON_RETURN_IF_ERROR(ReadOutputs(member, &call));
  return call;
}

}  // namespace

OutputWish InferCall::WishFor(const std::string& output) const {
  const auto it = wishes.find(output);
  if (it != wishes.end()) return it->second;
  OutputWish wish;
  wish.binary = binary_default;
  return wish;
}

Result<InferCall> ReadInferCall(const std::shared_ptr<HttpRequest>& request, const SharedMemory& regions) {
  static_assert(kBodyPadding >= simdjson::SIMDJSON_PADDING);
  TENON_ASSIGN_OR_RETURN(const size_t length, JsonLength(*request));
  static thread_local dom::parser kept;
  dom::parser fresh;
  dom::parser& parser = length > kKeptParser ? fresh : kept;
  if (parser.allocate(std::max<size_t>(length, 4096), kMaxDepth) != simdjson::SUCCESS) {
    return ResourceLimit("no memory to read {} bytes of JSON", length);
  }
  const auto document = parser.parse(request->body.data(), length, /*realloc_if_needed=*/false);
  if (document.error() != simdjson::SUCCESS) {
    return Usage("the body is not valid JSON: {} (at most {} levels of nesting)", simdjson::error_message(document.error()),
                 kMaxDepth);
  }
  return ReadDocument(request, regions, document.value_unsafe(), length);
}

}  // namespace tenon::server
