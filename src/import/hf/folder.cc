#include "import/hf/folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"

namespace tenon::import::hf {

namespace fs = std::filesystem;

constexpr uint64_t kMaxText = uint64_t{256} << 20;

bool Folder::Has(const std::string& file) const {
  std::error_code error;
  return fs::exists(PathOf(file), error);
}

std::string Folder::PathOf(const std::string& file) const {
  return (fs::path(path_) / file).string();
}

Result<std::string> Folder::Text(const std::string& file) const {
  return ReadFile(PathOf(file), kMaxText);
}

Result<nlohmann::json> Folder::Json(const std::string& file) const {
  TENON_ASSIGN_OR_RETURN(const std::string text, Text(file));
  nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return BadInput("'{}' is no JSON", PathOf(file));
  return json;
}

}  // namespace tenon::import::hf
