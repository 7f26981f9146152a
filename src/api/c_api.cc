#include <cstring>
#include <nlohmann/json.hpp>

#include "api/options.h"
#include "base/dtype.h"
#include "base/shape.h"
#include "base/version.h"
#include "tenon/compile.h"
#include "tenon/tenon.h"

struct tenon_value {
  tenon::HostTensor tensor;
  std::vector<tenon_value> items;   // of a sequence
};

struct tenon_session {
  std::unique_ptr<tenon::Session> session;
  tenon::CancelToken cancel;
  std::vector<std::vector<const char*>> input_dims;
  std::vector<std::vector<const char*>> output_dims;
};

namespace {

using tenon::Code;
using tenon::HostTensor;
using tenon::Status;

thread_local int last_code = 0;
thread_local std::string last_message;

int Fail(const Status& s) {
  last_code = static_cast<int>(s.code());
  last_message = s.message();
  return last_code;
}

int Done() {
  last_code = 0;
  last_message.clear();
  return 0;
}

// Runs f and turns what escapes from the standard library (memory, mostly) into a code.
template <typename F>
int Guarded(F&& f) {
  try {
    const Status s = f();
    return s.ok() ? Done() : Fail(s);
  } catch (const std::bad_alloc&) {
    return Fail({Code::kResourceLimit, "out of memory"});
  } catch (const std::exception& e) {
    return Fail({Code::kInternal, e.what()});
  }
}

std::vector<std::vector<const char*>> DimTexts(const std::vector<tenon::TensorInfo>& infos) {
  std::vector<std::vector<const char*>> all;
  for (const auto& info : infos) {
    all.emplace_back();
    for (const std::string& d : info.dims) all.back().push_back(d.c_str());
  }
  return all;
}

int FillInfo(const std::vector<tenon::TensorInfo>& infos, const std::vector<std::vector<const char*>>& dims, size_t index,
             tenon_tensor_info* out) {
  if (out == nullptr || index >= infos.size()) return Fail({Code::kUsage, "index out of range"});
  const tenon::TensorInfo& info = infos[index];
  *out = {info.name.c_str(), static_cast<int32_t>(info.dtype), info.is_sequence ? 1 : 0,
          info.has_rank ? static_cast<int32_t>(info.dims.size()) : -1, dims[index].data()};
  return Done();
}

tenon_value* NewValue(HostTensor tensor) {
  auto* value = new tenon_value{std::move(tensor), {}};
  for (const HostTensor& item : value->tensor.sequence) value->items.push_back({item, {}});
  return value;
}

nlohmann::json Report(const tenon::Session& session) {
  nlohmann::json kernels = nlohmann::json::array();
  for (const auto& k : session.kernels()) {
    nlohmann::json refused = nlohmann::json::array();
    for (const auto& [name, reason] : k.refused) refused.push_back({{"kernel", name}, {"reason", reason}});
    kernels.push_back({{"node", k.node}, {"op", k.op}, {"kernel", k.kernel}, {"precision", k.precision}, {"refused", refused}});
  }
  const tenon::MemoryReport m = session.memory();
  return {{"threads", session.threads()},
          {"kernels", kernels},
          {"memory",
           {{"weights", m.weights},
            {"packed", m.packed},
            {"arena_before", m.arena_before},
            {"arena", m.arena},
            {"scratch", m.scratch},
            {"outputs", m.outputs},
            {"charged", m.charged},
            {"cached_shapes", m.cached_shapes}}}};
}

}  // namespace

extern "C" {

const char* tenon_version(void) {
  return tenon::kVersionString;
}
int tenon_last_error_code(void) {
  return last_code;
}
const char* tenon_last_error(void) {
  return last_message.c_str();
}

int tenon_compile(const char* model, const char* out, const char* options_json) {
  return Guarded([&]() -> Status {
    if (model == nullptr || out == nullptr) return {Code::kUsage, "null path"};
    auto options = tenon::api::ParseOptions(options_json);
    if (!options.ok()) return options.status();
    return tenon::Compile(model, out, options->compile).status();
  });
}

tenon_session* tenon_open(const char* model, const char* options_json) {
  auto handle = std::make_unique<tenon_session>();
  const int code = Guarded([&]() -> Status {
    if (model == nullptr) return {Code::kUsage, "null path"};
    auto options = tenon::api::ParseOptions(options_json);
    if (!options.ok()) return options.status();
    auto session = tenon::OpenModel(model, options->compile, options->session, options->cache_dir);
    if (!session.ok()) return session.status();
    handle->session = std::move(session).value();
    handle->input_dims = DimTexts(handle->session->inputs());
    handle->output_dims = DimTexts(handle->session->outputs());
    return Status::Ok();
  });
  return code == 0 ? handle.release() : nullptr;
}

void tenon_close(tenon_session* session) {
  delete session;
}
size_t tenon_input_count(const tenon_session* session) {
  return session->session->inputs().size();
}
size_t tenon_output_count(const tenon_session* session) {
  return session->session->outputs().size();
}

int tenon_input_info(const tenon_session* session, size_t index, tenon_tensor_info* info) {
  return FillInfo(session->session->inputs(), session->input_dims, index, info);
}
int tenon_output_info(const tenon_session* session, size_t index, tenon_tensor_info* info) {
  return FillInfo(session->session->outputs(), session->output_dims, index, info);
}

const char* tenon_metadata(const tenon_session* session, const char* key) {
  const auto& metadata = session->session->metadata();
  const auto it = key == nullptr ? metadata.end() : metadata.find(key);
  return it == metadata.end() ? nullptr : it->second.c_str();
}

tenon_value* tenon_tensor(int32_t dtype, const int64_t* shape, size_t rank, const void* data, size_t bytes) {
  if (!tenon::IsValidDType(dtype) || static_cast<tenon::DType>(dtype) == tenon::DType::kString ||
      (rank > 0 && shape == nullptr)) {
    Fail({Code::kUsage, "not a plain element type, or no shape"});
    return nullptr;
  }
  HostTensor t;
  t.dtype = static_cast<tenon::DType>(dtype);
  t.shape.assign(shape, shape + rank);
  t.data = data;
  t.bytes = bytes;
  return NewValue(std::move(t));
}

tenon_value* tenon_strings(const int64_t* shape, size_t rank, const char* const* strings, const size_t* lengths) {
  HostTensor t;
  t.dtype = tenon::DType::kString;
  if (rank > 0) t.shape.assign(shape, shape + rank);
  auto checked = tenon::CheckedShape(t.shape);
  if (!checked.ok()) {
    Fail(checked.status());
    return nullptr;
  }
  for (int64_t i = 0; i < checked->num_elements(); ++i) t.strings.emplace_back(strings[i], lengths[i]);
  return NewValue(std::move(t));
}

tenon_value* tenon_sequence(int32_t dtype, const tenon_value* const* items, size_t count) {
  HostTensor t;
  t.dtype = static_cast<tenon::DType>(dtype);
  t.is_sequence = true;
  for (size_t i = 0; i < count; ++i) t.sequence.push_back(tenon::Copy(items[i]->tensor));
  return NewValue(std::move(t));
}

void tenon_value_free(tenon_value* value) {
  delete value;
}
int32_t tenon_value_dtype(const tenon_value* value) {
  return static_cast<int32_t>(value->tensor.dtype);
}
int32_t tenon_value_is_sequence(const tenon_value* value) {
  return value->tensor.is_sequence ? 1 : 0;
}
size_t tenon_value_rank(const tenon_value* value) {
  return value->tensor.shape.size();
}
const int64_t* tenon_value_shape(const tenon_value* value) {
  return value->tensor.shape.data();
}

const void* tenon_value_data(const tenon_value* value, size_t* bytes) {
  if (bytes != nullptr) *bytes = value->tensor.bytes;
  return value->tensor.data;
}

const char* tenon_value_string(const tenon_value* value, size_t index, size_t* length) {
  if (index >= value->tensor.strings.size()) return nullptr;
  if (length != nullptr) *length = value->tensor.strings[index].size();
  return value->tensor.strings[index].c_str();
}

size_t tenon_value_count(const tenon_value* value) {
  return value->tensor.is_sequence ? value->items.size() : value->tensor.strings.size();
}

const tenon_value* tenon_value_item(const tenon_value* value, size_t index) {
  return index < value->items.size() ? &value->items[index] : nullptr;
}

int tenon_run(tenon_session* session, const char* const* input_names, const tenon_value* const* inputs, size_t num_inputs,
              tenon_value** outputs) {
  return Guarded([&]() -> Status {
    std::vector<HostTensor> feeds;
    for (size_t i = 0; i < num_inputs; ++i) {
      if (input_names[i] == nullptr || inputs[i] == nullptr) return {Code::kUsage, "null input"};
      feeds.push_back(inputs[i]->tensor);
      feeds.back().name = input_names[i];
    }
    tenon::RunOptions options;
    options.cancel = &session->cancel;
    auto results = session->session->Run(feeds, options);
    session->cancel.Reset();
    if (!results.ok()) return results.status();
    for (size_t i = 0; i < results->size(); ++i) outputs[i] = NewValue(std::move((*results)[i]));
    return Status::Ok();
  });
}

void tenon_cancel(tenon_session* session) {
  session->cancel.Cancel();
}

int tenon_carry_state(tenon_session* session, const char* output, const char* input) {
  return Guarded([&]() -> Status {
    if (output == nullptr || input == nullptr) return {Code::kUsage, "null name"};
    return session->session->CarryState(output, input);
  });
}

void tenon_reset_state(tenon_session* session) {
  session->session->ResetState();
}
void tenon_trim(tenon_session* session) {
  session->session->Trim();
}

char* tenon_session_report(const tenon_session* session) {
  const std::string text = Report(*session->session).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return strdup(text.c_str());
}

void tenon_free(char* text) {
  free(text);
}

}  // extern "C"
