#include "base/cache_folder.h"
#include "cli/machine.h"
#include "cli/profile_trace.h"
#include "hw/quota.h"

namespace tenon::cli {

namespace {

Json OperandsJson(const std::vector<OperandRecord>& operands) {
  Json list = Json::array();
  for (const OperandRecord& o : operands) {
    if (o.dtype == DType::kUndefined) {
      list.push_back(nullptr);
    } else {
      list.push_back({{"dtype", DTypeName(o.dtype)}, {"shape", o.shape}});
    }
  }
  return list;
}

Json Counted(double v) {
  return v < 0 ? Json(nullptr) : Json(v);
}

Json RowJson(const ProfileReport& report, const ProfileRow& row) {
  Json refused = Json::array();
  for (const auto& [kernel, reason] : row.refused) refused.push_back({{"kernel", kernel}, {"reason", reason}});
  const StepDetails& d = row.details;
  return {{"name", row.name},
          {"type", row.op},
          {"kernel", row.kernel},
          {"refused", refused},
          {"us", row.total_us / report.runs},
          {"calls", row.calls},
          {"min_us", row.min_us},
          {"max_us", row.max_us},
          {"share", row.total_us / report.runs / report.run_us},
          {"flops", d.flops},
          {"bytes", d.bytes},
          {"gflops", row.gflops()},
          {"gbytes_per_s", row.gbytes()},
          {"roof_us", row.roof_us},
          {"peak", row.peak()},
          {"bound", row.bound()},
          {"threads", d.threads},
          {"product_dtype", d.product == DType::kUndefined ? Json(nullptr) : Json(DTypeName(d.product))},
          {"dynamic", d.dynamic},
          {"shapes", row.shapes},
          {"inputs", OperandsJson(d.inputs)},
          {"outputs", OperandsJson(d.outputs)},
          {"cycles", Counted(row.counts[0])},
          {"instructions", Counted(row.counts[1])},
          {"llc_misses", Counted(row.counts[2])}};
}

std::string Rate(double per_second) {
  return per_second >= 1e12 ? fmt::format("{:.2f} T", per_second / 1e12) : fmt::format("{:.1f} G", per_second / 1e9);
}

}  // namespace

Json ProfileJson(const ProfileReport& report) {
  Json ops = Json::array(), types = Json::array();
  double roof = 0;
  for (const ProfileRow& row : report.rows) {
    if (row.calls > 0) ops.push_back(RowJson(report, row));
  }
  for (const ProfileType& t : report.types) {
    roof += t.roof_us / report.runs;
    types.push_back({{"type", t.op},
                     {"kernel", t.kernel},
                     {"calls", t.calls},
                     {"us", t.total_us / report.runs},
                     {"share", t.total_us / report.runs / report.run_us},
                     {"gflops", t.flops / t.total_us / 1e3},
                     {"gbytes_per_s", t.bytes / t.total_us / 1e3},
                     {"peak", t.roof_us / t.total_us}});
  }
  return {{"model", report.model},
          {"ops", ops},
          {"types", types},
          {"runs", report.runs},
          {"threads", report.threads},
          {"run_us", report.run_us},
          {"total_us", report.steps_us},
          {"accounted", report.steps_us / report.run_us},
          {"overhead", {{"us", report.overhead_us()}, {"share", report.overhead_us() / report.run_us}}},
          {"unobserved_run_us", report.plain_us},
          {"cpu_share", report.cpu_share},
          {"roof_us", roof},
          {"peaks", PeaksJson(report.peaks)},
          {"counters", {{"available", report.counted}, {"note", report.counters_note}}},
          {"machine", MachineJson()}};
}

Json PeaksJson(const hw::Peaks& peaks) {
  Json arithmetic = Json::array(), reading = Json::array();
  for (const auto& a : peaks.arithmetic) {
    arithmetic.push_back({{"name", a.name}, {"dtype", DTypeName(a.dtype)}, {"one_thread", a.one}, {"all_threads", a.all}});
  }
  for (const auto& r : peaks.reading) {
    Json rates = Json::array();
    for (const auto& [threads, rate] : r.rates) rates.push_back({{"threads", threads}, {"bytes_per_s", rate}});
    reading.push_back({{"level", r.level},
                       {"up_to_bytes", r.level == "memory" ? Json(nullptr) : Json(r.bytes)},
                       {"shared", r.shared},
                       {"rates", rates}});
  }
  return {{"threads", peaks.threads}, {"took_ms", peaks.took_ms}, {"arithmetic", arithmetic}, {"reading", reading}};
}

std::string PeaksText(const hw::Peaks& peaks) {
  std::vector<std::vector<std::string>> table = {{"measured peak", "one thread", fmt::format("{} threads", peaks.threads)}};
  for (const auto& a : peaks.arithmetic) table.push_back({a.name, Rate(a.one) + "FLOP/s", Rate(a.all) + "FLOP/s"});
  for (const auto& r : peaks.reading) {
    table.push_back({"reading " + r.level, Rate(r.rates.front().second) + "B/s", Rate(r.rates.back().second) + "B/s"});
  }
  return Table(table);
}

hw::Peaks PeaksFor(const std::string& cache_dir, bool anew) {
  const auto folder = cache_dir == "none" ? Result<std::string>(std::string()) : CacheFolder(cache_dir);
  return hw::PeaksOfThisMachine(folder.ok() ? *folder : std::string(), hw::DetectCpuAllowance().threads, anew);
}

}  // namespace tenon::cli
