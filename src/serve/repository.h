// The folder of models: what is in it, and files of versions.
//   DIR/name.onnx, DIR/name.tenon                     a model of one version, 1
//   DIR/name/VERSION/model.{tenon,onnx}               versions are numbers >= 1; with config.pbtxt or tenon.yaml beside them
//   DIR/name/model.{tenon,onnx}                       one version, 1
#ifndef TENON_SERVE_REPOSITORY_H_
#define TENON_SERVE_REPOSITORY_H_

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "tenon/server.h"

namespace tenon::serve {

struct FoundModel {
  std::string folder;                      ///< that may hold settings; empty for a single file
  std::map<int64_t, std::string> versions; ///< file by version
  std::string stamp;                       ///< changes with files, sizes and times
  bool has_settings = false;               ///< config.pbtxt or tenon.yaml: it may be an ensemble, without a file
};

/// What lies at `path`: a model file, or a folder with versions, or one with settings alone. kBadInput when there is neither.
Result<FoundModel> FindModel(const std::string& path);

/// Paths of all models in a repository, by name. kBadInput: no such folder.
Result<std::map<std::string, std::string>> ScanRepository(const std::string& folder);

/// Which of `found` to serve by the configuration's policy, newest last.
std::vector<int64_t> ChooseVersions(const FoundModel& found, const ModelConfig& config);

/// The model's name when it is given as a path alone: "dir/resnet.onnx" is "resnet".
std::string NameOfPath(const std::string& path);

}  // namespace tenon::serve

#endif  // TENON_SERVE_REPOSITORY_H_
