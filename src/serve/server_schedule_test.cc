// Priorities with limits of their own, and answers in order.
#include "serve/server_fixture.h"

namespace tenon::serve {
namespace {

// A priority has its own limits, others those of the model; what is late is refused or delayed as these say.
TEST_F(ServerTest, PrioritiesHaveLimitsOfTheirOwn) {
  ServerOptions options;
  options.defaults.max_batch = 0;
  options.defaults.priority_levels = 2;
  options.defaults.queue.default_timeout = milliseconds(1);
  options.defaults.queue.delay_late = true;
  options.defaults.priority_queues[1].default_timeout = milliseconds(500);
  options.defaults.priority_queues[1].max_queue = 1;
  Start(options);
  control_.Hold(true);
  Send(Ask({9, 9}));
  WaitRunning(1);
  for (int i = 0; i < 2; ++i) {
    InferRequest first = Ask({1, 1});
    first.priority = 1;
    first.timeout = std::chrono::hours(1);   // no more than its priority gives
    Send(std::move(first));
  }
  EXPECT_EQ(answers_.Count(Outcome::kOverload), 1);
  Send(Ask({2, 2}));   // without a priority: the last
  ASSERT_TRUE(answers_.Wait(2));
  EXPECT_EQ(answers_.Count(Outcome::kDeadline), 1);
  control_.Hold(false);
  ASSERT_TRUE(answers_.Wait(4));
  EXPECT_EQ(answers_.Count(Outcome::kOk), 2);
  ExpectInvariant();
}

TEST_F(ServerTest, AnswersKeepTheOrderOfTheirRequestsWhereToldTo) {
  ServerOptions options;
  options.defaults.max_batch = 0;
  options.defaults.preserve_ordering = true;
  options.defaults.queue.max_queue = 1;
  Start(options);
  control_.Hold(true);
  Send(Ask({1, 1}));
  WaitRunning(1);
  const auto cancelled = Send(Ask({2, 2}));
  ASSERT_NE(cancelled, nullptr);
  cancelled->Cancel();
  EXPECT_EQ(answers_.Count(Outcome::kCancelled), 0);   // the first has no answer yet
  Send(Ask({3, 3}));
  EXPECT_EQ(answers_.Count(Outcome::kOverload), 1);   // answers that wait are as bounded as requests
  EXPECT_EQ(Stats().in_flight, 2U);
  control_.Hold(false);
  ASSERT_TRUE(answers_.Wait(3));
  EXPECT_EQ(answers_.all[1].outcome, Outcome::kOk);
  EXPECT_EQ(answers_.all[2].outcome, Outcome::kCancelled);
  ExpectInvariant();
}

}  // namespace
}  // namespace tenon::serve
