// Runs and labels as metrics see them.
#ifndef TENON_GUARD_JUDGE_TESTING_H_
#define TENON_GUARD_JUDGE_TESTING_H_

#include "guard/judge.h"
#include "guard/testing.h"

namespace tenon::guard::testing {

inline HostTensor Output(const Shape& shape, std::vector<float> values, const char* name = "y") {
  return ToHost(name, Floats(shape, std::move(values)));
}

/// What `metric` says of one run of `rows` rows.
inline Evaluation JudgeOne(const std::string& metric, const HostTensor& output, int64_t rows, const Tensor& labels,
                           const std::vector<HostTensor>* reference = nullptr) {
  const auto spec = ParseMetric(metric);
  EXPECT_TRUE(spec.ok()) << spec.status().message();
  auto judge = MakeJudge(*spec);
  EXPECT_TRUE(judge.ok());
  Sample sample;
  sample.rows = rows;
  sample.labels = labels;
  const Status status = (*judge)->Add(sample, {output}, reference);
  EXPECT_TRUE(status.ok()) << status.message();
  auto evaluation = (*judge)->Finish();
  EXPECT_TRUE(evaluation.ok()) << evaluation.status().message();
  return *evaluation;
}

inline Tensor Labels(const Shape& shape, std::vector<int64_t> values) {
  return Tensor::FromVector<int64_t>(shape, values);
}

}  // namespace tenon::guard::testing

#endif  // TENON_GUARD_JUDGE_TESTING_H_
