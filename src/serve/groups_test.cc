// Groups of cores and shares of memory.
#include "serve/groups.h"

#include <gtest/gtest.h>

namespace tenon::serve {
namespace {

constexpr uint64_t kMiB = 1 << 20;

DeviceGroup Group(const std::string& name, std::vector<int> cores, uint64_t memory = 0, bool exclusive = true) {
  DeviceGroup g;
  g.name = name;
  g.cores = std::move(cores);
  g.memory_limit = memory;
  g.exclusive = exclusive;
  return g;
}

TEST(GroupsTest, ExclusiveGroupsTakeCoresFromTheRest) {
  Groups groups({0, 5, 7}, 0);
  EXPECT_TRUE(groups.Set(Group("a", {5})).ok());
  EXPECT_EQ(groups.Find("")->cores, (std::vector<int>{0, 7}));
  EXPECT_FALSE(groups.Set(Group("b", {5, 7})).ok());
  EXPECT_FALSE(groups.Set(Group("b", {6})).ok());
  EXPECT_FALSE(groups.Set(Group("b", {7, 7})).ok());
  EXPECT_TRUE(groups.Set(Group("b", {0, 7})).ok());
  EXPECT_EQ(groups.Find("").status().code(), Code::kResourceLimit);
  EXPECT_TRUE(groups.Set(Group("b", {7})).ok());   // resized
  EXPECT_TRUE(groups.Remove("a").ok());
  EXPECT_EQ(groups.Find("")->cores, (std::vector<int>{0, 5}));
  EXPECT_FALSE(groups.Remove("a").ok());
}

TEST(GroupsTest, SharedGroupsMayOverlap) {
  Groups groups({0, 1}, 0);
  EXPECT_TRUE(groups.Set(Group("a", {0, 1}, 0, false)).ok());
  EXPECT_TRUE(groups.Set(Group("b", {1}, 0, false)).ok());
  EXPECT_FALSE(groups.Set(Group("c", {1}, 0, true)).ok());
  EXPECT_EQ(groups.Find("")->cores.size(), 2U);
}

TEST(GroupsTest, MemoryOfGroupsStaysWithinTheServers) {
  Groups groups({0, 1}, 100 * kMiB);
  EXPECT_FALSE(groups.Set(Group("a", {0})).ok());
  EXPECT_TRUE(groups.Set(Group("a", {0}, 60 * kMiB)).ok());
  EXPECT_EQ(groups.Set(Group("b", {1}, 50 * kMiB)).code(), Code::kResourceLimit);
  EXPECT_EQ(groups.Find("")->memory_limit, 40 * kMiB);
}

TEST(GroupsTest, SharesFitTheLimitOrTheSumIsShown) {
  const auto shares = ShareMemory(100 * kMiB, {{"a", 40 * kMiB}, {"b", 0}, {"c", 0}}, "the server");
  ASSERT_TRUE(shares.ok());
  EXPECT_EQ(*shares, (std::vector<uint64_t>{40 * kMiB, 30 * kMiB, 30 * kMiB}));
  const auto refused = ShareMemory(100 * kMiB, {{"a", 60 * kMiB}, {"b", 50 * kMiB}}, "the server");
  EXPECT_EQ(refused.status().code(), Code::kResourceLimit);
  EXPECT_EQ(refused.status().message(), "memory of the server; a: 60.0 MiB; b: 50.0 MiB; sum 110.0 MiB; the limit is 100.0 MiB");
  EXPECT_FALSE(ShareMemory(100 * kMiB, {{"a", 100 * kMiB}, {"b", 0}}, "x").ok());
  EXPECT_EQ(*ShareMemory(0, {{"a", 7}, {"b", 0}}, "x"), (std::vector<uint64_t>{7, 0}));
}

}  // namespace
}  // namespace tenon::serve
