// For tests: evaluates every row of an operator that serves the inputs, with each instruction set of this CPU, against the
// reference row; and makes random tensors.
#ifndef TENON_KERNELS_ROW_CHECK_H_
#define TENON_KERNELS_ROW_CHECK_H_

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace tenon::kernels {

inline Tensor RandomF32(const Shape& shape, uint32_t seed, float lo = -2, float hi = 2) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> draw(lo, hi);
  std::vector<float> v(static_cast<size_t>(shape.num_elements()));
  for (float& f : v) f = draw(rng);
  return Tensor::FromVector(shape, v);
}

inline std::vector<View> Views(const std::vector<Tensor>& tensors) {
  std::vector<View> views;
  for (const Tensor& t : tensors) views.push_back(t.defined() ? t.view() : View{});
  return views;
}

/// Evaluate on tensors, with the row named, or the preferred one of this CPU.
inline Result<std::vector<Tensor>> Eval(const std::string& op, const Attrs& attrs, const std::vector<Tensor>& in, int outputs = 1,
                                        const std::string& row = "") {
  hw::Team team(1);
  return Evaluate(op, attrs, Views(in), outputs, hw::DetectIsa(), team, row);
}

/// |got - want| <= atol + rtol * |want|, element by element; NaN equals NaN.
inline void ExpectClose(const Tensor& got, const Tensor& want, double rtol, double atol, const std::string& what) {
  ASSERT_EQ(got.dtype(), want.dtype()) << what;
  ASSERT_EQ(got.shape(), want.shape()) << what << ": " << got.shape().ToString() << " for " << want.shape().ToString();
  const auto g = ToDoubles(got.view());
  const auto w = ToDoubles(want.view());
  if (!w) {
    EXPECT_TRUE(SameTensor(got.view(), want.view())) << what;
    return;
  }
  for (size_t i = 0; i < w->size(); ++i) {
    const double a = (*g)[i], b = (*w)[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    ASSERT_LE(std::fabs(a - b), atol + rtol * std::fabs(b)) << what << ": element " << i << " is " << a << ", not " << b;
  }
}

/// Every row (except the reference) that serves the inputs is compared with the reference; returns how many did.
inline int CheckRows(const std::string& op, const Attrs& attrs, const std::vector<Tensor>& in, int outputs, double rtol,
                     double atol, int threads = 2) {
  const OpKernels* def = FindOp(op);
  EXPECT_NE(def, nullptr) << op;
  if (def == nullptr) return 0;
  hw::Team team(threads);
  const auto views = Views(in);
  const hw::IsaMask isa = hw::DetectIsa();
  auto want = Evaluate(op, attrs, views, outputs, isa, team, "reference");
  EXPECT_TRUE(want.ok()) << op << ": " << want.status().message();
  if (!want.ok()) return 0;
  int served = 0;
  for (const Row& row : def->rows) {
    if (row.name == "reference" || !hw::Covers(isa, row.needs)) continue;
    auto got = Evaluate(op, attrs, views, outputs, isa, team, row.name);
    if (!got.ok() && got.status().code() == Code::kUnsupported) continue;
    EXPECT_TRUE(got.ok()) << op << " " << row.name << ": " << got.status().message();
    if (!got.ok()) continue;
    ++served;
    for (size_t i = 0; i < want->size(); ++i) {
      std::string what = op + " " + std::string(row.name) + " output " + std::to_string(i) + " of";
      for (const Tensor& t : in) what += " " + (t.defined() ? t.shape().ToString() : std::string("-"));
      ExpectClose((*got)[i], (*want)[i], rtol, atol, what);
    }
  }
  return served;
}

}  // namespace tenon::kernels

#endif  // TENON_KERNELS_ROW_CHECK_H_
