#include "device/topology.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include "hw/cgroups.h"
#include "hw/quota.h"

namespace tenon::device {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxCpu = 4096;

std::string ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int ReadInt(const std::string& path, int otherwise) {
  const std::string line = ReadLine(path);
  int value = otherwise;
  return std::from_chars(line.data(), line.data() + line.size(), value).ec == std::errc() ? value : otherwise;
}

// Node by cpu: each node names its own CPUs, which need not be neighbours.
std::map<int, int> NodesOfCpus(const std::string& root) {
  std::map<int, int> nodes;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root + "/sys/devices/system/node", error)) {
    const std::string name = entry.path().filename().string();
    int node = 0;
    if (!name.starts_with("node") || std::from_chars(name.data() + 4, name.data() + name.size(), node).ec != std::errc())
      continue;
    const auto cpus = ParseCpuList(ReadLine(entry.path().string() + "/cpulist"));
    if (!cpus.ok()) continue;
    for (int cpu : *cpus) nodes[cpu] = node;
  }
  return nodes;
}

uint64_t ReadBytes(const std::string& path, uint64_t otherwise) {
  const std::string line = ReadLine(path);
  uint64_t value = 0;
  return std::from_chars(line.data(), line.data() + line.size(), value).ec == std::errc() ? value : otherwise;
}

// "MemTotal:  16384 kB" of /proc/meminfo.
uint64_t MemInfo(const std::string& root, const std::string& key) {
  std::ifstream file(root + "/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":")) return std::strtoull(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
  }
  return 0;
}

// The tightest memory limit on the way to the root of the cgroup tree, v2 or v1, and what is used under it.
void CgroupMemory(const std::string& root, Topology* t) {
  const std::string base = root + "/sys/fs/cgroup";
  const auto consider = [&](const std::string& folder, const char* limit_name, const char* used_name) {
    const uint64_t limit = ReadBytes(folder + "/" + limit_name, ~uint64_t{0});
    if (limit >= t->memory_limit) return;
    t->memory_limit = limit;
    t->memory_used = ReadBytes(folder + "/" + used_name, 0);
  };
  std::ifstream file(root + "/proc/self/cgroup");
  for (const hw::Cgroup& own : hw::ParseCgroups({std::istreambuf_iterator<char>(file), {}})) {
    for (const std::string& path : hw::PathsToRoot(own.path)) {
      if (own.is_v2()) consider(base + path, "memory.max", "memory.current");
      if (own.Has("memory")) consider(base + "/memory" + path, "memory.limit_in_bytes", "memory.usage_in_bytes");
    }
  }
}

Result<double> Fraction(const std::string& text) {
  double top = 0, bottom = 1;
  const size_t slash = text.find('/');
  const std::string first = text.substr(0, slash), second = slash == std::string::npos ? "1" : text.substr(slash + 1);
  const auto number = [](const std::string& s, double* out) {
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), *out);
    return error == std::errc() && end == s.data() + s.size() && !s.empty();
  };
  if (!number(first, &top) || !number(second, &bottom) || !(top > 0) || !(bottom > 0) || top > bottom) {
    return Usage("part '{}'; allowed: a fraction, as 1/4", text);
  }
  return top / bottom;
}

}  // namespace

Result<std::vector<int>> ParseCpuList(const std::string& text) {
  std::set<int> cpus;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    int first = 0, last = 0;
    const char* const end = part.data() + part.size();
    auto parsed = std::from_chars(part.data(), end, first);
    last = first;
    if (parsed.ec == std::errc() && parsed.ptr != end && *parsed.ptr == '-') parsed = std::from_chars(parsed.ptr + 1, end, last);
    if (parsed.ec != std::errc() || parsed.ptr != end || first < 0 || last < first || last >= kMaxCpu) {
      return Usage("CPUs '{}'; allowed: numbers and ranges below {}, as 0-3,8", text, kMaxCpu);
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.insert(cpu);
  }
  return std::vector<int>(cpus.begin(), cpus.end());
}

Topology ReadTopology(const std::string& root) {
  Topology t;
  const hw::CpuAllowance allowance = hw::DetectCpuAllowance(root);
  t.usable = allowance.threads;
  t.explanation = allowance.explanation;
  const auto nodes = NodesOfCpus(root);
  for (int cpu : allowance.cpus) {
    const std::string folder = fmt::format("{}/sys/devices/system/cpu/cpu{}/topology", root, cpu);
    const auto node = nodes.find(cpu);
    t.cores.push_back({cpu, node == nodes.end() ? 0 : node->second, ReadInt(folder + "/physical_package_id", 0),
                       ReadInt(folder + "/core_id", cpu)});
  }
  t.memory_total = MemInfo(root, "MemTotal");
  t.memory_limit = t.memory_total;
  const uint64_t available = MemInfo(root, "MemAvailable");
  t.memory_used = t.memory_total > available ? t.memory_total - available : 0;
  CgroupMemory(root, &t);
  return t;
}

namespace {

// Drivers of sensors in CPUs, under /sys/class/hwmon; and types of zones, under /sys/class/thermal, where there is no driver.
constexpr std::array<std::string_view, 4> kSensorDrivers = {"coretemp", "k10temp", "zenpower", "cpu_thermal"};
constexpr std::array<std::string_view, 4> kZoneTypes = {"x86_pkg_temp", "cpu-thermal", "cpu_thermal", "soc-thermal"};

// In thousandths of a degree; what no CPU can have is no reading.
void Consider(const std::string& path, std::optional<double>* hottest) {
  const double degrees = ReadInt(path, std::numeric_limits<int>::min()) / 1000.0;
  if (degrees > -60 && degrees < 150 && (!*hottest || degrees > **hottest)) *hottest = degrees;
}

template <size_t N>
bool Holds(const std::array<std::string_view, N>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::optional<double> ReadTemperature(const std::string& root) {
  std::optional<double> hottest;
  std::error_code error;
  for (const auto& sensor : fs::directory_iterator(root + "/sys/class/hwmon", error)) {
    if (!Holds(kSensorDrivers, ReadLine(sensor.path().string() + "/name"))) continue;
    for (const auto& file : fs::directory_iterator(sensor.path(), error)) {
      const std::string name = file.path().filename().string();
      if (name.starts_with("temp") && name.ends_with("_input")) Consider(file.path().string(), &hottest);
    }
  }
  for (const auto& zone : fs::directory_iterator(root + "/sys/class/thermal", error)) {
    if (!hottest && Holds(kZoneTypes, ReadLine(zone.path().string() + "/type")))
      Consider(zone.path().string() + "/temp", &hottest);
  }
  return hottest;
}

namespace {

// How many cores `part` of `cores` is; 0 when it is no whole number.
size_t WholeCores(double part, size_t cores) {
  const double share = part * static_cast<double>(cores);
  const double n = std::round(share);
  return std::abs(share - n) < 1e-6 ? static_cast<size_t>(n) : 0;
}

}  // namespace

Result<std::vector<Part>> SplitCores(const std::vector<Core>& cores, const std::string& layout) {
  if (layout.starts_with("cores=")) {
    TENON_ASSIGN_OR_RETURN(const std::vector<int> cpus, ParseCpuList(layout.substr(6)));
    for (int cpu : cpus) {
      if (std::none_of(cores.begin(), cores.end(), [cpu](const Core& c) { return c.cpu == cpu; }))
        return Usage("CPU {} is not among those this process may use", cpu);
    }
    if (cpus.empty()) return Usage("layout '{}' names no CPU", layout);
    return std::vector<Part>{{cpus, 1}};
  }
  std::vector<double> parts;
  std::istringstream texts(layout);
  for (std::string text; std::getline(texts, text, '+');) {
    int n = 0;
    const bool whole = std::from_chars(text.data(), text.data() + text.size(), n).ptr == text.data() + text.size() &&
                       parts.empty() && layout == text;
    if (whole && n >= 1 && n <= kMaxCpu) {
      parts.assign(static_cast<size_t>(n), 1.0 / n);
      break;
    }
    TENON_ASSIGN_OR_RETURN(const double part, Fraction(text));
    parts.push_back(part);
  }
  double sum = 0;
  for (double p : parts) sum += p;
  if (parts.empty() || sum > 1 + 1e-9)
    return Usage("layout '{}'; allowed: a number of equal parts, fractions up to a whole as 1/4+3/4, or cores=0-3", layout);
  // Parts take whole nodes where they can: neighbours in this order share one.
  std::vector<Core> order = cores;
  std::stable_sort(order.begin(), order.end(), [](const Core& a, const Core& b) {
    return std::tie(a.node, a.socket, a.core, a.cpu) < std::tie(b.node, b.socket, b.core, b.cpu);
  });
  const bool whole = std::all_of(parts.begin(), parts.end(), [&](double p) { return WholeCores(p, order.size()) > 0; });
  std::vector<Part> split;
  size_t at = 0;
  for (double p : parts) {
    Part part;
    part.share = whole ? 1 : p;
    const size_t n = whole ? WholeCores(p, order.size()) : order.size();
    if (!whole) at = 0;
    for (size_t i = 0; i < n; ++i) part.cpus.push_back(order[at++].cpu);
    std::sort(part.cpus.begin(), part.cpus.end());
    split.push_back(std::move(part));
  }
  return split;
}

std::vector<double> Utilisation::Read(const std::vector<int>& cpus) {
  std::vector<Times> now;
  std::ifstream file(root_ + "/proc/stat");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("cpu") || line.size() < 4 || line[3] == ' ') continue;
    std::istringstream fields(line.substr(3));
    size_t cpu = 0;
    if (!(fields >> cpu) || cpu >= static_cast<size_t>(kMaxCpu)) continue;
    if (now.size() <= cpu) now.resize(cpu + 1);
    uint64_t value = 0;
    for (int i = 0; fields >> value && i < 8; ++i) {
      now[cpu].all += value;
      if (i != 3 && i != 4) now[cpu].busy += value;   // 3 idle, 4 waiting for disks
    }
  }
  std::vector<double> shares;
  for (int cpu : cpus) {
    const auto i = static_cast<size_t>(cpu);
    const Times a = i < last_.size() ? last_[i] : Times{}, b = i < now.size() ? now[i] : Times{};
    shares.push_back(b.all > a.all ? static_cast<double>(b.busy - a.busy) / static_cast<double>(b.all - a.all) : 0);
  }
  last_ = std::move(now);
  return shares;
}

}  // namespace tenon::device
