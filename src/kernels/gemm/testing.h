// What tests of the dense families share: random tensors, comparison of a row with the reference under a bound derived from
// depth.
#ifndef TENON_KERNELS_GEMM_TESTING_H_
#define TENON_KERNELS_GEMM_TESTING_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace tenon::kernels::testing {

inline Tensor Random(const Shape& shape, std::mt19937& rng) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> v(static_cast<size_t>(shape.num_elements()));
  for (float& x : v) x = uniform(rng);
  return Tensor::FromVector<float>(shape, v);
}

/// Evaluates with row `row`. Without `constant_weights`, `make` does not see the inputs' contents, as for values computed at run
/// time. With several threads, a residual that may share the result's memory does.
inline Result<Tensor> EvalRow(std::string_view op, const Attrs& attrs, const std::vector<Tensor>& in, std::string_view row,
                              int threads, bool constant_weights) {
  std::vector<View> views;
  std::vector<ValueInfo> infos;
  for (const Tensor& t : in) views.push_back(t.defined() ? t.view() : View{});
  for (size_t i = 0; i < in.size(); ++i) {
    ValueInfo v;
    v.present = in[i].defined();
    v.dtype = in[i].dtype();
    if (v.present) v.shape = in[i].shape();
    if (v.present && i > 0 && constant_weights) v.data = &views[i];
    infos.push_back(v);
  }
  ValueInfo out;
  out.present = true;
  TENON_RETURN_IF_ERROR(InferShapes(op, {attrs, infos, {&out, 1}}));
  const Problem problem{op, attrs, infos, {&out, 1}, hw::DetectIsa(), threads};
  TENON_ASSIGN_OR_RETURN(Choice choice, ChooseRow(problem, row));
  TENON_ASSIGN_OR_RETURN(auto kernel, choice.row->make(problem));
  TENON_ASSIGN_OR_RETURN(Tensor y, Tensor::Allocate(out.dtype, *out.shape.ToShape()));
  MutView y_view = y.mutable_view();
  const View y_const = y_view;
  TENON_ASSIGN_OR_RETURN(Configured configured, kernel->Configure(views, {&y_const, 1}));
  if (threads > 1 && in.size() > 3 && in[3].defined() && (kernel->InPlaceInputs() & (1U << 3)) != 0 &&
      views[3].bytes() == y_view.bytes()) {
    std::memcpy(y_view.data, views[3].data, views[3].bytes());
    views[3].data = y_view.data;
  }
  auto scratch = Buffer::Allocate(configured.scratch_bytes);
  hw::Team team(threads);
  const RunArgs args{views, {&y_view, 1}, configured.state.get(), static_cast<std::byte*>(scratch->data()), team, nullptr};
  TENON_RETURN_IF_ERROR(kernel->Run(args));
  return y;
}

/// |a - b| <= bound per element; prints the first few that are not.
inline void ExpectClose(const Tensor& got, const Tensor& want, double bound, const std::string& what) {
  ASSERT_EQ(got.shape(), want.shape()) << what;
  int bad = 0;
  for (int64_t i = 0; i < want.shape().num_elements() && bad < 3; ++i) {
    const double g = got.Data<float>()[i];
    const double w = want.Data<float>()[i];
    if (std::abs(g - w) <= bound + 4e-7 * std::abs(w)) continue;
    ++bad;
    ADD_FAILURE() << what << ": element " << i << " is " << g << ", want " << w << ", bound " << bound;
  }
}

/// Every row of `op` that this CPU can run, against the reference. `depth`: length of the longest sum; inputs lie in [-1, 1].
inline void CheckRows(std::string_view op, const Attrs& attrs, const std::vector<Tensor>& in, int64_t depth,
                      const std::string& what) {
  auto want = EvalRow(op, attrs, in, "reference", 1, false);
  ASSERT_TRUE(want.ok()) << what << ": " << want.status().message();
  // Rounding of a sum of n products of size <= 1 walks like sqrt(n) ulp; activations have slopes of little more than 1.
  const double bound = 1.2e-7 * (8 + 4 * std::sqrt(static_cast<double>(depth)) * std::sqrt(static_cast<double>(depth) / 9 + 1));
  for (const Row& row : FindOp(op)->rows) {
    if (row.name == "reference" || !hw::Covers(hw::DetectIsa(), row.needs)) continue;
    for (int threads : {1, 2}) {
      for (bool constant : {true, false}) {
        if (threads == 2 && !constant && depth % 2 == 0) continue;  // half of the cases are enough
        auto got = EvalRow(op, attrs, in, row.name, threads, constant);
        if (!got.ok() && got.status().code() == Code::kUnsupported) continue;
        const std::string label =
            what + " " + std::string(row.name) + " threads " + std::to_string(threads) + (constant ? " constant" : "");
        ASSERT_TRUE(got.ok()) << label << ": " << got.status().message();
        ExpectClose(*got, *want, bound, label);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

}  // namespace tenon::kernels::testing

#endif  // TENON_KERNELS_GEMM_TESTING_H_
