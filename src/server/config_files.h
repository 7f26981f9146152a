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

/// A file of settings is no larger.
inline constexpr size_t kMaxSettingsBytes = size_t{1} << 20;

/// Bounds of what settings of batches may say, in either format.
inline constexpr int64_t kMaxBatchTokens = int64_t{1} << 32;
inline constexpr double kMaxPadding = 0.9;

/// Text of a config.pbtxt over `config`.
Status ParsePbtxt(const std::string& text, ModelConfig* config);
/// The same settings as JSON.
Status ParseConfigJson(const std::string& text, ModelConfig* config);

/// Where a model's files of warm-up data lie, below its folder.
inline constexpr const char* kWarmUpFolder = "warmup";

/// Parameters of built-in steps that name a file beside the settings.
inline constexpr const char* kStepFiles[] = {"labels", "characters"};

/// One model's settings as YAML over `config`: the keys that docs/serving.md lists.
Status ParseModelYaml(const std::string& text, ModelConfig* config);

/// A setting of a whole server as it stands in its file.
struct ServerSetting {
  std::string key;
  std::vector<std::string> values;  ///< one, or those of a list
  int line = 0;
};

/// A whole server but for its models: `groups`, and all else as text, for whoever knows the settings there are.
struct ServerFile {
  std::vector<ServerSetting> settings;
  std::vector<DeviceGroup> groups;
};
Result<ServerFile> ParseServerYaml(const std::string& text);

/// The list `models` of a whole server: keys as in ParseModelYaml and name, path, over `defaults`.
Result<std::vector<ModelConfig>> ParseServerModels(const std::string& text, const ModelConfig& defaults);

}  // namespace tenon::server

#endif  // TENON_SERVER_CONFIG_FILES_H_
