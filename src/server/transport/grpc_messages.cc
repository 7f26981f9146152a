#include "server/transport/grpc_messages.h"

#include <cstring>

#include "serve/string_bytes.h"
#include "server/datatype.h"
#include "server/model_json.h"

namespace tenon::server {
namespace {

using Parameters = google::protobuf::Map<std::string, inference::InferParameter>;

Result<uint64_t> Unsigned(const inference::InferParameter& p, const std::string& what) {
  if (p.parameter_choice_case() == inference::InferParameter::kUint64Param) return p.uint64_param();
  if (p.parameter_choice_case() == inference::InferParameter::kInt64Param && p.int64_param() >= 0) {
    return static_cast<uint64_t>(p.int64_param());
  }
  return Usage("{}; a number >= 0 is expected", what);
}

Status ReadRegion(const Parameters& parameters, const std::string& what, RegionPart* part) {
  for (const auto& [key, value] : parameters) {
    if (key == "shared_memory_region") part->region = value.string_param();
    if (key == "shared_memory_byte_size") {
      TENON_ASSIGN_OR_RETURN(part->bytes, Unsigned(value, what + "; shared_memory_byte_size"));
    }
    if (key == "shared_memory_offset") {
      TENON_ASSIGN_OR_RETURN(part->offset, Unsigned(value, what + "; shared_memory_offset"));
    }
  }
  return Status::Ok();
}

// Numbers of a repeated field, narrowed to T.
template <typename T, typename Field>
Status FromContents(const Field& field, const std::string& what, int64_t count, HostTensor* t) {
  if (field.size() != count) return Usage("{}; {} elements of contents given; the shape has {}", what, field.size(), count);
  auto values = std::make_shared<std::vector<T>>();
  for (const auto v : field) {
    if constexpr (std::is_integral_v<T>) {
      if (static_cast<decltype(v)>(static_cast<T>(v)) != v)
        return Usage("{}; {} does not fit {}", what, v, DatatypeName(t->dtype));
    }
    values->push_back(static_cast<T>(v));
  }
  t->data = values->data();
  t->bytes = values->size() * sizeof(T);
  t->owner = values;
  return Status::Ok();
}

Status ReadContents(const inference::InferTensorContents& c, const std::string& what, int64_t count, HostTensor* t) {
  switch (t->dtype) {
    case DType::kBool: return FromContents<uint8_t>(c.bool_contents(), what, count, t);
    case DType::kI8: return FromContents<int8_t>(c.int_contents(), what, count, t);
    case DType::kI16: return FromContents<int16_t>(c.int_contents(), what, count, t);
    case DType::kI32: return FromContents<int32_t>(c.int_contents(), what, count, t);
    case DType::kI64: return FromContents<int64_t>(c.int64_contents(), what, count, t);
    case DType::kU8: return FromContents<uint8_t>(c.uint_contents(), what, count, t);
    case DType::kU16: return FromContents<uint16_t>(c.uint_contents(), what, count, t);
    case DType::kU32: return FromContents<uint32_t>(c.uint_contents(), what, count, t);
    case DType::kU64: return FromContents<uint64_t>(c.uint64_contents(), what, count, t);
    case DType::kF32: return FromContents<float>(c.fp32_contents(), what, count, t);
    case DType::kF64: return FromContents<double>(c.fp64_contents(), what, count, t);
    case DType::kString:
      if (c.bytes_contents_size() != count)
        return Usage("{}; {} elements of contents given; the shape has {}", what, c.bytes_contents_size(), count);
      t->strings.assign(c.bytes_contents().begin(), c.bytes_contents().end());
      return Status::Ok();
    default: return Usage("{}; {} has no contents; use raw_input_contents", what, DatatypeName(t->dtype));
  }
}

Status ReadRaw(const std::string& raw, const std::string& what, int64_t count, HostTensor* t) {
  if (t->dtype == DType::kString) {
    TENON_ASSIGN_OR_RETURN(t->strings, serve::UnpackStrings(raw, count, what));
    return Status::Ok();
  }
  const size_t want = DTypeBytes(t->dtype, count);
  if (raw.size() != want) return Usage("{}; {} bytes given; shape and type have {}", what, raw.size(), want);
  t->data = raw.data();
  t->bytes = want;
  return Status::Ok();
}

Result<HostTensor> ReadInput(const inference::ModelInferRequest::InferInputTensor& input, const std::string* raw,
                             const RegionPart& part, const SharedMemory& regions) {
  HostTensor t;
  t.name = input.name();
  const std::string what = fmt::format("input '{}'", t.name);
  const auto type = DatatypeFromName(input.datatype());
  if (!type)
    return Usage("{}; unknown datatype '{}'; allowed are those of KServe, as FP32, INT64, BYTES", what, input.datatype());
  t.dtype = *type;
  t.shape.assign(input.shape().begin(), input.shape().end());
  TENON_ASSIGN_OR_RETURN(const int64_t count, ElementsOf(t.shape, what));
  if (!part.region.empty()) return FromRegion(regions, part, std::move(t), count);
  if (raw != nullptr && input.has_contents()) return Usage("{}; both contents and raw_input_contents given", what);
  TENON_RETURN_IF_ERROR(raw != nullptr ? ReadRaw(*raw, what, count, &t) : ReadContents(input.contents(), what, count, &t));
  return t;
}

Status ReadOutput(const inference::ModelInferRequest::InferRequestedOutputTensor& output, InferCall* call) {
  const std::string what = fmt::format("output '{}'", output.name());
  OutputWish wish;
  wish.binary = true;
  TENON_RETURN_IF_ERROR(ReadRegion(output.parameters(), what, &wish.region));
  const auto classes = output.parameters().find("classification");
  if (classes != output.parameters().end()) {
    TENON_ASSIGN_OR_RETURN(const uint64_t n, Unsigned(classes->second, what + "; classification"));
    wish.classes = static_cast<int64_t>(std::min<uint64_t>(n, std::numeric_limits<int32_t>::max()));
  }
  if (!call->wishes.emplace(output.name(), wish).second) return Usage("{} is asked for twice", what);
  call->request.outputs.push_back(output.name());
  return Status::Ok();
}

Status ReadParameters(const Parameters& parameters, InferRequest* request) {
  for (const auto& [key, value] : parameters) {
    if (key == "priority") {
      TENON_ASSIGN_OR_RETURN(const uint64_t n, Unsigned(value, key));
      request->priority = static_cast<uint32_t>(std::min<uint64_t>(n, std::numeric_limits<uint32_t>::max()));
    } else if (key == "timeout") {
      TENON_ASSIGN_OR_RETURN(const uint64_t us, Unsigned(value, key));
      request->timeout = std::chrono::microseconds(std::min(us, uint64_t{1} << 50));
    }
  }
  return Status::Ok();
}

void Set(const DurationSum& d, inference::StatisticDuration* out) {
  out->set_count(d.count);
  out->set_ns(d.ns);
}

template <typename List>
void AddMetadata(const std::vector<TensorInfo>& infos, List* list) {
  for (const TensorInfo& i : infos) {
    auto* t = list->Add();
    t->set_name(i.name);
    t->set_datatype(std::string(DatatypeName(i.dtype)));
    for (int64_t extent : WireShape(i)) t->add_shape(extent);
  }
}

}  // namespace

Result<InferCall> FromMessage(const inference::ModelInferRequest& message, const SharedMemory& regions) {
  InferCall call;
  call.binary_default = true;
  call.request.model = message.model_name();
  call.request.version = message.model_version();
  call.request.id = message.id();
  TENON_RETURN_IF_ERROR(ReadParameters(message.parameters(), &call.request));
  int raw = 0;
  for (const auto& input : message.inputs()) {
    RegionPart part;
    TENON_RETURN_IF_ERROR(ReadRegion(input.parameters(), fmt::format("input '{}'", input.name()), &part));
    const std::string* bytes = nullptr;
    if (message.raw_input_contents_size() > 0 && part.region.empty()) {
      if (raw >= message.raw_input_contents_size())
        return Usage("input '{}'; has no raw_input_contents, though others have", input.name());
      bytes = &message.raw_input_contents(raw++);
    }
    TENON_ASSIGN_OR_RETURN(HostTensor t, ReadInput(input, bytes, part, regions));
    call.request.inputs.push_back(std::move(t));
  }
  if (raw != message.raw_input_contents_size()) {
    return Usage("{} raw_input_contents given for {} inputs", message.raw_input_contents_size(), raw);
  }
  for (const auto& output : message.outputs()) TENON_RETURN_IF_ERROR(ReadOutput(output, &call));
  return call;
}

Status ToMessage(const InferCall& call, InferResponse response, const SharedMemory& regions,
                 inference::ModelInferResponse* message) {
  message->set_model_name(response.model);
  message->set_model_version(response.version);
  message->set_id(response.id);
  for (HostTensor& t : response.outputs) {
    const OutputWish wish = call.WishFor(t.name);
    if (wish.classes > 0) {
      TENON_ASSIGN_OR_RETURN(t, Classify(t, wish.classes, {}));
    }
    auto* out = message->add_outputs();
    out->set_name(t.name);
    out->set_datatype(std::string(DatatypeName(t.dtype)));
    for (int64_t extent : t.shape) out->add_shape(extent);
    std::string* raw = message->add_raw_output_contents();   // one for each output, so that their numbers agree
    if (!wish.region.region.empty()) {
      TENON_RETURN_IF_ERROR(ToRegion(regions, wish.region, t));
      (*out->mutable_parameters())["shared_memory_region"].set_string_param(wish.region.region);
      (*out->mutable_parameters())["shared_memory_byte_size"].set_int64_param(static_cast<int64_t>(wish.region.bytes));
    } else if (t.dtype == DType::kString) {
      *raw = serve::PackStrings(t.strings);
    } else {
      raw->assign(static_cast<const char*>(t.data), t.bytes);
    }
  }
  return Status::Ok();
}

LogValues FromMessage(const inference::LogSettingsRequest& message) {
  using Value = inference::LogSettingsRequest::SettingValue;
  LogValues values;
  for (const auto& [name, value] : message.settings()) {
    switch (value.parameter_choice_case()) {
      case Value::kBoolParam: values[name] = value.bool_param(); break;
      case Value::kUint32Param: values[name] = uint64_t{value.uint32_param()}; break;
      case Value::kStringParam: values[name] = value.string_param(); break;
      case Value::PARAMETER_CHOICE_NOT_SET: break;   // says nothing
    }
  }
  return values;
}

TraceChanges FromMessage(const inference::TraceSettingRequest& message) {
  TraceChanges changes;
  for (const auto& [name, value] : message.settings()) {
    changes[name];
    if (value.value_size() > 0) changes[name].emplace(value.value().begin(), value.value().end());
  }
  return changes;
}

void ToMessage(const LogValues& values, inference::LogSettingsResponse* message) {
  for (const auto& [name, value] : values) {
    auto& out = (*message->mutable_settings())[name];
    if (const auto* on = std::get_if<bool>(&value)) out.set_bool_param(*on);
    if (const auto* n = std::get_if<uint64_t>(&value))
      out.set_uint32_param(static_cast<uint32_t>(std::min<uint64_t>(*n, std::numeric_limits<uint32_t>::max())));
    if (const auto* text = std::get_if<std::string>(&value)) out.set_string_param(*text);
  }
}

void ToMessage(const TraceValues& values, inference::TraceSettingResponse* message) {
  for (const auto& [name, texts] : values) {
    auto& out = (*message->mutable_settings())[name];
    for (const std::string& text : texts) out.add_value(text);
  }
}

Result<LoadRequest> FromMessage(const inference::RepositoryModelLoadRequest& message) {
  using Parameter = inference::ModelRepositoryParameter;
  LoadRequest request;
  for (const auto& [key, value] : message.parameters()) {
    if (key == "config") {
      if (value.parameter_choice_case() != Parameter::kStringParam) return Usage("parameter 'config'; a string is expected");
      request.config = value.string_param();
    } else if (key.starts_with("file:")) {
      if (value.parameter_choice_case() != Parameter::kBytesParam) return Usage("parameter '{}'; bytes are expected", key);
      TENON_RETURN_IF_ERROR(AddFile(key, value.bytes_param(), &request));
    }
  }
  return request;
}

void ToMessage(const ModelDescription& model, inference::ModelMetadataResponse* message) {
  message->set_name(model.name);
  for (const std::string& v : model.versions) message->add_versions(v);
  message->set_platform(PlatformOf(model.config));
  AddMetadata(model.inputs, message->mutable_inputs());
  AddMetadata(model.outputs, message->mutable_outputs());
}

void ToMessage(const ModelStatistics& s, inference::ModelStatistics* message) {
  message->set_name(s.name);
  message->set_version(s.version);
  message->set_last_inference(s.last_ms);
  message->set_inference_count(s.rows);
  message->set_execution_count(s.runs);
  auto* stats = message->mutable_inference_stats();
  Set(s.success, stats->mutable_success());
  Set(s.fail, stats->mutable_fail());
  Set(s.queue, stats->mutable_queue());
  Set(s.input, stats->mutable_compute_input());
  Set(s.infer, stats->mutable_compute_infer());
  Set(s.output, stats->mutable_compute_output());
  for (const BatchStatistics& b : s.batches) {
    auto* batch = message->add_batch_stats();
    batch->set_batch_size(b.rows);
    Set(b.input, batch->mutable_compute_input());
    Set(b.infer, batch->mutable_compute_infer());
    Set(b.output, batch->mutable_compute_output());
  }
  auto& response = (*message->mutable_response_stats())[kOnlyResponse];
  Set(s.infer, response.mutable_compute_infer());
  Set(s.output, response.mutable_compute_output());
  Set(ResponseSuccess(s), response.mutable_success());
  Set(ResponseFailure(s), response.mutable_fail());
  Set({}, response.mutable_empty_response());
  Set(s.cancel, response.mutable_cancel());
  auto* memory = message->add_memory_usage();
  memory->set_type("CPU");
  memory->set_byte_size(s.memory_bytes);
}

}  // namespace tenon::server
