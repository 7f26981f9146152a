// Which requests run together, and when: with times made up.
#include "serve/queue.h"

#include <gtest/gtest.h>

namespace tenon::serve {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

class QueueTest : public testing::Test {
 protected:
  ItemPtr Item_(int64_t rows = 1, const std::string& key = "k", uint32_t priority = 0) {
    auto item = std::make_shared<Item>();
    item->arrival = now_;
    item->fit.rows = item->fit.tokens = rows;
    item->fit.key = key;
    item->priority = priority;
    return item;
  }
  // A row of `length` tokens; requests of all lengths may join.
  ItemPtr Long(int64_t length, uint32_t priority = 0) {
    auto item = Item_(1, "k", priority);
    item->fit.extents = {length};
    item->fit.tokens = length;
    return item;
  }
  static std::vector<int64_t> LengthsOf(const BatchQueue::Decision& d) {
    std::vector<int64_t> lengths;
    for (const ItemPtr& i : d.items) lengths.push_back(i->fit.extents[0]);
    return lengths;
  }
  static size_t Rows(const BatchQueue::Decision& d) {
    int64_t rows = 0;
    for (const ItemPtr& i : d.items) rows += i->fit.rows;
    return static_cast<size_t>(rows);
  }
  TimePoint now_{std::chrono::hours(1)};
};

TEST_F(QueueTest, WaitingRequestsRunTogetherUpToTheLargestBatch) {
  BatchQueue q({.max_rows = 4});
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(q.Push(Item_(), 1));
  EXPECT_EQ(Rows(q.Take(now_)), 4U);
  EXPECT_EQ(Rows(q.Take(now_)), 2U);
  EXPECT_TRUE(q.Take(now_).items.empty());
  EXPECT_EQ(q.Take(now_).wait_until, TimePoint::max());
}

// timeout_action DELAY: late requests go behind those of their priority that are in time, and before lower priorities.
TEST_F(QueueTest, LateRequestsWaitBehindTheOthersOfTheirPriority) {
  BatchQueue q({.max_rows = 1});
  const auto push = [&](uint32_t priority, milliseconds due) {
    auto item = Item_(1, "k", priority);
    item->due = now_ + due;
    EXPECT_TRUE(q.Push(item, 1));
    return item;
  };
  const auto low = push(2, milliseconds(100)), late = push(1, milliseconds(5)), in_time = push(1, milliseconds(100));
  EXPECT_EQ(q.Take(now_ + milliseconds(4)).items[0], late);   // not late yet
  EXPECT_TRUE(q.Push(late, 1));
  EXPECT_EQ(q.Take(now_ + milliseconds(5)).items[0], in_time);
  EXPECT_EQ(q.Take(now_ + milliseconds(5)).items[0], late);
  EXPECT_TRUE(q.TakeExpired(now_ + milliseconds(1000)).empty());   // nobody is refused
  EXPECT_EQ(q.Take(now_ + milliseconds(5)).items[0], low);
}

TEST_F(QueueTest, APriorityWithALimitOfItsOwnIsCountedByItself) {
  BatchQueue q({.max_rows = 1, .max_queue = 2, .own_queues = {{1, 1}}});
  EXPECT_TRUE(q.Push(Item_(1, "k", 1), 0));
  EXPECT_FALSE(q.Push(Item_(1, "k", 1), 0));
  EXPECT_TRUE(q.Push(Item_(1, "k", 2), 0));
  EXPECT_TRUE(q.Push(Item_(1, "k", 3), 0));
  EXPECT_FALSE(q.Push(Item_(1, "k", 2), 0));
  EXPECT_EQ(q.Capacity(1), 1U);
  EXPECT_EQ(q.Capacity(3), 2U);
  ASSERT_EQ(q.Take(now_).items[0]->priority, 1U);
  EXPECT_FALSE(q.Push(Item_(1, "k", 3), 0));
  EXPECT_TRUE(q.Push(Item_(1, "k", 1), 0));
}

TEST_F(QueueTest, OtherShapesStayAndKeepTheirPlace) {
  BatchQueue q({.max_rows = 8});
  for (const char* key : {"a", "b", "a", "b"}) q.Push(Item_(1, key), 1);
  EXPECT_EQ(q.Take(now_).items.size(), 2U);
  const auto second = q.Take(now_);
  ASSERT_EQ(second.items.size(), 2U);
  EXPECT_EQ(second.items[0]->fit.key, "b");
}

TEST_F(QueueTest, WithoutAKeyARequestRunsAlone) {
  BatchQueue q({.max_rows = 8});
  for (int i = 0; i < 2; ++i) q.Push(Item_(1, ""), 1);
  EXPECT_EQ(q.Take(now_).items.size(), 1U);
}

// V09: a lone request at low load never waits, whatever delay is configured.
TEST_F(QueueTest, ALoneRequestNeverWaits) {
  BatchQueue q({.max_rows = 8, .max_delay = milliseconds(5)});
  for (int i = 0; i < 50; ++i) {
    q.Push(Item_(), 0);
    EXPECT_EQ(q.Take(now_).items.size(), 1U);
    now_ += microseconds(300);   // one client in a closed loop, faster than the delay
  }
}

TEST_F(QueueTest, OverlappingRequestsWaitForCompanyButNoLongerThanTheDelay) {
  BatchQueue q({.max_rows = 8, .max_delay = milliseconds(5)});
  for (int i = 0; i < 20; ++i) {
    q.Push(Item_(), 3);
    q.TakeExpired(now_);
    now_ += microseconds(200);
  }
  while (!q.Take(now_ + milliseconds(10)).items.empty()) {
  }
  q.Push(Item_(), 3);
  const auto wait = q.Take(now_);
  EXPECT_TRUE(wait.items.empty());
  EXPECT_EQ(wait.wait_until, now_ + milliseconds(5));
  EXPECT_EQ(q.Take(now_ + milliseconds(5)).items.size(), 1U);
}

// V09: delay only when it can pay. Two rows that cost twice one row gain nothing by meeting.
TEST_F(QueueTest, NoWaitWhenBatchesDoNotPay) {
  BatchQueue q({.max_rows = 8, .max_delay = milliseconds(5)});
  for (int i = 0; i < 20; ++i) {
    q.Push(Item_(), 3);
    now_ += microseconds(200);
  }
  while (!q.Take(now_ + milliseconds(10)).items.empty()) {
  }
  q.OnServed(1, milliseconds(10));
  q.OnServed(2, milliseconds(20));
  q.Push(Item_(), 3);
  EXPECT_EQ(q.Take(now_).items.size(), 1U);
}

TEST_F(QueueTest, PreferredSizesAreKept) {
  BatchQueue q({.max_rows = 8, .preferred = {4, 8}});
  for (int i = 0; i < 7; ++i) q.Push(Item_(), 1);
  EXPECT_EQ(Rows(q.Take(now_)), 4U);
  EXPECT_EQ(Rows(q.Take(now_)), 3U);   // fewer than any preferred: what there is
}

TEST_F(QueueTest, PriorityOneGoesFirst) {
  BatchQueue q({.max_rows = 1});
  q.Push(Item_(1, "k", 2), 1);
  q.Push(Item_(1, "k", 1), 1);
  EXPECT_EQ(q.Take(now_).items[0]->priority, 1U);
}

TEST_F(QueueTest, FullQueueRefuses) {
  BatchQueue q({.max_rows = 1, .max_queue = 2});
  EXPECT_TRUE(q.Push(Item_(), 0));
  EXPECT_TRUE(q.Push(Item_(), 0));
  EXPECT_FALSE(q.Push(Item_(), 0));
  EXPECT_EQ(q.size(), 2U);
}

TEST_F(QueueTest, ExpiredRequestsLeave) {
  BatchQueue q({.max_rows = 4});
  auto late = Item_();
  late->deadline = now_ + milliseconds(1);
  q.Push(late, 0);
  q.Push(Item_(), 0);
  EXPECT_EQ(q.next_deadline(), late->deadline);
  EXPECT_TRUE(q.TakeExpired(now_).empty());
  EXPECT_EQ(q.TakeExpired(now_ + milliseconds(1)).size(), 1U);
  EXPECT_EQ(q.size(), 1U);
  EXPECT_FALSE(q.Remove(late.get()));
}

TEST_F(QueueTest, ALargeRequestRunsAlone) {
  BatchQueue q({.max_rows = 4});
  q.Push(Item_(9), 0);
  q.Push(Item_(1), 0);
  EXPECT_EQ(q.Take(now_).items.size(), 1U);
}

TEST_F(QueueTest, ExpectationsFollowServiceTimes) {
  BatchQueue q({.max_rows = 4});
  const auto wait_ms = [&](const std::vector<Running>& instances, int64_t rows = 1, uint32_t priority = 0) {
    return std::chrono::duration<double, std::milli>(q.Expect(*Item_(rows, "k", priority), instances, now_).wait).count();
  };
  const Running idle{}, busy{4, now_ - milliseconds(10)};
  for (int i = 0; i < 10; ++i) q.Push(Item_(), 0);
  EXPECT_EQ(wait_ms({busy}), 0);   // nothing is known
  q.OnServed(4, milliseconds(40));
  EXPECT_NEAR(wait_ms({busy}), 30 + 2 * 40, 1e-6);   // it runs with the last two
  EXPECT_NEAR(wait_ms({busy}, 3), 30 + 3 * 40, 1e-6);
  EXPECT_NEAR(wait_ms({idle}), 2 * 40, 1e-6);
  EXPECT_NEAR(wait_ms({busy, busy}), 30 + 40, 1e-6);
  EXPECT_NEAR(wait_ms({idle, busy}), 40, 1e-6);
  for (int i = 0; i < 4; ++i) q.Push(Item_(1, "k", 2), 0);
  EXPECT_NEAR(wait_ms({busy}), 30 + 2 * 40, 1e-6);   // they come after
  EXPECT_NEAR(wait_ms({busy}, 1, 2), 30 + 3 * 40, 1e-6);
  q.Take(now_);
  EXPECT_NEAR(wait_ms({busy}), 30 + 40, 1e-6);
  q.OnServed(4, milliseconds(40), milliseconds(50));
  EXPECT_NEAR(wait_ms({busy}), 30 + 50, 1e-6);   // waits for cores shared with others count too: a fifth of the mean each time
}

TEST_F(QueueTest, ALoneRequestIsExpectedAtOnce) {
  BatchQueue q({.max_rows = 4});
  q.OnServed(1, std::chrono::seconds(10));
  EXPECT_EQ(q.Expect(*Item_(), {Running{}}, now_).wait, Duration::zero());
  EXPECT_EQ(q.Expect(*Item_(), {{1, now_}, {}}, now_).wait, Duration::zero());
  EXPECT_GT(q.Expect(*Item_(), {{1, now_}}, now_).wait, Duration::zero());
  EXPECT_EQ(q.Expect(*Item_(), {{1, now_ - std::chrono::minutes(1)}}, now_).wait, Duration::zero());   // it may end any time
}

TEST_F(QueueTest, TimesThatDifferAreExpectedLonger) {
  BatchQueue q({.max_rows = 1});
  for (int i = 0; i < 50; ++i) q.OnServed(1, milliseconds(i % 2 == 0 ? 5 : 15));
  const auto run = q.Expect(*Item_(), {Running()}, now_).run;
  EXPECT_NEAR(std::chrono::duration<double>(run).count(), 0.020, 0.002);
}

// A time that was once long for some number of rows does not keep requests out for ever.
TEST_F(QueueTest, TheCheapestWayKnownIsExpected) {
  BatchQueue q({.max_rows = 4});
  q.OnServed(4, std::chrono::seconds(9));
  q.OnServed(1, milliseconds(10));
  EXPECT_NEAR(std::chrono::duration<double>(q.Expect(*Item_(), {{4, now_}}, now_).wait).count(), 0.04, 1e-9);
}

TEST_F(QueueTest, ARunThatWasStoppedCountsOnlyWhenItWasLong) {
  BatchQueue q({.max_rows = 1});
  const auto wait = [&] { return q.Expect(*Item_(), {{1, now_}}, now_).wait; };
  q.OnServed(1, milliseconds(10));
  q.OnStopped(1, milliseconds(1));
  EXPECT_EQ(wait(), milliseconds(10));
  q.OnStopped(1, milliseconds(20));
  EXPECT_GT(wait(), milliseconds(11));
}

using Lengths = std::vector<int64_t>;

// What runs are rows of the longest.
TEST_F(QueueTest, TokensOfARunCountItsPadding) {
  BatchQueue q({.max_rows = 8, .max_tokens = 64, .max_padding = 0.5});
  for (int64_t length : {10, 16, 12, 16, 9, 3}) q.Push(Long(length), 1);
  EXPECT_EQ(LengthsOf(q.Take(now_)), (Lengths{10, 16, 12, 16}));
  EXPECT_EQ(LengthsOf(q.Take(now_)), (Lengths{9, 3}));
}

// Others of near length join in its place, and it is the next to lead.
TEST_F(QueueTest, WhatWouldPadTooMuchWaitsForItsLike) {
  BatchQueue q({.max_rows = 8, .max_padding = 0.25});
  for (int64_t length : {8, 100, 7, 90, 8}) q.Push(Long(length), 1);
  EXPECT_EQ(LengthsOf(q.Take(now_)), (Lengths{8, 7, 8}));
  EXPECT_EQ(LengthsOf(q.Take(now_)), (Lengths{100, 90}));
  EXPECT_EQ(q.size(), 0U);
}

TEST_F(QueueTest, PriorityLeadsARunOfManyLengths) {
  BatchQueue q({.max_rows = 2, .max_padding = 0.25});
  q.Push(Long(8, 2), 1);
  q.Push(Long(100, 1), 1);
  q.Push(Long(8, 2), 1);
  q.Push(Long(99, 2), 1);
  EXPECT_EQ(LengthsOf(q.Take(now_)), (Lengths{100, 99}));
  EXPECT_EQ(LengthsOf(q.Take(now_)), (Lengths{8, 8}));
}

TEST_F(QueueTest, DeadlinesOfManyLengthsAreKept) {
  BatchQueue q({.max_rows = 8, .max_padding = 0.25});
  q.Push(Long(8), 1);
  auto late = Long(100);
  late->deadline = now_ + milliseconds(1);
  q.Push(late, 1);
  EXPECT_EQ(LengthsOf(q.Take(now_)), (Lengths{8}));
  EXPECT_EQ(q.next_deadline(), late->deadline);
  EXPECT_EQ(q.TakeExpired(now_ + milliseconds(1)).size(), 1U);
  EXPECT_EQ(q.size(), 0U);
}

// A full run has no reason to wait for more.
TEST_F(QueueTest, ARunFullOfTokensDoesNotWait) {
  BatchQueue q({.max_rows = 8, .max_tokens = 32, .max_padding = 0.5, .max_delay = milliseconds(5)});
  for (int i = 0; i < 20; ++i) {
    q.Push(Long(16), 3);
    now_ += microseconds(200);
  }
  while (!q.Take(now_ + milliseconds(10)).items.empty()) {
  }
  q.Push(Long(16), 3);
  EXPECT_TRUE(q.Take(now_).items.empty());
  q.Push(Long(16), 3);
  EXPECT_EQ(q.Take(now_).items.size(), 2U);
}

// Ragged requests have no extents in common: their tokens add up.
TEST_F(QueueTest, TokensWithoutPaddingAddUp) {
  BatchQueue q({.max_rows = 8, .max_tokens = 20});
  for (int64_t tokens : {12, 7, 5, 9}) {
    auto item = Item_();
    item->fit.tokens = tokens;
    q.Push(item, 1);
  }
  EXPECT_EQ(q.Take(now_).items.size(), 2U);
  EXPECT_EQ(q.Take(now_).items.size(), 2U);
}

}  // namespace
}  // namespace tenon::serve
