#include "hw/cgroups.h"

#include <sstream>

namespace tenon::hw {

bool Cgroup::Has(std::string_view controller) const {
  return ("," + controllers + ",").find("," + std::string(controller) + ",") != std::string::npos;
}

std::vector<Cgroup> ParseCgroups(const std::string& text) {
  std::vector<Cgroup> cgroups;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    cgroups.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return cgroups;
}

std::vector<std::string> PathsToRoot(std::string path) {
  std::vector<std::string> paths;
  while (!path.empty() && path != "/") {
    paths.push_back(path);
    path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
  paths.emplace_back("");
  return paths;
}

}  // namespace tenon::hw
