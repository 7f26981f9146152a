// Models of models: what they need, in which order they load, and how they ask the others.
#include <algorithm>

#include "serve/ensemble.h"
#include "serve/local_server.h"

namespace tenon::serve {

// Files and settings of a model. An ensemble has no file; `own`: the settings are the caller's, not those beside the model.
Result<FoundModel> LocalServer::Settle(const std::string& name, const std::string& path, bool own, ModelConfig* config) const {
  FoundModel found;
  if (!path.empty() || config->ensemble.empty()) {
    auto there = FindModel(path);
    if (there.ok()) {
      found = std::move(there).value();
    } else if (!own || config->ensemble.empty()) {
      return std::move(there).TakeStatus();
    }
  }
  if (!own && options_.read_config && !found.folder.empty()) {
    TENON_RETURN_IF_ERROR(options_.read_config(found.folder, config));
  }
  config->name = name;
  if (!config->ensemble.empty()) found.versions = {{1, path}};
  if (found.versions.empty())
    return BadInput("'{}'; holds no model; VERSION/model.onnx or VERSION/model.tenon is expected, VERSION a number >= 1", path);
  return found;
}

// Names of all models that `name` asks, as its settings say now.
std::set<std::string> LocalServer::ModelsOf(const std::string& name) const {
  std::string path;
  ModelConfig config;
  {
    const std::shared_lock lock(mutex_);
    const auto it = models_.find(name);
    if (it == models_.end()) return {};
    path = it->second.path;
    config = it->second.config;
  }
  std::set<std::string> names;
  if (!Settle(name, path, false, &config).ok()) return names;   // loading it will say so
  for (const EnsemblePart& part : config.ensemble.parts) {
    if (!part.model.empty()) names.insert(part.model);
    const auto source = part.parameters.find("model");
    if (source != part.parameters.end()) names.insert(source->second);
  }
  return names;
}

// Models before the ensembles that ask them.
Status LocalServer::LoadInOrder(std::vector<std::pair<std::string, bool>> wanted) {
  Status first;
  std::map<std::string, std::set<std::string>> needs;
  for (const auto& [name, configured] : wanted) needs[name] = ModelsOf(name);
  while (!wanted.empty()) {
    const auto waits = [&](const auto& w) {
      return std::any_of(wanted.begin(), wanted.end(),
                         [&](const auto& other) { return other.first != w.first && needs[w.first].count(other.first) > 0; });
    };
    // In a circle nobody is first: loading will say so.
    auto next = std::find_if_not(wanted.begin(), wanted.end(), waits);
    if (next == wanted.end()) next = wanted.begin();
    Status status = LoadEntry(next->first, std::nullopt);
    // What the caller named must work; what lies in a folder is reported by the index.
    if (!status.ok() && next->second && first.ok()) first = std::move(status);
    wanted.erase(next);
  }
  return first;
}

// A model that asks itself, through others, would wait for ever.
Status LocalServer::CheckCycle(const std::string& name, const ModelConfig& config) const {
  std::set<std::string> seen;
  std::vector<const Ensemble*> open = {&config.ensemble};
  const std::shared_lock lock(mutex_);
  while (!open.empty()) {
    const Ensemble* ensemble = open.back();
    open.pop_back();
    for (const EnsemblePart& part : ensemble->parts) {
      if (part.model == name) return BadInput("it would ask itself");
      if (part.model.empty() || !seen.insert(part.model).second) continue;
      const auto it = models_.find(part.model);
      if (it != models_.end()) open.push_back(&it->second.active.ensemble);
    }
  }
  return Status::Ok();
}

ModelOpener LocalServer::EnsembleOpener(const Place& place) {
  const auto turn = std::make_shared<std::atomic<size_t>>(0);
  return [this, place, turn](const std::string&, const ModelConfig& config,
                             const SessionOptions& options) -> Result<std::unique_ptr<Session>> {
    EnsembleServices services;
    services.infer = [this](InferRequest request, std::function<void(InferResponse)> done) {
      Found found = Find(request.model, request.version);   // also while draining: these are parts of requests taken before
      return Hand(std::move(request), std::move(found), std::move(done), std::chrono::steady_clock::now());
    };
    services.describe = [this](const std::string& model, const std::string& version) { return Describe(model, version); };
    services.gate = place.gate;
    services.share = place.share;
    services.core = place.cores[turn->fetch_add(1) % place.cores.size()];
    TENON_ASSIGN_OR_RETURN(auto session, EnsembleSession::Create(config.ensemble, std::move(services), options.memory_limit));
    return std::unique_ptr<Session>(std::move(session));
  };
}

}  // namespace tenon::serve
