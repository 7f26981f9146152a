#include "guard/metrics.h"

#include "guard/judge_testing.h"

namespace tenon::guard::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Metrics, TopOneAndTopFive) {
  const HostTensor y = Output({3, 6}, {0, 1, 2, 3, 4, 5, 5, 4, 3, 2, 1, 0, 7, 7, 0, 0, 0, 0});
  EXPECT_THAT(JudgeOne("top1", y, 3, Labels({3}, {5, 1, 0})).values, ElementsAre(1, 0, 1));
  EXPECT_THAT(JudgeOne("top1", y, 3, Labels({3}, {5, 1, 1})).values, ElementsAre(1, 0, 0));   // of equal scores the first
  EXPECT_THAT(JudgeOne("top5", y, 3, Labels({3}, {0, 5, 4})).values, ElementsAre(0, 0, 1));
  EXPECT_DOUBLE_EQ(JudgeOne("top1", y, 3, Labels({3}, {5, 1, 0})).value, 2.0 / 3);
  const std::vector<HostTensor> reference = {Output({3, 6}, {0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0})};
  EXPECT_THAT(JudgeOne("top1", y, 3, {}, &reference).values, ElementsAre(1, 0, 1));
  EXPECT_THAT(JudgeOne("token-agreement", y, 1, {}, &reference).values, ElementsAre(2.0 / 3));
  const HostTensor nan = Output({1, 2}, {NAN, NAN});
  EXPECT_THAT(JudgeOne("top1", nan, 1, Labels({1}, {0})).values, ElementsAre(0));
  const HostTensor classes = ToHost("y", Labels({2}, {4, 7}));   // the model chooses by itself
  EXPECT_THAT(JudgeOne("top1", classes, 2, Labels({2}, {4, 6})).values, ElementsAre(1, 0));
}

TEST(Metrics, ExactMatchOfSequences) {
  // Classes 0 1 1 0 1 2 -> CTC 1 1 2.
  const HostTensor y = Output({1, 6, 3}, {1, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1});
  EXPECT_THAT(JudgeOne("ctc-exact-match", y, 1, Labels({1, 5}, {1, 1, 2, 0, 0})).values, ElementsAre(1));
  EXPECT_THAT(JudgeOne("ctc-exact-match", y, 1, Labels({1, 5}, {1, 2, -1, -1, -1})).values, ElementsAre(0));
  EXPECT_THAT(JudgeOne("exact-match", y, 1, Labels({1, 6}, {0, 1, 1, 0, 1, 2})).values, ElementsAre(1));
  const std::vector<HostTensor> longer = {Output({1, 7, 3}, {1, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1})};
  EXPECT_THAT(JudgeOne("ctc-exact-match", y, 1, {}, &longer).values, ElementsAre(1));
  EXPECT_THAT(JudgeOne("exact-match", y, 1, {}, &longer).values, ElementsAre(0));
}

TEST(Metrics, RankAgreement) {
  // Directions at 0, 10, 30 and 90 degrees: each finds the others by its distance to them.
  const auto at = [](std::initializer_list<double> degrees) {
    std::vector<float> out;
    for (const double d : degrees)
      out.insert(out.end(), {static_cast<float>(std::cos(d / 57.29578)), static_cast<float>(std::sin(d / 57.29578))});
    return Output({4, 2}, out);
  };
  const std::vector<HostTensor> reference = {at({0, 10, 30, 90})};
  EXPECT_THAT(JudgeOne("rank-agreement", at({0, 5, 40, 85}), 4, {}, &reference).values, ElementsAre(1, 1, 1, 1));  // same order
  // The last two exchanged: 0 and 10 find them in the other order, (0, 2, 1) for (0, 1, 2).
  const Evaluation other = JudgeOne("rank-agreement", at({0, 10, 90, 30}), 4, {}, &reference);
  EXPECT_NEAR(other.values[0], 0.5, 1e-12);
  EXPECT_NEAR(other.values[1], 0.5, 1e-12);
  EXPECT_NEAR(other.value, (other.values[0] + other.values[1] + other.values[2] + other.values[3]) / 4, 1e-12);
  EXPECT_TRUE(other.against_reference);
  // Labels are not what it judges by; nothing agrees with a model that gives one vector for all, or none.
  EXPECT_THAT(JudgeOne("rank-agreement", at({7, 7, 7, 7}), 4, Labels({4}, {0, 1, 2, 3}), &reference).values,
              ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(JudgeOne("rank-agreement", Output({4, 2}, std::vector<float>(8, NAN)), 4, {}, &reference).values,
              ElementsAre(0, 0, 0, 0));
}

TEST(Metrics, RankAgreementAveragesThePositionsThatTheMaskLeaves) {
  auto judge = MakeJudge(*ParseMetric("rank-agreement"));
  ASSERT_TRUE(judge.ok());
  for (const float x : {0.F, 1.F, 2.F, 4.F}) {
    Sample sample;
    sample.inputs.push_back(ToHost("attention_mask", Labels({1, 3}, {1, 1, 0})));
    const std::vector<HostTensor> reference = {Output({1, 3, 2}, {x, 1, 0, 1, 9, 9})};
    ASSERT_TRUE((*judge)->Add(sample, {Output({1, 3, 2}, {0, 1, x, 1, -5 * x, 3})}, &reference).ok());
  }
  EXPECT_THAT((*judge)->Finish()->values, ElementsAre(1, 1, 1, 1));
}

TEST(Metrics, RankAgreementNeedsThreeSamples) {
  const auto spec = ParseMetric("rank-agreement");
  auto judge = MakeJudge(*spec);
  const std::vector<HostTensor> reference = {Output({2, 2}, {1, 0, 0, 1})};
  Sample sample;
  sample.rows = 2;
  EXPECT_TRUE(NeedsReference(*spec, sample));
  ASSERT_TRUE((*judge)->Add(sample, reference, &reference).ok());
  EXPECT_THAT((*judge)->Finish().status().message(), HasSubstr("at least 3"));
  const std::vector<HostTensor> other = {Output({1, 3}, {1, 0, 0})};
  EXPECT_THAT((*judge)->Add(sample, other, &other).message(), HasSubstr("vectors of 3 elements"));
}

TEST(Metrics, Errors) {
  const HostTensor y = Output({2, 2}, {1, 2, 3, 4});
  const std::vector<HostTensor> reference = {Output({2, 2}, {1, 2, 3, 8})};
  EXPECT_THAT(JudgeOne("rmse", y, 2, {}, &reference).values, ElementsAre(0, 8));
  EXPECT_DOUBLE_EQ(JudgeOne("rmse", y, 2, {}, &reference).value, 2);  // sqrt(16 / 4)
  EXPECT_THAT(JudgeOne("max-abs", y, 2, {}, &reference).values, ElementsAre(0, 4));
  EXPECT_DOUBLE_EQ(JudgeOne("max-abs", y, 2, {}, &reference).value, 4);
  const Evaluation cosine = JudgeOne("cosine", y, 2, {}, &reference);
  EXPECT_NEAR(cosine.values[0], 1, 1e-12);
  EXPECT_NEAR(cosine.values[1], 41 / (5 * std::sqrt(73.0)), 1e-12);
  EXPECT_DOUBLE_EQ(JudgeOne("rmse", y, 2, Floats({2, 2}, {1, 2, 3, 8})).value, 2);
  const HostTensor nan = Output({1, 2}, {NAN, 1});
  const std::vector<HostTensor> fine = {Output({1, 2}, {1, 1})};
  EXPECT_THAT(JudgeOne("cosine", nan, 1, {}, &fine).values, ElementsAre(0));
  EXPECT_THAT(JudgeOne("rmse", nan, 1, {}, &fine).values, ElementsAre(INFINITY));
  EXPECT_THAT(JudgeOne("max-abs", nan, 1, {}, &fine).values, ElementsAre(INFINITY));
  const std::vector<HostTensor> same = {nan};
  EXPECT_THAT(JudgeOne("rmse", nan, 1, {}, &same).values, ElementsAre(0));
}

TEST(Metrics, Names) {
  EXPECT_EQ(ParseMetric("top1@logits")->output, "logits");
  EXPECT_FALSE(ParseMetric("rmse")->higher_is_better);
  EXPECT_EQ(ParseMetric("cmd ./judge --fast")->command, "./judge --fast");
  EXPECT_FALSE(ParseMetric("cmd-lower ./judge")->higher_is_better);
  EXPECT_THAT(ParseMetric("top3").status().message(), HasSubstr("unknown metric 'top3'; allowed: top1, top5"));
  EXPECT_EQ(ParseMetric("perplexity").status().code(), Code::kUnsupported);
}

TEST(Metrics, UsersCommand) {
  const auto session = SessionOf("graph g(x: float32[n,2]) -> (y) {\n y = Relu(x)\n}");
  const Folder folder;
  WriteNpz(folder / "a.npz", {{"x", Counting({3, 2})}, {"labels", Labels({3}, {1, 1, 0})}});
  auto data = DataSet::Open(folder.path(), *session);
  const std::vector<size_t> samples = {0, 1, 2};
  const auto run = [&](const std::string& command) {
    return Evaluate(*session, **data, samples, *ParseMetric(command), nullptr);
  };
  EXPECT_EQ(run("cmd echo").status().code(), Code::kBadInput);  // a path is no number
  const auto whole = run("cmd f() { ls \"$1\" | wc -l; }; f");
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_EQ(whole->value, 3);
  EXPECT_TRUE(whole->values.empty());
  const auto each = run("cmd f() { for s in \"$1\"/*; do ls \"$s\" | wc -l; done; }; f");
  ASSERT_TRUE(each.ok()) << each.status().message();
  EXPECT_THAT(each->values, ElementsAre(2, 2, 2));
  EXPECT_THAT(run("cmd false").status().message(), HasSubstr("exit code 1"));
}

TEST(Metrics, DefaultFollowsTheLabels) {
  const auto session = SessionOf("graph g(x: float32[n,2]) -> (y) {\n y = Relu(x)\n}");
  const Folder folder;
  WriteNpz(folder / "a.npz", {{"x", Counting({3, 2})}, {"labels", Labels({3}, {1, 1, 0})}});
  EXPECT_EQ(DefaultMetric(*session, *Get(DataSet::Open(folder.path(), *session))).name, "top1");
  WriteNpz(folder / "a.npz", {{"x", Counting({3, 2})}});
  EXPECT_EQ(DefaultMetric(*session, *Get(DataSet::Open(folder.path(), *session))).name, "cosine");
}

}  // namespace
}  // namespace tenon::guard::testing
