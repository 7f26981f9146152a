// The server without its protocols: models by name and version, loading beside what runs, draining what is replaced.
#include <malloc.h>

#include <algorithm>
#include <charconv>

#include "hw/quota.h"
#include "serve/local_server.h"
#include "serve/outcome.h"

namespace tenon {
namespace serve {
namespace {

constexpr std::chrono::milliseconds kTick{20};   // how late a queued request may learn that its time is over

TimePoint Now() {
  return std::chrono::steady_clock::now();
}

class Ticket final : public InferTicket {
 public:
  Ticket(std::shared_ptr<Model> model, ItemPtr item) : model_(std::move(model)), item_(std::move(item)) {}
  void Cancel() override { model_->Cancel(item_); }

 private:
  std::shared_ptr<Model> model_;
  ItemPtr item_;
};

// With a quota below the affinity mask the cores are only counted where nobody names them: the system moves the threads.
std::vector<int> UsableCores(const ServerOptions& options) {
  if (!options.cores.empty()) return options.cores;
  hw::CpuAllowance allowance = hw::DetectCpuAllowance();
  if (allowance.cpus.size() > static_cast<size_t>(allowance.threads))
    allowance.cpus.resize(static_cast<size_t>(allowance.threads));
  if (allowance.cpus.empty()) allowance.cpus.push_back(0);
  return allowance.cpus;
}

}  // namespace

LocalServer::LocalServer(ServerOptions options)
    : options_(std::move(options)), groups_(UsableCores(options_), options_.memory_limit), gate_(std::make_shared<CoreGate>()) {
  housekeeper_ = std::thread([this] { KeepHouse(); });
}

LocalServer::~LocalServer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  tick_.notify_all();
  housekeeper_.join();
  // What ensembles still answer needs the others.
  std::vector<std::shared_ptr<Model>> ensembles;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [name, entry] : models_) {
      if (entry.active.ensemble.empty()) continue;
      for (auto& [version, model] : entry.loaded) ensembles.push_back(std::move(model));
      entry.loaded.clear();
    }
  }
  ensembles.clear();
  models_.clear();
  retired_.clear();
}

Status LocalServer::ScanFolder() {
  if (options_.repository.empty()) return Status::Ok();
  TENON_ASSIGN_OR_RETURN(const auto found, ScanRepository(options_.repository));
  const std::lock_guard lock(mutex_);
  for (const auto& [name, path] : found) {
    auto [it, fresh] = models_.try_emplace(name);
    if (!fresh && (it->second.configured || !it->second.path.empty())) continue;
    it->second.path = path;
    it->second.config = options_.defaults;
    it->second.config.name = name;
  }
  return Status::Ok();
}

Status LocalServer::Start() {
  TENON_RETURN_IF_ERROR(ScanFolder());
  for (const DeviceGroup& group : options_.groups) {
    const std::lock_guard lock(mutex_);
    TENON_RETURN_IF_ERROR(groups_.Set(group));
    SetQuota(group);
  }
  for (const ModelConfig& config : options_.models) {
    const std::string name = config.name.empty() ? NameOfPath(config.path) : config.name;
    const std::lock_guard lock(mutex_);
    Entry& entry = models_[name];
    if (entry.configured) return Usage("two models are named '{}'; names must differ", name);
    entry.path = config.path.empty() ? entry.path : config.path;
    entry.config = config;
    entry.config.name = name;
    entry.configured = true;
  }
  std::vector<std::pair<std::string, bool>> wanted;
  {
    const std::shared_lock lock(mutex_);
    const auto& load = options_.load;
    const bool all =
        options_.control != ServerOptions::Control::kExplicit || std::find(load.begin(), load.end(), "*") != load.end();
    for (const auto& [name, entry] : models_) {
      if (all || entry.configured || std::find(load.begin(), load.end(), name) != load.end())
        wanted.emplace_back(name, entry.configured);
    }
  }
  TENON_RETURN_IF_ERROR(CheckMemory(wanted));
  Status first = LoadInOrder(std::move(wanted));
  started_ = true;
  return first;
}

std::shared_ptr<Metrics> LocalServer::MetricsOf(const std::string& name, const std::string& version) {
  const std::lock_guard lock(mutex_);
  auto& metrics = metrics_[{name, version}];
  if (metrics == nullptr) metrics = std::make_shared<Metrics>();
  return metrics;
}

LocalServer::Found LocalServer::Find(const std::string& name, const std::string& version) const {
  const std::shared_lock lock(mutex_);
  const auto it = models_.find(name);
  if (it == models_.end()) return {nullptr, Outcome::kNotFound, fmt::format("unknown model '{}'", name)};
  const auto& loaded = it->second.loaded;
  if (loaded.empty()) {
    return {nullptr, Outcome::kNotReady,
            fmt::format("model '{}' is not ready; its state is {}{}{}", name, it->second.state,
                        it->second.reason.empty() ? "" : ": ", it->second.reason)};
  }
  if (version.empty()) return {loaded.rbegin()->second, Outcome::kOk, ""};
  int64_t number = 0;
  const auto [end, error] = std::from_chars(version.data(), version.data() + version.size(), number);
  const auto found = error == std::errc() && end == version.data() + version.size() ? loaded.find(number) : loaded.end();
  if (found == loaded.end()) {
    std::string have;
    for (const auto& [v, model] : loaded) have += (have.empty() ? "" : ", ") + std::to_string(v);
    return {nullptr, Outcome::kNotFound, fmt::format("model '{}' has no version '{}'; loaded: {}", name, version, have)};
  }
  return {found->second, Outcome::kOk, ""};
}

std::shared_ptr<InferTicket> LocalServer::Infer(InferRequest request, std::function<void(InferResponse)> done) {
  const TimePoint arrival = Now();
  Found found = Find(request.model, request.version);
  if (draining_) found = {nullptr, Outcome::kNotReady, "the server is draining"};
  return Hand(std::move(request), std::move(found), std::move(done), arrival);
}

std::shared_ptr<InferTicket> LocalServer::Hand(InferRequest request, Found found, std::function<void(InferResponse)> done,
                                               TimePoint arrival) {
  if (found.model == nullptr) {
    CountRefused(found.outcome == Outcome::kNotFound ? "" : request.model, found.outcome);
    InferResponse refusal;
    refusal.outcome = found.outcome;
    refusal.message = std::move(found.message);
    refusal.model = request.model;
    refusal.id = request.id;
    refusal.retry_after_s = found.outcome == Outcome::kNotReady ? 1 : 0;
    done(std::move(refusal));
    return nullptr;
  }
  found.model->metrics().Accept();
  ItemPtr item = found.model->Submit(std::move(request), std::move(done), arrival);
  if (item == nullptr) return nullptr;
  return std::make_shared<Ticket>(std::move(found.model), std::move(item));
}

void LocalServer::CountRefused(const std::string& model, Outcome outcome) {
  std::string version;
  {
    // Names that clients make up must not grow the table.
    const std::shared_lock lock(mutex_);
    const auto it = models_.find(model);
    if (it != models_.end() && !it->second.loaded.empty()) version = std::to_string(it->second.loaded.rbegin()->first);
  }
  auto metrics = MetricsOf(version.empty() ? "" : model, version);
  metrics->Accept();
  metrics->Finish(outcome, 0, {}, 0, 0);
}

Result<std::map<int64_t, std::shared_ptr<Model>>> LocalServer::OpenVersions(const FoundModel& found, const ModelConfig& config) {
  std::map<int64_t, std::shared_ptr<Model>> opened;
  const std::vector<int64_t> versions = ChooseVersions(found, config);
  if (versions.empty()) return BadInput("model '{}'; none of the versions asked for is there", config.name);
  for (int64_t version : versions) {
    TENON_ASSIGN_OR_RETURN(const Place place, PlaceFor(config, versions.size()));
    const std::string text = std::to_string(version);
    const ModelOpener open = config.ensemble.empty() ? options_.open : EnsembleOpener(place);
    auto model = Model::Load(config, text, found.versions.at(version), open, place, MetricsOf(config.name, text));
    if (!model.ok()) return std::move(model).TakeStatus();
    opened[version] = std::move(model).value();
  }
  return opened;
}

Status LocalServer::LoadEntry(const std::string& name, const std::optional<ModelConfig>& override_config) {
  std::shared_ptr<std::mutex> loading;
  std::string path;
  ModelConfig config;
  {
    const std::lock_guard lock(mutex_);
    const bool elsewhere = override_config && !override_config->path.empty();
    if (!elsewhere && models_.count(name) == 0) return Usage("unknown model '{}'; the repository does not hold it", name);
    Entry& entry = models_[name];
    loading = entry.loading;
    path = elsewhere ? override_config->path : entry.path;
    config = override_config.value_or(entry.config);
    config.name = name;
    if (entry.loaded.empty()) entry.state = "LOADING";
  }
  const std::lock_guard one(*loading);
  Status status;
  std::map<int64_t, std::shared_ptr<Model>> fresh;
  auto found = Settle(name, path, override_config.has_value(), &config);
  if (!found.ok()) status = found.status();
  if (status.ok()) status = CheckCycle(name, config);
  if (status.ok()) {
    auto opened = OpenVersions(*found, config);
    status = opened.status();
    if (opened.ok()) fresh = std::move(opened).value();
  }
  {
    const std::lock_guard lock(mutex_);
    Entry& entry = models_[name];
    if (found.ok()) entry.stamp = found->stamp;
    entry.reason = status.message();
    entry.incomplete = !status.ok() && !config.ensemble.empty();
    if (status.ok()) {
      entry.loaded.swap(fresh);
      entry.active = config;
    }
    entry.state = entry.loaded.empty() ? "UNAVAILABLE" : "READY";   // a failed load keeps the old
    // A name that only a failed request knew is nobody's.
    if (entry.loaded.empty() && entry.path.empty() && !entry.configured) models_.erase(name);
  }
  Retire(std::move(fresh));
  return std::move(status).Within(fmt::format("model '{}'", name));
}

Status LocalServer::Load(const std::string& name, const std::optional<ModelConfig>& config) {
  if (options_.control != ServerOptions::Control::kExplicit) {
    return Usage("loading on request; model '{}'; allowed with explicit model control only", name);
  }
  TENON_RETURN_IF_ERROR(ScanFolder());
  // An ensemble brings its models along.
  std::vector<std::pair<std::string, bool>> missing;
  for (const std::string& model : ModelsOf(name)) {
    if (!ModelReady(model, "")) missing.emplace_back(model, true);
  }
  TENON_RETURN_IF_ERROR(LoadInOrder(std::move(missing)));
  return LoadEntry(name, config);
}

Status LocalServer::Unload(const std::string& name) {
  if (options_.control != ServerOptions::Control::kExplicit) {
    return Usage("unloading on request; model '{}'; allowed with explicit model control only", name);
  }
  std::map<int64_t, std::shared_ptr<Model>> old;
  {
    const std::lock_guard lock(mutex_);
    const auto it = models_.find(name);
    if (it == models_.end()) return Usage("unknown model '{}'; the repository does not hold it", name);
    it->second.loaded.swap(old);
    it->second.state = old.empty() ? "UNAVAILABLE" : "UNLOADING";
    it->second.reason = "unloaded";
  }
  Retire(std::move(old));
  std::unique_lock lock(mutex_);
  tick_.wait(lock, [&] { return stopping_ || going_.count(name) == 0; });
  Entry& entry = models_[name];
  if (entry.loaded.empty()) entry.state = "UNAVAILABLE";
  return Status::Ok();
}

// The last reference is dropped by the housekeeper: a model's own thread cannot wait for itself.
void LocalServer::Retire(std::map<int64_t, std::shared_ptr<Model>> models) {
  if (models.empty()) return;
  const std::lock_guard lock(mutex_);
  for (auto& [version, model] : models) {
    going_.insert(model->config().name);
    retired_.push_back(std::move(model));
  }
  tick_.notify_all();
}

void LocalServer::Reap() {
  std::vector<std::shared_ptr<Model>> done;
  {
    const std::lock_guard lock(mutex_);
    const auto idle =
        std::partition(retired_.begin(), retired_.end(), [](const auto& m) { return m.use_count() > 1 || m->in_flight() > 0; });
    done.assign(std::make_move_iterator(idle), std::make_move_iterator(retired_.end()));
    retired_.erase(idle, retired_.end());
  }
  for (auto& model : done) {
    const std::string name = model->config().name;
    model.reset();
    malloc_trim(0);
    const std::lock_guard lock(mutex_);
    going_.erase(going_.find(name));
    tick_.notify_all();
  }
}

std::vector<std::shared_ptr<Model>> LocalServer::Loaded() const {
  std::vector<std::shared_ptr<Model>> all;
  const std::shared_lock lock(mutex_);
  for (const auto& [name, entry] : models_) {
    for (const auto& [version, model] : entry.loaded) all.push_back(model);
  }
  all.insert(all.end(), retired_.begin(), retired_.end());
  return all;
}

void LocalServer::Poll() {
  // A folder that cannot be read now is read again next time.
  if (!ScanFolder().ok()) return;
  std::vector<std::pair<std::string, std::pair<std::string, std::string>>> known;
  {
    const std::shared_lock lock(mutex_);
    for (const auto& [name, entry] : models_) {
      if (!entry.path.empty()) known.emplace_back(name, std::pair(entry.path, entry.incomplete ? "" : entry.stamp));
    }
  }
  for (const auto& [name, before] : known) {
    const auto found = FindModel(before.first);
    if (found.ok() && found->stamp != before.second) (void)LoadEntry(name, std::nullopt);   // the index tells how it went
    if (found.ok()) continue;
    std::map<int64_t, std::shared_ptr<Model>> old;
    {
      const std::lock_guard lock(mutex_);
      models_[name].loaded.swap(old);
      models_[name].state = "UNAVAILABLE";
      models_[name].reason = found.status().message();
      models_[name].stamp.clear();
    }
    Retire(std::move(old));
  }
}

void LocalServer::KeepHouse() {
  TimePoint next_poll = Now() + options_.poll_interval;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      tick_.wait_for(lock, kTick, [&] { return stopping_; });
      if (stopping_) return;
    }
    const TimePoint now = Now();
    for (const auto& model : Loaded()) {
      model->Expire(now);
      if (options_.idle_trim.count() > 0) model->TrimIdle(now, options_.idle_trim);
    }
    Throttle();
    Reap();
    if (options_.control == ServerOptions::Control::kPoll && started_ && now >= next_poll) {
      Poll();
      next_poll = Now() + options_.poll_interval;
    }
  }
}

std::vector<ModelState> LocalServer::Index() const {
  std::vector<ModelState> states;
  std::set<std::string> parts;
  const std::shared_lock lock(mutex_);
  for (const auto& [name, entry] : models_) {
    if (entry.loaded.empty()) continue;
    for (const EnsemblePart& part : entry.active.ensemble.parts) parts.insert(part.model);
  }
  for (const auto& [name, entry] : models_) {
    const bool part = parts.count(name) > 0;
    if (entry.loaded.empty()) states.push_back({name, "", entry.state, entry.reason, part});
    for (const auto& [version, model] : entry.loaded)
      states.push_back({name, std::to_string(version), entry.state, entry.reason.empty() ? model->Remark() : entry.reason, part});
  }
  return states;
}

Result<ModelDescription> LocalServer::Describe(const std::string& name, const std::string& version) const {
  const Found found = Find(name, version);
  if (found.model == nullptr) return Status(Code::kUsage, found.message);
  ModelDescription d;
  d.name = name;
  d.version = found.model->version();
  d.config = found.model->config();
  d.inputs = found.model->signature().inputs;
  d.outputs = found.model->signature().outputs;
  d.metadata = found.model->metadata();
  const std::shared_lock lock(mutex_);
  for (const auto& [v, model] : models_.at(name).loaded) d.versions.push_back(std::to_string(v));
  return d;
}

std::vector<ModelStatistics> LocalServer::Statistics(const std::string& name, const std::string& version) const {
  std::vector<ModelStatistics> all;
  const auto loaded = Loaded();
  const std::shared_lock lock(mutex_);
  for (const auto& [key, metrics] : metrics_) {
    if (!name.empty() && (key.first != name || (!version.empty() && key.second != version))) continue;
    ModelStatistics s = metrics->Read();
    s.name = key.first;
    s.version = key.second;
    for (const auto& model : loaded) {
      if (model->config().name != s.name || model->version() != s.version) continue;
      s.queued += model->queued();
      s.memory_bytes += model->memory_bytes();
      s.instances = model->instances();
      s.threads = model->threads_per_instance();
    }
    all.push_back(std::move(s));
  }
  return all;
}

uint64_t LocalServer::memory_used() const {
  uint64_t sum = 0;
  for (const auto& model : Loaded()) sum += model->memory_bytes();
  return sum;
}

bool LocalServer::Drain(std::chrono::milliseconds limit) {
  draining_ = true;
  const TimePoint end = Now() + limit;
  while (true) {
    size_t in_flight = 0;
    for (const auto& model : Loaded()) in_flight += model->in_flight();
    if (in_flight == 0) return true;
    if (Now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace serve

Result<std::unique_ptr<InferenceServer>> InferenceServer::Create(ServerOptions options) {
  if (!options.open) return Usage("a server needs a function that opens models");
  return std::unique_ptr<InferenceServer>(new serve::LocalServer(std::move(options)));
}

}  // namespace tenon
