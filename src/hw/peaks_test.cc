// Peaks: what is chosen, kept and read back; that what is measured is of the right order.
#include "hw/peaks.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tenon::hw {

namespace {

Peaks Sample() {
  Peaks p;
  p.machine = "a CPU; avx2; 2 threads";
  p.threads = 4;
  p.took_ms = 12.5;
  p.arithmetic = {{"f32 base", DType::kF32, kBaseline, 10, 40},
                  {"f32 avx2", DType::kF32, kAvx2, 100, 340},
                  {"bf16 amx", DType::kBF16, kAmx, 1000, 3000},
                  {"int8 avx2", DType::kI8, kAvx2, 200, 800}};
  p.reading = {{"L2", 1000, false, {{1, 50}, {4, 200}}}, {"memory", ~uint64_t{0}, true, {{1, 10}, {2, 18}, {4, 20}}}};
  return p;
}

TEST(Peaks, ByTypeAndInstructionSet) {
  const Peaks p = Sample();
  EXPECT_EQ(p.Flops(DType::kF32, kAvx2 | kAmx, 1), 100);
  EXPECT_EQ(p.Flops(DType::kF32, kBaseline, 1), 10);
  EXPECT_EQ(p.Flops(DType::kF32, kAvx2, 2), 180);
  EXPECT_EQ(p.Flops(DType::kF32, kAvx2, 9), 340);
  EXPECT_EQ(p.Flops(DType::kF64, kAvx2, 1), 50);
  EXPECT_EQ(p.Flops(DType::kBF16, kAvx2 | kAmx, 4), 3000);
  EXPECT_EQ(p.Flops(DType::kBF16, kAvx2, 4), 340) << "without a unit of its own: by floats";
  EXPECT_EQ(p.Flops(DType::kU8, kAvx2, 4), 800);
}

TEST(Peaks, ByWorkingSet) {
  const Peaks p = Sample();
  EXPECT_EQ(p.Bandwidth(1000, 1), 50);
  EXPECT_EQ(p.Bandwidth(1001, 1), 10);
  EXPECT_EQ(p.Bandwidth(4000, 4), 200) << "a level of each core holds as much for each thread";
  EXPECT_EQ(p.Bandwidth(1e12, 3), 19);
}

TEST(Peaks, TheFasterStays) {
  Peaks slow = Sample(), fast = Sample();
  slow.arithmetic[1].one = 7;
  fast.arithmetic[1].all = 8;
  slow.reading[1].rates[0].second = 1;
  const Peaks both = Faster(slow, fast);
  EXPECT_EQ(both.arithmetic[1].one, 100);
  EXPECT_EQ(both.arithmetic[1].all, 340);
  EXPECT_EQ(both.reading[1].rates[0].second, 10);
}

TEST(Peaks, TextAndBack) {
  const std::string text = PeaksToText(Sample());
  const auto read = PeaksFromText(text);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(PeaksToText(*read), text);
  EXPECT_EQ(read->Flops(DType::kBF16, kAmx, 4), 3000);
}

TEST(Peaks, DamagedTextIsRefused) {
  const std::string text = PeaksToText(Sample());
  size_t whole = 0;
  for (size_t n = 0; n < text.size(); ++n) whole += PeaksFromText(text.substr(0, n)).ok() ? 1 : 0;
  EXPECT_LE(whole, 24U) << "only where the last rates are cut";
  for (const char* line : {"threads 0", "threads x", "arithmetic 1 0 nan 3 x", "arithmetic 99 0 1 3 x", "arithmetic 1 0 1 -3 x",
                           "reading L2 1 0", "reading L2 1 0 2:5 1:6", "reading L2 1 0 1:inf", "what"}) {
    EXPECT_FALSE(PeaksFromText(text + line + "\n").ok()) << line;
  }
}

TEST(Peaks, MeasuredOnceAndKept) {
  const std::string folder = std::filesystem::temp_directory_path() / ("tenon_peaks_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const Peaks first = PeaksOfThisMachine(folder, 1);
  EXPECT_FALSE(first.arithmetic.empty());
  for (const auto& a : first.arithmetic) {
    EXPECT_GT(a.one, 1e8) << a.name;
    EXPECT_LT(a.one, 1e14) << a.name;
  }
  ASSERT_FALSE(first.reading.empty());
  EXPECT_GT(first.Bandwidth(1e12, 1), 1e8);
  EXPECT_EQ(PeaksToText(PeaksOfThisMachine(folder, 1)), PeaksToText(first)) << "read, not measured";
  // A damaged file, and one of another machine, are made anew.
  const auto file = *std::filesystem::directory_iterator(folder);
  for (const std::string& text : {std::string("nonsense"), PeaksToText(Sample())}) {
    std::ofstream(file.path()) << text;
    EXPECT_EQ(PeaksOfThisMachine(folder, 1).machine, first.machine);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace

}  // namespace tenon::hw
