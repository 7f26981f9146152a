// Resource groups: named parts of the cores and of the memory. Pure bookkeeping; the server moves its models when it changes.
#ifndef TENON_SERVE_GROUPS_H_
#define TENON_SERVE_GROUPS_H_

#include <map>
#include <string>
#include <vector>

#include "tenon/server.h"

namespace tenon::serve {

class Groups {
 public:
  /// `cores`: all there are. `memory_limit`: 0: none.
  Groups(std::vector<int> cores, uint64_t memory_limit) : cores_(std::move(cores)), memory_limit_(memory_limit) {}

  /// Creates or changes. kUsage: no name, a core that is not there or belongs to another group; kResourceLimit: more memory than
  /// is left.
  Status Set(const DeviceGroup& group);
  Status Remove(const std::string& name);
  bool Has(const std::string& name) const { return name.empty() || groups_.count(name) > 0; }

  /// The group of this name; "" is the rest: cores that no exclusive group owns, memory that no group has.
  Result<DeviceGroup> Find(const std::string& name) const;
  std::vector<DeviceGroup> All() const;  ///< the rest first
  const std::vector<int>& cores() const { return cores_; }

 private:
  DeviceGroup Rest() const;
  std::vector<int> cores_;
  uint64_t memory_limit_;
  std::map<std::string, DeviceGroup> groups_;
};

/// A model as admission sees it.
struct Claim {
  std::string name;
  uint64_t bytes = 0;  ///< its limit; 0: none of its own
};

/// Limits for all of `claims` that together fit `limit`: their own, and equal parts of what is left for those without.
/// kResourceLimit when they do not fit; the message is the sum, item by item. `limit` 0: as claimed.
Result<std::vector<uint64_t>> ShareMemory(uint64_t limit, const std::vector<Claim>& claims, const std::string& where);

}  // namespace tenon::serve

#endif  // TENON_SERVE_GROUPS_H_
