// tenon serve: models behind HTTP and gRPC.
#include <malloc.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "base/mapped_file.h"
#include "cli/device_parts.h"
#include "cli/model_options.h"
#include "cli/serve_settings.h"
#include "cli/service_manager.h"
#include "server/app.h"
#include "server/config_files.h"
#include "tenon/server.h"

namespace tenon::cli {
namespace {

struct ServeOptions {
  std::vector<std::string> models;
  std::string repository;
  std::string config;
  std::string config_text;
  std::vector<DeviceGroup> groups;
  std::string split;
  std::string control = "none";
  std::vector<std::string> load;
  double poll_seconds = 5;
  std::string drain = "30s";
  std::string body_limit = "256M";
  std::string response_limit = "256M";
  std::string upload_limit = "1G";
  std::string header_limit = "64K";
  std::string idle_timeout = "120s";
  std::string transfer_timeout = "60s";
  std::string idle_trim = "30s";
  std::string log_format = "text";
  std::string log_level = "info";
  bool log_requests = false;
  std::vector<std::string> trace_level = {"TIMESTAMPS"};
  uint64_t trace_rate = 0;
  int64_t trace_count = -1;
  ModelConfig defaults;
  std::vector<std::string> open = {"health", "metrics"};
  int max_batch = -1;
  int64_t max_delay_us = 0;
  ModelOptions common;
  server::AppOptions app;
};

// "NAME=PATH" or "PATH".
ModelConfig ConfigOf(const std::string& text, const ModelConfig& defaults) {
  ModelConfig config = defaults;
  const size_t equals = text.find('=');
  if (equals != std::string::npos && text.find('/') > equals) config.name = text.substr(0, equals);
  config.path = config.name.empty() ? text : text.substr(equals + 1);
  return config;
}

// What the file says, where the command line says nothing. Its models are read later, over what is then settled.
Status ReadConfig(CLI::App& app, ServeOptions& o) {
  if (o.config.empty()) return Status::Ok();
  TENON_ASSIGN_OR_RETURN(o.config_text, ReadFile(o.config, server::kMaxSettingsBytes));
  auto file = server::ParseServerYaml(o.config_text);
  if (!file.ok()) return std::move(file).TakeStatus().Within(o.config);
  o.groups = std::move(file->groups);
  return ApplySettings(file->settings, app).Within(o.config);
}

// Parts of the server's memory limit go with parts of its cores.
Status SplitDevices(const std::string& layout, InferenceServer& models) {
  const DeviceGroup all = models.Devices()[0].group;
  TENON_ASSIGN_OR_RETURN(auto parts, PartsOf(all.cores, layout));
  for (DeviceGroup& part : parts) {
    const double share = part.weight * static_cast<double>(part.cores.size()) / static_cast<double>(all.cores.size());
    part.memory_limit = static_cast<uint64_t>(static_cast<double>(models.memory_limit()) * share);
    TENON_RETURN_IF_ERROR(models.SetGroup(part));
  }
  return Status::Ok();
}

std::chrono::milliseconds Milliseconds(double seconds) {
  constexpr double kMost = 1e9;
  return std::chrono::milliseconds(static_cast<int64_t>(std::min(seconds, kMost) * 1000));
}

Result<ServerOptions> ServerOptionsOf(ServeOptions& o, const Context& context) {
  TENON_RETURN_IF_ERROR(o.common.Finish(context));
  ServerOptions s;
  if (o.max_batch >= 0) o.defaults.max_batch = o.max_batch;
  o.defaults.max_delay = std::chrono::microseconds(o.max_delay_us);
  o.defaults.threads = o.common.session.threads;
  s.memory_limit = o.common.session.memory_limit;
  TENON_ASSIGN_OR_RETURN(const double idle_s, ParseDuration(o.idle_trim));
  s.idle_trim = Milliseconds(idle_s);
  if (o.common.compile.precision != CompileOptions().precision) {
    o.defaults.precision = o.common.compile.precision;
    o.defaults.parameters["precision"] = o.defaults.precision;
  }
  auto configured = server::ParseServerModels(o.config_text, o.defaults);
  if (!configured.ok()) return std::move(configured).TakeStatus().Within(o.config);
  s.models = std::move(configured).value();
  s.groups = o.groups;
  s.repository = o.repository;
  s.control = o.control == "explicit" ? ServerOptions::Control::kExplicit
              : o.control == "poll"   ? ServerOptions::Control::kPoll
                                      : ServerOptions::Control::kNone;
  s.load = o.load;
  s.poll_interval = std::chrono::milliseconds(static_cast<int64_t>(o.poll_seconds * 1000));
  s.defaults = o.defaults;
  s.read_config = server::ReadModelConfig;
  for (const std::string& m : o.models) s.models.push_back(ConfigOf(m, s.defaults));
  s.open = [compile = o.common.compile, cache = o.common.cache_dir](const std::string& path, const ModelConfig& config,
                                                                    const SessionOptions& session) {
    CompileOptions own = compile;
    if (!config.precision.empty()) own.precision = config.precision;
    return OpenModel(path, own, session, cache);
  };
  if (s.repository.empty() && s.models.empty()) return Usage("nothing to serve; name models, or a folder of them with --models");
  return s;
}

std::string Address(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

void Announce(const Context& context, const ServeOptions& o, const server::App& app, const InferenceServer& models) {
  Json list = Json::array();
  for (const ModelState& m : models.Index()) {
    list.push_back({{"name", m.name}, {"version", m.version}, {"state", m.state}, {"reason", m.reason}});
    context.Say(fmt::format("model   {} {} {}{}", m.name, m.version, m.state, m.reason.empty() ? "" : ": " + m.reason));
  }
  Json addresses = Json::object();
  const std::string scheme = o.app.tls.certificate.empty() ? "http://" : "https://";
  const auto add = [&](const char* name, int port, const std::string& before, const char* after) {
    if (port < 0) return;
    addresses[name] = Address(o.app.host, port);
    context.Say(fmt::format("{:<7} {}{}{}", name, before, Address(o.app.host, port), after));
  };
  add("http", app.http_port(), scheme, "/");
  add("grpc", app.grpc_port(), "", "");
  add("metrics", app.metrics_port(), scheme, "/metrics");
  context.Say("ready; Ctrl-C drains and ends");
  context.Document({{"addresses", addresses}, {"models", list}});
  std::fflush(stdout);
}

void ApplyLogOptions(ServeOptions& o) {
  o.app.log_format = o.log_format == "json" ? server::Log::Format::kJson : server::Log::Format::kText;
  o.app.log = {{"log_warning", o.log_level != "error"},
               {"log_info", o.log_level == "info"},
               {"log_verbose_level", uint64_t{o.log_requests ? 1U : 0U}}};
  using Values = std::vector<std::string>;
  if (o.trace_rate > 0) o.app.trace["trace_level"] = o.trace_level;
  if (o.trace_rate > 0) o.app.trace["trace_rate"] = Values{std::to_string(o.trace_rate)};
  o.app.trace["trace_count"] = Values{std::to_string(o.trace_count)};
}

// The next of `signals`; until then `manager` hears that the server lives, as long as it answers.
int NextSignal(const sigset_t& signals, const ServiceManager& manager, const InferenceServer& models) {
  const auto period = manager.period();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(period);
  const timespec wait = {seconds.count(), std::chrono::nanoseconds(period - seconds).count()};
  while (true) {
    const int signal = period.count() > 0 ? sigtimedwait(&signals, nullptr, &wait) : sigwaitinfo(&signals, nullptr);
    if (signal > 0) return signal;
    (void)models.memory_used();   // takes the locks of every model: a server that hangs does not come back from here
    manager.Alive();
  }
}

Status ReadLimits(ServeOptions& o) {
  TENON_ASSIGN_OR_RETURN(o.app.limits.body, ParseBytes(o.body_limit));
  TENON_ASSIGN_OR_RETURN(const uint64_t header, ParseBytes(o.header_limit));
  o.app.limits.header = static_cast<uint32_t>(std::min<uint64_t>(header, std::numeric_limits<uint32_t>::max()));
  TENON_ASSIGN_OR_RETURN(o.app.response_limit, ParseBytes(o.response_limit));
  TENON_ASSIGN_OR_RETURN(o.app.upload_limit, ParseBytes(o.upload_limit));
  TENON_ASSIGN_OR_RETURN(const double idle_s, ParseDuration(o.idle_timeout));
  TENON_ASSIGN_OR_RETURN(const double transfer_s, ParseDuration(o.transfer_timeout));
  o.app.limits.idle = Milliseconds(idle_s);
  o.app.limits.transfer = Milliseconds(transfer_s);
  return Status::Ok();
}

Status Run(CLI::App& app, ServeOptions& o, Context& context) {
  TENON_RETURN_IF_ERROR(ReadConfig(app, o));
  // From here on every thread leaves these to the one that waits for them below.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  const ServiceManager manager;
  if (!o.app.api_keys.empty() || !o.app.log_file.empty() || !o.app.tls.certificate.empty() || manager.listens())
    sigaddset(&signals, SIGHUP);   // else it ends the process, as a closed terminal should
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  TENON_ASSIGN_OR_RETURN(const double drain_s, ParseDuration(o.drain));
  TENON_RETURN_IF_ERROR(ReadLimits(o));
  ApplyLogOptions(o);
  const auto open = [&o](const char* what) { return std::find(o.open.begin(), o.open.end(), what) != o.open.end(); };
  o.app.open_health = open("health");
  o.app.open_metrics = open("metrics");
  TENON_ASSIGN_OR_RETURN(ServerOptions options, ServerOptionsOf(o, context));
  o.app.defaults = options.defaults;
  if (!o.split.empty() && !options.groups.empty()) return Usage("groups and a split; one of them");
  TENON_ASSIGN_OR_RETURN(const auto models, InferenceServer::Create(std::move(options)));
  if (!o.split.empty()) TENON_RETURN_IF_ERROR(SplitDevices(o.split, *models));
  // Each load runs on threads of its own: in eight arenas a core what they leave behind takes twice the memory, and grows.
  mallopt(M_ARENA_MAX, models->cores());
  TENON_ASSIGN_OR_RETURN(const auto front, server::App::Start(*models, o.app));
  TENON_RETURN_IF_ERROR(models->Start());
  Announce(context, o, *front, *models);
  const std::string status = fmt::format("serving {} models", models->Index().size());
  manager.Ready(status);
  while (NextSignal(signals, manager, *models) == SIGHUP) {
    manager.Reloading();
    front->Reload();
    manager.Ready(status);
  }
  manager.Stopping();
  context.Say("draining");
  std::fflush(stdout);
  front->StopAccepting();
  std::thread([signals] {
    // A second signal does not wait.
    int again = SIGHUP;
    while (again == SIGHUP) sigwait(&signals, &again);
    _exit(130);
  }).detach();
  const bool drained = models->Drain(Milliseconds(drain_s));
  // Answers that are made are also sent.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  if (!drained) {
    context.Note("some requests were still running when the time to drain was over");
    std::fflush(nullptr);
    _exit(0);   // they hold on to what would be taken down
  }
  return Status::Ok();
}

void AddSecurity(CLI::App& app, ServeOptions& o) {
  app.add_option("--api-keys", o.app.api_keys, "File of keys, 'KEY [infer|admin]' a line; SIGHUP reads it again; none: no keys")
      ->envname("TENON_API_KEYS");
  app.add_option("--open", o.open, "What needs no key: health, metrics (with commas), none")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::IsMember({"health", "metrics", "none"}))
      ->envname("TENON_OPEN");
  const auto file = [&app](const char* name, std::string& value, const char* text, const char* variable) {
    app.add_option(name, value, text)->envname(variable);
  };
  file("--tls-cert", o.app.tls.certificate,
       "Certificate of the server (PEM, with those that signed it): TLS on all ports; SIGHUP reads it again", "TENON_TLS_CERT");
  file("--tls-key", o.app.tls.key, "Its key (PEM, without a password)", "TENON_TLS_KEY");
  file("--tls-client-ca", o.app.tls.client_ca, "Clients need a certificate that one of these (PEM) signed",
       "TENON_TLS_CLIENT_CA");
}

void AddLog(CLI::App& app, ServeOptions& o) {
  app.add_option("--log-format", o.log_format, "text or json: one record a line")
      ->capture_default_str()
      ->check(CLI::IsMember({"text", "json"}))
      ->envname("TENON_LOG_FORMAT");
  app.add_option("--log-level", o.log_level, "error, warning or info")
      ->capture_default_str()
      ->check(CLI::IsMember({"error", "warning", "info"}))
      ->envname("TENON_LOG_LEVEL");
  app.add_option("--log-file", o.app.log_file, "File instead of stderr; SIGHUP opens it again")->envname("TENON_LOG_FILE");
  app.add_flag("--log-requests", o.log_requests, "A line for each request, with its id and traceparent")
      ->envname("TENON_LOG_REQUESTS");
  app.add_option("--trace-file", o.app.trace_file, "File for traces: when each part of a request began and ended")
      ->envname("TENON_TRACE_FILE");
  app.add_option("--trace-rate", o.trace_rate, "Trace one request of so many; 0: none until v2/trace/setting asks for it")
      ->capture_default_str()
      ->envname("TENON_TRACE_RATE");
  app.add_option("--trace-level", o.trace_level, "What traces hold (repeatable): TIMESTAMPS, TENSORS with their elements")
      ->capture_default_str()
      ->check(CLI::IsMember({"TIMESTAMPS", "TENSORS"}))
      ->envname("TENON_TRACE_LEVEL");
  app.add_option("--trace-count", o.trace_count, "Traces to make; -1: no end")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{-1}, int64_t{1} << 62))
      ->envname("TENON_TRACE_COUNT");
}

void AddLimits(CLI::App& app, ServeOptions& o) {
  const auto limit = [&app](const char* name, std::string& value, const CLI::Validator& check, const char* text,
                            const char* variable) {
    app.add_option(name, value, text)->capture_default_str()->check(check)->envname(variable);
  };
  limit("--body-limit", o.body_limit, IsSize(), "Largest request", "TENON_BODY_LIMIT");
  limit("--header-limit", o.header_limit, IsSize(), "Largest header of an HTTP request", "TENON_HEADER_LIMIT");
  limit("--response-limit", o.response_limit, IsSize(), "Largest answer; its size is known before it is written",
        "TENON_RESPONSE_LIMIT");
  limit("--upload-limit", o.upload_limit, IsSize(), "Files that requests to load may bring, all together", "TENON_UPLOAD_LIMIT");
  app.add_option("--max-connections", o.app.limits.connections, "HTTP connections at one time; more get 503")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000))
      ->envname("TENON_MAX_CONNECTIONS");
  limit("--idle-timeout", o.idle_timeout, IsDuration(), "Longest pause of an HTTP connection between requests",
        "TENON_IDLE_TIMEOUT");
  limit("--transfer-timeout", o.transfer_timeout, IsDuration(), "Longest time for an HTTP request, or an answer, on the wire",
        "TENON_TRANSFER_TIMEOUT");
  limit("--idle-trim", o.idle_trim, IsDuration(), "Working memory of a model that nobody asked for so long goes back; 0s: never",
        "TENON_IDLE_TRIM");
  limit("--drain", o.drain, IsDuration(), "Longest wait for running requests at the end", "TENON_DRAIN");
}

void AddOptions(CLI::App& app, ServeOptions& o) {
  app.add_option("MODEL", o.models, "Models to serve: PATH, or NAME=PATH");
  app.add_option("--models", o.repository, "Folder of models: NAME/VERSION/model.onnx, or files")->envname("TENON_MODELS");
  app.add_option("--config", o.config, "File of settings, tenon.yaml: these options as keys; the command line goes before it")
      ->envname("TENON_CONFIG");
  app.add_option("--host", o.app.host, "Address to listen on")->capture_default_str()->envname("TENON_HOST");
  const auto port = [&](const char* name, int& value, const char* text, const char* variable) {
    app.add_option(name, value, text)->capture_default_str()->check(CLI::Range(-1, 65535))->envname(variable);
  };
  port("--http-port", o.app.http_port, "HTTP; 0: any free port; -1: none", "TENON_HTTP_PORT");
  port("--grpc-port", o.app.grpc_port, "gRPC; 0: any free port; -1: none", "TENON_GRPC_PORT");
  port("--metrics-port", o.app.metrics_port, "Prometheus; 0: any free port; -1: none", "TENON_METRICS_PORT");
  app.add_option("--model-control", o.control, "none: all at start; poll: follow changes; explicit: load on request")
      ->capture_default_str()
      ->check(CLI::IsMember({"none", "poll", "explicit"}))
      ->envname("TENON_MODEL_CONTROL");
  app.add_option("--split", o.split,
                 "Groups part0, part1, ... of the cores from the start, as 'tenon device split --layout' cuts them")
      ->envname("TENON_SPLIT");
  app.add_option("--load", o.load, "With explicit control: a model to load at start, '*' all (repeatable)")
      ->envname("TENON_LOAD");
  app.add_option("--poll-seconds", o.poll_seconds, "How often poll looks")
      ->capture_default_str()
      ->check(CLI::Range(0.05, 3600.0))
      ->envname("TENON_POLL_SECONDS");
  app.add_option("--max-batch", o.max_batch, "Rows that may run together; 0: requests never join; default: by the model's shapes")
      ->check(CLI::Range(0, 4096))
      ->envname("TENON_MAX_BATCH");
  app.add_option("--max-batch-tokens", o.defaults.max_batch_tokens,
                 "Tokens (rows times the extents that a model leaves open) that requests of one run may have together; 0: any")
      ->check(CLI::Range(int64_t{0}, server::kMaxBatchTokens))
      ->capture_default_str()
      ->envname("TENON_MAX_BATCH_TOKENS");
  app.add_option("--preferred-batch", o.defaults.preferred_batch, "Rows that runs should have (repeatable)")
      ->check(CLI::Range(1, 4096))
      ->envname("TENON_PREFERRED_BATCH");
  app.add_option("--max-queue-delay", o.max_delay_us, "Microseconds that requests wait for company")
      ->capture_default_str()
      ->check(CLI::Range(0, 10000000))
      ->envname("TENON_MAX_QUEUE_DELAY");
  app.add_option("--max-queue", o.defaults.queue.max_queue, "Requests of a model that wait; more get 503")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000))
      ->envname("TENON_MAX_QUEUE");
  app.add_option("--instances", o.defaults.instances, "Sessions of a model side by side, on disjoint cores")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024))
      ->envname("TENON_INSTANCES");
  AddLimits(app, o);
  AddSecurity(app, o);
  AddLog(app, o);
  o.common.AddCompile(app);
  o.common.AddSession(app);
}

}  // namespace

Command Make_serve() {
  return {"serve", "serve models over HTTP and gRPC", "tenon serve --models models --http-port 8000", [](CLI::App& app) {
            auto options = std::make_shared<ServeOptions>();
            AddOptions(app, *options);
            return [options, &app](Context& context) { return Run(app, *options, context); };
          }};
}

}  // namespace tenon::cli
