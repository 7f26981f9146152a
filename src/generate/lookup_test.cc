#include "generate/lookup.h"

#include <gtest/gtest.h>

#include <vector>

namespace tenon::generate {
namespace {

std::vector<int32_t> Step(const Lookup& lookup, const std::vector<int32_t>& tokens, int32_t next, int64_t room = 100) {
  const Guess guess = lookup.Find(tokens, next, room);
  const auto step = guess.step();
  return {step.begin(), step.end()};
}
using Tokens = std::vector<int32_t>;

TEST(Lookup, TakesWhatFollowedTheSameTokens) {
  const Lookup lookup(7);
  EXPECT_EQ(Step(lookup, {1, 2, 3, 4, 5, 6, 7, 1, 2}, 3), (Tokens{3, 4, 5, 6, 7}));
  EXPECT_EQ(Step(lookup, {9, 2, 3, 4, 5, 8, 2}, 3), (Tokens{3, 4, 5, 8, 2}));   // two that are the same
  EXPECT_EQ(Step(lookup, {9, 3, 4, 5, 8, 2}, 3), (Tokens{3}));                  // one is not enough
  EXPECT_EQ(Step(lookup, {}, 3), (Tokens{3}));
  EXPECT_EQ(Step(lookup, {7, 7, 7}, 7), (Tokens{7, 7}));
}

TEST(Lookup, PrefersMoreThatIsTheSameThenWhatIsLater) {
  const Lookup lookup(7);
  EXPECT_EQ(Step(lookup, {1, 2, 3, 50, 8, 2, 3, 60, 1, 2}, 3)[1], 50);   // three before two
  EXPECT_EQ(Step(lookup, {1, 2, 3, 50, 1, 2, 3, 60, 1, 2}, 3)[1], 60);
}

TEST(Lookup, KeepsToTheRoomAndLearnsHowFarToGo) {
  Lookup lookup(7);
  const Tokens tokens = {1, 2, 3, 10, 11, 12, 13, 14, 15, 16, 17, 18, 1, 2};
  EXPECT_EQ(Step(lookup, tokens, 3).size(), 5u);
  EXPECT_EQ(Step(lookup, tokens, 3, 2).size(), 3u);
  EXPECT_EQ(Step(lookup, tokens, 3, 0).size(), 1u);
  lookup.Learn(4, 4);
  EXPECT_EQ(Step(lookup, tokens, 3).size(), 8u);
  lookup.Learn(7, 1);
  EXPECT_EQ(Step(lookup, tokens, 3).size(), 3u);
  lookup.Learn(2, 0);
  EXPECT_EQ(Step(lookup, tokens, 3).size(), 2u);
  EXPECT_EQ(Step(Lookup(0), tokens, 3).size(), 1u);
}

}  // namespace
}  // namespace tenon::generate
