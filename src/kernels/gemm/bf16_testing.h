// What tests of the bf16 rows share: operands of chosen types and a check that only the last rounding may differ.
#ifndef TENON_KERNELS_GEMM_BF16_TESTING_H_
#define TENON_KERNELS_GEMM_BF16_TESTING_H_

#include <string>
#include <vector>

#include "kernels/float_io.h"
#include "kernels/gemm/testing.h"

namespace tenon::kernels::testing {

/// `t` rounded to `dtype`, bf16 or f32.
inline Tensor As(const Tensor& t, DType dtype) {
  if (!t.defined() || t.dtype() == dtype) return t;
  Tensor y = *Tensor::Allocate(dtype, t.shape());
  for (int64_t i = 0; i < t.shape().num_elements(); ++i) StoreAt(y.mutable_view(), i, LoadAt(t.view(), i));
  return y;
}

/// `got`, bf16 or f32, against `want` in f32 that may be wrong by `bound`: a bf16 must be the rounding of a value in reach.
inline void ExpectRounded(const Tensor& got, const Tensor& want, double bound, const std::string& what) {
  ASSERT_EQ(got.shape(), want.shape()) << what;
  int bad = 0;
  for (int64_t i = 0; i < want.shape().num_elements() && bad < 3; ++i) {
    const double g = LoadAt(got.view(), i);
    const double w = want.Data<float>()[i];
    const double reach = bound + 4e-7 * std::abs(w);
    double low = w - reach;
    double high = w + reach;
    if (got.dtype() == DType::kBF16) {
      low = LoadF(StoreF<BFloat16>(low));
      high = LoadF(StoreF<BFloat16>(high));
    }
    if (g >= low && g <= high) continue;
    ++bad;
    ADD_FAILURE() << what << ": element " << i << " is " << g << ", want " << w << " +- " << reach;
  }
}

/// Every bf16 row of `op` that this CPU can run, against the reference, for each mix of types that the contract allows. `in` are
/// f32 tensors; input 1 becomes bf16. `depth`: length of the longest sum of products of size up to 1.
inline void CheckBf16Rows(std::string_view op, Attrs attrs, std::vector<Tensor> in, int64_t depth, const std::string& what) {
  const double bound = 1.2e-7 * (8 + 4 * std::sqrt(static_cast<double>(depth)) * std::sqrt(static_cast<double>(depth) / 9 + 1));
  in[1] = As(in[1], DType::kBF16);
  for (int mix = 0; mix < 4; ++mix) {
    const DType x = mix % 2 == 0 ? DType::kBF16 : DType::kF32;
    const DType addend = mix < 2 ? DType::kF32 : DType::kBF16;
    std::vector<Tensor> typed = in;
    typed[0] = As(in[0], x);
    if (in.size() > 2) typed[2] = As(in[2], addend);
    if (in.size() > 3) typed[3] = As(in[3], mix == 0 || mix == 3 ? DType::kBF16 : DType::kF32);
    attrs.Set("output_dtype", static_cast<int64_t>(DType::kF32));
    auto want = EvalRow(op, attrs, typed, "reference", 1, false);
    ASSERT_TRUE(want.ok()) << what << ": " << want.status().message();
    int served = 0;
    for (const Row& row : FindOp(op)->rows) {
      if (row.name.find("_bf16_") == std::string_view::npos || !hw::Covers(hw::DetectIsa(), row.needs)) continue;
      for (int variant = 0; variant < 3; ++variant) {
        const DType y = variant == 1 ? DType::kF32 : DType::kBF16;
        const bool constant = variant != 2;
        attrs.Set("output_dtype", static_cast<int64_t>(y));
        auto got = EvalRow(op, attrs, typed, row.name, 1 + variant % 2, constant);
        if (!got.ok() && got.status().code() == Code::kUnsupported) continue;
        const std::string label =
            what + " " + std::string(row.name) + " mix " + std::to_string(mix) + " variant " + std::to_string(variant);
        ASSERT_TRUE(got.ok()) << label << ": " << got.status().message();
        ASSERT_EQ(got->dtype(), y) << label;
        ++served;
        ExpectRounded(*got, *want, bound, label);
        if (::testing::Test::HasFailure()) return;
      }
    }
    EXPECT_GT(served, 0) << what;
  }
}

}  // namespace tenon::kernels::testing

#endif  // TENON_KERNELS_GEMM_BF16_TESTING_H_
