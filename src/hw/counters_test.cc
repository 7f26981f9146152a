// Counters count where the machine lets them, and say why not elsewhere. Also the width that a team notes for profilers.
#include "hw/counters.h"

#include <gtest/gtest.h>

#include "hw/team.h"
#include "hw/team_width.h"

namespace tenon::hw {

namespace {

TEST(Counters, CountOrSayWhyNot) {
  const Counters counters;
  const Counts before = counters.Read();
  volatile double x = 1;
  for (int i = 0; i < 1000000; ++i) x = x * 1.0000001;
  const Counts after = counters.Read();
  if (!counters.available()) {
    EXPECT_FALSE(counters.why().empty());
    for (double v : after) EXPECT_LT(v, 0);
    return;
  }
  const auto instructions = static_cast<size_t>(Event::kInstructions);
  if (after[instructions] >= 0) {
    EXPECT_GT(after[instructions] - before[instructions], 1e6);
  }
}

TEST(TeamWidth, IsTheMostSinceLastAsked) {
  Team team(3);
  team.Enter();
  EXPECT_EQ(TakeTeamWidth(), 1);
  const auto nothing = [](int64_t, int64_t, int) {};
  team.ParallelFor(10, 10, nothing);
  EXPECT_EQ(TakeTeamWidth(), 1) << "one chunk is the caller's";
  team.ParallelFor(10, 1, nothing);
  team.ParallelFor(10, 5, nothing);
#ifdef _OPENMP
  EXPECT_EQ(TakeTeamWidth(), 3) << "the most since last asked";
#endif
  EXPECT_EQ(TakeTeamWidth(), 1);
}

}  // namespace

}  // namespace tenon::hw
