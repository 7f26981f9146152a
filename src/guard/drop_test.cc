#include "guard/drop.h"

#include <functional>
#include <random>

#include "guard/judge_testing.h"

namespace tenon::guard::testing {
namespace {

Evaluation Known(std::vector<double> values, bool higher = true) {
  Evaluation e;
  e.metric = "m";
  e.higher_is_better = higher;
  e.value = Combined(values, e.combine);
  e.values = std::move(values);
  return e;
}

TEST(Drop, HasAnIntervalOfPairs) {
  std::vector<double> reference(400, 1);
  std::vector<double> value(400, 1);
  for (size_t i = 0; i < 8; ++i) value[i * 50] = 0;
  const auto drop = Compare(Known(reference), Known(value));
  ASSERT_TRUE(drop.ok());
  EXPECT_NEAR(drop->relative, 0.02, 1e-12);
  EXPECT_GT(drop->low, 0.004);
  EXPECT_LT(drop->low, 0.012);
  EXPECT_GT(drop->high, 0.028);
  EXPECT_LT(drop->high, 0.04);
  const auto again = Compare(Known(reference), Known(value));
  EXPECT_EQ(drop->low, again->low);
  const auto better = Compare(Known(value), Known(reference));
  EXPECT_LT(better->relative, 0);
  const auto errors = Compare(Known({2, 2}, false), Known({3, 3}, false));
  EXPECT_NEAR(errors->relative, 0.5, 1e-12);
  EXPECT_NEAR(errors->high, 0.5, 1e-12);
  EXPECT_EQ(Compare(Known({0.5, 0}), Known({0.5, 0}))->high, 0);
}

TEST(Drop, OfErrorsAgainstTheReferenceIsMeasuredByItsSize) {
  const auto session = SessionOf("graph g(x: float32[n,2]) -> (y) {\n y = Relu(x)\n}");
  const auto worse = SessionOf("graph g(x: float32[n,2]) -> (y) {\n s: float32[] = const [1.1]\n r = Relu(x)\n y = Mul(r, s)\n}");
  const Folder folder;
  WriteNpz(folder / "a.npz", {{"x", Counting({8, 2})}});
  auto data = DataSet::Open(folder.path(), *session);
  ASSERT_TRUE(data.ok());
  const std::vector<size_t> samples = {1, 2, 5};
  References references(*session, **data);
  const auto rmse = *ParseMetric("rmse");
  const auto before = Evaluate(*session, **data, samples, rmse, &references);
  const auto after = Evaluate(*worse, **data, samples, rmse, &references);
  ASSERT_TRUE(before.ok() && after.ok()) << before.status().message() << after.status().message();
  EXPECT_EQ(before->value, 0);
  const auto drop = Compare(*before, *after);
  EXPECT_EQ(drop->rows, 3u);
  EXPECT_NEAR(drop->relative, 0.1, 1e-6);
  const auto cosine = Evaluate(*worse, **data, samples, *ParseMetric("cosine"), &references);
  EXPECT_NEAR(cosine->value, 1, 1e-9);
  EXPECT_EQ(Evaluate(*worse, **data, samples, rmse, nullptr).status().code(), Code::kUsage);
}

TEST(Drop, OfAnswersAloneIsNotSureOfNone) {
  const auto of = [](size_t rows) { return *Compare(Known(std::vector<double>(rows, 1)), Known(std::vector<double>(rows, 1))); };
  EXPECT_EQ(of(300).relative, 0);
  EXPECT_FALSE(Within(of(300), 0.005));
  EXPECT_NEAR(of(300).high, 1.96 / 302, 1e-9);
  EXPECT_TRUE(Within(of(400), 0.005));
}

TEST(Drop, OneAnswerIsTheSmallestStep) {
  const HostTensor y = Output({4, 2}, {0, 1, 0, 1, 0, 1, 0, 1});
  const Evaluation exact = JudgeOne("top1", y, 4, Labels({4}, {1, 1, 0, 0}));
  EXPECT_DOUBLE_EQ(Compare(exact, JudgeOne("top1", y, 4, Labels({4}, {1, 0, 0, 0})))->step, 0.5);  // of the two that are right
  const std::vector<HostTensor> reference = {y};
  const Evaluation cosine = JudgeOne("cosine", Output({4, 2}, {1, 1, 0, 1, 0, 1, 0, 1}), 4, {}, &reference);
  EXPECT_EQ(Compare(cosine, cosine)->step, 0);
}

// Rows of the leads given, changed by normal noise: reference and value.
std::pair<Evaluation, Evaluation> Changed(const std::vector<double>& leads, double noise, std::mt19937_64* random) {
  std::normal_distribution<double> changes(0, noise);
  std::vector<double> was;
  std::vector<double> is;
  std::vector<Margin> before;
  std::vector<Margin> after;
  for (size_t row = 0; row < leads.size(); ++row) {
    before.push_back({row, leads[row]});
    after.push_back({row, leads[row] - changes(*random)});
    was.push_back(before[row].lead >= 0 ? 1 : 0);
    is.push_back(after[row].lead >= 0 ? 1 : 0);
  }
  std::pair<Evaluation, Evaluation> both(Known(was), Known(is));
  both.first.margins = before;
  both.second.margins = after;
  return both;
}

struct Trials {
  int covered = 0;     // upper ends that reach the truth, of 100
  int seen_none = 0;   // where no answer changed for the worse
  double expected = 0;
  double observed_error = 0;
  double expected_error = 0;
};

// 100 sets of 300 rows with leads of `lead`.
Trials Judged(const std::function<double(std::mt19937_64&)>& lead, double noise, double truth) {
  Trials trials;
  std::mt19937_64 random(1);
  for (int k = 0; k < 100; ++k) {
    std::vector<double> leads;
    for (int row = 0; row < 300; ++row) leads.push_back(lead(random));
    const auto [reference, value] = Changed(leads, noise, &random);
    const Drop drop = *Compare(reference, value);
    trials.covered += drop.high >= truth ? 1 : 0;
    trials.seen_none += drop.relative <= 0 ? 1 : 0;
    trials.expected += drop.expected / 100;
    trials.observed_error += std::pow(drop.relative - truth, 2);
    trials.expected_error += std::pow(drop.expected - truth, 2);
  }
  return trials;
}

double Even(std::mt19937_64& random, double least, double most) {
  return std::uniform_real_distribution<double>(least, most)(random);
}

// Of leads even over [0, 4] those below the noise are lost: noise / (4 sqrt(2 pi)) of all.
constexpr double kNoise = 0.05;
constexpr double kTruth = kNoise / 4 * 0.39894;   // half a percent

TEST(Drop, MarginsSayWhatOtherSamplesLose) {
  const Trials trials = Judged([](std::mt19937_64& r) { return Even(r, 0, 4); }, kNoise, kTruth);
  EXPECT_GT(trials.seen_none, 10);   // where the answers alone would say that nothing can be lost
  EXPECT_GE(trials.covered, 90);   // of 97 that should be
  EXPECT_NEAR(trials.expected, kTruth, 0.1 * kTruth);
  EXPECT_LT(trials.expected_error, 0.8 * trials.observed_error);
}

TEST(Drop, MarginsOfLabelsKnowThatWrongAnswersTurnRightToo) {
  // As many leads just below 0 as above: what is lost is won elsewhere.
  const Trials trials = Judged([](std::mt19937_64& r) { return Even(r, -1, 4); }, 0.2, 0);
  EXPECT_GE(trials.covered, 90);
  EXPECT_NEAR(trials.expected, 0, 5e-4);
  EXPECT_LT(trials.expected_error, trials.observed_error);
}

TEST(Drop, MarginsOfLabelsThatTheModelGaveWinNothing) {
  // A tenth of the labels is wrong by far, the others are the reference's own choice.
  const auto lead = [](std::mt19937_64& r) { return Even(r, 0, 1) < 0.1 ? Even(r, -4, -2) : Even(r, 0, 4); };
  const Trials trials = Judged(lead, kNoise, kTruth);
  EXPECT_GE(trials.covered, 90);
  EXPECT_NEAR(trials.expected, kTruth, 0.1 * kTruth);
}

TEST(Drop, MarginsOfWhatDidNotChangeLoseNothing) {
  std::mt19937_64 random(1);
  std::vector<double> leads;
  for (int row = 0; row < 100; ++row) leads.push_back(0.04 * row);
  auto [reference, value] = Changed(leads, 0.5, &random);
  const Drop same = *Compare(reference, reference);
  EXPECT_EQ(same.expected, 0);
  EXPECT_EQ(same.low, 0);
  EXPECT_EQ(same.high, 0);
  EXPECT_TRUE(Within(same, 0));
  // Those without numbers lose all they lead by; a reference that is wrong whatever happens neither gains nor loses.
  for (Margin& m : value.margins) m.lead = -INFINITY;
  EXPECT_NEAR(Compare(reference, value)->expected, 1, 1e-12);
  for (Margin& m : reference.margins) m.lead = -INFINITY;
  EXPECT_EQ(Compare(reference, value)->expected, 0);
}

TEST(Drop, MarginsOfPositionsShareTheirRow) {
  // Two rows of one and of three positions; one of the three is lost.
  Evaluation reference = Known({1, 1});
  Evaluation value = Known({1, 2.0 / 3});
  reference.margins = {{0, 9}, {1, 1}, {1, 5}, {1, 7}};
  value.margins = {{0, 9}, {1, -1}, {1, 5}, {1, 7}};   // most do not change: leads are not spread
  const Drop drop = *Compare(reference, value);
  EXPECT_NEAR(drop.relative, 1.0 / 6, 1e-12);
  EXPECT_NEAR(drop.expected, (1.0 / 4) * (1.0 / 3) / 2, 1e-12);   // the lead of 1 meets a loss of 2 in one of four pairs
}

TEST(Drop, IsWithinByItsUpperEnd) {
  Drop drop;
  drop.relative = 0.001;
  drop.expected = 0.002;
  drop.high = 0.006;
  drop.rows = 400;
  EXPECT_FALSE(Within(drop, 0.005));
  EXPECT_EQ(RowsToTell(drop, 0.005), 712u);   // (0.004 / 0.003) squared as many
  EXPECT_TRUE(Within(drop, 0.006));
  EXPECT_EQ(RowsToTell(drop, 0.006), 0u);
  EXPECT_EQ(RowsToTell(drop, 0.002), 0u);   // more would not help
  drop.high = 0;
  drop.relative = 0.01;
  EXPECT_FALSE(Within(drop, 0.005));
}

}  // namespace
}  // namespace tenon::guard::testing
