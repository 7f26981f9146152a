// Groups of cores and shares of memory in a running server.
#include "serve/local_server.h"

#include <algorithm>
#include <cmath>

namespace tenon::serve {

void LocalServer::SetQuota(const DeviceGroup& group) {
  if (group.quota <= 0) {
    quotas_.erase(group.name);
    return;
  }
  const auto found = quotas_.find(group.name);
  if (found != quotas_.end() && found->second.threads != nullptr && found->second.threads->SetCpus(group.quota).ok()) return;
  double before = 0;
  for (const DeviceGroup& g : groups_.All()) before += g.name == group.name ? 0 : g.quota;
  auto threads = thread_groups_.Create(group.quota);
  Quota quota;
  quota.first = static_cast<size_t>(before);
  quota.means = threads.ok() ? thread_groups_.means() : "weights; " + threads.status().message();
  quota.gate = std::make_shared<CoreGate>();
  if (threads.ok()) quota.threads = std::move(threads).value();
  quotas_[group.name] = std::move(quota);
}

const LocalServer::Quota* LocalServer::QuotaOf(const std::string& group) const {
  const auto it = quotas_.find(group);
  return it == quotas_.end() || it->second.threads == nullptr ? nullptr : &it->second;
}

std::string LocalServer::QuotaMeans(const std::string& group) const {
  const auto it = quotas_.find(group);
  if (it != quotas_.end()) return it->second.means;
  return thread_groups_.means().empty() ? "weights; " + thread_groups_.refusal() : thread_groups_.means();
}

// As many as a quota can keep busy, others than those of the groups before as far as there are: threads that wait for each other
// shall not wait for the kernel.
std::vector<int> LocalServer::CoresOf(const DeviceGroup& group) const {
  const Quota* quota = QuotaOf(group.name);
  if (quota == nullptr) return group.cores;
  const auto count = std::min(group.cores.size(), static_cast<size_t>(std::ceil(group.quota)));
  std::vector<int> cores;
  for (size_t i = 0; i < count; ++i) cores.push_back(group.cores[(quota->first + i) % group.cores.size()]);
  std::sort(cores.begin(), cores.end());
  return cores;
}

// Cores of the model's group, and memory that nobody else was promised.
Result<Place> LocalServer::PlaceFor(const ModelConfig& config, size_t versions) const {
  Place place;
  const std::shared_lock lock(mutex_);
  TENON_ASSIGN_OR_RETURN(const DeviceGroup group, groups_.Find(config.group));
  const Quota* quota = QuotaOf(group.name);
  place.gate = quota == nullptr ? gate_ : quota->gate;
  if (quota != nullptr) place.threads = quota->threads;
  place.cores = CoresOf(group);
  place.share = &place.gate->ShareOf(group.name, group.weight);
  place.pin = config.instances > 1 || !config.group.empty() || group.cores.size() < groups_.cores().size();
  place.memory_limit = config.memory_limit / versions;
  if (group.memory_limit == 0) return place;
  std::vector<Claim> claims;
  const auto add = [&](const std::shared_ptr<Model>& m) {
    if (m->config().group == config.group) claims.push_back({m->config().name + " (loaded)", m->place().memory_limit});
  };
  for (const auto& [name, entry] : models_) {
    for (const auto& [version, model] : entry.loaded) add(model);
  }
  for (const auto& model : retired_) add(model);
  const auto promised = promised_.find(config.name);
  const uint64_t wish = promised == promised_.end() ? config.memory_limit : promised->second;
  claims.push_back({config.name, wish / versions});
  TENON_ASSIGN_OR_RETURN(const auto shares, ShareMemory(group.memory_limit, claims,
                                                        config.group.empty() ? "the server" : "group '" + config.group + "'"));
  place.memory_limit = shares.back();
  return place;
}

// Before anything is loaded: what the models of each group may use together fits it.
Status LocalServer::CheckMemory(const std::vector<std::pair<std::string, bool>>& wanted) {
  std::map<std::string, std::vector<Claim>> by_group;
  for (const auto& [name, configured] : wanted) {
    ModelConfig config;
    {
      const std::shared_lock lock(mutex_);
      const Entry& entry = models_.at(name);
      config = entry.config;
      config.path = entry.path;
    }
    if (!Settle(name, config.path, false, &config).ok()) continue;   // loading it will say so
    by_group[config.group].push_back({name, config.memory_limit});
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [group, claims] : by_group) {
    const auto place = groups_.Find(group);
    if (!place.ok()) return place.status();
    TENON_ASSIGN_OR_RETURN(const auto shares,
                           ShareMemory(place->memory_limit, claims, group.empty() ? "the server" : "group '" + group + "'"));
    for (size_t i = 0; i < claims.size(); ++i) {
      if (shares[i] > 0) promised_[claims[i].name] = shares[i];
    }
  }
  return Status::Ok();
}

std::vector<DeviceState> LocalServer::Devices() const {
  std::vector<DeviceState> devices;
  const auto loaded = Loaded();
  const std::shared_lock lock(mutex_);
  for (const DeviceGroup& g : groups_.All()) {
    DeviceState d;
    d.group = g;
    d.quota_means = QuotaMeans(g.name);
    for (const auto& m : loaded) {
      if (m->config().group != g.name) continue;
      d.memory_used += m->memory_bytes();
      d.memory_promised += m->place().memory_limit;
      if (d.models.empty() || d.models.back() != m->config().name) d.models.push_back(m->config().name);
    }
    devices.push_back(std::move(d));
  }
  return devices;
}

// Models whose cores have changed are opened on the new ones; the old serve until then.
Status LocalServer::Resettle() {
  std::vector<std::pair<std::string, ModelConfig>> moved;
  {
    const std::shared_lock lock(mutex_);
    for (const auto& [name, entry] : models_) {
      if (entry.loaded.empty()) continue;
      const auto group = groups_.Find(entry.active.group);
      const Place& place = entry.loaded.begin()->second->place();
      const Quota* quota = QuotaOf(entry.active.group);
      const bool stays =
          group.ok() && place.cores == CoresOf(*group) && place.threads == (quota == nullptr ? nullptr : quota->threads);
      if (!stays) moved.emplace_back(name, entry.active);
    }
  }
  Status first;
  for (const auto& [name, config] : moved) {
    Status status = LoadEntry(name, config);
    if (first.ok()) first = std::move(status);
  }
  return first;
}

Status LocalServer::SetGroup(const DeviceGroup& group) {
  {
    const std::lock_guard lock(mutex_);
    const Groups before = groups_;
    TENON_RETURN_IF_ERROR(groups_.Set(group));
    gate_->ShareOf(group.name, group.weight);
    SetQuota(group);
    // Models without a group need cores too.
    for (const auto& [name, entry] : models_) {
      const auto place = groups_.Find(entry.active.group);
      if (entry.loaded.empty() || place.ok()) continue;
      groups_ = before;
      const auto old = groups_.Find(group.name);
      if (old.ok()) gate_->ShareOf(group.name, old->weight);
      SetQuota(old.ok() ? *old : DeviceGroup{.name = group.name});
      return Usage("group '{}'; model '{}' would have no core; give it a group of its own first", group.name, name);
    }
  }
  return Resettle();
}

Status LocalServer::RemoveGroup(const std::string& name) {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [model, entry] : models_) {
      if (!entry.loaded.empty() && entry.active.group == name)
        return Usage("group '{}' has model '{}'; unload it first", name, model);
    }
    TENON_RETURN_IF_ERROR(groups_.Remove(name));
    quotas_.erase(name);
  }
  return Resettle();
}

// Above 80 % of a budget nothing is admitted beside what runs.
void LocalServer::Throttle() {
  const auto loaded = Loaded();
  for (const DeviceState& d : Devices()) {
    if (d.group.memory_limit == 0) continue;
    const bool short_of_memory = d.memory_used > d.group.memory_limit / 5 * 4;
    for (const auto& m : loaded) {
      if (m->config().group == d.group.name) m->SetThrottled(short_of_memory);
    }
  }
}

}  // namespace tenon::serve
