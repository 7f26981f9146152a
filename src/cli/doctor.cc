// tenon doctor: what on this machine costs speed or may surprise.
#include <fstream>
#include <sstream>

#include "cli/machine.h"
#include "cli/profile_trace.h"
#include "hw/isa.h"
#include "hw/quota.h"

namespace tenon::cli {
namespace {

struct Finding {
  std::string check;
  std::string state;     // "ok", "note", "warning"
  std::string value;
  std::string advice;
};

std::optional<std::string> ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) return std::nullopt;
  return line;
}

Finding CheckCpus() {
  const hw::CpuAllowance a = hw::DetectCpuAllowance();
  return {"cpus", "ok", a.explanation, ""};
}

Finding CheckIsa() {
  const auto active = hw::ActiveIsa();
  if (!active.ok()) return {"isa", "warning", active.status().message(), ""};
  if (*active != hw::DetectIsa())
    return {"isa", "note", hw::IsaToString(*active), "TENON_ISA leaves out part of " + hw::IsaToString(hw::DetectIsa())};
  if ((*active & hw::kAvx2) == 0)
    return {"isa", "warning", hw::IsaToString(*active), "no AVX2: kernels run their portable versions"};
  return {"isa", "ok", hw::IsaToString(*active), ""};
}

Finding CheckGovernor() {
  const auto governor = ReadLine("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (!governor) return {"governor", "ok", "not shown by this system", ""};
  if (*governor == "performance") return {"governor", "ok", *governor, ""};
  return {"governor", "note", *governor, "'performance' avoids slow first runs after idling"};
}

Finding CheckHugePages() {
  const auto mode = ReadLine("/sys/kernel/mm/transparent_hugepage/enabled");
  if (!mode) return {"huge pages", "ok", "not shown by this system", ""};
  if (mode->find("[never]") != std::string::npos)
    return {"huge pages", "note", *mode, "'madvise' or 'always' lowers the cost of large activations"};
  return {"huge pages", "ok", *mode, ""};
}

Finding CheckSwap() {
  const auto swappiness = ReadLine("/proc/sys/vm/swappiness");
  const auto swaps = [] {
    std::ifstream file("/proc/swaps");
    std::string line;
    int lines = 0;
    while (std::getline(file, line)) ++lines;
    return lines > 1;
  }();
  if (!swaps) return {"swap", "ok", "no swap", ""};
  return {"swap", "note", "swappiness " + swappiness.value_or("?"),
          "weights that are swapped out cost seconds: vm.swappiness=10 or less"};
}

Finding CheckNuma() {
  const auto nodes = ReadLine("/sys/devices/system/node/online");
  if (!nodes || *nodes == "0") return {"numa", "ok", "one node", ""};
  return {"numa", "note", "nodes " + *nodes, "run one session per node, with its cores: --threads and a core list"};
}

Finding CheckMemory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  uint64_t kib = 0;
  std::string unit;
  uint64_t available = 0;
  while (file >> key >> kib) {
    std::getline(file, unit);
    if (key == "MemAvailable:") available = kib * 1024;
  }
  const auto limit = ReadLine("/sys/fs/cgroup/memory.max");
  const std::string cgroup =
      limit && *limit != "max" ? ", cgroup limit " + Bytes(std::strtoull(limit->c_str(), nullptr, 10)) : "";
  return {"memory", "ok", Bytes(available) + " available" + cgroup, ""};
}

Finding CheckCounters() {
  const hw::Counters counters;
  if (counters.why().empty()) return {"counters", "ok", "cycles, instructions, last-level misses", ""};
  return {"counters", "note", "no hardware counters: " + counters.why(), "tenon profile goes without"};
}

struct Options {
  std::string cache_dir;
  bool measure_peaks = false;
};

Status Run(const Options& options, Context& context) {
  const std::vector<Finding> findings = {CheckCpus(), CheckIsa(),  CheckGovernor(), CheckHugePages(),
                                         CheckSwap(), CheckNuma(), CheckMemory(),   CheckCounters()};
  Json rows = Json::array();
  std::vector<std::vector<std::string>> table = {{"check", "state", "found", "advice"}};
  for (const Finding& f : findings) {
    rows.push_back({{"check", f.check}, {"state", f.state}, {"value", f.value}, {"advice", f.advice}});
    table.push_back({f.check, f.state, f.value, f.advice});
  }
  const hw::Peaks peaks = PeaksFor(options.cache_dir, options.measure_peaks);
  context.Document({{"machine", MachineJson()}, {"findings", rows}, {"peaks", PeaksJson(peaks)}});
  context.Say(MachineText() + "\n\n" + Table(table) + "\n\n" + PeaksText(peaks));
  return Status::Ok();
}

}  // namespace

Command Make_doctor() {
  return {"doctor", "check this machine for what costs speed", "tenon doctor", [](CLI::App& app) {
            auto options = std::make_shared<Options>();
            app.add_option("--cache-dir", options->cache_dir, "Where measured peaks are kept; 'none': nowhere")
                ->envname("TENON_CACHE_DIR");
            app.add_flag("--measure-peaks", options->measure_peaks, "Measure this machine's peaks anew");
            return [options](Context& context) { return Run(*options, context); };
          }};
}

}  // namespace tenon::cli
