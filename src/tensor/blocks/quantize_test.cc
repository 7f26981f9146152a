#include "tensor/blocks/quantize.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

#include "tensor/blocks/blocks.h"

namespace tenon {
namespace {

using Block = std::array<float, 32>;

Block Back(const char* format, void (*quantize)(const float*, uint8_t*), const Block& x) {
  const BlockFormat& f = *FindBlockFormat(format);
  std::array<uint8_t, 34> bytes{};
  quantize(x.data(), bytes.data());
  Block out{};
  UnpackRow(f, bytes.data(), 32, out.data());
  return out;
}

double Error(const Block& a, const Block& b) {
  double error = 0;
  for (int i = 0; i < 32; ++i) error += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(error / 32);
}

Block Normal(uint32_t seed, float mean, float deviation) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, deviation);
  Block x;
  for (float& v : x) v = normal(random);
  return x;
}

TEST(QuantizeBlocks, StepsAreAsSmallAsTheFormatAllows) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const Block x = Normal(seed, 0.1F, 0.05F);
    float largest = 0, low = x[0], high = x[0];
    for (const float v : x) largest = std::max(largest, std::abs(v)), low = std::min(low, v), high = std::max(high, v);
    // Rounding to steps of s costs s / sqrt(12) on average; scales in f16 a little more.
    EXPECT_LT(Error(Back("q8_0", QuantizeQ8_0, x), x), 1.4 * largest / 127 / std::sqrt(12));
    EXPECT_LT(Error(Back("q4_1", QuantizeQ4_1, x), x), 1.4 * (high - low) / 15 / std::sqrt(12));
  }
}

TEST(QuantizeBlocks, WhatTheFormatCanSayStays) {
  Block x;
  for (int i = 0; i < 32; ++i) x[i] = static_cast<float>(i % 16) * 0.25F - 1;
  EXPECT_EQ(Back("q4_1", QuantizeQ4_1, x), x);
  for (int i = 0; i < 32; ++i) x[i] = static_cast<float>(i * 8 - 127) * 0.5F;
  EXPECT_EQ(Back("q8_0", QuantizeQ8_0, x), x);
  x.fill(0.75F);
  EXPECT_EQ(Back("q4_1", QuantizeQ4_1, x), x);
  x.fill(0);
  EXPECT_EQ(Back("q4_1", QuantizeQ4_1, x), x);
  EXPECT_EQ(Back("q8_0", QuantizeQ8_0, x), x);
}

TEST(QuantizeBlocks, AnOutlierDoesNotTakeAllSteps) {
  Block x = Normal(3, 0, 0.01F);
  x[5] = 1;
  EXPECT_LT(Error(Back("q4_1", QuantizeQ4_1, x), x), 0.02);
}

}  // namespace
}  // namespace tenon
