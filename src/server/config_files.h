// Settings in files: config.pbtxt (the subset of Triton's that means something here) and tenon.yaml.
#ifndef TENON_SERVER_CONFIG_FILES_H_
#define TENON_SERVER_CONFIG_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tenon/server.h"

namespace tenon::server {

/// Reads `folder`/tenon.yaml, else `folder`/config.pbtxt, over `config`; neither: nothing. kBadInput names file, line and key.
Status ReadModelConfig(const std::string& folder, ModelConfig* config);

/// Bounds of what settings of batches may say, in either format.
inline constexpr int64_t kMaxBatchTokens = int64_t{1} << 32;
inline constexpr double kMaxPadding = 0.9;

/// Text of a config.pbtxt over `config`.
Status ParsePbtxt(const std::string& text, ModelConfig* config);
/// The same settings as JSON.
Status ParseConfigJson(const std::string& text, ModelConfig* config);

/// Parameters of built-in steps that name a file beside the settings.
inline constexpr const char* kStepFiles[] = {"labels", "characters"};

/// One model's settings as YAML over `config`:
///   name, path, max_batch, max_batch_tokens, pad: {input_ids: 0}, max_padding: 0.1, preferred_batch: [4, 8],
///   max_queue_delay_us, instances, threads, group, memory_limit: 512M, max_queue, priority_levels, default_priority, timeout_ms,
///   versions: [1, 2] or latest: 2, preprocess: {...} (as --preprocess takes it)
Status ParseModelYaml(const std::string& text, ModelConfig* config);

/// A whole server: `models:` (a list of the above), `models_dir`, `memory_limit`, `control`, `host`, `http_port`, `grpc_port`,
/// `metrics_port`.
struct ServerFile {
  std::vector<ModelConfig> models;
  std::string models_dir, control, host;
  uint64_t memory_limit = 0;
  int http_port = -2, grpc_port = -2, metrics_port = -2;  ///< -2: not given
};
Result<ServerFile> ParseServerYaml(const std::string& text, const ModelConfig& defaults);

}  // namespace tenon::server

#endif  // TENON_SERVER_CONFIG_FILES_H_
