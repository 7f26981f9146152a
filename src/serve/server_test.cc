// The server on sessions that are made up: threads meet here, so that this also runs under ThreadSanitizer.
#include <set>

#include "serve/server_fixture.h"

namespace tenon::serve {
namespace {

TEST_F(ServerTest, Answers) {
  Start();
  InferRequest request = Ask({1, 2});
  request.id = "seven";
  Send(std::move(request));
  ASSERT_TRUE(answers_.Wait(1));
  const InferResponse& r = answers_.all[0];
  EXPECT_EQ(r.outcome, Outcome::kOk) << r.message;
  EXPECT_EQ(r.id, "seven");
  EXPECT_EQ(r.version, "1");
  EXPECT_EQ(static_cast<const float*>(r.outputs[0].data)[1], 3);
  EXPECT_TRUE(server_->Ready());
  ExpectInvariant();
}

TEST_F(ServerTest, RefusesWhatTheModelDoesNotTake) {
  Start();
  InferRequest type = Ask({1, 2}), shape = Ask({1, 2}), name = Ask({1, 2}), output = Ask({1, 2});
  type.inputs[0].dtype = DType::kI32;
  shape.inputs[0].shape = {2, 1};
  name.inputs[0].name = "z";
  output.outputs = {"w"};
  for (auto* r : {&type, &shape, &name, &output}) EXPECT_EQ(Send(std::move(*r)), nullptr);
  EXPECT_EQ(answers_.Count(Outcome::kBadRequest), 4);
  Send(Ask({1, 2}, "none"));
  EXPECT_EQ(answers_.Count(Outcome::kNotFound), 1);
  ExpectInvariant();
}

TEST_F(ServerTest, WaitingRequestsJoinAndGetTheirOwnRows) {
  Start();
  control_.Hold(true);
  Send(Ask({100, 100}));
  WaitRunning(1);
  for (int i = 0; i < 6; ++i) Send(Ask({static_cast<float>(i), 0}));
  control_.Hold(false);
  ASSERT_TRUE(answers_.Wait(7));
  EXPECT_EQ(control_.runs, 2);   // V09: what queued behind the first runs as one
  EXPECT_EQ(control_.most_rows, 6);
  std::set<float> first;
  for (const InferResponse& r : answers_.all) first.insert(static_cast<const float*>(r.outputs[0].data)[0]);
  EXPECT_EQ(first, (std::set<float>{1, 2, 3, 4, 5, 6, 101}));
  EXPECT_EQ(Stats().rows, 7U);
  EXPECT_EQ(Stats().runs, 2U);
}

TEST_F(ServerTest, OneBadRequestOfABatchFailsAlone) {
  Start();
  control_.Hold(true);
  Send(Ask({100, 100}));
  WaitRunning(1);
  Send(Ask({1, 1}));
  Send(Ask({-1, 1}));
  Send(Ask({2, 2}));
  control_.Hold(false);
  ASSERT_TRUE(answers_.Wait(4));
  EXPECT_EQ(answers_.Count(Outcome::kOk), 3);
  EXPECT_EQ(answers_.Count(Outcome::kBadRequest), 1);
  ExpectInvariant();
}

// V05: a client that goes away stops its work, waiting or running.
TEST_F(ServerTest, V05_CancelWhileQueuedAndWhileRunning) {
  ServerOptions options;
  options.defaults.max_batch = 0;
  Start(options);
  control_.Hold(true);
  const auto running = Send(Ask({1, 1}));
  WaitRunning(1);
  const auto queued = Send(Ask({2, 2}));
  ASSERT_NE(queued, nullptr);
  queued->Cancel();
  EXPECT_EQ(answers_.Count(Outcome::kCancelled), 1);
  running->Cancel();
  ASSERT_TRUE(answers_.Wait(2));
  EXPECT_EQ(answers_.Count(Outcome::kCancelled), 2);
  running->Cancel();   // over: no effect
  EXPECT_EQ(Stats().in_flight, 0U);
  ExpectInvariant();
}

TEST_F(ServerTest, CancellingOneOfABatchLeavesTheOthers) {
  Start();
  control_.Hold(true);
  Send(Ask({9, 9}));
  WaitRunning(1);
  const auto a = Send(Ask({1, 1}));
  Send(Ask({2, 2}));
  control_.Hold(false);
  ASSERT_TRUE(answers_.Wait(1));
  a->Cancel();
  ASSERT_TRUE(answers_.Wait(3));
  EXPECT_GE(answers_.Count(Outcome::kOk), 2);
  ExpectInvariant();
}

TEST_F(ServerTest, V07_FullQueueIsAnsweredAtOnce) {
  ServerOptions options;
  options.defaults.queue.max_queue = 2;
  options.defaults.max_batch = 0;
  Start(options);
  control_.Hold(true);
  Send(Ask({1, 1}));
  WaitRunning(1);
  for (int i = 0; i < 5; ++i) Send(Ask({1, 1}));
  EXPECT_EQ(answers_.Count(Outcome::kOverload), 3);
  EXPECT_GE(answers_.all[0].retry_after_s, 1);
  control_.Hold(false);
  ASSERT_TRUE(answers_.Wait(6));
  EXPECT_EQ(answers_.Count(Outcome::kOk), 3);
  ExpectInvariant();
}

TEST_F(ServerTest, DeadlinesHoldWhileQueuedAndRunning) {
  ServerOptions options;
  options.defaults.max_batch = 0;
  Start(options);
  control_.Hold(true);
  InferRequest running = Ask({1, 1}), queued = Ask({2, 2});
  running.timeout = milliseconds(60);
  queued.timeout = milliseconds(30);
  Send(std::move(running));
  Send(std::move(queued));
  ASSERT_TRUE(answers_.Wait(2));
  EXPECT_EQ(answers_.Count(Outcome::kDeadline), 2);
  EXPECT_EQ(Stats().in_flight, 0U);
  ExpectInvariant();
}

// What only those ahead make late is refused at once; not what is alone, or has no time for any run.
TEST_F(ServerTest, RefusesAtOnceWhatTheRequestsAheadMakeLate) {
  ServerOptions options;
  options.defaults.max_batch = 0;
  Start(options);
  control_.run_for = milliseconds(100);
  Send(Ask({1, 1}));
  ASSERT_TRUE(answers_.Wait(1));   // from here on it is known how long a run takes
  const auto run = std::chrono::microseconds(Stats().infer.ns / 1000);
  control_.Hold(true);
  InferRequest behind = Ask({1, 1}), short_of_time = Ask({1, 1}), alone = Ask({1, 1});
  behind.timeout = run * 17 / 10;
  short_of_time.timeout = alone.timeout = milliseconds(1);
  ASSERT_NE(Send(Ask({1, 1})), nullptr);
  WaitRunning(1);
  ASSERT_NE(Send(Ask({1, 1})), nullptr);   // the next waits for this run at least, and takes one of its own
  EXPECT_EQ(Send(std::move(behind)), nullptr);
  EXPECT_EQ(answers_.Count(Outcome::kOverload), 1);
  ASSERT_NE(Send(std::move(short_of_time)), nullptr);
  ASSERT_TRUE(answers_.Wait(3));
  EXPECT_EQ(answers_.Count(Outcome::kDeadline), 1);
  control_.Hold(false);
  ASSERT_TRUE(answers_.Wait(5));
  Send(std::move(alone));
  ASSERT_TRUE(answers_.Wait(6));
  EXPECT_EQ(answers_.Count(Outcome::kOverload), 1);
  ExpectInvariant();
}

// V10: the new stands beside the old; no request fails; a failed load keeps the old; memory of the old goes back.
TEST_F(ServerTest, V10_ReloadUnderLoadLosesNothing) {
  ServerOptions options;
  options.control = ServerOptions::Control::kExplicit;
  options.load = {"*"};
  Start(options);
  std::atomic<bool> stop{false};
  std::atomic<size_t> sent{0};
  std::thread client([&] {
    while (!stop) {
      const size_t n = ++sent;
      Send(Ask({1, 1}));
      answers_.Wait(n);
    }
  });
  for (int i = 2; i < 22; ++i) {
    control_.add = i;
    EXPECT_TRUE(server_->Load("m").ok());
  }
  control_.fail_open = true;
  EXPECT_FALSE(server_->Load("m").ok());
  control_.fail_open = false;
  stop = true;
  client.join();
  EXPECT_EQ(answers_.Count(Outcome::kOk), static_cast<int>(sent));
  const size_t before = answers_.all.size();
  Send(Ask({0, 0}));
  ASSERT_TRUE(answers_.Wait(before + 1));
  EXPECT_EQ(static_cast<const float*>(answers_.all.back().outputs[0].data)[0], 21);
  EXPECT_EQ(server_->Index()[0].state, "READY");
  EXPECT_NE(server_->Index()[0].reason.find("damaged"), std::string::npos);
  ExpectInvariant();
}

TEST_F(ServerTest, UnloadAnswersWhatIsInFlightAndThenGivesMemoryBack) {
  ServerOptions options;
  options.control = ServerOptions::Control::kExplicit;
  options.load = {"m"};
  Start(options);
  control_.Hold(true);
  auto ticket = Send(Ask({1, 1}));
  WaitRunning(1);
  std::thread unload([&] { EXPECT_TRUE(server_->Unload("m").ok()); });
  while (server_->ModelReady("m")) std::this_thread::sleep_for(milliseconds(1));
  Send(Ask({1, 1}));
  EXPECT_EQ(answers_.Count(Outcome::kNotReady), 1);
  control_.Hold(false);
  ticket.reset();
  unload.join();
  EXPECT_EQ(answers_.Count(Outcome::kOk), 1);
  EXPECT_EQ(control_.sessions, 0);
  EXPECT_EQ(server_->memory_used(), 0U);
  EXPECT_TRUE(server_->Load("m").ok());
  EXPECT_TRUE(server_->ModelReady("m"));
}

TEST_F(ServerTest, LoadingNeedsExplicitControl) {
  Start();
  EXPECT_EQ(server_->Load("m").code(), Code::kUsage);
  EXPECT_EQ(server_->Unload("m").code(), Code::kUsage);
}

TEST_F(ServerTest, PollingFollowsTheFolder) {
  ServerOptions options;
  options.control = ServerOptions::Control::kPoll;
  options.poll_interval = milliseconds(20);
  Start(options);
  Touch("m/3/model.onnx");
  Touch("n/1/model.onnx");
  const auto wait = [&](const std::string& name, const std::string& version, bool ready) {
    for (int i = 0; i < 1000 && server_->ModelReady(name, version) != ready; ++i) std::this_thread::sleep_for(milliseconds(5));
    return server_->ModelReady(name, version) == ready;
  };
  EXPECT_TRUE(wait("m", "3", true));
  EXPECT_TRUE(wait("m", "1", false));   // the newest version alone
  EXPECT_TRUE(wait("n", "", true));
  fs::remove_all(folder_ / "n");
  EXPECT_TRUE(wait("n", "", false));
}

// M06: cores are shared out among the instances; threads never outnumber them.
TEST_F(ServerTest, M06_InstancesShareTheCores) {
  ServerOptions options;
  options.defaults.instances = 64;
  Start(options);
  const ModelStatistics s = Stats();
  EXPECT_LE(s.instances * s.threads, server_->cores());
  EXPECT_GE(s.instances, 1);
  std::set<int> used;
  for (const SessionOptions& o : control_.opened) {
    for (int c : o.cores) EXPECT_TRUE(used.insert(c).second) << c;
  }
}

// M02: what nobody asks gives its arena back.
TEST_F(ServerTest, M02_IdleModelsAreTrimmed) {
  ServerOptions options;
  options.idle_trim = milliseconds(300);
  Start(options);
  const auto wait = [this](int trims) {
    for (int i = 0; i < 500 && control_.trims < trims; ++i) std::this_thread::sleep_for(milliseconds(10));
    std::this_thread::sleep_for(milliseconds(100));
    return control_.trims.load();
  };
  EXPECT_EQ(wait(1), 1);   // it ran to warm up
  Send(Ask({1, 1}));
  ASSERT_TRUE(answers_.Wait(1));
  EXPECT_EQ(wait(2), 2);
}

TEST_F(ServerTest, DrainRefusesAndWaits) {
  Start();
  control_.Hold(true);
  Send(Ask({1, 1}));
  WaitRunning(1);
  EXPECT_FALSE(server_->Drain(milliseconds(20)));
  Send(Ask({1, 1}));
  EXPECT_EQ(answers_.Count(Outcome::kNotReady), 1);
  control_.Hold(false);
  EXPECT_TRUE(server_->Drain(std::chrono::seconds(10)));
  EXPECT_FALSE(server_->Ready());
}

TEST_F(ServerTest, ManyThreadsManyRequests) {
  ServerOptions options;
  options.defaults.instances = 2;
  options.defaults.queue.max_queue = 16;
  options.defaults.max_delay = std::chrono::microseconds(200);
  Start(options);
  std::vector<std::thread> clients;
  for (int t = 0; t < 4; ++t) {
    clients.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        auto ticket = Send(Ask(std::vector<float>(static_cast<size_t>(2 + 2 * (i % 3)), i % 17 == 0 ? -1.0F : 1.0F)));
        if (ticket != nullptr && (i + t) % 5 == 0) ticket->Cancel();
      }
    });
  }
  for (auto& c : clients) c.join();
  ASSERT_TRUE(answers_.Wait(800));
  EXPECT_TRUE(server_->Drain(std::chrono::seconds(10)));
  ExpectInvariant();
  EXPECT_EQ(Stats().accepted, 800U);
}

}  // namespace
}  // namespace tenon::serve
