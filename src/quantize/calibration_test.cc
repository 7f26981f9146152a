#include "quantize/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "quantize/histogram.h"

namespace tenon::quantize {
namespace {

using ::testing::HasSubstr;

std::vector<float> Normal(size_t count, float deviation) {
  std::mt19937 random(7);
  std::normal_distribution<float> values(0, deviation);
  std::vector<float> v(count);
  for (float& x : v) x = values(random);
  return v;
}

Histogram Of(const std::vector<float>& v) {
  Histogram h(*std::min_element(v.begin(), v.end()), *std::max_element(v.begin(), v.end()));
  h.Add(v.data(), static_cast<int64_t>(v.size()));
  return h;
}

// Squared error of rounding `v` to 256 steps in `range`.
double Error(const std::vector<float>& v, Range range) {
  const double step = (static_cast<double>(range.second) - range.first) / 255;
  const double zero = std::nearbyint(-range.first / step);
  double sum = 0;
  for (const float x : v) {
    const double back = (std::clamp(std::nearbyint(x / step) + zero, 0.0, 255.0) - zero) * step;
    sum += (x - back) * (x - back);
  }
  return sum;
}

TEST(Histogram, OutliersAreClipped) {
  std::vector<float> v = Normal(100000, 1);
  v[11] = 60;    // a lone one that would make every step ten times as wide
  v[17] = -8;
  const Histogram h = Of(v);
  for (const Range& range : {h.LeastDivergence(), h.Percentile(99.99)}) {
    EXPECT_LT(range.second, 12) << "the outlier decides";
    EXPECT_GT(range.second, 2) << "much of the distribution is clipped";
    EXPECT_LT(range.first, -2);
    EXPECT_GE(range.first, -8.1F);
  }
}

TEST(Histogram, LeastSquaresIsLeast) {
  std::vector<float> v = Normal(100000, 1);
  for (size_t i = 0; i < 40; ++i) v[i * 7] *= 5;
  const Range best = Of(v).LeastSquares();
  const double least = Error(v, best);
  for (const float share : {0.2F, 0.4F, 0.6F, 0.8F, 1.2F, 1.6F}) {
    EXPECT_LE(least, 1.01 * Error(v, {best.first * share, best.second * share})) << share;
  }
}

TEST(Histogram, AnEvenDistributionStaysWhole) {
  std::vector<float> v(50000);
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i % 2000) / 2000;
  const Histogram h = Of(v);
  for (const Range& range : {h.LeastSquares(), h.LeastDivergence(), h.Percentile(100)}) {
    EXPECT_EQ(range.first, 0);
    EXPECT_GT(range.second, 0.97);
    EXPECT_LE(range.second, 1.0);
  }
}

TEST(Histogram, EmptyZeroAndNotFiniteValues) {
  for (const std::vector<float>& v : {std::vector<float>{}, std::vector<float>{0, 0}}) {
    Histogram h(0, 0);
    h.Add(v.data(), static_cast<int64_t>(v.size()));
    for (const Range& range : {h.LeastSquares(), h.LeastDivergence(), h.Percentile(99)}) EXPECT_EQ(range, Range(0, 0));
  }
  Histogram h(-1, 1);
  const std::vector<float> v = {NAN, INFINITY, -INFINITY, 0.5F, -0.5F, 7};
  h.Add(v.data(), static_cast<int64_t>(v.size()));
  EXPECT_EQ(h.Percentile(100).second, 1);
}

TEST(CalibrationTable, IsReadAsItWasWritten) {
  CalibrationTable table{"mse", {{"a", {-0.1F, 1.0F / 3}}, {"b\xff", {0, 1e-30F}}}};
  const auto back = CalibrationTable::FromJson(table.ToJson());
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->method, "mse");
  EXPECT_EQ(back->ranges.at("a"), table.ranges.at("a"));
  EXPECT_EQ(back->Digest(), table.Digest());
  table.ranges["a"].second = std::nextafter(table.ranges["a"].second, 1.0F);
  EXPECT_NE(back->Digest(), table.Digest());
}

TEST(CalibrationTable, HostileText) {
  for (const char* text :
       {"", "[]", "{}", R"({"tensors": 3})", R"({"tensors": {"x": [1]}})", R"({"tensors": {"x": [2, 1]}})",
        R"({"tensors": {"x": ["a", 1]}})", R"({"tensors": {"x": [0, 1e99]}})", R"({"tensors": {"x": null}})"}) {
    const auto table = CalibrationTable::FromJson(text);
    EXPECT_EQ(table.status().code(), Code::kBadInput) << text;
  }
}

TEST(Calibration, NamesOfOtherToolsWork) {
  for (const char* name : {"minmax", "MinMax", "min-max"}) EXPECT_EQ(*ParseMethod(name), Method::kMinMax);
  EXPECT_EQ(*ParseMethod("IFMR"), Method::kMse);
  EXPECT_EQ(*ParseMethod("Entropy"), Method::kEntropy);
  EXPECT_EQ(*ParseMethod("quantile"), Method::kPercentile);
  EXPECT_THAT(ParseMethod("best").status().message(), HasSubstr("entropy"));
}

TEST(Calibration, SamplesAreSpread) {
  const std::vector<size_t> all = {0, 2, 4, 6, 8, 10};
  EXPECT_EQ(Spread(all, 3), (std::vector<size_t>{0, 4, 8}));
  EXPECT_EQ(Spread(all, 9), all);
}

}  // namespace
}  // namespace tenon::quantize
