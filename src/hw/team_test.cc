#include "hw/team.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "hw/team_width.h"

namespace tenon::hw {
namespace {

struct Part {
  int64_t begin, end;
  int index;
  bool operator==(const Part&) const = default;
};

std::vector<Part> PartsOf(Team& team, int64_t n, int64_t grain) {
  std::vector<Part> parts(static_cast<size_t>(team.size()), Part{0, 0, -1});
  team.ParallelFor(n, grain,
                   [&](int64_t begin, int64_t end, int part) { parts[static_cast<size_t>(part)] = {begin, end, part}; });
  std::erase_if(parts, [](const Part& p) { return p.index < 0; });
  return parts;
}

TEST(Team, SplitsInOrderAndWhole) {
  for (int threads : {1, 2, 3, 8}) {
    Team team(threads);
    for (int64_t n : {1, 2, 7, 64, 1000}) {
      for (int64_t grain : {1, 3, 50}) {
        const auto parts = PartsOf(team, n, grain);
        int64_t at = 0;
        for (const Part& p : parts) {
          EXPECT_EQ(p.begin, at);
          EXPECT_TRUE(p.end % grain == 0 || p.end == n);
          at = p.end;
        }
        EXPECT_EQ(at, n);
        EXPECT_LE(static_cast<int64_t>(parts.size()), (n + grain - 1) / grain);
        EXPECT_EQ(parts, PartsOf(team, n, grain)) << "the split is always the same";
      }
    }
    EXPECT_TRUE(PartsOf(team, 0, 1).empty());
  }
}

TEST(Team, ManyRegions) {
  Team team(3);
  int64_t wrong = 0;
  std::vector<int64_t> sums(3);
  for (int64_t round = 0; round < 20000; ++round) {
    std::fill(sums.begin(), sums.end(), 0);
    team.ParallelFor(30, 1, [&](int64_t begin, int64_t end, int part) {
      for (int64_t i = begin; i < end; ++i) sums[static_cast<size_t>(part)] += i + round;
    });
    wrong += sums[0] + sums[1] + sums[2] != 29 * 15 + 30 * round;
    if (round % 5000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));   // workers fall asleep
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Team, RegionsInsideRegionsAreOneCall) {
  Team team(2), other(2);
  std::atomic<int> calls{0};
  team.ParallelFor(2, 1, [&](int64_t, int64_t, int) {
    other.ParallelFor(10, 1, [&](int64_t begin, int64_t end, int part) {
      EXPECT_EQ(end - begin, 10);
      EXPECT_EQ(part, 0);
      ++calls;
    });
  });
  EXPECT_EQ(calls, 2);
}

TEST(Team, WidthIsTheMostSinceLastAsked) {
  Team team(3);
  team.Enter();
  (void)TakeTeamWidth();   // of the tests before
  const auto nothing = [](int64_t, int64_t, int) {};
  team.ParallelFor(10, 10, nothing);
  EXPECT_EQ(TakeTeamWidth(), 1) << "one chunk is the caller's";
  team.ParallelFor(10, 1, nothing);
  team.ParallelFor(10, 5, nothing);
  EXPECT_EQ(TakeTeamWidth(), 3) << "the most since last asked";
  EXPECT_EQ(TakeTeamWidth(), 1);
}

TEST(Team, TeamsOfSeveralLeaders) {
  std::vector<std::thread> leaders;
  std::atomic<int64_t> total{0};
  for (int i = 0; i < 3; ++i) {
    leaders.emplace_back([&] {
      Team team(2);
      team.Enter();
      for (int round = 0; round < 500; ++round)
        team.ParallelFor(8, 1, [&](int64_t begin, int64_t end, int) { total += end - begin; });
    });
  }
  for (auto& t : leaders) t.join();
  EXPECT_EQ(total, 3 * 500 * 8);
}

TEST(Team, WorksInAForkedChild) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer allows no threads in a child of a process with threads";
#endif
  Team team(2);
  team.ParallelFor(2, 1, [](int64_t, int64_t, int) {});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::atomic<int> sum{0};
    alarm(20);
    team.ParallelFor(4, 1, [&](int64_t begin, int64_t end, int) { sum += static_cast<int>(end - begin); });
    _exit(sum == 4 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace tenon::hw
