// The CSV files of `tenon profile`: columns of msprof's op_summary and op_statistic where they have a meaning here, then those of
// a CPU. docs/profile.md has them all.
#include <fmt/format.h>

#include "cli/profile_report.h"

namespace tenon::cli {

namespace {

std::string Quoted(const std::string& s) {
  std::string out = "\"";
  for (char c : s) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

// "FLOAT;INT64"
std::string Types(const std::vector<OperandRecord>& operands) {
  std::string out;
  for (size_t i = 0; i < operands.size(); ++i) {
    std::string name = operands[i].dtype == DType::kUndefined ? "NONE" : std::string(DTypeName(operands[i].dtype));
    if (operands[i].dtype == DType::kF32) name = "FLOAT";
    for (char& c : name) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    out += (i == 0 ? "" : ";") + name;
  }
  return out;
}

// "1,3,224,224;64,3,7,7"
std::string Shapes(const std::vector<OperandRecord>& operands) {
  std::string out;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (i > 0) out += ";";
    for (size_t k = 0; k < operands[i].shape.size(); ++k) out += fmt::format("{}{}", k == 0 ? "" : ",", operands[i].shape[k]);
  }
  return out;
}

std::string Formats(const std::vector<OperandRecord>& operands) {
  std::string out;
  for (size_t i = 0; i < operands.size(); ++i) out += i == 0 ? "ND" : ";ND";
  return out;
}

std::string Counted(double v) {
  return v < 0 ? "N/A" : fmt::format("{:.0f}", v);
}

std::string Refusals(const ProfileRow& row) {
  std::string out;
  for (const auto& [kernel, reason] : row.refused) out += fmt::format("{}{}: {}", out.empty() ? "" : "; ", kernel, reason);
  return out;
}

std::string CsvRow(const ProfileReport& r, const ProfileRow& row, size_t task) {
  const StepDetails& d = row.details;
  const double calls = static_cast<double>(row.calls), all = r.run_us * r.runs;
  const hw::Counts& c = row.counts;
  std::string text =
      fmt::format("0,{},0,{},0,{},{},{},{},CPU,{:.3f},{:.3f},{:.3f},{},NO,", Quoted(r.model), task, r.runs, Quoted(row.name),
                  row.op, d.dynamic ? "dynamic" : "static", row.start_us, row.us(), row.wait_us / calls, d.threads);
  text += fmt::format("{},{},{},{},{},{},N/A,", Quoted(Shapes(d.inputs)), Quoted(Types(d.inputs)), Quoted(Formats(d.inputs)),
                      Quoted(Shapes(d.outputs)), Quoted(Types(d.outputs)), Quoted(Formats(d.outputs)));
  text += fmt::format("{},{},{},{:.3f},{:.3f},{:.3f},{:.6f},{:.3f},{:.6f},{:.3f},{:.3f},{:.2f},{},", row.kernel,
                      Quoted(Refusals(row)), row.calls, row.min_us, row.max_us, all > 0 ? 100 * row.total_us / all : 0,
                      d.flops / 1e9, row.gflops(), d.bytes / 1e6, row.gbytes(), row.roof_us, 100 * row.peak(), row.bound());
  const std::string ipc = c[0] > 0 && c[1] >= 0 ? fmt::format("{:.3f}", c[1] / c[0]) : "N/A";
  return text + fmt::format("{},{},{},{}\n", Counted(c[0]), Counted(c[1]), ipc, Counted(c[2]));
}

}  // namespace

std::string ProfileCsv(const ProfileReport& report) {
  std::string text =
      "Device_id,Model Name,Model ID,Task ID,Stream ID,Infer ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us),"
      "Task Duration(us),Task Wait Time(us),Block Dim,HF32 Eligible,Input Shapes,Input Data Types,Input Formats,Output Shapes,"
      "Output Data Types,Output Formats,Context ID,Kernel,Refused Kernels,Calls,Min Time(us),Max Time(us),Ratio(%),GFLOP,GFLOP/s,"
      "MB,GB/s,Roof Time(us),Peak(%),Bound,cycles,instructions,IPC,LLC misses\n";
  size_t task = 0;
  for (const ProfileRow& row : report.rows) {
    if (row.calls > 0) text += CsvRow(report, row, task++);
  }
  return text;
}

std::string ProfileStatisticCsv(const ProfileReport& report) {
  std::string text =
      "Device_id,Model Name,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max "
      "Time(us),Ratio(%),Kernel,GFLOP/s,"
      "GB/s,Peak(%)\n";
  for (const ProfileType& t : report.types) {
    const auto calls = static_cast<double>(t.calls);
    text += fmt::format("0,{},{},CPU,{},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{},{:.3f},{:.3f},{:.2f}\n", Quoted(report.model), t.op,
                        t.calls, t.total_us, t.min_us, t.total_us / calls, t.max_us,
                        report.run_us > 0 ? 100 * t.total_us / (report.run_us * report.runs) : 0, t.kernel,
                        t.total_us > 0 ? t.flops / t.total_us / 1e3 : 0, t.total_us > 0 ? t.bytes / t.total_us / 1e3 : 0,
                        t.total_us > 0 ? 100 * t.roof_us / t.total_us : 0);
  }
  return text;
}

}  // namespace tenon::cli
