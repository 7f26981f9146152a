// tenon profile: where the time goes, operator by operator, against what this machine could do.
#include <algorithm>

#include "base/mapped_file.h"
#include "cli/inputs.h"
#include "cli/model_options.h"
#include "cli/profile_trace.h"

namespace tenon::cli {
namespace {

struct Options {
  ModelOptions model;
  InputOptions inputs;
  int runs = 20;
  std::string csv, csv_summary, trace;
  bool nodes = false;
  bool measure_peaks = false;
};

constexpr size_t kTopRows = 15;

Status Write(const std::string& path, const std::string& text) {
  TENON_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  TENON_RETURN_IF_ERROR(file.Append(text.data(), text.size()));
  return file.Commit();
}

std::string Percent(double share) {
  return fmt::format("{:.1f}", 100 * share);
}

std::string NodeTable(const ProfileReport& r, bool all) {
  std::vector<const ProfileRow*> rows;
  for (const ProfileRow& row : r.rows) {
    if (row.calls > 0) rows.push_back(&row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const ProfileRow* a, const ProfileRow* b) { return a->total_us > b->total_us; });
  std::vector<std::vector<std::string>> table = {
      {"operator", "us", "%", "calls", "GFLOP/s", "GB/s", "peak %", "bound", "threads", "kernel", "node", "shapes"}};
  if (r.counted) table[0].insert(table[0].begin() + 9, {"Mcycles", "IPC", "LLC misses"});
  const size_t shown = all ? rows.size() : std::min(rows.size(), kTopRows);
  for (size_t i = 0; i < shown; ++i) {
    const ProfileRow& row = *rows[i];
    table.push_back({row.op, fmt::format("{:.1f}", row.total_us / r.runs), Percent(row.total_us / r.runs / r.run_us),
                     fmt::format("{:g}", static_cast<double>(row.calls) / r.runs), fmt::format("{:.1f}", row.gflops()),
                     fmt::format("{:.1f}", row.gbytes()), fmt::format("{:.0f}", 100 * row.peak()), row.bound(),
                     std::to_string(row.details.threads), row.kernel.empty() ? "-" : row.kernel, row.name, row.shapes});
    if (!r.counted) continue;
    const hw::Counts& c = row.counts;
    table.back().insert(table.back().begin() + 9, {c[0] < 0 ? "-" : fmt::format("{:.2f}", c[0] / 1e6),
                                                   c[0] > 0 && c[1] >= 0 ? fmt::format("{:.2f}", c[1] / c[0]) : "-",
                                                   c[2] < 0 ? "-" : fmt::format("{:.0f}", c[2])});
  }
  std::string text = Table(table);
  if (shown < rows.size()) text += fmt::format("\n({} more with --nodes)", rows.size() - shown);
  return text;
}

std::string TypeTable(const ProfileReport& r) {
  std::vector<std::vector<std::string>> table = {{"operator and kernel", "us", "%", "calls", "GFLOP/s", "GB/s", "peak %"}};
  for (const ProfileType& t : r.types) {
    table.push_back({t.op + " " + t.kernel, fmt::format("{:.1f}", t.total_us / r.runs), Percent(t.total_us / r.runs / r.run_us),
                     fmt::format("{:g}", static_cast<double>(t.calls) / r.runs),
                     fmt::format("{:.1f}", t.flops / t.total_us / 1e3), fmt::format("{:.1f}", t.bytes / t.total_us / 1e3),
                     fmt::format("{:.0f}", 100 * t.roof_us / t.total_us)});
  }
  table.push_back(
      {"executor (all else)", fmt::format("{:.1f}", r.overhead_us()), Percent(r.overhead_us() / r.run_us), "-", "-", "-", "-"});
  return Table(table);
}

// Which kernels were passed over, and why: each reason once.
std::string RefusalTable(const ProfileReport& r) {
  std::map<std::vector<std::string>, size_t> nodes;
  for (const ProfileRow& row : r.rows) {
    for (const auto& [kernel, reason] : row.refused) ++nodes[{row.op + " " + row.kernel, kernel, reason}];
  }
  std::vector<std::vector<std::string>> table = {{"chosen", "instead of", "because", "nodes"}};
  for (const auto& [cells, count] : nodes) {
    table.push_back(cells);
    table.back().push_back(std::to_string(count));
  }
  return nodes.empty() ? "" : Table(table);
}

void Show(const ProfileReport& r, bool all, Context& context) {
  context.Say(NodeTable(r, all) + "\n");
  context.Say(TypeTable(r) + "\n");
  const std::string refusals = RefusalTable(r);
  if (!refusals.empty()) context.Say(refusals + "\n");
  double flops = 0, roof = 0;
  for (const ProfileType& t : r.types) flops += t.flops / r.runs, roof += t.roof_us / r.runs;
  context.Say(fmt::format(
      "{:.1f} us a run, of which {:.1f} us ({} %) in operators and {:.1f} us in the executor; {:.1f} us without profiling",
      r.run_us, r.steps_us, Percent(r.steps_us / r.run_us), r.overhead_us(), r.plain_us));
  context.Say(fmt::format("{:.2f} GFLOP a run, {:.1f} GFLOP/s; {} % of what this machine's measured peaks allow ({:.1f} us)",
                          flops / 1e9, flops / r.run_us / 1e3, Percent(roof / r.run_us), roof));
  context.Say(fmt::format("{} runs on {} thread(s)", r.runs, r.threads));
  if (r.cpu_share < 0.95) {
    context.Note(
        fmt::format("the CPU was given to others for {} % of the time: rates and shares of the peak are too low by as much",
                    Percent(1 - r.cpu_share)));
  }
  if (!r.counters_note.empty()) context.Note("no hardware counters: " + r.counters_note);
}

Status Run(Options& options, Context& context) {
  const hw::Counters counters;   // before the session, to see its threads
  TENON_ASSIGN_OR_RETURN(auto session, options.model.Open(context));
  TENON_ASSIGN_OR_RETURN(const auto inputs, options.inputs.Load(*session, 0, context));
  TENON_ASSIGN_OR_RETURN(const hw::IsaMask isa, hw::ActiveIsa());
  const hw::Peaks peaks = PeaksFor(options.model.cache_dir, options.measure_peaks);
  TENON_ASSIGN_OR_RETURN(ProfileReport report,
                         MeasureProfile(session.get(), inputs, options.runs, isa, peaks, counters, Interrupted()));
  const size_t slash = options.model.model.find_last_of('/');
  report.model = slash == std::string::npos ? options.model.model : options.model.model.substr(slash + 1);
  if (!options.csv.empty()) TENON_RETURN_IF_ERROR(Write(options.csv, ProfileCsv(report)));
  if (!options.csv_summary.empty()) TENON_RETURN_IF_ERROR(Write(options.csv_summary, ProfileStatisticCsv(report)));
  if (!options.trace.empty()) TENON_RETURN_IF_ERROR(Write(options.trace, Dump(ProfileTrace(report))));
  context.Document(ProfileJson(report));
  Show(report, options.nodes, context);
  return Status::Ok();
}

}  // namespace

Command Make_profile() {
  return {"profile", "show where the time goes, per operator, against this machine's measured peaks",
          "tenon profile model.onnx --shape x=1x3x48x320 --trace trace.json", [](CLI::App& app) {
            auto options = std::make_shared<Options>();
            options->model.AddModel(app);
            options->inputs.Add(app);
            app.add_option("--runs", options->runs, "Measured runs")->capture_default_str()->check(CLI::Range(1, 1000000));
            app.add_option("--csv", options->csv, "Write a row per node to this file, with the columns of msprof's op_summary");
            app.add_option("--csv-summary", options->csv_summary, "Write a row per operator type, with those of op_statistic");
            app.add_option("--trace", options->trace, "Write the last runs as a trace for Perfetto or chrome://tracing");
            app.add_flag("--nodes", options->nodes, "List every node, not only those that take most time");
            app.add_flag("--measure-peaks", options->measure_peaks, "Measure this machine's peaks anew");
            options->model.AddCompile(app);
            options->model.AddSession(app);
            return [options](Context& context) { return Run(*options, context); };
          }};
}

}  // namespace tenon::cli
