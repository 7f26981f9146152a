#include "server/model_loads.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/status.h"
#include "server/config_files.h"

namespace tenon::server {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFiles = 64;
constexpr int kMaxDepth = 4;

bool IsPlainName(std::string_view name) {
  return !name.empty() && name.size() <= 128 && name[0] != '.' && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || (c > 0 && std::strchr("._-", c) != nullptr);
  });
}

// A path inside the model's folder: plain names between single slashes.
bool IsPlainPath(std::string_view path) {
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    const size_t slash = path.find('/');
    if (!IsPlainName(path.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
  return false;
}

// Settings of a request may name files that came with it, and no others.
Status SettleFiles(const LoadRequest& request, const std::string& folder, ModelConfig* config) {
  const auto settle = [&](const std::string& what, const std::string& name, std::string* file) {
    if (request.files.count(name) == 0)
      return Usage("config; {} is '{}'; a file of the same request is expected, as \"file:{}\"", what, *file, name);
    *file = (fs::path(folder) / name).string();
    return Status::Ok();
  };
  for (WarmUpRun& run : config->warm_up) {
    for (auto& [input, data] : run.inputs) {
      if (!data.file.empty())
        TENON_RETURN_IF_ERROR(settle("input_data_file", fmt::format("{}/{}", kWarmUpFolder, data.file), &data.file));
    }
  }
  for (EnsemblePart& part : config->ensemble.parts) {
    for (const char* parameter : kStepFiles) {
      const auto it = part.parameters.find(parameter);
      if (it != part.parameters.end()) TENON_RETURN_IF_ERROR(settle(parameter, std::string(it->second), &it->second));
    }
  }
  return Status::Ok();
}

}  // namespace

struct ModelLoads::Folder {
  std::string path;
  uint64_t bytes = 0;
  ~Folder() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
};

Status AddFile(const std::string& parameter, std::string content, LoadRequest* request) {
  const std::string path = parameter.substr(std::strlen("file:"));
  if (!IsPlainPath(path)) {
    return Usage(
        "parameter '{}'; a path in the model's folder is expected, as file:1/model.onnx, of letters, digits, '.', '_', '-'",
        parameter);
  }
  if (request->files.size() >= kMaxFiles) return Usage("more than {} files", kMaxFiles);
  request->files[path] = std::move(content);
  return Status::Ok();
}

void LogLoad(Log& log, const char* what, const std::string& model, const Status& status, const InferenceServer& models) {
  std::string reason = status.message();
  for (const ModelState& m : models.Index()) {
    if (status.ok() && m.name == model && m.state == "READY") reason = m.reason;
  }
  log.Write(status.ok() ? LogLevel::kInfo : LogLevel::kError, what, {{"model", model}, {"reason", reason}});
}

void ModelLoads::Configure(ModelConfig defaults, uint64_t limit) {
  defaults_ = std::move(defaults);
  limit_ = limit;
}

Result<std::shared_ptr<ModelLoads::Folder>> ModelLoads::WriteFiles(const LoadRequest& request) const {
  auto folder = std::make_shared<Folder>();
  for (const auto& [path, content] : request.files) folder->bytes += content.size();
  uint64_t held = 0;
  for (const auto& [name, other] : folders_) held += other->bytes;
  if (folder->bytes > limit_ || held > limit_ - folder->bytes)
    return ResourceLimit("{} bytes of files; {} are held for other models; {} are allowed together", folder->bytes, held, limit_);
  std::error_code error;
  std::string path = (fs::temp_directory_path(error) / "tenon-load-XXXXXX").string();
  if (error || mkdtemp(path.data()) == nullptr) return ResourceLimit("no temporary folder '{}'; {}", path, std::strerror(errno));
  folder->path = path;
  for (const auto& [name, content] : request.files) {
    const fs::path file = fs::path(path) / name;
    fs::create_directories(file.parent_path(), error);
    std::ofstream out(file, std::ios::binary);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    out.close();
    if (error || !out) return ResourceLimit("cannot write '{}'", file.string());
  }
  return folder;
}

Status ModelLoads::Load(const std::string& name, const LoadRequest& request) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Folder> folder;
  std::optional<ModelConfig> config;
  if (!request.files.empty() && !request.config) return Usage("model '{}'; files need settings; send \"config\" with them", name);
  if (request.config) {
    config = defaults_;
    TENON_RETURN_IF_ERROR(ParseConfigJson(*request.config, &*config).Within(fmt::format("model '{}'; config", name)));
    if (!config->name.empty() && config->name != name)
      return Usage("model '{}'; config names the model '{}'", name, config->name);
    if (!request.files.empty()) {
      TENON_ASSIGN_OR_RETURN(folder, WriteFiles(request));
      config->path = folder->path;
    }
    TENON_RETURN_IF_ERROR(SettleFiles(request, config->path, &*config).Within(fmt::format("model '{}'", name)));
  }
  TENON_RETURN_IF_ERROR(models_.Load(name, config));
  folders_.erase(name);   // what was loaded before has its files open
  if (folder != nullptr) folders_[name] = std::move(folder);
  return Status::Ok();
}

Status ModelLoads::Unload(const std::string& name) {
  const std::lock_guard lock(mutex_);
  TENON_RETURN_IF_ERROR(models_.Unload(name));
  folders_.erase(name);
  return Status::Ok();
}

}  // namespace tenon::server
