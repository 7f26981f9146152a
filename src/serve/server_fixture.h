// A server on sessions that are made up, and what collects its answers.
#ifndef TENON_SERVE_SERVER_FIXTURE_H_
#define TENON_SERVE_SERVER_FIXTURE_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tenon/server.h"

namespace tenon::serve {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

// What the sessions of a test share.
struct Control {
  std::mutex mutex;
  std::condition_variable changed;
  bool hold = false;             // runs wait until this is false, or until they are cancelled
  std::atomic<milliseconds> run_for{milliseconds(0)};
  std::atomic<int> running{0};
  std::atomic<int> sessions{0};
  std::atomic<int> runs{0};
  std::atomic<int> trims{0};
  std::atomic<int64_t> most_rows{0};
  std::atomic<int> add{1};       // answers are inputs plus this
  std::atomic<bool> fail_open{false};
  std::vector<SessionOptions> opened;

  void Hold(bool value) {
    {
      const std::lock_guard lock(mutex);
      hold = value;
    }
    changed.notify_all();
  }
};

// y [batch, 2] = x [batch, 2] + add. A negative x is refused as a model refuses an index.
class FakeSession final : public Session {
 public:
  FakeSession(Control& control, int add) : control_(control), add_(add) {
    inputs_ = {{"x", DType::kF32, false, true, {"batch", "2"}}};
    outputs_ = {{"y", DType::kF32, false, true, {"batch", "2"}}};
    ++control_.sessions;
  }
  ~FakeSession() override { --control_.sessions; }
  const std::vector<TensorInfo>& inputs() const override { return inputs_; }
  const std::vector<TensorInfo>& outputs() const override { return outputs_; }
  const std::map<std::string, std::string>& metadata() const override { return metadata_; }
  Result<std::vector<HostTensor>> Run(const std::vector<HostTensor>& inputs, const RunOptions& options) override {
    if (inputs.size() != 1) return Status(Code::kUsage, "input 'x' is missing");
    ++control_.running;
    if (options.cancel != nullptr) std::this_thread::sleep_for(control_.run_for.load());
    {
      std::unique_lock lock(control_.mutex);
      while (control_.hold && !(options.cancel != nullptr && options.cancel->cancelled()) &&
             std::chrono::steady_clock::now() < options.deadline) {
        control_.changed.wait_for(lock, milliseconds(1));
      }
    }
    --control_.running;
    if (options.cancel != nullptr && options.cancel->cancelled()) return Status(Code::kCancelled, "run cancelled");
    if (std::chrono::steady_clock::now() >= options.deadline)
      return Status(Code::kCancelled, "run cancelled; its deadline passed");
    const float* x = static_cast<const float*>(inputs[0].data);
    result_.assign(x, x + inputs[0].bytes / sizeof(float));
    for (float& v : result_) {
      if (v < 0) return Status(Code::kBadInput, "index out of range");
      v += static_cast<float>(add_);
    }
    if (options.cancel != nullptr) {   // warm-up has none
      ++control_.runs;
      control_.most_rows = std::max(control_.most_rows.load(), inputs[0].shape[0]);
    }
    HostTensor y = inputs[0];
    y.name = "y";
    y.data = result_.data();
    y.owner = nullptr;
    return std::vector<HostTensor>{y};
  }
  Status RunInto(const HostTensor*, size_t, HostTensor*, size_t, const RunOptions&) override { return {Code::kUnsupported, ""}; }
  Status CarryState(const std::string&, const std::string&) override { return {Code::kUnsupported, ""}; }
  void ResetState() override {}
  void Trim() override { ++control_.trims; }
  MemoryReport memory() const override {
    MemoryReport m;
    m.charged = 1000;
    return m;
  }
  std::vector<KernelReport> kernels() const override { return {}; }
  int threads() const override { return 1; }

 private:
  Control& control_;
  int add_;
  std::vector<TensorInfo> inputs_, outputs_;
  std::map<std::string, std::string> metadata_;
  std::vector<float> result_;
};

// Collects answers.
struct Answers {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<InferResponse> all;

  std::function<void(InferResponse)> Take() {
    return [this](InferResponse r) {
      const std::lock_guard lock(mutex);
      all.push_back(std::move(r));
      changed.notify_all();
    };
  }
  bool Wait(size_t n) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(20), [&] { return all.size() >= n; });
  }
  int Count(Outcome outcome) {
    const std::lock_guard lock(mutex);
    return static_cast<int>(std::count_if(all.begin(), all.end(), [&](const InferResponse& r) { return r.outcome == outcome; }));
  }
};

class ServerTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("tenon_serve_" + std::to_string(::getpid()) + "_" +
                                           ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_ / "m" / "1");
    Touch("m/1/model.onnx");
  }
  void TearDown() override {
    control_.Hold(false);
    server_.reset();
    EXPECT_EQ(control_.sessions, 0);
    fs::remove_all(folder_);
  }
  void Touch(const std::string& file) {
    fs::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file, std::ios::app) << "x";
  }
  void Start(ServerOptions options = {}) {
    options.repository = folder_;
    options.cores = {};
    options.open = [this](const auto&, const auto&, const SessionOptions& session) -> Result<std::unique_ptr<Session>> {
      if (control_.fail_open) return Status(Code::kBadInput, "damaged");
      const std::lock_guard lock(control_.mutex);
      control_.opened.push_back(session);
      return std::unique_ptr<Session>(new FakeSession(control_, control_.add));
    };
    auto server = InferenceServer::Create(std::move(options));
    ASSERT_TRUE(server.ok());
    server_ = std::move(server).value();
    const Status status = server_->Start();
    ASSERT_TRUE(status.ok()) << status.message();
  }
  static InferRequest Ask(std::vector<float> values, const std::string& model = "m") {
    InferRequest r;
    r.model = model;
    auto owner = std::make_shared<std::vector<float>>(std::move(values));
    HostTensor x;
    x.name = "x";
    x.dtype = DType::kF32;
    x.shape = {static_cast<int64_t>(owner->size()) / 2, 2};
    x.data = owner->data();
    x.bytes = owner->size() * sizeof(float);
    x.owner = owner;
    r.inputs = {x};
    return r;
  }
  std::shared_ptr<InferTicket> Send(InferRequest request) { return server_->Infer(std::move(request), answers_.Take()); }
  ModelStatistics Stats(const std::string& name = "m") {
    const auto all = server_->Statistics(name);
    return all.empty() ? ModelStatistics{} : all[0];
  }
  void ExpectInvariant() {
    for (const ModelStatistics& s : server_->Statistics()) {
      uint64_t sum = s.in_flight;
      for (uint64_t n : s.outcomes) sum += n;
      EXPECT_EQ(s.accepted, sum) << s.name;
    }
  }
  void WaitRunning(int n) {
    while (control_.running < n) std::this_thread::sleep_for(milliseconds(1));
  }

  Control control_;
  fs::path folder_;
  Answers answers_;
  std::unique_ptr<InferenceServer> server_;
};

}  // namespace tenon::serve

#endif  // TENON_SERVE_SERVER_FIXTURE_H_
