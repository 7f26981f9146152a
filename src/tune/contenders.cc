#include "tune/contenders.h"

#include <charconv>

#include "runtime/open.h"

namespace tenon::tune {
namespace {

// Names that tell top-level steps by their index from those of bodies, which have none.
void Number(artifact::Program* program, bool top) {
  for (size_t i = 0; i < program->steps.size(); ++i) {
    artifact::Step& step = program->steps[i];
    step.name = top ? std::to_string(i) : "";
    for (auto& body : step.bodies) Number(&body, false);
  }
}

// `count` for a step of a body.
size_t IndexOf(std::string_view name, size_t count) {
  size_t index = count;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  return error == std::errc() && end == name.data() + name.size() ? std::min(index, count) : count;
}

class Describer final : public StepObserver {
 public:
  explicit Describer(size_t steps) : infos(steps) {}
  bool WantsDetails() const override { return true; }
  void OnStep(const StepRecord& r) override {
    const size_t i = IndexOf(r.name, infos.size());
    if (i < infos.size()) infos[i] = {true, std::string(r.kernel), r.shapes, *r.details};
  }
  std::vector<Contender::StepInfo> infos;
};

class Timer final : public StepObserver {
 public:
  explicit Timer(size_t steps) : us(steps) {}
  bool WantsShapes() const override { return false; }
  void OnStep(const StepRecord& r) override {
    const size_t i = IndexOf(r.name, us.size());
    if (i < us.size()) us[i] += static_cast<double>(r.duration_ns) / 1e3;
  }
  std::vector<double> us;
};

}  // namespace

Result<std::unique_ptr<Contender>> Contender::Enter(const artifact::Program& program, const KernelWishes& wishes,
                                                    const SessionOptions& options) {
  auto c = std::make_unique<Contender>();
  c->steps_ = program.steps.size();
  artifact::Program variant = program;
  for (const auto& [step, kernel] : wishes) variant.steps[step].kernel = kernel;
  Number(&variant, true);
  TENON_ASSIGN_OR_RETURN(c->session_, runtime::OpenProgram(std::move(variant), options));
  return c;
}

Result<std::vector<Contender::StepInfo>> Contender::Describe(const std::vector<HostTensor>& inputs, const RunOptions& run) {
  Describer describer(steps_);
  RunOptions observed = run;
  observed.observer = &describer;
  TENON_RETURN_IF_ERROR(session_->Run(inputs, observed).status());
  return std::move(describer.infos);
}

Result<std::vector<double>> Contender::Time(const std::vector<HostTensor>& inputs, const RunOptions& run) {
  Timer timer(steps_);
  RunOptions observed = run;
  observed.observer = &timer;
  TENON_RETURN_IF_ERROR(session_->Run(inputs, observed).status());
  return std::move(timer.us);
}

std::vector<std::vector<std::string>> Contender::Alternatives() const {
  std::vector<std::vector<std::string>> all(steps_);
  for (KernelReport& report : session_->kernels()) {
    const size_t i = IndexOf(report.node, steps_);
    if (i < steps_) all[i] = std::move(report.alternatives);
  }
  return all;
}

}  // namespace tenon::tune
