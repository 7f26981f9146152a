// tenon profile: time per operator, summed over runs.
#include <algorithm>
#include <map>

#include "base/mapped_file.h"
#include "cli/inputs.h"
#include "cli/model_options.h"

namespace tenon::cli {
namespace {

struct Options {
  ModelOptions model;
  InputOptions inputs;
  int runs = 20;
  std::string csv;
  bool nodes = false;
};

struct Row {
  std::string name;
  std::string op;
  std::string kernel;
  std::string shapes;
  std::vector<double> us;

  double Total() const {
    double sum = 0;
    for (double t : us) sum += t;
    return sum;
  }
};

// Rows in order of first execution.
class Recorder final : public StepObserver {
 public:
  void OnStep(const StepRecord& r) override {
    const std::string key = std::string(r.name) + "|" + std::string(r.op) + "|" + r.shapes;
    auto [it, fresh] = index_.emplace(key, rows_.size());
    if (fresh) rows_.push_back({std::string(r.name), std::string(r.op), std::string(r.kernel), r.shapes, {}});
    rows_[it->second].us.push_back(static_cast<double>(r.duration_ns) / 1e3);
  }
  void Clear() {
    rows_.clear();
    index_.clear();
  }
  const std::vector<Row>& rows() const { return rows_; }

 private:
  std::vector<Row> rows_;
  std::map<std::string, size_t> index_;
};

std::string Quoted(const std::string& s) {
  std::string out = "\"";
  for (char c : s) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

Status WriteCsv(const std::string& path, const std::vector<Row>& rows) {
  std::string text = "Op Name,OP Type,Kernel,Calls,Task Duration(us),Min(us),Max(us),Shapes\n";
  for (const Row& r : rows) {
    text += fmt::format("{},{},{},{},{:.3f},{:.3f},{:.3f},{}\n", Quoted(r.name), r.op, r.kernel, r.us.size(),
                        r.Total() / static_cast<double>(r.us.size()), *std::min_element(r.us.begin(), r.us.end()),
                        *std::max_element(r.us.begin(), r.us.end()), Quoted(r.shapes));
  }
  TENON_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  TENON_RETURN_IF_ERROR(file.Append(text.data(), text.size()));
  return file.Commit();
}

Status Run(Options& options, Context& context) {
  TENON_ASSIGN_OR_RETURN(auto session, options.model.Open(context));
  TENON_ASSIGN_OR_RETURN(const auto inputs, options.inputs.Load(*session, 0, context));
  Recorder recorder;
  RunOptions run;
  run.cancel = &Interrupted();
  run.observer = &recorder;
  for (int i = 0; i < 3; ++i) TENON_RETURN_IF_ERROR(session->Run(inputs, run).status());
  recorder.Clear();
  for (int i = 0; i < options.runs; ++i) TENON_RETURN_IF_ERROR(session->Run(inputs, run).status());
  std::vector<Row> rows = recorder.rows();
  double total = 0;
  std::map<std::string, std::pair<double, size_t>> types;
  for (const Row& r : rows) {
    total += r.Total();
    auto& type = types[r.op + " " + r.kernel];
    type.first += r.Total();
    type.second += r.us.size();
  }
  if (!options.csv.empty()) TENON_RETURN_IF_ERROR(WriteCsv(options.csv, rows));
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.Total() > b.Total(); });
  const double runs = options.runs;
  Json ops = Json::array();
  std::vector<std::vector<std::string>> table = {{"operator", "us", "%", "kernel", "shapes"}};
  for (const Row& r : rows) {
    ops.push_back({{"name", r.name},
                   {"type", r.op},
                   {"kernel", r.kernel},
                   {"us", r.Total() / runs},
                   {"calls", r.us.size()},
                   {"share", r.Total() / total},
                   {"shapes", r.shapes}});
    table.push_back({r.op, fmt::format("{:.1f}", r.Total() / runs), fmt::format("{:.1f}", 100 * r.Total() / total),
                     r.kernel.empty() ? "-" : r.kernel, r.shapes});
  }
  context.Document({{"ops", ops}, {"total_us", total / runs}, {"runs", options.runs}});
  if (options.nodes) context.Say(Table(table) + "\n");
  std::vector<std::pair<std::string, std::pair<double, size_t>>> sorted(types.begin(), types.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
  std::vector<std::vector<std::string>> summary = {{"operator and kernel", "us", "%", "calls"}};
  for (const auto& [name, type] : sorted) {
    summary.push_back({name, fmt::format("{:.1f}", type.first / runs), fmt::format("{:.1f}", 100 * type.first / total),
                       fmt::format("{:.0f}", static_cast<double>(type.second) / runs)});
  }
  context.Say(Table(summary));
  context.Say(fmt::format("{:.1f} us in operators per run, {} runs", total / runs, options.runs));
  return Status::Ok();
}

}  // namespace

Command Make_profile() {
  return {"profile", "show the time spent per operator", "tenon profile model.onnx --shape x=1x3x48x320 --nodes",
          [](CLI::App& app) {
            auto options = std::make_shared<Options>();
            options->model.AddModel(app);
            options->inputs.Add(app);
            app.add_option("--runs", options->runs, "Runs to sum up")->capture_default_str()->check(CLI::Range(1, 1000000));
            app.add_option("--csv", options->csv, "Write a row per node to this file");
            app.add_flag("--nodes", options->nodes, "List every node, not only operator types");
            options->model.AddCompile(app);
            options->model.AddSession(app);
            return [options](Context& context) { return Run(*options, context); };
          }};
}

}  // namespace tenon::cli
