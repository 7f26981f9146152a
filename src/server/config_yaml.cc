// tenon.yaml.
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "base/status.h"
#include "device/topology.h"
#include "server/config_files.h"

namespace tenon::server {
namespace {

std::string Where(const YAML::Node& node) {
  return fmt::format("line {}", node.Mark().line + 1);
}

template <typename T>
Status Number(const YAML::Node& node, const std::string& key, int64_t least, int64_t most, T* out) {
  int64_t value = 0;
  const std::string text = node.IsScalar() ? node.Scalar() : "";
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    return BadInput("{}; {}: a number in {}..{} is expected", Where(node), key, least, most);
  }
  *out = static_cast<T>(value);
  return Status::Ok();
}

Status Real(const YAML::Node& node, const std::string& key, double least, double most, double* out) {
  const std::string text = node.IsScalar() ? node.Scalar() : "";
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || !(*out >= least && *out <= most))
    return BadInput("{}; {}: a number in {}..{} is expected", Where(node), key, least, most);
  return Status::Ok();
}

Status Text(const YAML::Node& node, const std::string& key, std::string* out) {
  if (!node.IsScalar()) return BadInput("{}; {}: a text is expected", Where(node), key);
  *out = node.Scalar();
  return Status::Ok();
}

template <typename T>
Status Numbers(const YAML::Node& node, const std::string& key, int64_t most, std::vector<T>* out) {
  if (!node.IsSequence()) return BadInput("{}; {}: a list of numbers is expected", Where(node), key);
  out->clear();
  for (const YAML::Node& item : node) {
    T value{};
    TENON_RETURN_IF_ERROR(Number(item, key, 1, most, &value));
    if (!out->empty() && value <= out->back()) return BadInput("{}; {}: numbers must rise", Where(item), key);
    out->push_back(value);
  }
  return Status::Ok();
}

// "input: value".
Status Values(const YAML::Node& node, const std::string& key, std::map<std::string, double>* out) {
  if (!node.IsMap()) return BadInput("{}; {}: \"input: value\" is expected", Where(node), key);
  out->clear();
  for (const auto& item : node) {
    if (!item.first.IsScalar()) return BadInput("{}; {}: names are expected", Where(node), key);
    TENON_RETURN_IF_ERROR(Real(item.second, key, -1e300, 1e300, &(*out)[item.first.Scalar()]));
  }
  return Status::Ok();
}

Status Flag(const YAML::Node& node, const std::string& key, bool* out) {
  const std::string text = node.IsScalar() ? node.Scalar() : "";
  if (text != "true" && text != "false") return BadInput("{}; {}: true or false is expected", Where(node), key);
  *out = text == "true";
  return Status::Ok();
}

// "512M", "2GiB", "1000000".
Status Size(const YAML::Node& node, const std::string& key, uint64_t* out) {
  const std::string text = node.IsScalar() ? node.Scalar() : "";
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  static const std::map<std::string, double> kUnits = {
      {"", 1.0},          {"K", 1024.0},       {"KiB", 1024.0},      {"M", 1048576.0},
      {"MiB", 1048576.0}, {"G", 1073741824.0}, {"GiB", 1073741824.0}};
  const auto factor = kUnits.find(unit);
  if (text.empty() || error != std::errc() || factor == kUnits.end() || !(value >= 0) || value * factor->second > 1e18) {
    return BadInput("{}; {}: a size is expected, as 512M or 2G", Where(node), key);
  }
  *out = static_cast<uint64_t>(value * factor->second);
  return Status::Ok();
}

Status Texts(const YAML::Node& node, const std::string& key, std::vector<std::string>* out) {
  if (!node.IsSequence()) return BadInput("{}; {}: a list of names is expected", Where(node), key);
  out->clear();
  for (const YAML::Node& item : node) {
    out->emplace_back();
    TENON_RETURN_IF_ERROR(Text(item, key, &out->back()));
  }
  return Status::Ok();
}

// "key: value" of any keys; values that are no text stay YAML.
Status Pairs(const YAML::Node& node, const std::string& key, bool texts, std::map<std::string, std::string>* out) {
  if (!node.IsMap()) return BadInput("{}; {}: \"name: value\" is expected", Where(node), key);
  out->clear();
  for (const auto& item : node) {
    const YAML::Node& value = item.second;
    if (!item.first.IsScalar() || (texts && !value.IsScalar())) return BadInput("{}; {}: names are expected", Where(node), key);
    YAML::Emitter flow;
    flow << YAML::Flow << value;
    (*out)[item.first.Scalar()] = value.IsScalar() ? value.Scalar() : flow.c_str();
  }
  return Status::Ok();
}

using Setter = std::function<Status(const YAML::Node&, const std::string& key)>;
using Setters = std::map<std::string, Setter>;

std::string Names(const Setters& setters) {
  std::string names;
  for (const auto& [name, setter] : setters) names += (names.empty() ? "" : ", ") + name;
  return names;
}

// `otherwise` takes the keys that have no setter; without it they are errors.
Status ApplyAll(const YAML::Node& node, const Setters& setters, const Setter& otherwise = nullptr) {
  if (!node.IsMap()) return BadInput("{}; settings are expected, as \"key: value\"", Where(node));
  std::set<std::string> seen;
  for (const auto& item : node) {
    const std::string key = item.first.IsScalar() ? item.first.Scalar() : "";
    if (!seen.insert(key).second) return BadInput("{}; '{}' stands there twice", Where(item.first), key);
    const auto found = setters.find(key);
    if (found == setters.end() && !otherwise)
      return BadInput("{}; unknown key '{}'; allowed: {}", Where(item.first), key, Names(setters));
    TENON_RETURN_IF_ERROR((found == setters.end() ? otherwise : found->second)(item.second, key));
  }
  return Status::Ok();
}

Status ApplyEnsemble(const YAML::Node& node, const std::string& key, Ensemble* ensemble) {
  if (!node.IsSequence()) return BadInput("{}; {}: a list of models and steps is expected", Where(node), key);
  ensemble->parts.clear();
  for (const YAML::Node& item : node) {
    EnsemblePart part;
    const auto text = [](std::string* out) {
      return [out](const YAML::Node& n, const std::string& k) { return Text(n, k, out); };
    };
    const auto pairs = [](std::map<std::string, std::string>* out, bool texts) {
      return [out, texts](const YAML::Node& n, const std::string& k) { return Pairs(n, k, texts, out); };
    };
    TENON_RETURN_IF_ERROR(ApplyAll(item, {{"model", text(&part.model)},
                                          {"version", text(&part.version)},
                                          {"step", text(&part.step)},
                                          {"inputs", pairs(&part.inputs, true)},
                                          {"outputs", pairs(&part.outputs, true)},
                                          {"parameters", pairs(&part.parameters, false)}}));
    if (part.model.empty() == part.step.empty()) return BadInput("{}; 'model' or 'step' is expected", Where(item));
    ensemble->parts.push_back(std::move(part));
  }
  return Status::Ok();
}

Status ApplyModel(const YAML::Node& node, ModelConfig* c) {
  constexpr int64_t kMillion = 1000000;
  const auto us = [&](std::chrono::microseconds* out, int64_t factor) {
    return [out, factor](const YAML::Node& n, const std::string& key) {
      int64_t value = 0;
      TENON_RETURN_IF_ERROR(Number(n, key, 0, 86400 * kMillion, &value));
      *out = std::chrono::microseconds(value * factor);
      return Status::Ok();
    };
  };
  const auto number = [](auto* out, int64_t least, int64_t most) {
    return [out, least, most](const YAML::Node& n, const std::string& key) { return Number(n, key, least, most, out); };
  };
  const auto text = [](std::string* out) {
    return [out](const YAML::Node& n, const std::string& key) { return Text(n, key, out); };
  };
  return ApplyAll(
      node,
      {{"name", text(&c->name)},
       {"path", text(&c->path)},
       {"group", text(&c->group)},
       {"max_batch",
        [c](const YAML::Node& n, const std::string& key) {
          int value = 0;
          TENON_RETURN_IF_ERROR(Number(n, key, 0, 4096, &value));
          c->max_batch = value;
          return Status::Ok();
        }},
       {"preferred_batch",
        [c](const YAML::Node& n, const std::string& key) { return Numbers(n, key, 4096, &c->preferred_batch); }},
       {"max_batch_tokens", number(&c->max_batch_tokens, 0, kMaxBatchTokens)},
       {"pad", [c](const YAML::Node& n, const std::string& key) { return Values(n, key, &c->pad); }},
       {"max_padding",
        [c](const YAML::Node& n, const std::string& key) { return Real(n, key, 0, kMaxPadding, &c->max_padding); }},
       {"max_queue_delay_us", us(&c->max_delay, 1)},
       {"timeout_ms", us(&c->queue.default_timeout, 1000)},
       {"instances", number(&c->instances, 1, 1024)},
       {"threads", number(&c->threads, 0, 1024)},
       {"max_queue", number(&c->queue.max_queue, 1, kMillion)},
       {"priority_levels", number(&c->priority_levels, 0, 1000)},
       {"default_priority", number(&c->default_priority, 0, 1000)},
       {"latest", number(&c->versions_latest, 0, 1000)},
       {"versions", [c](const YAML::Node& n, const std::string& key) { return Numbers(n, key, int64_t{1} << 62, &c->versions); }},
       {"memory_limit", [c](const YAML::Node& n, const std::string& key) { return Size(n, key, &c->memory_limit); }},
       {"precision",
        [c](const YAML::Node& n, const std::string& key) {
          TENON_RETURN_IF_ERROR(Text(n, key, &c->precision));
          c->parameters[key] = c->precision;
          return Status::Ok();
        }},
       {"ensemble", [c](const YAML::Node& n, const std::string& key) { return ApplyEnsemble(n, key, &c->ensemble); }},
       {"outputs", [c](const YAML::Node& n, const std::string& key) { return Texts(n, key, &c->ensemble.outputs); }},
       {"preprocess", [c](const YAML::Node& n, const std::string&) {
          c->parameters["preprocess"] = YAML::Dump(n);
          return Status::Ok();
        }}});
}

// "0-3,8", or a list of numbers.
Status Cores(const YAML::Node& node, const std::string& key, std::vector<int>* out) {
  if (node.IsSequence()) {
    out->clear();
    for (const YAML::Node& item : node) TENON_RETURN_IF_ERROR(Number(item, key, 0, 4095, &out->emplace_back()));
    return Status::Ok();
  }
  auto cores = device::ParseCpuList(node.IsScalar() ? node.Scalar() : "");
  if (!cores.ok() || cores->empty()) return BadInput("{}; {}: numbers of CPUs are expected, as 0-3,8", Where(node), key);
  *out = std::move(cores).value();
  return Status::Ok();
}

Status ApplyGroups(const YAML::Node& node, const std::string& key, std::vector<DeviceGroup>* groups) {
  if (!node.IsSequence()) return BadInput("{}; {}: a list of groups is expected", Where(node), key);
  for (const YAML::Node& item : node) {
    DeviceGroup group;
    bool shared = false;
    TENON_RETURN_IF_ERROR(ApplyAll(
        item, {{"name", [&](const YAML::Node& n, const std::string& k) { return Text(n, k, &group.name); }},
               {"cores", [&](const YAML::Node& n, const std::string& k) { return Cores(n, k, &group.cores); }},
               {"memory_limit", [&](const YAML::Node& n, const std::string& k) { return Size(n, k, &group.memory_limit); }},
               {"shared", [&](const YAML::Node& n, const std::string& k) { return Flag(n, k, &shared); }},
               {"weight", [&](const YAML::Node& n, const std::string& k) { return Real(n, k, 1e-3, 1e3, &group.weight); }},
               {"quota", [&](const YAML::Node& n, const std::string& k) { return Real(n, k, 0, 4096, &group.quota); }}}));
    if (group.name.empty() || group.cores.empty()) return BadInput("{}; a group needs a name and cores", Where(item));
    group.exclusive = !shared && group.weight == 1 && group.quota == 0;
    groups->push_back(std::move(group));
  }
  return Status::Ok();
}

Status Load(const std::string& text, YAML::Node* node) {
  if (text.size() > kMaxSettingsBytes) return BadInput("{} bytes; settings have at most {}", text.size(), kMaxSettingsBytes);
  try {
    *node = YAML::Load(text);
  } catch (const YAML::Exception& e) {
    return BadInput("line {}; {}", e.mark.line + 1, e.msg);
  }
  return Status::Ok();
}

Result<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return BadInput("cannot be read");
  return text.str();
}

}  // namespace

Status ParseModelYaml(const std::string& text, ModelConfig* config) {
  YAML::Node node;
  TENON_RETURN_IF_ERROR(Load(text, &node));
  return node.IsNull() ? Status::Ok() : ApplyModel(node, config);
}

Result<ServerFile> ParseServerYaml(const std::string& text) {
  YAML::Node node;
  TENON_RETURN_IF_ERROR(Load(text, &node));
  ServerFile file;
  if (node.IsNull()) return file;
  const auto groups = [&](const YAML::Node& n, const std::string& key) { return ApplyGroups(n, key, &file.groups); };
  const auto models = [](const YAML::Node&, const std::string&) { return Status::Ok(); };   // see ParseServerModels
  const auto setting = [&](const YAML::Node& n, const std::string& key) {
    ServerSetting s{key, {}, n.Mark().line + 1};
    if (n.IsSequence()) {
      TENON_RETURN_IF_ERROR(Texts(n, key, &s.values));
    } else {
      TENON_RETURN_IF_ERROR(Text(n, key, &s.values.emplace_back()));
    }
    file.settings.push_back(std::move(s));
    return Status::Ok();
  };
  TENON_RETURN_IF_ERROR(ApplyAll(node, {{"groups", groups}, {"models", models}}, setting));
  return file;
}

Result<std::vector<ModelConfig>> ParseServerModels(const std::string& text, const ModelConfig& defaults) {
  YAML::Node node;
  TENON_RETURN_IF_ERROR(Load(text, &node));
  std::vector<ModelConfig> models;
  const YAML::Node list = node.IsMap() ? node["models"] : YAML::Node();
  if (!list.IsDefined() || list.IsNull()) return models;
  if (!list.IsSequence()) return BadInput("{}; models: a list of models is expected", Where(list));
  for (const YAML::Node& item : list) {
    ModelConfig config = defaults;
    TENON_RETURN_IF_ERROR(ApplyModel(item, &config));
    if (config.path.empty() && config.ensemble.empty()) return BadInput("{}; a model needs a path", Where(item));
    if (config.path.empty() && config.name.empty()) return BadInput("{}; an ensemble needs a name", Where(item));
    models.push_back(std::move(config));
  }
  return models;
}

Status ReadModelConfig(const std::string& folder, ModelConfig* config) {
  using Parser = Status (*)(const std::string&, ModelConfig*);
  static constexpr std::pair<const char*, Parser> kFiles[] = {{"tenon.yaml", ParseModelYaml}, {"config.pbtxt", ParsePbtxt}};
  std::error_code error;
  for (const auto& [name, parse] : kFiles) {
    const std::string path = folder + "/" + name;
    if (!std::filesystem::exists(path, error)) continue;
    const std::string own_name = config->name, own_path = config->path;
    auto text = ReadText(path);
    Status status = text.ok() ? parse(*text, config) : text.status();
    if (!status.ok()) return std::move(status).Within(path);
    if (!config->name.empty() && config->name != own_name) {
      return BadInput("{}; it names the model '{}'; its folder is '{}'", path, config->name, own_name);
    }
    config->name = own_name;
    config->path = own_path;
    for (WarmUpRun& run : config->warm_up) {
      for (auto& [input, data] : run.inputs) {
        if (!data.file.empty()) data.file = fmt::format("{}/{}/{}", folder, kWarmUpFolder, data.file);
      }
    }
    // Files of steps lie beside the settings.
    for (EnsemblePart& part : config->ensemble.parts) {
      for (const char* file : kStepFiles) {
        const auto it = part.parameters.find(file);
        if (it != part.parameters.end()) it->second = (std::filesystem::path(folder) / it->second).string();
      }
    }
    return Status::Ok();
  }
  return Status::Ok();
}

}  // namespace tenon::server
