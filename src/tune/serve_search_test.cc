#include "tune/serve_search.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

#include "serve/testing.h"

namespace tenon::tune {
namespace {

// Answers every request from a thread of its own after a moment; refuses when told.
class FakeServer final : public serve::testing::StubServer {
 public:
  FakeServer(std::chrono::microseconds takes, bool refuses) : takes_(takes), refuses_(refuses) {}
  ~FakeServer() override {
    for (auto& t : threads_) t.join();
  }
  std::shared_ptr<InferTicket> Infer(InferRequest, std::function<void(InferResponse)> done) override {
    InferResponse response;
    response.outcome = refuses_ ? Outcome::kOverload : Outcome::kOk;
    if (refuses_) {
      done(response);
      return nullptr;
    }
    std::lock_guard lock(mutex_);
    threads_.emplace_back([this, done = std::move(done), response] {
      std::this_thread::sleep_for(takes_);
      done(response);
    });
    return nullptr;
  }

 private:
  const std::chrono::microseconds takes_;
  const bool refuses_;
  std::mutex mutex_;
  std::vector<std::thread> threads_;
};

ServeSearchOptions Short() {
  ServeSearchOptions o;
  o.cores = 4;
  o.most_batch = 4;
  o.slice_s = 0.02;
  o.budget_s = 20;
  return o;
}

ServerMaker Maker(std::chrono::microseconds takes, bool refuses, std::vector<ServeSetting>* made) {
  return [=](const ServeSetting& s) -> Result<std::unique_ptr<InferenceServer>> {
    made->push_back(s);
    return std::unique_ptr<InferenceServer>(std::make_unique<FakeServer>(takes, refuses));
  };
}

TEST(ServeSearch, SharesTheCoresOut) {
  std::vector<ServeSetting> made;
  const auto found = SearchServing(Maker(std::chrono::microseconds(1000), false, &made), {InferRequest()}, Short());
  ASSERT_TRUE(found.ok()) << found.status().message();
  std::set<int> instances;
  for (const ServeSetting& s : made) {
    EXPECT_EQ(s.instances * s.threads, 4);
    EXPECT_LE(s.max_batch, 4);
    instances.insert(s.instances);
  }
  EXPECT_EQ(instances, (std::set<int>{1, 2, 4}));
  ASSERT_EQ(found->trials.size(), made.size());
  EXPECT_TRUE(found->complete);
  const ServeTrial& best = found->trials[found->best];
  EXPECT_TRUE(best.within);
  for (const ServeTrial& t : found->trials) {
    EXPECT_GT(t.requests, 0u);
    EXPECT_LE(t.per_s, best.per_s);
    EXPECT_LE(t.p50_ms, t.p99_ms);
    EXPECT_EQ(t.failed, 0u);
  }
}

TEST(ServeSearch, ATargetThatNothingMeetsGivesTheQuickest) {
  std::vector<ServeSetting> made;
  ServeSearchOptions options = Short();
  options.p99_ms = 0.001;
  const auto found = SearchServing(Maker(std::chrono::microseconds(2000), false, &made), {InferRequest()}, options);
  ASSERT_TRUE(found.ok());
  const ServeTrial& best = found->trials[found->best];
  EXPECT_FALSE(best.within);
  for (const ServeTrial& t : found->trials) EXPECT_GE(t.p99_ms, best.p99_ms);
}

TEST(ServeSearch, RefusalsEndAndAreCounted) {
  std::vector<ServeSetting> made;
  const auto found = SearchServing(Maker(std::chrono::microseconds(0), true, &made), {InferRequest()}, Short());
  ASSERT_TRUE(found.ok());
  for (const ServeTrial& t : found->trials) {
    EXPECT_EQ(t.requests, 0u);
    EXPECT_GT(t.failed, 0u);
    EXPECT_FALSE(t.within);
  }
}

TEST(ServeSearch, StopsWhenTold) {
  std::vector<ServeSetting> made;
  ServeSearchOptions options = Short();
  options.cancelled = [&] { return made.size() == 2; };
  const auto found = SearchServing(Maker(std::chrono::microseconds(500), false, &made), {InferRequest()}, options);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->trials.size(), 2u);
  EXPECT_FALSE(found->complete);
  const auto failing =
      SearchServing([](const ServeSetting&) -> Result<std::unique_ptr<InferenceServer>> { return BadInput("no such model"); },
                    {InferRequest()}, Short());
  EXPECT_EQ(failing.status().code(), Code::kBadInput);
  EXPECT_EQ(SearchServing(Maker(std::chrono::microseconds(0), false, &made), {}, Short()).status().code(), Code::kUsage);
}

}  // namespace
}  // namespace tenon::tune
