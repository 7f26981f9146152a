#include "server/config_ragged.h"

#include <charconv>

#include "base/status.h"
#include "server/config_fields.h"
#include "server/config_files.h"
#include "server/model_json.h"

namespace tenon::server {
namespace {

constexpr int kMaxRank = 7;                        // beside the leading extent
constexpr int64_t kMaxExtent = int64_t{1} << 40;

Result<std::vector<int64_t>> DimsOf(const google::protobuf::RepeatedField<int64_t>& dims, const std::string& name) {
  if (dims.size() > kMaxRank) return BadInput("'{}'; {} dims; at most {} are allowed", name, dims.size(), kMaxRank);
  for (int64_t d : dims) {
    if (d < -1 || d == 0 || d > kMaxExtent) return BadInput("'{}'; dims has {}; allowed: -1, 1..{}", name, d, kMaxExtent);
  }
  return std::vector<int64_t>(dims.begin(), dims.end());
}

template <typename Message>
Result<std::string> SourceOf(const Message& m, const char* field) {
  if (m.source_input_size() != 1) return BadInput("{}; {} names in source_input; one is expected", field, m.source_input_size());
  if (m.target_name().empty()) return BadInput("{}; target_name is missing", field);
  return m.source_input(0);
}

Status ApplyBatchInput(const inference::BatchInput& m, ModelConfig* config) {
  if (!inference::BatchInput::Kind_IsValid(m.kind())) return BadInput("batch_input; unknown kind {}", static_cast<int>(m.kind()));
  BatchInput input;
  input.kind = static_cast<BatchInput::Kind>(m.kind());
  input.targets.assign(m.target_name().begin(), m.target_name().end());
  TENON_ASSIGN_OR_RETURN(input.source, SourceOf(m, "batch_input"));
  input.dtype = DTypeOf(m.data_type());
  if (input.dtype != DType::kI32 && input.dtype != DType::kI64 && input.dtype != DType::kF32)
    return BadInput("batch_input; data_type is {}; allowed: TYPE_INT32, TYPE_INT64, TYPE_FP32", ConfigType(input.dtype));
  config->batch_inputs.push_back(std::move(input));
  return Status::Ok();
}

Status ApplyBatchOutput(const inference::BatchOutput& m, const inference::ModelConfig& whole, ModelConfig* config) {
  if (!inference::BatchOutput::Kind_IsValid(m.kind()))
    return BadInput("batch_output; unknown kind {}", static_cast<int>(m.kind()));
  TENON_ASSIGN_OR_RETURN(const std::string source, SourceOf(m, "batch_output"));
  for (const std::string& target : m.target_name()) {
    const auto output =
        std::find_if(whole.output().begin(), whole.output().end(), [&](const auto& o) { return o.name() == target; });
    if (output == whole.output().end()) return BadInput("batch_output; target_name '{}' is no output of this file", target);
    TENON_ASSIGN_OR_RETURN(std::vector<int64_t> dims, DimsOf(output->dims(), target));
    config->batch_outputs.push_back({{target}, source, std::move(dims)});
  }
  return Status::Ok();
}

Status Number(const std::string& key, const std::string& text, double least, double most, double* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || !(*out >= least && *out <= most))
    return BadInput("parameters; {} is '{}'; a number in {}..{} is expected", key, text, least, most);
  return Status::Ok();
}

}  // namespace

Status ApplyRagged(const inference::ModelConfig& m, ModelConfig* config) {
  for (const auto& input : m.input()) {
    if (!input.allow_ragged_batch()) continue;
    TENON_ASSIGN_OR_RETURN(std::vector<int64_t> dims, DimsOf(input.dims(), input.name()));
    config->ragged_inputs.push_back({input.name(), std::move(dims)});
  }
  for (const auto& input : m.batch_input()) TENON_RETURN_IF_ERROR(ApplyBatchInput(input, config));
  for (const auto& output : m.batch_output()) TENON_RETURN_IF_ERROR(ApplyBatchOutput(output, m, config));
  return Status::Ok();
}

Status ApplyParameters(const inference::ModelConfig& m, ModelConfig* config) {
  constexpr std::string_view kPad = "pad.";
  for (const auto& [key, value] : m.parameters()) {
    double number = 0;
    if (key == "precision") {
      config->precision = value.string_value();
    } else if (key == "max_batch_tokens") {
      TENON_RETURN_IF_ERROR(Number(key, value.string_value(), 0, kMaxBatchTokens, &number));
      config->max_batch_tokens = static_cast<int64_t>(number);
    } else if (key == "max_padding") {
      TENON_RETURN_IF_ERROR(Number(key, value.string_value(), 0, kMaxPadding, &config->max_padding));
    } else if (key.starts_with(kPad)) {
      TENON_RETURN_IF_ERROR(Number(key, value.string_value(), -1e300, 1e300, &number));
      config->pad[key.substr(kPad.size())] = number;
    }
  }
  return Status::Ok();
}

void RaggedToMessage(const ModelConfig& config, inference::ModelConfig* message) {
  for (auto& input : *message->mutable_input()) {
    for (const RaggedInput& ragged : config.ragged_inputs) {
      if (ragged.name == input.name()) input.set_allow_ragged_batch(true);
    }
  }
  for (const BatchInput& input : config.batch_inputs) {
    auto* out = message->add_batch_input();
    out->set_kind(static_cast<inference::BatchInput::Kind>(input.kind));
    for (const std::string& target : input.targets) out->add_target_name(target);
    out->set_data_type(ConfigTypeOf(input.dtype));
    out->add_source_input(input.source);
  }
  for (const BatchOutput& output : config.batch_outputs) {
    auto* out = message->add_batch_output();
    for (const std::string& target : output.targets) out->add_target_name(target);
    out->add_source_input(output.source);
  }
}

}  // namespace tenon::server
