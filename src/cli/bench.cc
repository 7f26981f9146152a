// tenon bench: throughput and latency percentiles, closed loop (each worker sends the next request when the last one is answered)
// or open loop (--rate: requests arrive at a fixed rate, and latency counts from when a request was due).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <thread>

#include "cli/bench_llm.h"
#include "cli/inputs.h"
#include "cli/machine.h"
#include "cli/model_options.h"
#include "runtime/least_precision.h"

namespace tenon::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  ModelOptions model;
  InputOptions inputs;
  std::string batches = "0";
  std::string duration = "5s";
  std::string warmup = "1s";
  int concurrency = 1;
  double rate = 0;
  bool steps = false;
  int64_t depth = 0;
};

struct Latencies {
  std::vector<double> ms;  // sorted
  double wall_s = 0;

  double At(double p) const {
    const double position = p * static_cast<double>(ms.size() - 1);
    const auto low = static_cast<size_t>(position);
    const size_t high = std::min(low + 1, ms.size() - 1);
    return ms[low] + (ms[high] - ms[low]) * (position - static_cast<double>(low));
  }
  double Mean() const {
    double sum = 0;
    for (double v : ms) sum += v;
    return sum / static_cast<double>(ms.size());
  }
  double Cv() const {
    const double mean = Mean();
    double sum = 0;
    for (double v : ms) sum += (v - mean) * (v - mean);
    return mean > 0 ? std::sqrt(sum / static_cast<double>(ms.size())) / mean : 0;
  }
};

class Load {
 public:
  Load(std::vector<std::unique_ptr<Session>>& sessions, const std::vector<HostTensor>& inputs, double rate)
      : sessions_(sessions), inputs_(inputs), rate_(rate) {}

  Result<Latencies> Run(double seconds, size_t least) {
    start_ = Clock::now();
    end_ = start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    least_ = least;
    std::vector<std::thread> workers;
    for (size_t i = 1; i < sessions_.size(); ++i) workers.emplace_back([this, i] { Work(*sessions_[i]); });
    Work(*sessions_[0]);
    for (auto& w : workers) w.join();
    if (!status_.ok()) return status_;
    latencies_.wall_s = std::chrono::duration<double>(Clock::now() - start_).count();
    std::sort(latencies_.ms.begin(), latencies_.ms.end());
    return std::move(latencies_);
  }

 private:
  void Work(Session& session) {
    RunOptions options;
    options.cancel = &Interrupted();
    std::vector<double> own;
    Status status;
    while (status.ok() && (Clock::now() < end_ || own.size() < least_)) {
      auto due = Clock::now();
      if (rate_ > 0) {
        const int64_t n = next_.fetch_add(1);
        due = start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(static_cast<double>(n) / rate_));
        if (due >= end_) break;
        std::this_thread::sleep_until(due);
      }
      status = session.Run(inputs_, options).status();
      own.push_back(std::chrono::duration<double, std::milli>(Clock::now() - due).count());
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    latencies_.ms.insert(latencies_.ms.end(), own.begin(), own.end());
    if (!status.ok() && status_.ok()) status_ = status;
  }

  std::vector<std::unique_ptr<Session>>& sessions_;
  const std::vector<HostTensor>& inputs_;
  double rate_;
  Clock::time_point start_;
  Clock::time_point end_;
  size_t least_ = 1;
  std::atomic<int64_t> next_{0};
  std::mutex mutex_;
  Latencies latencies_;
  Status status_;
};

Json ShapesJson(const std::vector<HostTensor>& inputs) {
  Json shapes = Json::object();
  for (const HostTensor& t : inputs) shapes[t.name] = t.shape;
  return shapes;
}

Status Run(Options& options, Context& context) {
  TENON_RETURN_IF_ERROR(options.model.Finish(context));
  TENON_ASSIGN_OR_RETURN(const double duration, ParseDuration(options.duration));
  TENON_ASSIGN_OR_RETURN(const double warmup, ParseDuration(options.warmup));
  if (options.steps) return BenchSteps(options.model, duration, context);
  std::vector<int64_t> batches = {0};
  if (options.batches != "0") {
    TENON_ASSIGN_OR_RETURN(batches, ParseIntList(options.batches, "batch"));
  }
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < options.concurrency; ++i) {
    TENON_ASSIGN_OR_RETURN(auto session,
                           OpenModel(options.model.model, options.model.compile, options.model.session, options.model.cache_dir));
    sessions.push_back(std::move(session));
  }
  if (IsLanguageModel(*sessions[0]) && options.inputs.inputs.empty() && options.inputs.shapes.empty()) {
    return BenchLanguageModel(options.model.model, *sessions[0], options.depth, duration, context);
  }
  if (options.depth > 0) return Usage("--depth is for language models that generate, without inputs");
  Json results = Json::array();
  std::vector<std::vector<std::string>> table = {
      {"batch", "runs", "throughput/s", "mean ms", "median", "p90", "p95", "p99", "min", "max", "cv %"}};
  bool noisy = false;
  for (int64_t batch : batches) {
    TENON_ASSIGN_OR_RETURN(const auto inputs, options.inputs.Load(*sessions[0], batch, context));
    TENON_RETURN_IF_ERROR(Load(sessions, inputs, 0).Run(warmup, 1).status());
    TENON_ASSIGN_OR_RETURN(const Latencies l, Load(sessions, inputs, options.rate).Run(duration, 1));
    if (l.ms.empty()) return Usage("no request fell into {}; a longer --duration or a higher --rate is needed", options.duration);
    const int64_t shown = !inputs.empty() && !inputs[0].shape.empty() ? inputs[0].shape[0] : 1;
    const int64_t samples = batch > 0 ? batch : shown;
    const double throughput = static_cast<double>(l.ms.size()) * static_cast<double>(std::max<int64_t>(1, samples)) / l.wall_s;
    noisy |= l.Cv() > 0.01;
    results.push_back({{"model", options.model.model},
                       {"precision", runtime::LeastPrecision(*sessions[0])},
                       {"batch", samples},
                       {"threads", sessions[0]->threads()},
                       {"concurrency", options.concurrency},
                       {"shapes", ShapesJson(inputs)},
                       {"runs", l.ms.size()},
                       {"throughput_per_s", throughput},
                       {"latency_ms",
                        {{"min", l.ms.front()},
                         {"mean", l.Mean()},
                         {"median", l.At(0.5)},
                         {"p90", l.At(0.9)},
                         {"p95", l.At(0.95)},
                         {"p99", l.At(0.99)},
                         {"max", l.ms.back()},
                         {"cv", l.Cv()}}}});
    const auto ms = [](double v) { return fmt::format("{:.3f}", v); };
    table.push_back({std::to_string(samples), std::to_string(l.ms.size()), fmt::format("{:.1f}", throughput), ms(l.Mean()),
                     ms(l.At(0.5)), ms(l.At(0.9)), ms(l.At(0.95)), ms(l.At(0.99)), ms(l.ms.front()), ms(l.ms.back()),
                     fmt::format("{:.1f}", 100 * l.Cv())});
  }
  context.Document({{"results", results}, {"machine", MachineJson()}});
  context.Say(Table(table));
  context.Say(fmt::format("{}, {} threads", MachineText(), sessions[0]->threads()));
  if (noisy) context.Note("the coefficient of variation is above 1 %: compare ratios from one run only, or lengthen --duration");
  return Status::Ok();
}

}  // namespace

Command Make_bench() {
  return {
      "bench", "measure throughput and latency", "tenon bench model.onnx --shape x=1x3x48x320 --batch 1,8 --threads 2",
      [](CLI::App& app) {
        auto options = std::make_shared<Options>();
        options->model.AddModel(app);
        options->inputs.Add(app);
        app.add_option("--batch", options->batches, "Batch sizes to try, as 1,8; 0: as the shapes say")->capture_default_str();
        app.add_option("--duration", options->duration, "Time per measurement")->capture_default_str()->envname("TENON_DURATION");
        app.add_option("--warmup", options->warmup, "Time before it")->capture_default_str()->envname("TENON_WARMUP");
        app.add_option("--concurrency", options->concurrency, "Sessions that send requests at once")
            ->capture_default_str()
            ->check(CLI::Range(1, 256));
        app.add_option("--rate", options->rate, "Open loop: requests per second; 0: closed loop")
            ->capture_default_str()
            ->check(CLI::NonNegativeNumber);
        auto* steps =
            app.add_flag("--steps", options->steps,
                         "A language model as a plain graph of f32, with all passes, and with weights as its file has them");
        app.add_option("--depth", options->depth, "A language model: tokens that its cache holds before each measurement")
            ->capture_default_str()
            ->check(CLI::Range(0, 1 << 20))
            ->excludes(steps);
        options->model.AddCompile(app);
        options->model.AddSession(app);
        return [options](Context& context) { return Run(*options, context); };
      }};
}

}  // namespace tenon::cli
