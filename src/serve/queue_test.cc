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
    item->rows = rows;
    item->key = key;
    item->priority = priority;
    return item;
  }
  static size_t Rows(const BatchQueue::Decision& d) {
    int64_t rows = 0;
    for (const ItemPtr& i : d.items) rows += i->rows;
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

TEST_F(QueueTest, OtherShapesStayAndKeepTheirPlace) {
  BatchQueue q({.max_rows = 8});
  for (const char* key : {"a", "b", "a", "b"}) q.Push(Item_(1, key), 1);
  EXPECT_EQ(q.Take(now_).items.size(), 2U);
  const auto second = q.Take(now_);
  ASSERT_EQ(second.items.size(), 2U);
  EXPECT_EQ(second.items[0]->key, "b");
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

TEST_F(QueueTest, ExpectedWaitFollowsServiceTimes) {
  BatchQueue q({.max_rows = 4});
  EXPECT_EQ(q.ExpectedWait(1), Duration::zero());
  q.OnServed(4, milliseconds(40));
  for (int i = 0; i < 10; ++i) q.Push(Item_(), 0);
  EXPECT_NEAR(std::chrono::duration<double>(q.ExpectedWait(1)).count(), 0.1, 1e-9);
  EXPECT_NEAR(std::chrono::duration<double>(q.ExpectedWait(2)).count(), 0.05, 1e-9);
}

}  // namespace
}  // namespace tenon::serve
