#include "serve/home_cores.h"

#include <gtest/gtest.h>

#include <thread>

namespace tenon::serve {
namespace {

std::vector<int> Allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(pthread_getaffinity_np(pthread_self(), sizeof(set), &set), 0);
  std::vector<int> cores;
  for (int c = 0; c < CPU_SETSIZE; ++c) {
    if (CPU_ISSET(static_cast<size_t>(c), &set)) cores.push_back(c);
  }
  return cores;
}

Cores Make(std::vector<int> cores) {
  return std::make_shared<const std::vector<int>>(std::move(cores));
}

TEST(HomeCoresTest, AThreadFollowsWhatItServes) {
  std::thread([] {
    const std::vector<int> all = Allowed();
    FollowTo(nullptr);
    EXPECT_EQ(Allowed(), all);
    FollowTo(Make({all.back()}));
    EXPECT_EQ(Allowed(), std::vector<int>{all.back()});
    FollowTo(nullptr);   // nobody's work: it stays
    EXPECT_EQ(Allowed(), std::vector<int>{all.back()});
    FollowTo(Make(all));
    EXPECT_EQ(Allowed(), all);
  }).join();
}

TEST(HomeCoresTest, EachThreadHasItsOwn) {
  HomeCores() = Make({0});
  std::thread([] { EXPECT_EQ(HomeCores(), nullptr); }).join();
  EXPECT_EQ(*HomeCores(), std::vector<int>{0});
  HomeCores() = nullptr;
}

}  // namespace
}  // namespace tenon::serve
