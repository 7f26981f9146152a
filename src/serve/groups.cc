#include "serve/groups.h"

#include <algorithm>
#include <set>

#include "base/status.h"

namespace tenon::serve {
namespace {

std::string MiB(uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

Status Groups::Set(const DeviceGroup& group) {
  if (group.name.empty()) return Usage("a group needs a name");
  if (group.cores.empty()) return Usage("group '{}' has no core", group.name);
  constexpr double kLeastWeight = 1e-3, kMostWeight = 1e3;
  if (!(group.weight >= kLeastWeight && group.weight <= kMostWeight))
    return Usage("group '{}'; weight {}; allowed: {} to {}", group.name, group.weight, kLeastWeight, kMostWeight);
  if (group.exclusive && group.weight != 1) return Usage("group '{}' is exclusive; only shared groups have a weight", group.name);
  constexpr double kLeastQuota = 0.05;
  const auto cores = static_cast<double>(group.cores.size());
  if (group.quota != 0 && !(group.quota >= kLeastQuota && group.quota <= cores))
    return Usage("group '{}'; quota {}; allowed: 0 for none, {} to {}, its cores", group.name, group.quota, kLeastQuota, cores);
  std::set<int> wanted;
  for (int core : group.cores) {
    if (std::find(cores_.begin(), cores_.end(), core) == cores_.end())
      return Usage("group '{}'; core {} is not among those of this server", group.name, core);
    if (!wanted.insert(core).second) return Usage("group '{}'; core {} is named twice", group.name, core);
  }
  uint64_t memory = group.memory_limit;
  for (const auto& [name, other] : groups_) {
    if (name == group.name) continue;
    memory += other.memory_limit;
    if (!group.exclusive && !other.exclusive) continue;
    for (int core : other.cores) {
      if (wanted.count(core) > 0) return Usage("group '{}'; core {} belongs to group '{}'", group.name, core, name);
    }
  }
  if (memory_limit_ > 0 && memory > memory_limit_) {
    return ResourceLimit("group '{}'; groups would have {}; the server's limit is {}", group.name, MiB(memory),
                         MiB(memory_limit_));
  }
  if (memory_limit_ > 0 && group.memory_limit == 0)
    return Usage("group '{}' needs a memory limit, because the server has one", group.name);
  groups_[group.name] = group;
  return Status::Ok();
}

Status Groups::Remove(const std::string& name) {
  if (groups_.erase(name) == 0) return Usage("no group '{}'", name);
  return Status::Ok();
}

DeviceGroup Groups::Rest() const {
  DeviceGroup rest;
  rest.exclusive = false;
  std::set<int> owned;
  uint64_t given = 0;
  for (const auto& [name, g] : groups_) {
    given += g.memory_limit;
    if (g.exclusive) owned.insert(g.cores.begin(), g.cores.end());
  }
  for (int core : cores_) {
    if (owned.count(core) == 0) rest.cores.push_back(core);
  }
  rest.memory_limit = memory_limit_ == 0 ? 0 : std::max<uint64_t>(1, memory_limit_ - std::min(given, memory_limit_));
  return rest;
}

Result<DeviceGroup> Groups::Find(const std::string& name) const {
  if (name.empty()) {
    DeviceGroup rest = Rest();
    if (rest.cores.empty()) return ResourceLimit("every core belongs to a group; name one of them");
    return rest;
  }
  const auto it = groups_.find(name);
  if (it == groups_.end()) return Usage("no group '{}'", name);
  return it->second;
}

std::vector<DeviceGroup> Groups::All() const {
  std::vector<DeviceGroup> all = {Rest()};
  for (const auto& [name, g] : groups_) all.push_back(g);
  return all;
}

Result<std::vector<uint64_t>> ShareMemory(uint64_t limit, const std::vector<Claim>& claims, const std::string& where) {
  uint64_t sum = 0, open = 0;
  std::string lines;
  for (const Claim& c : claims) {
    sum += c.bytes;
    open += c.bytes == 0 ? 1 : 0;
    lines += fmt::format("; {}: {}", c.name, c.bytes == 0 ? "a part of what is left" : MiB(c.bytes));
  }
  constexpr uint64_t kLeast = 1 << 20;   // no model runs in less
  const uint64_t left = limit > sum ? limit - sum : 0;
  if (limit > 0 && (sum > limit || (open > 0 && left / open < kLeast))) {
    return ResourceLimit("memory of {}{}; sum {}{}; the limit is {}", where, lines, MiB(sum),
                         open > 0 ? fmt::format(" and {} models without a limit of their own", open) : "", MiB(limit));
  }
  std::vector<uint64_t> shares;
  for (const Claim& c : claims) shares.push_back(c.bytes > 0 || limit == 0 ? c.bytes : left / open);
  return shares;
}

}  // namespace tenon::serve
