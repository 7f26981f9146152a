// tenon device: the machine as devices, and the resource groups of a running server.
#include <fmt/ranges.h>

#include <thread>

#include "base/mapped_file.h"
#include "cli/device_parts.h"
#include "cli/model_options.h"
#include "device/topology.h"
#include "hw/thread_groups.h"
#include "server/transport/http_client.h"

namespace tenon::cli {
namespace {

struct DeviceOptions {
  std::string server = "127.0.0.1:8000";
  std::string key_file;
  std::string key;
  server::ClientTls tls;
  std::string layout = "2";
  std::string name;
  std::string cores;
  std::string memory;
  bool shared = false;
  double weight = 1;
  double quota = 0;
  double interval = 1;
  int count = 0;
};

// The server's answer; its refusals with their messages.
Result<Json> Ask(const DeviceOptions& o, const std::string& method, const std::string& path, const Json& body = Json()) {
  TENON_ASSIGN_OR_RETURN(const server::HttpAnswer answer,
                         server::Fetch(o.server, {method, path, body.is_null() ? "" : body.dump(), o.tls, o.key}));
  Json json = Json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  if (answer.status == 200 && !json.is_discarded()) return json;
  const std::string message =
      json.is_object() && json.contains("error") ? json["error"].get<std::string>() : fmt::format("status {}", answer.status);
  if (answer.status == 501) return Unsupported("{}", message);
  if (answer.status == 413 || answer.status == 507) return ResourceLimit("{}", message);
  return Usage("{}", message);
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (double v : values) sum += v;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

std::string CoresText(const std::vector<int>& cores) {
  std::string text;
  for (size_t i = 0; i < cores.size();) {
    size_t j = i;
    while (j + 1 < cores.size() && cores[j + 1] == cores[j] + 1) ++j;
    text += (text.empty() ? "" : ",") + (j > i ? fmt::format("{}-{}", cores[i], cores[j]) : std::to_string(cores[i]));
    i = j + 1;
  }
  return text;
}

// The first word of the file.
Status ReadKey(DeviceOptions* o) {
  if (o->key_file.empty()) return Status::Ok();
  constexpr uint64_t kMaxKeyFile = 1 << 16;
  TENON_ASSIGN_OR_RETURN(const std::string text, ReadFile(o->key_file, kMaxKeyFile));
  const auto printable = [](char c) { return c > ' ' && c <= '~'; };
  const auto begin = std::find_if(text.begin(), text.end(), printable);
  o->key.assign(begin, std::find_if_not(begin, text.end(), printable));
  if (o->key.empty()) return Usage("'{}' holds no key", o->key_file);
  return Status::Ok();
}

std::string QuotaMeans() {
  const hw::ThreadGroups groups;
  return groups.means().empty() ? "weights; " + groups.refusal() : groups.means();
}

// Devices of the server where one runs, else the machine as one device.
Result<Json> ListDevices(const DeviceOptions& o, device::Utilisation* utilisation) {
  const device::Topology t = device::ReadTopology();
  auto asked = Ask(o, "GET", "/v2/devices");
  if (!asked.ok() && asked.status().code() != Code::kBadInput) return asked.status();   // it is there and refuses
  Json list = Json::array();
  if (asked.ok() && asked->contains("devices")) {
    list = (*asked)["devices"];
  } else {
    std::vector<int> cores;
    for (const device::Core& c : t.cores) cores.push_back(c.cpu);
    list.push_back({{"name", ""},
                    {"cores", cores},
                    {"exclusive", false},
                    {"quota_means", QuotaMeans()},
                    {"memory", {{"limit", t.memory_limit}, {"used", t.memory_used}}},
                    {"models", Json::array()}});
  }
  const auto all = utilisation->Read([&] {
    std::vector<int> cpus;
    for (const Json& d : list) cpus.insert(cpus.end(), d["cores"].begin(), d["cores"].end());
    return cpus;
  }());
  const auto temperature = device::ReadTemperature();   // sensors know of packages, not of groups
  size_t at = 0;
  for (Json& d : list) {
    const std::vector<double> mine(all.begin() + static_cast<std::ptrdiff_t>(at),
                                   all.begin() + static_cast<std::ptrdiff_t>(at + d["cores"].size()));
    at += d["cores"].size();
    d["name"] = d["name"] == "" ? "cpu" : "cpu:" + d["name"].get<std::string>();
    d["utilisation"] = Mean(mine);
    d["temperature"] = temperature ? Json(*temperature) : Json();
    const uint64_t limit = d["memory"]["limit"], used = d["memory"]["used"];
    d["health"] = limit > 0 && used > limit / 5 * 4 ? "short of memory" : "OK";
  }
  return Json{{"devices", list},
              {"serving", asked.ok()},
              {"machine",
               {{"cores", t.cores.size()},
                {"usable", t.usable},
                {"explanation", t.explanation},
                {"memory", {{"limit", t.memory_limit}, {"used", t.memory_used}}}}}};
}

std::string KindOf(const Json& d) {
  const double quota = d.value("quota", 0.0);
  const std::string means = d["quota_means"];
  std::string kind = d["exclusive"].get<bool>() ? "exclusive" : fmt::format("shared, weight {:.3g}", d.value("weight", 1.0));
  if (quota > 0 && !means.starts_with("weights")) kind += fmt::format(", {:.3g} CPUs by {}", quota, means);
  return kind;
}

void Show(const Context& context, const Json& document) {
  std::vector<std::vector<std::string>> rows = {
      {"device", "health", "cores", "util %", "temp C", "memory used", "limit", "kind", "models"}};
  for (const Json& d : document["devices"]) {
    const uint64_t limit = d["memory"]["limit"];
    rows.push_back({d["name"], d["health"], CoresText(d["cores"]), fmt::format("{:.0f}", d["utilisation"].get<double>() * 100),
                    d["temperature"].is_null() ? "-" : fmt::format("{:.0f}", d["temperature"].get<double>()),
                    Bytes(d["memory"]["used"]), limit == 0 ? "none" : Bytes(limit), KindOf(d),
                    fmt::format("{}", fmt::join(d["models"].get<std::vector<std::string>>(), ", "))});
  }
  context.Say(Table(rows));
  context.Say(document["machine"]["explanation"].get<std::string>());
  context.Say("fractions of a core by " + document["devices"][0]["quota_means"].get<std::string>());
}

Status List(const DeviceOptions& o, Context& context, bool watch) {
  device::Utilisation utilisation;
  TENON_RETURN_IF_ERROR(ListDevices(o, &utilisation).status());   // utilisation is a difference of two readings
  for (int i = 0; !watch || o.count == 0 || i < o.count; ++i) {
    std::this_thread::sleep_for(std::chrono::duration<double>(watch ? o.interval : 0.2));
    if (Interrupted().cancelled()) return Status::Ok();
    TENON_ASSIGN_OR_RETURN(const Json document, ListDevices(o, &utilisation));
    if (watch && !context.json) context.Say("\x1b[H\x1b[2J");
    Show(context, document);
    context.Document(document);
    std::fflush(stdout);
    if (!watch) return Status::Ok();
  }
  return Status::Ok();
}

Result<std::vector<int>> CpusOfServer(const DeviceOptions& o) {
  TENON_ASSIGN_OR_RETURN(const Json document, Ask(o, "GET", "/v2/devices"));
  std::vector<int> cpus;
  for (const Json& d : document["devices"]) cpus.insert(cpus.end(), d["cores"].begin(), d["cores"].end());
  return cpus;
}

Result<Json> GroupBody(const DeviceOptions& o, const DeviceGroup& group) {
  Json body = {{"cores", group.cores}, {"exclusive", group.exclusive && !o.shared}, {"weight", group.weight}};
  if (group.quota > 0) body["quota"] = group.quota;
  if (!o.memory.empty()) {
    TENON_ASSIGN_OR_RETURN(const uint64_t bytes, ParseBytes(o.memory));
    body["memory_limit"] = bytes;
  }
  return body;
}

Status Split(const DeviceOptions& o, Context& context) {
  TENON_ASSIGN_OR_RETURN(const auto cpus, CpusOfServer(o));
  TENON_ASSIGN_OR_RETURN(const auto parts, PartsOf(cpus, o.layout));
  Json made = Json::array();
  for (const DeviceGroup& part : parts) {
    TENON_ASSIGN_OR_RETURN(const Json body, GroupBody(o, part));
    auto set = Ask(o, "POST", "/v2/devices/" + part.name, body);
    if (!set.ok()) {
      // All parts or none.
      for (const Json& m : made) (void)Ask(o, "DELETE", "/v2/devices/" + m["name"].get<std::string>());
      return std::move(set).TakeStatus();
    }
    made.push_back({{"name", part.name}, {"cores", part.cores}, {"weight", part.weight}, {"quota", part.quota}});
    context.Say(fmt::format("cpu:{} has {}cores {}", part.name,
                            part.exclusive ? "" : fmt::format("{:.3g} of the time of ", part.weight), CoresText(part.cores)));
  }
  context.Document({{"groups", made}});
  return Status::Ok();
}

Status Group(const DeviceOptions& o, Context& context) {
  DeviceGroup group;
  TENON_ASSIGN_OR_RETURN(group.cores, device::ParseCpuList(o.cores));
  group.weight = o.weight;
  group.quota = o.quota;
  group.exclusive = o.weight == 1 && o.quota == 0;
  TENON_ASSIGN_OR_RETURN(const Json body, GroupBody(o, group));
  TENON_RETURN_IF_ERROR(Ask(o, "POST", "/v2/devices/" + o.name, body).status());
  context.Say(fmt::format("cpu:{} has cores {}", o.name, CoresText(group.cores)));
  context.Document({{"groups", Json::array({{{"name", o.name}, {"cores", group.cores}}})}});
  return Status::Ok();
}

Status Reset(const DeviceOptions& o, Context& context) {
  TENON_ASSIGN_OR_RETURN(const Json document, Ask(o, "GET", "/v2/devices"));
  Json removed = Json::array();
  for (const Json& d : document["devices"]) {
    const std::string name = d["name"];
    if (name.empty() || (!o.name.empty() && o.name != name)) continue;
    TENON_RETURN_IF_ERROR(Ask(o, "DELETE", "/v2/devices/" + name).status());
    removed.push_back(name);
    context.Say("removed cpu:" + name);
  }
  context.Document({{"removed", removed}});
  return Status::Ok();
}

// With the names that curl has for them.
void AddTls(CLI::App& app, server::ClientTls& tls) {
  app.add_option("--cacert", tls.ca,
                 "https: who may have signed the server's certificate (PEM); else those whom the system trusts")
      ->envname("TENON_CACERT");
  app.add_option("--cert", tls.certificate, "https: certificate for a server that wants one (PEM)")->envname("TENON_CERT");
  app.add_option("--key", tls.key, "https: its key (PEM), where it is in a file of its own")->envname("TENON_KEY");
  app.add_flag("-k,--insecure", tls.insecure, "https: take the server whoever it is")->envname("TENON_INSECURE");
}

}  // namespace

Command Make_device() {
  return {"device", "show cores and memory as devices; make resource groups of a running server", "tenon device list --json",
          [](CLI::App& app) {
            auto o = std::make_shared<DeviceOptions>();
            auto action = std::make_shared<std::string>();
            app.add_option("ACTION", *action, "list, watch, split, group, reset")
                ->required()
                ->check(CLI::IsMember({"list", "watch", "split", "group", "reset"}));
            app.add_option("NAME", o->name, "group: its name; reset: this one alone");
            app.add_option("--server", o->server, "HTTP address of the running server; https://HOST:PORT where it has TLS")
                ->capture_default_str()
                ->envname("TENON_SERVER");
            app.add_option("--api-key-file", o->key_file, "File with the key of a server that wants one")
                ->envname("TENON_API_KEY_FILE");
            AddTls(app, o->tls);
            app.add_option("--layout", o->layout, "split: 2, 1/4+3/4, cores=0-3,8")->capture_default_str();
            app.add_option("--cores", o->cores, "group: CPUs, as 0-3,8");
            app.add_option("--memory", o->memory, "split, group: limit of each, as 2G");
            app.add_flag("--shared", o->shared, "split, group: others may use the cores too");
            app.add_option("--weight", o->weight,
                           "group: of the time of shared cores, while others want them too (implies --shared)")
                ->capture_default_str()
                ->check(CLI::Range(1e-3, 1e3));
            app.add_option("--quota", o->quota,
                           "group: CPUs that all its runs together get at most, by cgroups (implies --shared); 0: no limit")
                ->capture_default_str()
                ->check(CLI::Range(0.0, 4096.0));
            app.add_option("--interval", o->interval, "watch: seconds between two looks")
                ->capture_default_str()
                ->check(CLI::Range(0.1, 3600.0));
            app.add_option("--count", o->count, "watch: looks; 0: until Ctrl-C")
                ->capture_default_str()
                ->check(CLI::Range(0, 1000000));
            return [o, action](Context& context) -> Status {
              TENON_RETURN_IF_ERROR(ReadKey(o.get()));
              if (*action == "split") return Split(*o, context);
              if (*action == "reset") return Reset(*o, context);
              if (*action == "group")
                return o->name.empty() || o->cores.empty() ? Usage("device group needs a NAME and --cores") : Group(*o, context);
              return List(*o, context, *action == "watch");
            };
          }};
}

}  // namespace tenon::cli
