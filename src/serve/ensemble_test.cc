// Ensembles on models that are made up: what each part gets, lists, failures, cancelling.
#include "serve/ensemble.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "serve/ensemble_plan.h"

namespace tenon::serve {
namespace {

using std::chrono::milliseconds;

// The server around an ensemble: every model takes x and gives y = x, at once or when it is cancelled.
struct Around {
  std::mutex mutex;
  std::vector<InferRequest> asked;
  std::atomic<int> open{0};
  std::atomic<int> most_open{0};
  std::atomic<int> cancelled{0};
  std::function<Outcome(const InferRequest&)> outcome = [](const InferRequest&) { return Outcome::kOk; };
  bool hold = false;   // answers only to a cancel
  std::vector<std::thread> threads;

  ~Around() { Join(); }
  void Join() {
    for (std::thread& t : threads) t.join();
    threads.clear();
  }

  class Ticket final : public InferTicket {
   public:
    explicit Ticket(std::function<void()> cancel) : cancel_(std::move(cancel)) {}
    void Cancel() override { cancel_(); }

   private:
    std::function<void()> cancel_;
  };

  std::shared_ptr<InferTicket> Infer(InferRequest request, std::function<void(InferResponse)> done) {
    InferResponse r;
    r.outcome = outcome(request);
    r.message = "said so";
    r.retry_after_s = 7;
    r.outputs = request.inputs;
    for (HostTensor& t : r.outputs) t.name = "y";
    most_open = std::max(most_open.load(), ++open);
    {
      const std::lock_guard lock(mutex);
      asked.push_back(std::move(request));
    }
    if (!hold) {
      threads.emplace_back([this, r, done] {
        std::this_thread::sleep_for(milliseconds(1));
        --open;
        done(r);
      });
      return nullptr;
    }
    return std::make_shared<Ticket>([this, r, done]() mutable {
      ++cancelled;
      --open;
      r.outcome = Outcome::kCancelled;
      done(r);
    });
  }

  EnsembleServices Services() {
    EnsembleServices s;
    s.infer = [this](InferRequest request, std::function<void(InferResponse)> done) {
      return Infer(std::move(request), std::move(done));
    };
    s.describe = Describe;
    s.gate = std::make_shared<CoreGate>();
    s.share = &s.gate->ShareOf("", 1);
    return s;
  }
  static Result<ModelDescription> Describe(const std::string& name, const std::string&) {
    if (name == "none") return Status(Code::kUsage, "unknown model 'none'");
    ModelDescription d;
    d.name = name;
    d.inputs = {{"x", DType::kUndefined, false, false, {}}};
    d.outputs = {{"y", DType::kUndefined, false, false, {}}};
    return d;
  }
};

EnsemblePart Model(const std::string& name, const std::string& from, const std::string& to) {
  EnsemblePart part;
  part.model = name;
  part.inputs = {{"x", from}};
  part.outputs = {{"y", to}};
  return part;
}
EnsemblePart Crops(const std::string& to) {
  EnsemblePart part;
  part.step = "text_crops";
  part.inputs = {{"page", "page"}, {"boxes", "boxes"}};
  part.outputs = {{"crops", to}};
  return part;
}

HostTensor Tensor(const std::string& name, DType dtype, std::vector<int64_t> shape, size_t bytes) {
  const auto kept = std::make_shared<std::vector<char>>(bytes);
  HostTensor t;
  t.name = name;
  t.dtype = dtype;
  t.shape = std::move(shape);
  t.data = kept->data();
  t.bytes = bytes;
  t.owner = kept;
  return t;
}

std::unique_ptr<EnsembleSession> Make(Around& around, std::vector<EnsemblePart> parts, uint64_t limit = 0) {
  auto session = EnsembleSession::Create({std::move(parts), {}}, around.Services(), limit);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? std::move(session).value() : nullptr;
}

TEST(Ensemble, PartsRunInTheOrderOfTheirValues) {
  Around around;
  const auto session = Make(around, {Model("last", "b", "c"), Model("first", "a", "b")});
  ASSERT_EQ(session->inputs().size(), 1u);
  EXPECT_EQ(session->inputs()[0].name, "a");
  const HostTensor a = Tensor("a", DType::kF32, {1}, 4);
  const auto out = session->Run({a}, {});
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ((*out)[0].name, "c");
  EXPECT_EQ((*out)[0].data, a.data);   // handed on, not copied
  ASSERT_EQ(around.asked.size(), 2u);
  EXPECT_EQ(around.asked[0].model, "first");
  EXPECT_EQ(around.asked[1].outputs, std::vector<std::string>{"y"});
  EXPECT_EQ(session->Run({}, {}).status().code(), Code::kUsage);
}

std::vector<HostTensor> PageWithBoxes(int64_t n) {
  std::vector<HostTensor> inputs = {Tensor("page", DType::kU8, {4, 4, 3}, 48),
                                    Tensor("boxes", DType::kF32, {n, 4, 2}, static_cast<size_t>(n) * 32)};
  return inputs;
}

TEST(Ensemble, AListIsOneRequestForEachElement) {
  Around around;
  EnsemblePart join;
  join.step = "text_batches";
  join.inputs = {{"crops", "same"}};
  join.outputs = {{"order", "order"}};
  const auto session = Make(around, {Crops("crops"), Model("m", "crops", "same"), join});
  auto out = session->Run(PageWithBoxes(40), {});
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ((*out)[0].shape, std::vector<int64_t>{40});
  EXPECT_EQ(around.asked.size(), 40u);
  EXPECT_LE(around.most_open, 8);
  around.asked.clear();
  out = session->Run(PageWithBoxes(0), {});
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_TRUE(around.asked.empty());
}

TEST(Ensemble, AFailureOfAPartIsTheAnswer) {
  Around around;
  const auto session = Make(around, {Model("busy", "a", "b")});
  for (const auto& [said, heard] :
       {std::pair(Outcome::kOverload, Outcome::kOverload), std::pair(Outcome::kNotFound, Outcome::kNotReady),
        std::pair(Outcome::kBadRequest, Outcome::kBadRequest)}) {
    around.outcome = [said = said](const InferRequest&) { return said; };
    const auto out = session->Run({Tensor("a", DType::kF32, {1}, 4)}, {});
    EXPECT_FALSE(out.ok());
    EXPECT_EQ(session->outcome(), heard);
    EXPECT_EQ(session->retry_after_s(), 7);
  }
  around.outcome = [](const InferRequest&) { return Outcome::kOk; };
  EXPECT_TRUE(session->Run({Tensor("a", DType::kF32, {1}, 4)}, {}).ok());
  EXPECT_EQ(session->outcome(), std::nullopt);
}

TEST(Ensemble, CancelAndDeadlineReachTheModels) {
  Around around;
  around.hold = true;
  const auto session = Make(around, {Model("slow", "a", "b"), Model("slow too", "a", "c")});
  CancelToken token;
  RunOptions options;
  options.cancel = &token;
  std::thread canceller([&] {
    while (around.open < 2) std::this_thread::sleep_for(milliseconds(1));
    token.Cancel();
  });
  EXPECT_EQ(session->Run({Tensor("a", DType::kF32, {1}, 4)}, options).status().code(), Code::kCancelled);
  canceller.join();
  EXPECT_EQ(around.cancelled, 2);
  RunOptions late;
  late.deadline = std::chrono::steady_clock::now() + milliseconds(20);
  EXPECT_EQ(session->Run({Tensor("a", DType::kF32, {1}, 4)}, late).status().code(), Code::kCancelled);
  EXPECT_EQ(around.cancelled, 4);
  EXPECT_GT(around.asked.back().timeout.count(), 0);
}

TEST(Ensemble, MemoryOfOneRequestIsBounded) {
  Around around;
  const auto session = Make(around, {Model("m", "a", "b")}, 1000);
  EXPECT_TRUE(session->Run({Tensor("a", DType::kF32, {100}, 400)}, {}).ok());
  EXPECT_EQ(session->Run({Tensor("a", DType::kF32, {1000}, 4000)}, {}).status().code(), Code::kResourceLimit);
  EXPECT_EQ(session->outcome(), Outcome::kTooLarge);
}

TEST(Ensemble, WhatCannotWorkIsRefused) {
  const auto code = [](std::vector<EnsemblePart> parts, std::vector<std::string> outputs = {}) {
    return PlanEnsemble({std::move(parts), std::move(outputs)}, Around::Describe).status();
  };
  EXPECT_EQ(code({Model("none", "a", "b")}).code(), Code::kBadInput);
  EXPECT_EQ(code({Model("m", "a", "a")}).code(), Code::kBadInput);
  EXPECT_EQ(code({Model("m", "a", "b"), Model("m", "b", "a")}).code(), Code::kBadInput);
  EXPECT_EQ(code({Model("m", "a", "b"), Model("m", "a", "b")}).code(), Code::kBadInput);
  EXPECT_EQ(code({Model("m", "a", "b")}, {"c"}).code(), Code::kBadInput);
  EXPECT_EQ(code({Model("m", "a", "b")}, {"a"}).code(), Code::kBadInput);
  EXPECT_EQ(code({Crops("list")}).code(), Code::kBadInput);   // no protocol has lists
  EXPECT_EQ(code(std::vector<EnsemblePart>(1000, Model("m", "a", "b"))).code(), Code::kBadInput);
  EXPECT_TRUE(code({Model("m", "a", "b"), Model("m", "b", "c")}, {"b", "c"}).ok());
}

}  // namespace
}  // namespace tenon::serve
