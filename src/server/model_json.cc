#include "server/model_json.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/version.h"
#include "server/datatype.h"

namespace tenon::server {
namespace {

using Json = nlohmann::ordered_json;

std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json Tensors(const std::vector<TensorInfo>& infos) {
  Json list = Json::array();
  for (const TensorInfo& i : infos)
    list.push_back({{"name", i.name}, {"datatype", DatatypeName(i.dtype)}, {"shape", WireShape(i)}});
  return list;
}

Json Sum(const DurationSum& d) {
  return {{"count", d.count}, {"ns", d.ns}};
}

Json OneStatistics(const ModelStatistics& s) {
  Json batches = Json::array();
  for (const BatchStatistics& b : s.batches) {
    batches.push_back({{"batch_size", b.rows},
                       {"compute_input", Sum(b.input)},
                       {"compute_infer", Sum(b.infer)},
                       {"compute_output", Sum(b.output)}});
  }
  const Json none = Sum({});
  const Json response = {
      {"compute_infer", Sum(s.infer)},   {"compute_output", Sum(s.output)}, {"success", Sum(ResponseSuccess(s))},
      {"fail", Sum(ResponseFailure(s))}, {"empty_response", none},          {"cancel", Sum(s.cancel)}};
  return {{"name", s.name},
          {"version", s.version},
          {"last_inference", s.last_ms},
          {"inference_count", s.rows},
          {"execution_count", s.runs},
          {"inference_stats",
           {{"success", Sum(s.success)},
            {"fail", Sum(s.fail)},
            {"queue", Sum(s.queue)},
            {"compute_input", Sum(s.input)},
            {"compute_infer", Sum(s.infer)},
            {"compute_output", Sum(s.output)},
            {"cache_hit", none},
            {"cache_miss", none}}},
          {"response_stats", {{kOnlyResponse, response}}},
          {"batch_stats", batches},
          {"memory_usage", Json::array({{{"type", "CPU"}, {"id", 0}, {"byte_size", s.memory_bytes}}})}};
}

}  // namespace

const std::vector<std::string>& Extensions() {
  static const std::vector<std::string> kNames = {"binary_tensor_data",
                                                  "classification",
                                                  "model_repository",
                                                  "schedule_policy",
                                                  "model_configuration",
                                                  "system_shared_memory",
                                                  "statistics",
                                                  "trace",
                                                  "logging",
                                                  "parameters",
                                                  "generate"};
  return kNames;
}

std::vector<int64_t> WireShape(const TensorInfo& info) {
  std::vector<int64_t> shape;
  for (const std::string& dim : info.dims) {
    int64_t n = 0;
    const bool number = std::from_chars(dim.data(), dim.data() + dim.size(), n).ptr == dim.data() + dim.size() && !dim.empty();
    shape.push_back(number ? n : -1);
  }
  return shape;
}

std::vector<int64_t> WireDims(const TensorInfo& info, const ModelConfig& config) {
  std::vector<int64_t> shape = WireShape(info);
  if (config.max_batch.value_or(0) > 0 && !shape.empty()) shape.erase(shape.begin());
  return shape;
}

std::string ConfigType(DType type) {
  return type == DType::kString ? "TYPE_STRING" : "TYPE_" + std::string(DatatypeName(type));
}

DurationSum ResponseSuccess(const ModelStatistics& s) {
  return {s.success.count, s.infer.ns + s.output.ns};
}

DurationSum ResponseFailure(const ModelStatistics& s) {
  return {s.fail.count - s.cancel.count, s.fail.ns - s.cancel.ns};
}

const char* PlatformOf(const ModelConfig& config) {
  return config.ensemble.empty() ? kPlatform : "ensemble";
}

std::string PartName(const EnsemblePart& part) {
  return part.model.empty() ? "tenon." + part.step : part.model;
}

std::string MetadataJson(const ModelDescription& m) {
  return Text({{"name", m.name},
               {"versions", m.versions},
               {"platform", PlatformOf(m.config)},
               {"inputs", Tensors(m.inputs)},
               {"outputs", Tensors(m.outputs)}});
}

std::string StatisticsJson(const std::vector<ModelStatistics>& all) {
  Json list = Json::array();
  for (const ModelStatistics& s : all) {
    if (!s.name.empty()) list.push_back(OneStatistics(s));
  }
  return Text({{"model_stats", list}});
}

}  // namespace tenon::server
