// Accuracy of the vector math against double, in units in the last place of the f32 result, over all magnitudes.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "base/half.h"
#include "kernels/elementwise/f32_table.h"

namespace tenon::kernels::elementwise {
namespace {

// Every 2^-10-th or so of the positive floats of interest, with both signs, and the special values.
std::vector<float> Sweep() {
  std::vector<float> x;
  for (uint32_t bits = 0x00000001; bits < 0x7f800000u; bits += 0x9e37) {
    x.push_back(std::bit_cast<float>(bits));
    x.push_back(-x.back());
  }
  for (int i = -20000; i <= 20000; ++i) x.push_back(static_cast<float>(i) * 0.00613f);
  for (float v : {0.0f, 1.0f, 0.5f, 88.72283f, 88.72284f, -87.3365f, -103.97f, -104.0f, 4.0f, 0.9277f, 1e-45f, 3.4028235e38f}) {
    x.push_back(v);
    x.push_back(-v);
  }
  x.push_back(std::numeric_limits<float>::infinity());
  x.push_back(-std::numeric_limits<float>::infinity());
  x.push_back(std::numeric_limits<float>::quiet_NaN());
  return x;
}

double Ulps(float got, double want) {
  const auto rounded = static_cast<float>(want);
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e30;
  if (std::isinf(rounded) || std::isinf(got))
    return got == rounded ? 0 : std::fabs(want) > 3.4e38 && std::fabs(got) > 3.4e38 ? 1 : 1e30;
  const float a = std::max(std::fabs(rounded), std::numeric_limits<float>::min());
  const double ulp = std::nextafter(a, INFINITY) - a;
  return std::fabs(static_cast<double>(got) - want) / ulp;
}

double Sigmoid(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}
double Softplus(double x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

struct Case {
  const char* name;
  UnaryOp op;
  double (*f)(double);
  double ulps;      ///< allowed
  double absolute;  ///< or this much of |x|
  bool flushes;     ///< factors below 2^-126 may become 0
};

const Case kCases[] = {
    {"Exp", UnaryOp::kExp, [](double x) { return std::exp(x); }, 1, 0, false},
    {"Log", UnaryOp::kLog, [](double x) { return std::log(x); }, 1, 0, false},
    {"Tanh", UnaryOp::kTanh, [](double x) { return std::tanh(x); }, 2, 0, false},
    {"Sigmoid", UnaryOp::kSigmoid, Sigmoid, 2.5, 0, true},
    {"Erf", UnaryOp::kErf, [](double x) { return std::erf(x); }, 1, 0, false},
    {"Softplus", UnaryOp::kSoftplus, Softplus, 2, 0, true},
    {"Elu", UnaryOp::kElu, [](double x) { return x < 0 ? std::expm1(x) : x; }, 2, 0, false},
    {"Sin", UnaryOp::kSin, [](double x) { return std::sin(x); }, 3, 0, false},
    {"Cos", UnaryOp::kCos, [](double x) { return std::cos(x); }, 3, 0, false},
    {"GeluErf", UnaryOp::kGeluErf,
     [](double x) { return std::isinf(x) ? (x > 0 ? x : -0.0) : 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }, 4, 0x1p-24,
     true},
    {"GeluTanh", UnaryOp::kGeluTanh,
     [](double x) { return std::isinf(x) ? (x > 0 ? x : -0.0) : x * Sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x)); },
     4, 0x1p-24, true},
    {"Swish", UnaryOp::kSwish, [](double x) { return x == -INFINITY ? -0.0 : x * Sigmoid(x); }, 4, 0, true},
    {"Mish", UnaryOp::kMish, [](double x) { return x == -INFINITY ? -0.0 : x * std::tanh(Softplus(x)); }, 4, 0, true},
};

class VectorMath : public testing::TestWithParam<std::string> {};

TEST_P(VectorMath, StaysWithinItsUlps) {
  const auto isa = hw::IsaFromLevel(GetParam());
  ASSERT_TRUE(isa.ok());
  if (!hw::Covers(hw::DetectIsa(), isa.value())) GTEST_SKIP() << "this CPU lacks " << GetParam();
  const F32Table* table = TableFor(isa.value());
  ASSERT_NE(table, nullptr);
  const std::vector<float> x = Sweep();
  std::vector<float> y(x.size());
  for (const Case& c : kCases) {
    table->unary[static_cast<int>(c.op)](x.data(), y.data(), static_cast<int64_t>(x.size()), 1.0f, 1.0f);
    double worst = 0;
    float at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = c.f(x[i]);
      double u = Ulps(y[i], want);
      const double magnitude = std::fabs(static_cast<double>(x[i]));
      const double allowed = c.absolute * magnitude + (c.flushes ? 0x1p-126 * std::max(1.0, magnitude) : 0.0);
      if (u > c.ulps && std::fabs(y[i] - want) <= allowed) u = c.ulps;
      if (u > worst) worst = u, at = x[i];
    }
    RecordProperty(c.name, std::to_string(worst));
    EXPECT_LE(worst, c.ulps) << c.name << "(" << at << ")";
  }
}

TEST_P(VectorMath, HalfConversionsRoundToNearestEven) {
  const auto isa = hw::IsaFromLevel(GetParam());
  ASSERT_TRUE(isa.ok());
  if (!hw::Covers(hw::DetectIsa(), isa.value())) GTEST_SKIP() << "this CPU lacks " << GetParam();
  const F32Table* table = TableFor(isa.value());
  const std::vector<float> x = Sweep();
  const auto n = static_cast<int64_t>(x.size());
  std::vector<uint16_t> h(x.size());
  std::vector<float> back(x.size());
  table->f32_to_f16(x.data(), h.data(), n);
  table->f16_to_f32(h.data(), back.data(), n);
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) continue;
    ASSERT_EQ(h[i], F32ToF16Bits(x[i])) << x[i];
    ASSERT_EQ(back[i], F16BitsToF32(h[i])) << x[i];
  }
  table->f32_to_bf16(x.data(), h.data(), n);
  table->bf16_to_f32(h.data(), back.data(), n);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(h[i], F32ToBF16Bits(x[i])) << x[i];
    if (std::isnan(x[i])) continue;
    ASSERT_EQ(back[i], BF16BitsToF32(h[i])) << x[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, VectorMath, testing::Values("avx2", "avx512"));

}  // namespace
}  // namespace tenon::kernels::elementwise
