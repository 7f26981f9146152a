// Peaks as lines of text:
//   tenon peaks 1
//   machine <key>
//   threads <n>
//   took_ms <t>
//   arithmetic <dtype> <isa bits> <rate of one> <rate of all> <name>
//   reading <level> <bytes> <shared> <threads>:<rate> ...
#include <fmt/format.h>

#include <cmath>
#include <sstream>

#include "hw/peaks.h"

namespace tenon::hw {

namespace {

constexpr const char* kFirstLine = "tenon peaks 1";
constexpr size_t kMostLines = 256;

bool IsRate(double v) {
  return std::isfinite(v) && v > 0;
}

bool ReadArithmetic(std::istringstream& in, Peaks* peaks) {
  Peaks::Arithmetic a;
  int32_t dtype = 0;
  if (!(in >> dtype >> a.needs >> a.one >> a.all) || !IsValidDType(dtype) || !IsRate(a.one) || !IsRate(a.all)) return false;
  a.dtype = static_cast<DType>(dtype);
  std::getline(in >> std::ws, a.name);
  peaks->arithmetic.push_back(std::move(a));
  return !peaks->arithmetic.back().name.empty();
}

bool ReadReading(std::istringstream& in, Peaks* peaks) {
  Peaks::Reading r;
  if (!(in >> r.level >> r.bytes >> r.shared)) return false;
  int threads = 0;
  char colon = 0;
  double rate = 0;
  while (in >> threads >> colon >> rate) {
    if (colon != ':' || !IsRate(rate) || threads <= (r.rates.empty() ? 0 : r.rates.back().first)) return false;
    r.rates.emplace_back(threads, rate);
  }
  peaks->reading.push_back(std::move(r));
  return in.eof() && !peaks->reading.back().rates.empty();
}

}  // namespace

std::string PeaksToText(const Peaks& peaks) {
  std::string text =
      fmt::format("{}\nmachine {}\nthreads {}\ntook_ms {}\n", kFirstLine, peaks.machine, peaks.threads, peaks.took_ms);
  for (const auto& a : peaks.arithmetic) {
    text += fmt::format("arithmetic {} {} {} {} {}\n", static_cast<int>(a.dtype), a.needs, a.one, a.all, a.name);
  }
  for (const auto& r : peaks.reading) {
    text += fmt::format("reading {} {} {}", r.level, r.bytes, r.shared ? 1 : 0);
    for (const auto& [threads, rate] : r.rates) text += fmt::format(" {}:{}", threads, rate);
    text += "\n";
  }
  return text;
}

Result<Peaks> PeaksFromText(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != kFirstLine) return BadInput("peaks do not begin with '{}'", kFirstLine);
  Peaks peaks;
  peaks.threads = 0;
  for (size_t n = 2; std::getline(lines, line); ++n) {
    std::istringstream in(line);
    std::string word;
    in >> word;
    bool good = n < kMostLines;
    if (word == "machine") {
      good = good && static_cast<bool>(std::getline(in >> std::ws, peaks.machine));
    } else if (word == "threads") {
      good = good && in >> peaks.threads && peaks.threads > 0;
    } else if (word == "took_ms") {
      good = good && static_cast<bool>(in >> peaks.took_ms);
    } else if (word == "arithmetic") {
      good = good && ReadArithmetic(in, &peaks);
    } else {
      good = good && word == "reading" && ReadReading(in, &peaks);
    }
    if (!good) return BadInput("line {} of the peaks is damaged", n);
  }
  if (peaks.threads < 1 || peaks.machine.empty() || peaks.arithmetic.empty() || peaks.reading.empty()) {
    return BadInput("the peaks are cut short");
  }
  return peaks;
}

}  // namespace tenon::hw
