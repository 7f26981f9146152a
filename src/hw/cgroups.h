// Where this process stands in the trees of control groups, v1 and v2.
#ifndef TENON_HW_CGROUPS_H_
#define TENON_HW_CGROUPS_H_

#include <string>
#include <string_view>
#include <vector>

namespace tenon::hw {

/// A line of /proc/self/cgroup, "NUMBER:CONTROLLERS:PATH" (cgroups(7)).
struct Cgroup {
  std::string controllers;   ///< separated by commas; none for v2
  std::string path;

  bool is_v2() const { return controllers.empty(); }
  bool Has(std::string_view controller) const;
};
/// Lines that are none are left out.
std::vector<Cgroup> ParseCgroups(const std::string& text);

/// `path` and its ancestors, each of which may limit it: of "/a/b" these are "/a/b", "/a", "".
std::vector<std::string> PathsToRoot(std::string path);

}  // namespace tenon::hw

#endif  // TENON_HW_CGROUPS_H_
