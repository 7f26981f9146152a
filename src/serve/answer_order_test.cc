#include "serve/answer_order.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tenon::serve {
namespace {

TEST(AnswerOrderTest, WaitsForThoseBefore) {
  AnswerOrder order;
  std::vector<uint64_t> answered;
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(order.Take(), i);
  for (uint64_t place : {2, 1, 3}) order.Put(place, [&answered, place] { answered.push_back(place); });
  EXPECT_TRUE(answered.empty());
  EXPECT_EQ(order.waiting(), 3U);
  order.Put(0, [&answered] { answered.push_back(0); });
  EXPECT_EQ(answered, (std::vector<uint64_t>{0, 1, 2, 3}));
  EXPECT_EQ(order.waiting(), 0U);
}

// An answer may bring the next request, which may be answered at once.
TEST(AnswerOrderTest, AnswersMayAnswer) {
  AnswerOrder order;
  std::vector<uint64_t> answered;
  std::function<void()> again = [&] {
    answered.push_back(answered.size());
    if (answered.size() < 5) order.Put(order.Take(), again);
  };
  order.Put(order.Take(), again);
  EXPECT_EQ(answered.size(), 5U);
}

TEST(AnswerOrderTest, FromManyThreadsNeverTwoAtATime) {
  AnswerOrder order;
  constexpr int kThreads = 4, kEach = 500;
  std::vector<uint64_t> answered;   // without a lock of its own: that is the point
  for (int i = 0; i < kThreads * kEach; ++i) order.Take();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = kEach - 1; i >= 0; --i) {
        const auto place = static_cast<uint64_t>(i * kThreads + t);
        order.Put(place, [&answered, place] { answered.push_back(place); });
      }
    });
  }
  for (std::thread& t : threads) t.join();
  ASSERT_EQ(answered.size(), static_cast<size_t>(kThreads * kEach));
  for (size_t i = 0; i < answered.size(); ++i) EXPECT_EQ(answered[i], i);
}

}  // namespace
}  // namespace tenon::serve
