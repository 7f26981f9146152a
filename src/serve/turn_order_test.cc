#include "serve/turn_order.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "serve/core_gate.h"

namespace tenon::serve {
namespace {

// Groups that always want the same core; gives the time each has had after `total` seconds.
template <size_t kGroups>
std::array<double, kGroups> Race(std::array<TimeShare, kGroups>& shares, const std::array<double, kGroups>& run, double total) {
  const std::vector<int> core = {0};
  TurnOrder order;
  std::array<double, kGroups> had{};
  std::array<TurnOrder::Ticket, kGroups> tickets;
  for (size_t i = 0; i < kGroups; ++i) tickets[i] = order.Arrive(core, shares[i]);
  for (double at = 0; at < total;) {
    std::optional<size_t> next;
    for (size_t i = 0; i < kGroups; ++i) {
      if (!order.MayStart(tickets[i])) continue;
      EXPECT_FALSE(next.has_value()) << "two may start on one core";
      next = i;
    }
    if (!next.has_value()) {
      ADD_FAILURE() << "nobody may start on a free core";
      return had;
    }
    order.Start(tickets[*next]);
    order.End(core, shares[*next], run[*next]);
    had[*next] += run[*next];
    at += run[*next];
    tickets[*next] = order.Arrive(core, shares[*next]);
  }
  return had;
}

TEST(TurnOrder, TimeGoesByWeight) {
  std::array<TimeShare, 2> shares = {TimeShare{1}, TimeShare{3}};
  const auto had = Race<2>(shares, {0.001, 0.001}, 4);
  EXPECT_NEAR(had[0], 1, 0.01);
  EXPECT_NEAR(had[1], 3, 0.01);
}

TEST(TurnOrder, LongRunsGetNoMoreTimeThanShortOnes) {
  std::array<TimeShare, 3> shares = {TimeShare{1}, TimeShare{1}, TimeShare{2}};
  const auto had = Race<3>(shares, {0.09, 0.004, 0.001}, 40);
  EXPECT_NEAR(had[0], 10, 0.2);
  EXPECT_NEAR(had[1], 10, 0.2);
  EXPECT_NEAR(had[2], 20, 0.2);
}

TEST(TurnOrder, IdleTimeIsNotSavedUp) {
  const std::vector<int> core = {0};
  TimeShare busy, late;
  TurnOrder order;
  for (int i = 0; i < 100; ++i) {
    order.Start(order.Arrive(core, busy));
    order.End(core, busy, 1);
  }
  // The late group may not have the next hundred seconds to itself.
  int turns = 0;
  auto b = order.Arrive(core, busy), l = order.Arrive(core, late);
  for (int i = 0; i < 10; ++i) {
    const bool its = order.MayStart(l);
    ASSERT_NE(its, order.MayStart(b));
    TimeShare& share = its ? late : busy;
    order.Start(its ? l : b);
    order.End(core, share, 1);
    (its ? l : b) = order.Arrive(core, share);
    turns += its ? 1 : 0;
  }
  EXPECT_NEAR(turns, 5, 1);
}

TEST(TurnOrder, WithinAGroupFirstComeFirstServed) {
  const std::vector<int> one = {0}, both = {0, 1}, other = {1};
  TimeShare share;
  TurnOrder order;
  const auto running = order.Arrive(one, share);
  order.Start(running);
  const auto wide = order.Arrive(both, share);
  const auto narrow = order.Arrive(other, share);
  EXPECT_FALSE(order.MayStart(wide));     // core 0 is busy
  EXPECT_FALSE(order.MayStart(narrow));   // core 1 is free, but the wide one came first
  order.End(one, share, 1);
  EXPECT_TRUE(order.MayStart(wide));
  order.Start(wide);
  EXPECT_EQ(order.busy(), 2u);
  order.End(both, share, 1);
  EXPECT_TRUE(order.MayStart(narrow));
}

TEST(CoreGate, ARunWithoutCoresNeverWaits) {
  CoreGate gate;
  TimeShare& share = gate.ShareOf("", 1);
  const std::vector<int> none, one = {0};
  gate.Acquire(one, share);
  gate.Acquire(none, share);
  gate.Acquire(none, share);
  EXPECT_EQ(gate.busy(), 1u);
  gate.Release(none, share);
  gate.Release(none, share);
  gate.Release(one, share);
  EXPECT_EQ(gate.busy(), 0u);
}

TEST(TurnOrder, GroupsOnOtherCoresAreNotHeldUp) {
  const std::vector<int> zero = {0}, one = {1};
  TimeShare a, b;
  TurnOrder order;
  order.Start(order.Arrive(zero, a));
  const auto waiting = order.Arrive(zero, a);
  const auto free = order.Arrive(one, b);
  EXPECT_FALSE(order.MayStart(waiting));
  EXPECT_TRUE(order.MayStart(free));
}

}  // namespace
}  // namespace tenon::serve
