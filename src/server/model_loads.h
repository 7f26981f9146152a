// Loads on request: from the repository, with settings of the request, or with files of the request.
#ifndef TENON_SERVER_MODEL_LOADS_H_
#define TENON_SERVER_MODEL_LOADS_H_

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/log.h"
#include "tenon/server.h"

namespace tenon::server {

struct LoadRequest {
  std::optional<std::string> config;            ///< a ModelConfig as JSON, in place of the settings beside the model
  std::map<std::string, std::string> files;  ///< content by path in the model's folder, "1/model.onnx"; then `config` is needed
};

/// Adds a parameter "file:PATH". kUsage: PATH is no relative path of plain names.
Status AddFile(const std::string& parameter, std::string content, LoadRequest* request);

/// A line of the log for a load or an unload: why it failed, or what the index says of the model that is ready.
void LogLoad(Log& log, const char* what, const std::string& model, const Status& status, const InferenceServer& models);

class ModelLoads {
 public:
  explicit ModelLoads(InferenceServer& models) : models_(models) {}

  /// `defaults`: what settings of a request begin with. `limit`: bytes of all files of requests together, which lie in a
  /// temporary folder until their model is loaded from elsewhere or unloaded.
  void Configure(ModelConfig defaults, uint64_t limit);

  /// Block until done; any thread.
  Status Load(const std::string& name, const LoadRequest& request);
  Status Unload(const std::string& name);

 private:
  struct Folder;
  Result<std::shared_ptr<Folder>> WriteFiles(const LoadRequest& request) const;

  InferenceServer& models_;
  ModelConfig defaults_;
  uint64_t limit_ = 0;
  std::mutex mutex_;  // one load or unload at a time
  std::map<std::string, std::shared_ptr<Folder>> folders_;  // that models were loaded from
};

}  // namespace tenon::server

#endif  // TENON_SERVER_MODEL_LOADS_H_
