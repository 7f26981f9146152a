#include "hw/peaks.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>

#include "base/digest.h"
#include "base/mapped_file.h"
#include "hw/cpu.h"
#include "hw/peaks_probes.h"
#include "hw/team.h"

namespace tenon::hw {

namespace {

using Clock = std::chrono::steady_clock;

struct Probe {
  const char* name;
  DType dtype;
  IsaMask needs;
  double operations;   // of a round
  void (*run)(int64_t rounds);
};

constexpr Probe kProbes[] = {
    {"f32 base", DType::kF32, kBaseline, probes::kRoundF32Base, probes::F32_base},
#if defined(__x86_64__)
    {"f32 avx2", DType::kF32, kAvx2, probes::kRoundF32Avx2, probes::F32_avx2},
    {"f32 avx512", DType::kF32, kAvx512, probes::kRoundF32Avx512, probes::F32_avx512},
    {"bf16 avx512bf16", DType::kBF16, kAvx512Bf16, probes::kRoundBf16, probes::Bf16_avx512bf16},
    {"bf16 amx", DType::kBF16, kAmx, probes::kRoundBf16Amx, probes::Bf16_amx},
    {"int8 avx2", DType::kI8, kAvx2, probes::kRoundI8Avx2, probes::I8_avx2},
    {"int8 avxvnni", DType::kI8, kAvxVnni, probes::kRoundI8AvxVnni, probes::I8_avxvnni},
    {"int8 avx512vnni", DType::kI8, kAvx512Vnni, probes::kRoundI8Vnni, probes::I8_avx512vnni},
    {"int8 amx", DType::kI8, kAmx, probes::kRoundI8Amx, probes::I8_amx},
#endif
};

constexpr double kSecondsPerProbe = 0.008;
constexpr double kSecondsPerTry = 0.0004;
constexpr int kLeastTries = 2;
constexpr uint64_t kMostBytes = 128 << 20;   // of the largest working set
constexpr uint64_t kSharedBytes = 32 << 20;  // of a shared cache, which others use as well
constexpr uint64_t kBytesPerTry = 8 << 20;

double WallSeconds() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// Of this thread alone: what others take from it does not count.
double CpuSeconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Work per second of the whole team at best, over tries for some milliseconds: what disturbs makes tries slow, none fast. Each
// thread does body(thread, try), which is `work`.
double BestRate(Team* team, double work, const std::function<void(int64_t thread, int64_t round)>& body) {
  const int n = team->size();
  std::vector<double> seconds(static_cast<size_t>(n));
  double best = 0;
  const double start = WallSeconds();
  for (int round = 0; round < kLeastTries || WallSeconds() - start < kSecondsPerProbe; ++round) {
    team->ParallelFor(n, 1, [&](int64_t begin, int64_t end, int /*thread*/) {
      for (int64_t i = begin; i < end; ++i) {
        const double before = CpuSeconds();
        body(i, round);
        seconds[static_cast<size_t>(i)] = CpuSeconds() - before;
      }
    });
    double rate = 0;
    for (const double t : seconds) rate += t > 0 ? work / t : 0;
    best = std::max(best, rate);
  }
  return best;
}

// Rounds that one thread takes about kSecondsPerTry for.
int64_t RoundsOf(const Probe& probe) {
  for (int64_t rounds = 256; rounds < (int64_t{1} << 40); rounds *= 2) {
    const double before = CpuSeconds();
    probe.run(rounds);
    if (CpuSeconds() - before >= kSecondsPerTry) return rounds;
  }
  return int64_t{1} << 40;
}

double Arithmetic(const Probe& probe, int64_t rounds, Team* team) {
  return BestRate(team, probe.operations * static_cast<double>(rounds), [&](int64_t, int64_t) { probe.run(rounds); });
}

using Reader = void (*)(const char*, int64_t);

Reader BestReader() {
#if defined(__x86_64__)
  if (Covers(DetectIsa(), kAvx512)) return probes::Read_avx512;
  if (Covers(DetectIsa(), kAvx2)) return probes::Read_avx2;
#endif
  return probes::Read_base;
}

// Each thread reads its part of `bytes`: small ones again and again, large ones piece after piece, a piece each try.
double Reading(const char* data, uint64_t bytes, Team* team) {
  const Reader read = BestReader();
  const auto part = static_cast<int64_t>(bytes / static_cast<uint64_t>(team->size()) / 4096 * 4096);
  const int64_t piece = std::min<int64_t>(part, kBytesPerTry),
                times = std::max<int64_t>(1, kBytesPerTry / std::max<int64_t>(piece, 1));
  const int64_t pieces = std::max<int64_t>(1, part / std::max<int64_t>(piece, 1));
  return BestRate(team, static_cast<double>(piece * times), [&](int64_t thread, int64_t round) {
    for (int64_t t = 0; t < times; ++t) read(data + thread * part + round % pieces * piece, piece);
  });
}

std::vector<int> TeamSizes(int threads) {
  std::vector<int> sizes;
  for (int n = 1; n < threads; n *= 2) sizes.push_back(n);
  sizes.push_back(threads);
  return sizes;
}

void MeasureReading(Peaks* peaks) {
  const CacheSizes caches = DetectCaches();
  const uint64_t shared = std::min(caches.l3 / 2, kSharedBytes);
  const auto threads = static_cast<uint64_t>(peaks->threads);
  const uint64_t most = std::clamp<uint64_t>(2 * caches.l3, 64 << 20, kMostBytes);
  void* memory = mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  madvise(memory, most, MADV_HUGEPAGE);
  auto* data = static_cast<char*>(memory);
  Team whole(peaks->threads);
  whole.Enter();
  // Pages lie with the thread that reads them.
  whole.ParallelFor(static_cast<int64_t>(most / 4096), 1, [&](int64_t begin, int64_t end, int /*thread*/) {
    for (int64_t i = begin; i < end; ++i) data[i * 4096] = 1;
  });
  peaks->reading = {{"L2", caches.l2, false, {}}};
  if (shared > caches.l2 * threads) peaks->reading.push_back({"L3", shared, true, {}});
  peaks->reading.push_back({"memory", ~uint64_t{0}, true, {}});
  for (const int n : TeamSizes(peaks->threads)) {
    Team team(n);
    team.Enter();
    for (Peaks::Reading& r : peaks->reading) {
      const uint64_t set = r.level == "memory" ? most : r.shared ? r.bytes / 2 : r.bytes / 2 * static_cast<uint64_t>(n);
      r.rates.emplace_back(n, Reading(data, std::min(set, most), &team));
    }
  }
  munmap(memory, most);
}

}  // namespace

std::string MachineKey(int threads) {
  const CacheSizes c = DetectCaches();
  return fmt::format("{}; {}; L1 {} L2 {} L3 {}; {} threads", CpuName(), IsaToString(DetectIsa()), c.l1, c.l2, c.l3, threads);
}

Peaks MeasurePeaks(int threads) {
  const auto start = Clock::now();
  Peaks peaks;
  peaks.threads = std::max(1, threads);
  peaks.machine = MachineKey(peaks.threads);
  for (const Probe& probe : kProbes) {
    if (!Covers(DetectIsa(), probe.needs)) continue;
    Team one(1), all(peaks.threads);
    one.Enter();
    const int64_t rounds = RoundsOf(probe);
    Peaks::Arithmetic a{probe.name, probe.dtype, probe.needs, Arithmetic(probe, rounds, &one), 0};
    all.Enter();
    a.all = peaks.threads == 1 ? a.one : Arithmetic(probe, rounds, &all);
    peaks.arithmetic.push_back(std::move(a));
  }
  MeasureReading(&peaks);
  peaks.took_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  return peaks;
}

const Peaks::Arithmetic* Peaks::Best(DType dtype, IsaMask isa) const {
  if (dtype == DType::kU8) dtype = DType::kI8;
  if (dtype != DType::kBF16 && dtype != DType::kI8) dtype = DType::kF32;
  const Arithmetic* best = nullptr;
  for (const Arithmetic& a : arithmetic) {
    if (a.dtype == dtype && Covers(isa, a.needs) && (best == nullptr || a.one > best->one)) best = &a;
  }
  return best == nullptr && dtype != DType::kF32 ? Best(DType::kF32, isa) : best;
}

namespace {

// Between two measured numbers of threads in a straight line; beyond the last one, the last.
double Between(const std::vector<std::pair<int, double>>& rates, int team) {
  for (size_t i = 0; i < rates.size(); ++i) {
    if (rates[i].first < team) continue;
    if (i == 0 || rates[i].first == team) return rates[i].second;
    const double step = (rates[i].second - rates[i - 1].second) / (rates[i].first - rates[i - 1].first);
    return rates[i - 1].second + step * (team - rates[i - 1].first);
  }
  return rates.empty() ? 0 : rates.back().second;
}

}  // namespace

double Peaks::Flops(DType dtype, IsaMask isa, int team) const {
  const Arithmetic* best = Best(dtype, isa);
  if (best == nullptr) return 0;
  const double rate = Between({{1, best->one}, {std::max(threads, 1), best->all}}, team);
  return dtype == DType::kF64 ? rate / 2 : rate;
}

double Peaks::Bandwidth(double bytes, int team) const {
  for (const Reading& r : reading) {
    const double of_each = r.shared ? bytes : bytes / std::max(team, 1);
    if (of_each <= static_cast<double>(r.bytes)) return Between(r.rates, team);
  }
  return reading.empty() ? 0 : Between(reading.back().rates, team);
}

Peaks Faster(Peaks a, const Peaks& b) {
  for (Peaks::Arithmetic& x : a.arithmetic) {
    for (const Peaks::Arithmetic& y : b.arithmetic) {
      if (x.name == y.name) x.one = std::max(x.one, y.one), x.all = std::max(x.all, y.all);
    }
  }
  for (Peaks::Reading& x : a.reading) {
    for (const Peaks::Reading& y : b.reading) {
      if (x.level != y.level || x.bytes != y.bytes || x.rates.size() != y.rates.size()) continue;
      for (size_t i = 0; i < x.rates.size(); ++i) {
        if (x.rates[i].first == y.rates[i].first) x.rates[i].second = std::max(x.rates[i].second, y.rates[i].second);
      }
    }
  }
  return a;
}

Peaks PeaksOfThisMachine(const std::string& folder, int threads, bool anew) {
  if (folder.empty()) return MeasurePeaks(threads);
  const std::string key = MachineKey(std::max(1, threads));
  const std::string path = (std::filesystem::path(folder) / ("peaks-" + TextDigest(key).substr(0, 16) + ".txt")).string();
  const auto text = ReadFile(path, 1 << 16);
  auto stored = text.ok() ? PeaksFromText(*text) : Result<Peaks>(text.status());
  const bool usable = stored.ok() && stored->machine == key;
  if (usable && !anew) return *std::move(stored);
  Peaks peaks = MeasurePeaks(threads);
  if (usable) peaks = Faster(std::move(peaks), *stored);
  const std::string written = PeaksToText(peaks);
  auto file = AtomicFile::Create(path);
  if (file.ok() && file->Append(written.data(), written.size()).ok()) (void)file->Commit();
  return peaks;
}

}  // namespace tenon::hw
