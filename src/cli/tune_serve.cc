#include "cli/tune_serve.h"

#include <filesystem>

#include "base/mapped_file.h"
#include "cli/machine.h"
#include "cli/progress.h"
#include "guard/data.h"
#include "hw/quota.h"
#include "tenon/server.h"
#include "tune/serve_search.h"

namespace tenon::cli {
namespace {

constexpr size_t kMostSamples = 64;

Result<std::vector<InferRequest>> Requests(const TuneOptions& options, const std::string& name, Session& session,
                                           const Context& context) {
  std::vector<InferRequest> requests;
  const auto add = [&](const std::vector<HostTensor>& inputs) {
    InferRequest r;
    r.model = name;
    for (const HostTensor& t : inputs) r.inputs.push_back(Copy(t));
    requests.push_back(std::move(r));
  };
  if (options.data.empty()) {
    TENON_ASSIGN_OR_RETURN(const auto inputs, options.inputs.Load(session, 0, context));
    add(inputs);
    return requests;
  }
  guard::DataOptions how;
  how.preprocess = options.preprocess;
  TENON_ASSIGN_OR_RETURN(const auto data, guard::DataSet::Open(options.data, session, how));
  for (size_t i = 0; i < std::min(kMostSamples, data->size()); ++i) {
    TENON_ASSIGN_OR_RETURN(const guard::Sample sample, data->Load(i));
    add(sample.inputs);
  }
  return requests;
}

// Rows of one request; 0 when its inputs do not agree in their first extent, so that requests cannot join.
int64_t RowsOf(const InferRequest& r) {
  int64_t rows = -1;
  for (const HostTensor& t : r.inputs) {
    const int64_t first = t.shape.empty() ? 0 : t.shape[0];
    if (rows >= 0 && first != rows) return 0;
    rows = first;
  }
  return std::max<int64_t>(rows, 0);
}

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string Yaml(const TuneOptions& options, const std::string& name, const tune::ServeTrial& best) {
  std::string text = "# By tenon tune --stage serve. Start with: tenon serve --config FILE\nmodels:\n";
  text +=
      fmt::format("  - name: {}\n    path: {}\n", Quoted(name), Quoted(std::filesystem::absolute(options.model.model).string()));
  text += fmt::format("    instances: {}\n    threads: {}\n", best.setting.instances, best.setting.threads);
  if (options.model.compile.precision != CompileOptions().precision)
    text += fmt::format("    precision: {}\n", options.model.compile.precision);
  text += fmt::format("    max_batch: {}\n    max_queue_delay_us: {}\n", best.setting.max_batch, best.setting.max_delay.count());
  return text;
}

Status WriteFile(const std::string& path, const std::string& text) {
  TENON_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  TENON_RETURN_IF_ERROR(file.Append(text.data(), text.size()));
  return file.Commit();
}

Json DocumentOf(const tune::ServeSearch& found, double p99_ms, const std::string& output) {
  Json trials = Json::array();
  for (const tune::ServeTrial& t : found.trials) {
    trials.push_back({{"instances", t.setting.instances},
                      {"threads", t.setting.threads},
                      {"max_batch", t.setting.max_batch},
                      {"max_queue_delay_us", t.setting.max_delay.count()},
                      {"clients", t.clients},
                      {"requests", t.requests},
                      {"failed", t.failed},
                      {"throughput_per_s", t.per_s},
                      {"p50_ms", t.p50_ms},
                      {"p99_ms", t.p99_ms},
                      {"alone_ms", t.alone_ms},
                      {"within", t.within}});
  }
  return {{"serve",
           {{"target_p99_ms", p99_ms > 0 ? Json(p99_ms) : Json()},
            {"complete", found.complete},
            {"best", found.best},
            {"trials", trials},
            {"output", output}}},
          {"machine", MachineJson()}};
}

void Show(const tune::ServeSearch& found, double p99_ms, const TuneOptions& options, const Context& context) {
  std::string table = fmt::format("{:>9} {:>7} {:>5} {:>8} {:>7} {:>9} {:>8} {:>8} {:>8}\n", "instances", "threads", "batch",
                                  "delay us", "clients", "answers/s", "p50 ms", "p99 ms", "alone ms");
  for (size_t i = 0; i < found.trials.size(); ++i) {
    const tune::ServeTrial& t = found.trials[i];
    table += fmt::format("{:>9} {:>7} {:>5} {:>8} {:>7} {:>9.1f} {:>8.2f} {:>8.2f} {:>8.2f}{}{}\n", t.setting.instances,
                         t.setting.threads, t.setting.max_batch, t.setting.max_delay.count(), t.clients, t.per_s, t.p50_ms,
                         t.p99_ms, t.alone_ms,
                         t.within       ? ""
                         : t.failed > 0 ? "  failed"
                                        : "  over the target",
                         i == found.best ? "  chosen" : "");
  }
  context.Say(table + options.output);
  if (!found.trials[found.best].within && p99_ms > 0)
    context.Note(fmt::format("nothing met --p99 {} ms; the setting with the smallest p99 was written", p99_ms));
  if (!found.complete) context.Note("the search was stopped early; --budget gives it more time");
}

}  // namespace

Status TuneServing(TuneOptions& options, const TuneServeOptions& serving, Context& context) {
  if (options.model.model.empty()) return Usage("no model given");
  if (options.output.empty()) return Usage("no output given; -o tenon.yaml");
  double p99_ms = 0;
  if (!serving.p99.empty()) {
    TENON_ASSIGN_OR_RETURN(const double seconds, ParseDuration(serving.p99));
    p99_ms = seconds * 1e3;
  }
  tune::ServeSearchOptions search;
  TENON_ASSIGN_OR_RETURN(search.budget_s, ParseDuration(options.budget));
  search.p99_ms = p99_ms;
  search.slice_s = std::clamp(search.budget_s / 20, 0.05, 3.0);
  const SessionOptions& on = options.model.session;
  search.cores = on.threads > 0 ? on.threads : hw::DetectCpuAllowance().threads;
  const std::string name = std::filesystem::path(options.model.model).stem().string();
  TENON_ASSIGN_OR_RETURN(const auto session, options.model.Open(context));
  TENON_ASSIGN_OR_RETURN(const auto requests, Requests(options, name, *session, context));
  const bool joins = std::all_of(requests.begin(), requests.end(), [](const InferRequest& r) { return RowsOf(r) > 0; });
  search.most_batch = joins ? static_cast<int>(serving.max_batch) : 0;
  Progress progress(context);
  search.progress = [&](const std::string& what, size_t done, size_t total) { progress.Update(what, done, total); };
  search.cancelled = [] { return Interrupted().cancelled(); };
  const auto make = [&](const tune::ServeSetting& setting) -> Result<std::unique_ptr<InferenceServer>> {
    ServerOptions server;
    ModelConfig config;
    config.name = name;
    config.path = options.model.model;
    config.instances = setting.instances;
    config.threads = setting.threads;
    config.max_batch = setting.max_batch;
    config.max_delay = setting.max_delay;
    config.queue.max_queue = 4096;
    server.models.push_back(config);
    server.memory_limit = on.memory_limit;
    server.open = [&](const std::string& path, const ModelConfig&, const SessionOptions& o) {
      return OpenModel(path, options.model.compile, o, options.model.cache_dir);
    };
    TENON_ASSIGN_OR_RETURN(auto made, InferenceServer::Create(std::move(server)));
    TENON_RETURN_IF_ERROR(made->Start());
    return made;
  };
  TENON_ASSIGN_OR_RETURN(const tune::ServeSearch found, tune::SearchServing(make, requests, search));
  progress.Clear();
  TENON_RETURN_IF_ERROR(WriteFile(options.output, Yaml(options, name, found.trials[found.best])));
  const Json document = DocumentOf(found, p99_ms, options.output);
  for (const std::string& report : options.reports) TENON_RETURN_IF_ERROR(WriteFile(report, document.dump(1) + "\n"));
  Show(found, p99_ms, options, context);
  context.Document(document);
  return Status::Ok();
}

}  // namespace tenon::cli
