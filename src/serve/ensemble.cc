#include "serve/ensemble.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>

#include "serve/ensemble_plan.h"
#include "serve/outcome.h"

namespace tenon::serve {
namespace {

constexpr uint64_t kDefaultLimit = uint64_t{1} << 30;
constexpr size_t kMostAtOnce = 8;  // requests of one part to its model, so that no queue is filled by one client
constexpr std::chrono::milliseconds kLook{5};  // how late a cancelled request may notice

using Clock = std::chrono::steady_clock;

// Answers of models on their way to the thread that waits for them.
class Inbox {
 public:
  struct Letter {
    size_t part = 0;
    size_t index = 0;
    InferResponse response;
  };
  void Put(Letter letter) {
    {
      const std::lock_guard lock(mutex_);
      letters_.push_back(std::move(letter));
    }
    arrived_.notify_one();
  }
  std::deque<Letter> Take(Clock::duration wait) {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, wait, [this] { return !letters_.empty(); });
    return std::exchange(letters_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Letter> letters_;
};

class CoreTurn {
 public:
  CoreTurn(CoreGate& gate, TimeShare& share, const std::vector<int>& cores) : gate_(gate), share_(share), cores_(cores) {
    gate_.Acquire(cores_, share_);
  }
  ~CoreTurn() { gate_.Release(cores_, share_); }

 private:
  CoreGate& gate_;
  TimeShare& share_;
  const std::vector<int>& cores_;
};

uint64_t BytesOf(const HostTensor& t) {
  uint64_t bytes = t.bytes;
  for (const std::string& s : t.strings) bytes += s.size() + sizeof(std::string);
  for (const HostTensor& e : t.sequence) bytes += BytesOf(e);
  return bytes;
}

// One request on its way through the parts.
class Run {
 public:
  Run(const EnsemblePlan& plan, const EnsembleServices& services, const std::vector<int>& cores, const RunOptions& options,
      uint64_t limit)
      : plan_(plan),
        services_(services),
        cores_(cores),
        options_(options),
        values_(plan.values.size()),
        ready_(plan.values.size()),
        states_(plan.parts.size()) {
    context_.bytes_left = limit;
    context_.poll = [this] { return Poll(); };
  }

  Result<std::vector<HostTensor>> Go(const std::vector<HostTensor>& inputs) {
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      const auto it =
          std::find_if(inputs.begin(), inputs.end(), [&](const HostTensor& t) { return t.name == plan_.inputs[i].name; });
      if (it == inputs.end()) return Usage("input '{}' is missing", plan_.inputs[i].name);
      Set(plan_.input_values[i], *it);
    }
    Status status = Advance();
    while (status.ok() && pending_ > 0) {
      for (Inbox::Letter& letter : inbox_->Take(kLook)) {
        --pending_;
        if (status.ok()) status = Accept(letter);
      }
      if (status.ok()) status = Poll();
      if (status.ok()) status = Advance();
    }
    if (!status.ok()) Abandon();
    if (!status.ok() && status.code() == Code::kResourceLimit && !outcome_) outcome_ = Outcome::kTooLarge;
    if (!status.ok()) return status;
    std::vector<HostTensor> outputs;
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      outputs.push_back(values_[plan_.output_values[i]]);
      outputs.back().name = plan_.outputs[i].name;
    }
    return outputs;
  }

  std::optional<Outcome> outcome() const { return outcome_; }
  int retry_after_s() const { return retry_after_s_; }

 private:
  struct State {
    bool started = false;
    bool list = false;  // one request for each element of a list
    size_t total = 0;  // requests
    size_t sent = 0;
    size_t answered = 0;
    std::vector<std::vector<HostTensor>> results;  // by request
    std::vector<std::shared_ptr<InferTicket>> tickets;
  };

  Status Poll() const {
    if (options_.cancel != nullptr && options_.cancel->cancelled()) return Status(Code::kCancelled, "cancelled");
    if (Clock::now() > options_.deadline) return Status(Code::kCancelled, "the request's time was over");
    return Status::Ok();
  }

  void Set(size_t value, HostTensor tensor) {
    values_[value] = std::move(tensor);
    ready_[value] = true;
  }

  // Starts all that can start; steps run here, one after another.
  Status Advance() {
    bool again = true;
    while (again) {
      again = false;
      for (size_t i = 0; i < plan_.parts.size(); ++i) {
        const PlannedPart& part = plan_.parts[i];
        State& state = states_[i];
        const auto waits = [&](const PartPort& p) { return p.value != SIZE_MAX && !ready_[p.value]; };
        if (state.started) {
          if (state.sent < state.total) Send(i);
          continue;
        }
        if (std::any_of(part.inputs.begin(), part.inputs.end(), waits)) continue;
        state.started = true;
        Status status = part.model.empty() ? RunStep(part) : StartModel(i);
        if (!status.ok()) return std::move(status).Within(part.name);
        again = again || state.total == 0;  // its values are there
      }
    }
    return Status::Ok();
  }

  Status RunStep(const PlannedPart& part) {
    TENON_RETURN_IF_ERROR(Poll());
    std::vector<HostTensor> inputs;
    for (const PartPort& p : part.inputs) {
      if (p.value == SIZE_MAX) {
        inputs.emplace_back();
        continue;
      }
      const HostTensor& t = values_[p.value];
      for (const HostTensor& e : AsList(t)) {
        const bool fits =
            p.dtype == DType::kUndefined || e.dtype == p.dtype || (p.dtype == DType::kU8 && e.dtype == DType::kString);
        if (!fits) return Usage("input '{}' has another type than it takes", p.name);
      }
      inputs.push_back(t);
    }
    const CoreTurn turn(*services_.gate, *services_.share, cores_);
    auto outputs = part.step->Run(inputs, context_);
    if (!outputs.ok()) return std::move(outputs).TakeStatus();
    for (size_t i = 0; i < part.outputs.size(); ++i) {
      if (part.outputs[i].value != SIZE_MAX) Set(part.outputs[i].value, std::move((*outputs)[i]));
    }
    return Status::Ok();
  }

  Status StartModel(size_t index) {
    const PlannedPart& part = plan_.parts[index];
    State& state = states_[index];
    state.total = 1;
    for (const PartPort& p : part.inputs) {
      if (p.value == SIZE_MAX || !values_[p.value].is_sequence) continue;
      const size_t n = values_[p.value].sequence.size();
      if (state.list && n != state.total) return Usage("lists of {} and {} elements", state.total, n);
      state.list = true;
      state.total = n;
    }
    state.results.resize(state.total);
    state.tickets.resize(state.total);
    if (state.total == 0) {
      Finish(index);
    } else {
      Send(index);
    }
    return Status::Ok();
  }

  void Send(size_t index) {
    const PlannedPart& part = plan_.parts[index];
    State& state = states_[index];
    while (state.sent < state.total && state.sent - state.answered < kMostAtOnce) {
      const size_t i = state.sent++;
      InferRequest request;
      request.model = part.model;
      request.version = part.version;
      for (const PartPort& p : part.inputs) {
        if (p.value == SIZE_MAX) continue;
        const HostTensor& t = values_[p.value];
        request.inputs.push_back(t.is_sequence ? t.sequence[i] : t);
        request.inputs.back().name = p.name;
      }
      for (const PartPort& p : part.outputs) {
        if (p.value != SIZE_MAX) request.outputs.push_back(p.name);
      }
      if (options_.deadline != Clock::time_point::max()) {
        const auto left = std::chrono::duration_cast<std::chrono::microseconds>(options_.deadline - Clock::now());
        request.timeout = std::max(left, std::chrono::microseconds(1));
      }
      ++pending_;
      state.tickets[i] = services_.infer(std::move(request), [inbox = inbox_, index, i](InferResponse response) {
        inbox->Put({index, i, std::move(response)});
      });
    }
  }

  Status Accept(Inbox::Letter& letter) {
    State& state = states_[letter.part];
    const PlannedPart& part = plan_.parts[letter.part];
    InferResponse& r = letter.response;
    ++state.answered;
    state.tickets[letter.index] = nullptr;
    if (r.outcome != Outcome::kOk) {
      outcome_ = r.outcome == Outcome::kNotFound ? Outcome::kNotReady : r.outcome;
      retry_after_s_ = outcome_ == Outcome::kNotReady ? std::max(1, r.retry_after_s) : r.retry_after_s;
      return Status(CodeOf(r.outcome), r.message);
    }
    for (const HostTensor& t : r.outputs) TENON_RETURN_IF_ERROR(context_.Take(BytesOf(t), part.name.c_str()));
    state.results[letter.index] = std::move(r.outputs);
    if (state.answered == state.total) Finish(letter.part);
    return Status::Ok();
  }

  void Finish(size_t index) {
    State& state = states_[index];
    size_t at = 0;
    for (const PartPort& p : plan_.parts[index].outputs) {
      if (p.value == SIZE_MAX) continue;
      if (state.list) {
        std::vector<HostTensor> list;
        for (auto& result : state.results) list.push_back(std::move(result[at]));
        Set(p.value, FromList(std::move(list)));
      } else {
        Set(p.value, std::move(state.results[0][at]));
      }
      ++at;
    }
  }

  // Nothing of this request goes on when it has failed.
  void Abandon() {
    for (State& state : states_) {
      for (const auto& ticket : state.tickets) {
        if (ticket != nullptr) ticket->Cancel();
      }
    }
    while (pending_ > 0) pending_ -= inbox_->Take(kLook).size();
  }

  const EnsemblePlan& plan_;
  const EnsembleServices& services_;
  const std::vector<int>& cores_;
  const RunOptions& options_;
  std::vector<HostTensor> values_;
  std::vector<bool> ready_;
  std::vector<State> states_;
  StepContext context_;
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  size_t pending_ = 0;
  std::optional<Outcome> outcome_;
  int retry_after_s_ = 0;
};

class LocalEnsemble final : public EnsembleSession {
 public:
  LocalEnsemble(EnsemblePlan plan, EnsembleServices services, uint64_t limit)
      : plan_(std::move(plan)), services_(std::move(services)), cores_{services_.core}, limit_(limit) {}

  const std::vector<TensorInfo>& inputs() const override { return plan_.inputs; }
  const std::vector<TensorInfo>& outputs() const override { return plan_.outputs; }
  const std::map<std::string, std::string>& metadata() const override { return metadata_; }

  Result<std::vector<HostTensor>> Run(const std::vector<HostTensor>& inputs, const RunOptions& options) override {
    serve::Run run(plan_, services_, cores_, options, limit_);
    auto outputs = run.Go(inputs);
    outcome_ = run.outcome();
    retry_after_s_ = run.retry_after_s();
    return outputs;
  }
  std::optional<Outcome> outcome() const override { return outcome_; }
  int retry_after_s() const override { return retry_after_s_; }

  Status RunInto(const HostTensor*, size_t, HostTensor*, size_t, const RunOptions&) override { return None(); }
  Status CarryState(const std::string&, const std::string&) override { return None(); }
  void ResetState() override {}
  void Trim() override {}
  MemoryReport memory() const override { return {}; }  // values live during a run only
  std::vector<KernelReport> kernels() const override { return {}; }
  int threads() const override { return 1; }

 private:
  static Status None() { return Unsupported("an ensemble has no such call; allowed: Run"); }

  EnsemblePlan plan_;
  EnsembleServices services_;
  std::vector<int> cores_;
  uint64_t limit_;
  std::map<std::string, std::string> metadata_;
  std::optional<Outcome> outcome_;
  int retry_after_s_ = 0;
};

}  // namespace

Result<std::unique_ptr<EnsembleSession>> EnsembleSession::Create(const Ensemble& ensemble, EnsembleServices services,
                                                                 uint64_t memory_limit) {
  TENON_ASSIGN_OR_RETURN(EnsemblePlan plan, PlanEnsemble(ensemble, services.describe));
  const uint64_t limit = memory_limit > 0 ? memory_limit : kDefaultLimit;
  return std::unique_ptr<EnsembleSession>(new LocalEnsemble(std::move(plan), std::move(services), limit));
}

}  // namespace tenon::serve
