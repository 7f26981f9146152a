#include "base/cache_folder.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace tenon {

Result<std::string> CacheFolder(const std::string& wish) {
  namespace fs = std::filesystem;
  fs::path dir = wish;
  if (wish.empty()) {
    const char* xdg = std::getenv("XDG_CACHE_HOME");
    const char* home = std::getenv("HOME");
    if (xdg != nullptr && *xdg != '\0') {
      dir = fs::path(xdg) / "tenon";
    } else if (home != nullptr && *home != '\0') {
      dir = fs::path(home) / ".cache" / "tenon";
    } else {
      return std::string();
    }
  }
  std::error_code error;
  fs::create_directories(dir, error);
  if (error || access(dir.c_str(), W_OK) != 0) {
    // An explicit wish that cannot be met is an error; the default place is only a convenience.
    if (!wish.empty()) return Usage("cannot write to the cache folder '{}'", dir.string());
    return std::string();
  }
  return dir.string();
}

}  // namespace tenon
