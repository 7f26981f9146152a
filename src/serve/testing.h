// For tests of what talks to an InferenceServer.
#ifndef TENON_SERVE_TESTING_H_
#define TENON_SERVE_TESTING_H_

#include "base/status.h"
#include "tenon/server.h"

namespace tenon::serve::testing {

/// A server that is ready, holds nothing and takes everything; Infer is left to say.
class StubServer : public InferenceServer {
 public:
  Status Start() override { return Status::Ok(); }
  void CountRefused(const std::string&, Outcome) override {}
  Status Load(const std::string&, const std::optional<ModelConfig>&) override { return Status::Ok(); }
  Status Unload(const std::string&) override { return Status::Ok(); }
  std::vector<ModelState> Index() const override { return {}; }
  bool ModelReady(const std::string&, const std::string&) const override { return true; }
  bool Ready() const override { return true; }
  Result<ModelDescription> Describe(const std::string&, const std::string&) const override { return ModelDescription(); }
  std::vector<ModelStatistics> Statistics(const std::string&, const std::string&) const override { return {}; }
  std::vector<DeviceState> Devices() const override { return {}; }
  Status SetGroup(const DeviceGroup&) override { return Status::Ok(); }
  Status RemoveGroup(const std::string&) override { return Status::Ok(); }
  uint64_t memory_used() const override { return 0; }
  uint64_t memory_limit() const override { return 0; }
  int cores() const override { return 1; }
  bool Drain(std::chrono::milliseconds) override { return true; }
};

}  // namespace tenon::serve::testing

#endif  // TENON_SERVE_TESTING_H_
