// A Hugging Face folder's files.
#ifndef TENON_IMPORT_HF_FOLDER_H_
#define TENON_IMPORT_HF_FOLDER_H_

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/status.h"

namespace tenon::import::hf {

class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {}

  bool Has(const std::string& file) const;
  std::string PathOf(const std::string& file) const;
  Result<std::string> Text(const std::string& file) const;
  /// kBadInput: not there, or no JSON.
  Result<nlohmann::json> Json(const std::string& file) const;

 private:
  std::string path_;
};

/// How sentence-transformers makes one vector of a text's: into the graph's metadata (import/import.h names the keys), where
/// `tenon embed` and a server find it. `positions`: the most tokens that the model takes.
Status ReadSentenceConfig(const Folder& folder, int64_t positions, std::map<std::string, std::string>* metadata);

/// How generation_config.json, where there is one, asks for tokens to be chosen: as "tenon.sampling.NAME"
/// (generate/model_settings.h). "do_sample": false is temperature 0.
Status ReadGenerationConfig(const Folder& folder, std::map<std::string, std::string>* metadata);

}  // namespace tenon::import::hf

#endif  // TENON_IMPORT_HF_FOLDER_H_
