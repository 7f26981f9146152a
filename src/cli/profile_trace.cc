// The trace of `tenon profile`, in the Trace Event Format that chrome://tracing and Perfetto read.
#include "cli/profile_trace.h"

namespace tenon::cli {

namespace {

constexpr int kProcess = 1, kRuns = 1, kOperators = 2;

Json Event(const char* phase, const std::string& name, const char* category, int thread, double ts) {
  return {{"ph", phase}, {"name", name}, {"cat", category}, {"pid", kProcess}, {"tid", thread}, {"ts", ts}};
}

Json Metadata(const char* what, int thread, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", kProcess}, {"tid", thread}, {"ts", 0}, {"args", {{"name", name}}}};
}

Json ArgsOf(const ProfileRow& row, double us) {
  const double rate = us > 0 ? 1 / us / 1e3 : 0;
  return {{"op_name", row.name},
          {"op_type", row.op},
          {"kernel", row.kernel},
          {"shapes", row.shapes},
          {"threads", row.details.threads},
          {"gflops", row.details.flops * rate},
          {"gbytes_per_s", row.details.bytes * rate},
          {"peak", us > 0 ? row.roof_us / us : 0},
          {"bound", row.bound()}};
}

}  // namespace

Json ProfileTrace(const ProfileReport& report) {
  Json events = Json::array();
  events.push_back(Metadata("process_name", 0, "tenon " + report.model));
  events.push_back(Metadata("thread_name", kRuns, "runs"));
  events.push_back(Metadata("thread_name", kOperators, fmt::format("operators ({} threads)", report.threads)));
  const double zero = report.last.empty() ? 0 : report.last.front().start_us;
  for (size_t i = 0; i < report.last.size(); ++i) {
    const ProfileRun& run = report.last[i];
    const std::string name = fmt::format("run {}", static_cast<size_t>(report.runs) - report.last.size() + i);
    Json whole = Event("X", name, "run", kRuns, run.start_us - zero);
    whole["dur"] = run.us;
    whole["args"] = {{"operators", run.events.size()}};
    events.push_back(std::move(whole));
    // One arrow from a run to its operators, one to the run that follows.
    const auto arrow = [&](const char* what, size_t id, int to, double from_ts, double to_ts) {
      Json begin = Event("s", what, "flow", kRuns, from_ts), end = Event("f", what, "flow", to, to_ts);
      begin["id"] = id, end["id"] = id;
      end["bp"] = "e";
      events.push_back(std::move(begin));
      events.push_back(std::move(end));
    };
    if (!run.events.empty()) arrow("operators", 2 * i, kOperators, run.start_us - zero, run.events.front().start_us - zero);
    if (i + 1 < report.last.size()) arrow("next run", 2 * i + 1, kRuns, run.start_us - zero, report.last[i + 1].start_us - zero);
    for (const ProfileEvent& e : run.events) {
      const ProfileRow& row = report.rows[e.row];
      Json event = Event("X", row.op, "operator", kOperators, e.start_us - zero);
      event["dur"] = e.us;
      event["args"] = ArgsOf(row, e.us);
      events.push_back(std::move(event));
    }
  }
  return {{"traceEvents", events},
          {"displayTimeUnit", "ns"},
          {"otherData", {{"model", report.model}, {"threads", report.threads}, {"machine", report.peaks.machine}}}};
}

}  // namespace tenon::cli
