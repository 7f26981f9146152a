#include "serve/repository.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace tenon::serve {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModelFiles[] = {"model.tenon", "model.onnx"};   // the compiled one comes first

bool IsModelFile(const fs::path& path) {
  return path.extension() == ".tenon" || path.extension() == ".onnx";
}

std::string ModelIn(const fs::path& folder) {
  std::error_code error;
  for (const char* name : kModelFiles) {
    if (fs::is_regular_file(folder / name, error)) return (folder / name).string();
  }
  return "";
}

void Stamp(const fs::path& file, std::string* stamp) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  const auto time = fs::last_write_time(file, error);
  *stamp += fmt::format("{}:{}:{};", file.string(), error ? 0 : size, error ? 0 : time.time_since_epoch().count());
}

}  // namespace

std::string NameOfPath(const std::string& path) {
  const fs::path p = fs::path(path).lexically_normal();
  const fs::path last = p.has_filename() ? p.filename() : p.parent_path().filename();
  return IsModelFile(last) ? last.stem().string() : last.string();
}

Result<FoundModel> FindModel(const std::string& path) {
  FoundModel found;
  std::error_code error;
  if (fs::is_regular_file(path, error)) {
    found.versions[1] = path;
    Stamp(path, &found.stamp);
    return found;
  }
  if (!fs::is_directory(path, error)) return BadInput("'{}'; no such model; a file or a folder of versions is expected", path);
  found.folder = path;
  if (const std::string file = ModelIn(path); !file.empty()) found.versions[1] = file;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    const std::string name = entry.path().filename().string();
    int64_t version = 0;
    const auto [end, bad] = std::from_chars(name.data(), name.data() + name.size(), version);
    if (entry.is_regular_file(error)) {
      if (name != "config.pbtxt" && name != "tenon.yaml") continue;
      Stamp(entry.path(), &found.stamp);
      found.has_settings = true;
      continue;
    }
    if (bad != std::errc() || end != name.data() + name.size() || version < 1) continue;
    if (const std::string file = ModelIn(entry.path()); !file.empty()) found.versions[version] = file;
  }
  if (error) return BadInput("'{}'; {}", path, error.message());
  for (const auto& [version, file] : found.versions) Stamp(file, &found.stamp);
  if (found.versions.empty() && !found.has_settings) {
    return BadInput("'{}'; holds no model; VERSION/model.onnx or VERSION/model.tenon is expected, VERSION a number >= 1", path);
  }
  return found;
}

Result<std::map<std::string, std::string>> ScanRepository(const std::string& folder) {
  std::error_code error;
  std::map<std::string, std::string> models;
  if (!fs::is_directory(folder, error)) return BadInput("'{}'; no such folder of models", folder);
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.empty() || name[0] == '.') continue;
    if (entry.is_directory(error)) {
      models[name] = entry.path().string();
    } else if (IsModelFile(entry.path())) {
      models.emplace(entry.path().stem().string(), entry.path().string());
    }
  }
  if (error) return BadInput("'{}'; {}", folder, error.message());
  return models;
}

std::vector<int64_t> ChooseVersions(const FoundModel& found, const ModelConfig& config) {
  std::vector<int64_t> chosen;
  for (const auto& [version, file] : found.versions) {
    const bool named = std::find(config.versions.begin(), config.versions.end(), version) != config.versions.end();
    if (config.versions.empty() || named) chosen.push_back(version);
  }
  const auto keep = static_cast<size_t>(std::max(0, config.versions_latest));
  if (config.versions.empty() && keep > 0 && chosen.size() > keep)
    chosen.erase(chosen.begin(), chosen.end() - static_cast<std::ptrdiff_t>(keep));
  return chosen;
}

}  // namespace tenon::serve
