#include "server/config_queue.h"

#include <algorithm>
#include <filesystem>

#include "server/config_fields.h"
#include "server/config_files.h"

namespace tenon::server {
namespace {

using std::chrono::microseconds;

constexpr uint64_t kLongestDelay = 60000000;
constexpr uint64_t kLongestTimeout = uint64_t{1} << 50;
constexpr uint64_t kMostPriorities = 1000;
constexpr uint32_t kMostWarmUps = 1000;   // runs of one sample
constexpr int kMaxRank = 7;               // beside the leading extent

Status ApplyPolicy(const inference::ModelQueuePolicy& m, QueueLimits* limits) {
  if (!inference::ModelQueuePolicy::TimeoutAction_IsValid(m.timeout_action()))
    return BadInput("timeout_action is {}; allowed: REJECT, DELAY", static_cast<int>(m.timeout_action()));
  limits->delay_late = m.timeout_action() == inference::ModelQueuePolicy::DELAY;
  limits->default_timeout = microseconds(std::min(m.default_timeout_microseconds(), kLongestTimeout));
  limits->allow_timeout_override = m.allow_timeout_override();
  if (m.max_queue_size() > 0) limits->max_queue = m.max_queue_size();   // there is no queue without a bound
  return Status::Ok();
}

void PolicyToMessage(const QueueLimits& limits, inference::ModelQueuePolicy* message) {
  message->set_timeout_action(limits.delay_late ? inference::ModelQueuePolicy::DELAY : inference::ModelQueuePolicy::REJECT);
  message->set_default_timeout_microseconds(static_cast<uint64_t>(limits.default_timeout.count()));
  message->set_allow_timeout_override(limits.allow_timeout_override);
  message->set_max_queue_size(static_cast<uint32_t>(limits.max_queue));
}

Status ApplyPriorities(const inference::ModelDynamicBatching& m, ModelConfig* c) {
  const uint64_t levels = m.priority_levels();
  if (levels > kMostPriorities) return BadInput("priority_levels is {}; at most {} are allowed", levels, kMostPriorities);
  if (levels > 0 && (m.default_priority_level() < 1 || m.default_priority_level() > levels))
    return BadInput("default_priority_level is {}; allowed: 1..priority_levels, which is {}", m.default_priority_level(), levels);
  c->priority_levels = static_cast<uint32_t>(levels);
  c->default_priority = levels > 0 ? static_cast<uint32_t>(m.default_priority_level()) : 0;
  for (const auto& [level, policy] : m.priority_queue_policy()) {
    if (level < 1 || level > levels)
      return BadInput("priority_queue_policy of level {}; allowed: 1..priority_levels, which is {}", level, levels);
    QueueLimits& limits = c->priority_queues[static_cast<uint32_t>(level)];
    limits.max_queue = c->queue.max_queue;
    TENON_RETURN_IF_ERROR(ApplyPolicy(policy, &limits).Within(fmt::format("priority_queue_policy of level {}", level)));
  }
  return Status::Ok();
}

// A path below the folder of warm-up data.
bool StaysInside(const std::string& path) {
  const std::filesystem::path p(path);
  return !path.empty() && p.is_relative() && std::find(p.begin(), p.end(), "..") == p.end();
}

std::string BelowWarmUpFolder(const std::string& file) {
  const std::string folder = fmt::format("/{}/", kWarmUpFolder);
  const size_t at = file.rfind(folder);
  return at == std::string::npos ? file : file.substr(at + folder.size());
}

Status ApplyWarmUpInput(const inference::ModelWarmup::Input& m, WarmUpInput* input) {
  using Source = inference::ModelWarmup::Input;
  input->dtype = DTypeOf(m.data_type());
  if (input->dtype == DType::kUndefined) return BadInput("data_type is missing or unknown");
  if (m.dims_size() > kMaxRank) return BadInput("{} dims; at most {} are allowed", m.dims_size(), kMaxRank);
  for (int64_t d : m.dims()) {
    if (d < 0) return BadInput("dims has {}; all extents must be given", d);
  }
  input->dims.assign(m.dims().begin(), m.dims().end());
  switch (m.input_data_type_case()) {
    case Source::kZeroData: input->data = WarmUpInput::Data::kZeros; break;
    case Source::kRandomData: input->data = WarmUpInput::Data::kRandom; break;
    case Source::kInputDataFile: input->data = WarmUpInput::Data::kFile; break;
    case Source::INPUT_DATA_TYPE_NOT_SET: return BadInput("one of zero_data, random_data, input_data_file is expected");
  }
  input->file = m.input_data_file();
  if (input->data == WarmUpInput::Data::kFile && !StaysInside(input->file))
    return BadInput("input_data_file is '{}'; a file in the model's folder '{}' is expected", input->file, kWarmUpFolder);
  return Status::Ok();
}

}  // namespace

Status ApplyBatching(const inference::ModelDynamicBatching& m, ModelConfig* c) {
  c->preferred_batch.assign(m.preferred_batch_size().begin(), m.preferred_batch_size().end());
  std::sort(c->preferred_batch.begin(), c->preferred_batch.end());
  if (!c->preferred_batch.empty() && (c->preferred_batch[0] < 1 || c->preferred_batch.back() > c->max_batch.value_or(0))) {
    return BadInput("preferred_batch_size; allowed: 1..max_batch_size, which is {}", c->max_batch.value_or(0));
  }
  if (m.max_queue_delay_microseconds() > kLongestDelay) {
    return BadInput("max_queue_delay_microseconds is {}; at most {} are allowed", m.max_queue_delay_microseconds(),
                    kLongestDelay);
  }
  c->max_delay = microseconds(m.max_queue_delay_microseconds());
  c->preserve_ordering = m.preserve_ordering();
  if (m.has_default_queue_policy())
    TENON_RETURN_IF_ERROR(ApplyPolicy(m.default_queue_policy(), &c->queue).Within("default_queue_policy"));
  return ApplyPriorities(m, c);
}

Status ApplyWarmUp(const inference::ModelConfig& m, ModelConfig* config) {
  const uint32_t most_rows = static_cast<uint32_t>(std::max(1, config->max_batch.value_or(0)));
  for (const auto& sample : m.model_warmup()) {
    const std::string where = fmt::format("model_warmup '{}'", sample.name());
    WarmUpRun run;
    run.name = sample.name();
    if (sample.batch_size() < 1 || sample.batch_size() > most_rows)
      return BadInput("{}; batch_size is {}; allowed: 1..{}", where, sample.batch_size(), most_rows);
    if (sample.count() > kMostWarmUps)
      return BadInput("{}; count is {}; at most {} are allowed", where, sample.count(), kMostWarmUps);
    run.rows = static_cast<int>(sample.batch_size());
    run.count = static_cast<int>(std::max<uint32_t>(1, sample.count()));
    for (const auto& [name, input] : sample.inputs())
      TENON_RETURN_IF_ERROR(ApplyWarmUpInput(input, &run.inputs[name]).Within(fmt::format("{}; input '{}'", where, name)));
    config->warm_up.push_back(std::move(run));
  }
  if (!config->warm_up.empty() && (m.has_ensemble_scheduling() || m.platform() == "tenon_step"))
    return BadInput("model_warmup of an ensemble; its models have their own");
  return Status::Ok();
}

void BatchingToMessage(const ModelConfig& c, inference::ModelDynamicBatching* message) {
  for (int p : c.preferred_batch) message->add_preferred_batch_size(p);
  message->set_max_queue_delay_microseconds(static_cast<uint64_t>(c.max_delay.count()));
  message->set_preserve_ordering(c.preserve_ordering);
  message->set_priority_levels(c.priority_levels);
  message->set_default_priority_level(c.default_priority == 0 ? c.priority_levels : c.default_priority);
  PolicyToMessage(c.queue, message->mutable_default_queue_policy());
  for (const auto& [level, limits] : c.priority_queues)
    PolicyToMessage(limits, &(*message->mutable_priority_queue_policy())[level]);
}

void WarmUpToMessage(const ModelConfig& config, inference::ModelConfig* message) {
  for (const WarmUpRun& run : config.warm_up) {
    auto* sample = message->add_model_warmup();
    sample->set_name(run.name);
    sample->set_batch_size(static_cast<uint32_t>(run.rows));
    sample->set_count(static_cast<uint32_t>(run.count));
    for (const auto& [name, input] : run.inputs) {
      auto& out = (*sample->mutable_inputs())[name];
      out.set_data_type(ConfigTypeOf(input.dtype));
      for (int64_t d : input.dims) out.add_dims(d);
      if (input.data == WarmUpInput::Data::kZeros) out.set_zero_data(true);
      if (input.data == WarmUpInput::Data::kRandom) out.set_random_data(true);
      if (input.data == WarmUpInput::Data::kFile) out.set_input_data_file(BelowWarmUpFolder(input.file));
    }
  }
}

}  // namespace tenon::server
