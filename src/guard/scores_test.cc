#include "guard/scores.h"

#include <cmath>
#include <random>

#include "guard/judge_testing.h"

namespace tenon::guard::testing {
namespace {

TEST(Scores, LeadOfAClass) {
  const std::vector<double> scores = {1, 5, 3, -2};
  EXPECT_EQ(LeadOf(scores, 1, 1), 2);
  EXPECT_EQ(LeadOf(scores, 2, 1), -2);
  EXPECT_EQ(LeadOf(scores, 2, 2), 2);
  EXPECT_EQ(LeadOf(scores, 3, 3), -3);
  EXPECT_EQ(LeadOf(scores, 3, 4), INFINITY);
  EXPECT_EQ(LeadOf(scores, 4, 1), -INFINITY);
  EXPECT_EQ(LeadOf(scores, -1, 1), -INFINITY);
  EXPECT_EQ(LeadOf(std::vector<double>{NAN, 0}, 0, 1), -INFINITY);
  EXPECT_EQ(LeadOf(std::vector<double>{4, 4}, 1, 1), 0);
}

TEST(Scores, LeadsOfProbabilitiesAreLogarithms) {
  EXPECT_NEAR(LeadOf(std::vector<double>{0.8, 0.1, 0.1}, 0, 1), std::log(8), 1e-12);
  EXPECT_NEAR(LeadOf(std::vector<double>{1, 0}, 0, 1), std::log(1e12), 1e-9);   // underflowed: no more than that is known
  EXPECT_NEAR(LeadOf(std::vector<double>{0.8, 0.1}, 0, 1), 0.7, 1e-12);   // not all of one
}

std::vector<std::vector<int64_t>> AllPaths(int64_t positions, int64_t classes) {
  std::vector<std::vector<int64_t>> paths = {{}};
  for (int64_t p = 0; p < positions; ++p) {
    std::vector<std::vector<int64_t>> longer;
    for (const auto& path : paths) {
      for (int64_t c = 0; c < classes; ++c) {
        longer.push_back(path);
        longer.back().push_back(c);
      }
    }
    paths = std::move(longer);
  }
  return paths;
}

// What is missing at the worst position of `path` to be the one of the highest scores.
double MissingOf(const Scores& scores, const std::vector<int64_t>& path) {
  double most = 0;
  for (size_t p = 0; p < path.size(); ++p) {
    const auto s = scores.At(0, static_cast<int64_t>(p));
    most = std::max(most, *std::max_element(s.begin(), s.end()) - s[static_cast<size_t>(path[p])]);
  }
  return most;
}

TEST(Scores, CtcLeadIsWhatTheNearestOtherResultLacks) {
  constexpr int64_t kPositions = 5;
  constexpr int64_t kClasses = 3;
  const auto paths = AllPaths(kPositions, kClasses);
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  for (int trial = 0; trial < 200; ++trial) {
    Scores scores{{}, 1, kPositions, kClasses};
    for (int64_t i = 0; i < kPositions * kClasses; ++i) scores.values.push_back(normal(random));
    std::vector<int64_t> best;
    for (int64_t p = 0; p < kPositions; ++p) best.push_back(BestClass(scores, 0, p));
    const std::vector<int64_t> decoded = CtcDecode(best);
    double other = INFINITY;
    std::map<std::vector<int64_t>, double> missing;
    for (const auto& path : paths) {
      const auto result = CtcDecode(path);
      const double lacks = MissingOf(scores, path);
      if (result != decoded) other = std::min(other, lacks);
      const auto [it, fresh] = missing.emplace(result, lacks);
      it->second = std::min(it->second, lacks);
    }
    EXPECT_NEAR(CtcLead(scores, 0, decoded), other, 1e-12);
    for (const auto& [result, lacks] : missing) {
      if (result != decoded) {
        EXPECT_NEAR(CtcLead(scores, 0, result), -lacks, 1e-12);
      }
    }
  }
}

TEST(Scores, CtcLeadOfWhatCannotBe) {
  const Scores scores{{0, 2, 0, 2}, 1, 2, 2};
  EXPECT_EQ(CtcLead(scores, 0, std::vector<int64_t>{1, 1}), -INFINITY);   // needs a blank between
  EXPECT_EQ(CtcLead(scores, 0, std::vector<int64_t>{2}), -INFINITY);
  EXPECT_EQ(CtcLead(scores, 0, std::vector<int64_t>{0}), -INFINITY);
  EXPECT_EQ(CtcLead(Scores{{NAN, NAN}, 1, 1, 2}, 0, std::vector<int64_t>{1}), -INFINITY);
  EXPECT_EQ(CtcLead(scores, 0, std::vector<int64_t>{1}), 2);
}

}  // namespace
}  // namespace tenon::guard::testing
