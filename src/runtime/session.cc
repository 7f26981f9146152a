#include "tenon/session.h"

#include <algorithm>
#include <cstring>

#include <fmt/ranges.h>

#include "artifact/artifact.h"
#include "hw/quota.h"
#include "runtime/executor.h"
#include "runtime/host_tensor.h"
#include "runtime/open.h"
#include "runtime/packed.h"

namespace tenon {
namespace {

using artifact::Program;
using runtime::Executor;
using runtime::ToHost;

TensorInfo InfoOf(const artifact::ProgramValue& v) {
  TensorInfo info{v.name, v.dtype, v.is_sequence, v.shape.has_rank(), {}};
  for (const Dim& d : v.shape.dims()) info.dims.push_back(d.ToString());
  return info;
}

std::string Join(const std::vector<TensorInfo>& infos) {
  std::string names;
  for (const TensorInfo& i : infos) names += (names.empty() ? "'" : ", '") + i.name + "'";
  return names;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

// Host tensors <-> views. Strings and sequences need owners for the length of a run.
Result<Tensor> ToTensor(const HostTensor& t);

class InputBinder {
 public:
  Result<View> Bind(const HostTensor& t) {
    TENON_ASSIGN_OR_RETURN(const Shape shape, CheckedShape(t.shape));
    if (t.is_sequence) {
      Sequence sequence;
      for (const HostTensor& e : t.sequence) {
        TENON_ASSIGN_OR_RETURN(Tensor element, ToTensor(e));
        sequence.push_back(std::move(element));
      }
      sequences_.push_back(std::make_unique<Sequence>(std::move(sequence)));
      return View{DType::kUndefined, Shape(), nullptr, sequences_.back().get()};
    }
    const int64_t n = shape.num_elements();
    if (t.dtype == DType::kString) {
      if (t.strings.size() != static_cast<size_t>(n)) {
        return Usage("input '{}'; {} strings given for shape {}", t.name, t.strings.size(), ShapeText(t.shape));
      }
      return View{t.dtype, shape, t.strings.data(), nullptr};
    }
    if (t.bytes != DTypeBytes(t.dtype, n) || (t.data == nullptr && t.bytes > 0)) {
      return Usage("input '{}'; {} bytes given; shape {} of {} has {}", t.name, t.bytes, ShapeText(t.shape), DTypeName(t.dtype),
                   DTypeBytes(t.dtype, n));
    }
    return View{t.dtype, shape, t.data, nullptr};
  }

 private:
  std::vector<std::unique_ptr<Sequence>> sequences_;
};

Result<Tensor> ToTensor(const HostTensor& t) {
  InputBinder binder;
  TENON_ASSIGN_OR_RETURN(const View view, binder.Bind(t));
  return Tensor::CopyOf(view);
}

class ModelSession final : public Session {
 public:
  ModelSession(artifact::Artifact artifact, std::unique_ptr<hw::Machine> machine)
      : artifact_(std::move(artifact)), machine_(std::move(machine)) {}

  Status Prepare(int max_cached_shapes) {
    const Program& p = artifact_.program;
    for (auto v : p.inputs) inputs_.push_back(InfoOf(p.values[static_cast<size_t>(v)]));
    for (auto v : p.outputs) outputs_.push_back(InfoOf(p.values[static_cast<size_t>(v)]));
    for (const auto& v : p.values) weights_ += v.constant.defined() ? v.constant.bytes() : 0;
    machine_->team.Enter();
    TENON_ASSIGN_OR_RETURN(executor_, Executor::Create(p, *machine_, max_cached_shapes));
    views_.resize(p.inputs.size());
    carried_from_.assign(p.inputs.size(), -1);
    fed_.assign(p.inputs.size(), false);
    return Status::Ok();
  }

  void BindKv(const kernels::KvStep* kv) { executor_->BindKv(kv); }
  bool packs_serve() const { return executor_->prepared().packs_serve; }

  const std::vector<TensorInfo>& inputs() const override { return inputs_; }
  const std::vector<TensorInfo>& outputs() const override { return outputs_; }
  const std::map<std::string, std::string>& metadata() const override { return artifact_.program.metadata; }
  int threads() const override { return machine_->team.size(); }

  Result<std::vector<HostTensor>> Run(const std::vector<HostTensor>& inputs, const RunOptions& options) override {
    InputBinder binder;
    std::fill(fed_.begin(), fed_.end(), false);
    for (const HostTensor& t : inputs) {
      const auto it = std::find_if(inputs_.begin(), inputs_.end(), [&](const TensorInfo& i) { return i.name == t.name; });
      if (it == inputs_.end()) return Usage("unknown input '{}'; the model takes {}", t.name, Join(inputs_));
      const auto index = static_cast<size_t>(it - inputs_.begin());
      if (fed_[index]) return Usage("input '{}' is given twice", t.name);
      TENON_RETURN_IF_ERROR(Feed(index, t, &binder));
    }
    TENON_RETURN_IF_ERROR(Execute(options));
    std::vector<HostTensor> outputs;
    for (size_t i = 0; i < outputs_.size(); ++i)
      outputs.push_back(ToHost(outputs_[i].name, outputs_[i].dtype, executor_->output(i)));
    return outputs;
  }

  Status RunInto(const HostTensor* inputs, size_t num_inputs, HostTensor* outputs, size_t num_outputs,
                 const RunOptions& options) override {
    if (num_inputs != inputs_.size() || num_outputs != outputs_.size()) {
      return Usage("{} inputs and {} outputs given; the model has {} and {}", num_inputs, num_outputs, inputs_.size(),
                   outputs_.size());
    }
    InputBinder binder;
    std::fill(fed_.begin(), fed_.end(), false);
    for (size_t i = 0; i < num_inputs; ++i) TENON_RETURN_IF_ERROR(Feed(i, inputs[i], &binder));
    for (size_t i = 0; i < num_outputs; ++i) executor_->BindOutput(i, const_cast<void*>(outputs[i].data), outputs[i].bytes);
    Status status = Execute(options);
    for (size_t i = 0; i < num_outputs; ++i) executor_->BindOutput(i, nullptr, 0);
    TENON_RETURN_IF_ERROR(std::move(status));
    for (size_t i = 0; i < num_outputs; ++i) {
      const View& v = executor_->output(i);
      if (v.sequence != nullptr || v.dtype == DType::kString)
        return Usage("output '{}' does not fit plain memory; use Run", outputs_[i].name);
      if (outputs[i].bytes < v.bytes()) {
        return Usage("output '{}'; {} bytes given, {} needed", outputs_[i].name, outputs[i].bytes, v.bytes());
      }
      if (v.data != outputs[i].data && v.bytes() > 0) std::memcpy(const_cast<void*>(outputs[i].data), v.data, v.bytes());
      outputs[i].dtype = v.dtype;
      outputs[i].shape.assign(v.shape.begin(), v.shape.end());
    }
    return Status::Ok();
  }

  Status CarryState(const std::string& output, const std::string& input) override {
    const auto find = [](const std::vector<TensorInfo>& infos, const std::string& name) {
      return std::find_if(infos.begin(), infos.end(), [&](const TensorInfo& i) { return i.name == name; }) - infos.begin();
    };
    const auto o = find(outputs_, output);
    const auto i = find(inputs_, input);
    if (o == static_cast<std::ptrdiff_t>(outputs_.size()))
      return Usage("unknown output '{}'; the model gives {}", output, Join(outputs_));
    if (i == static_cast<std::ptrdiff_t>(inputs_.size()))
      return Usage("unknown input '{}'; the model takes {}", input, Join(inputs_));
    carried_from_[static_cast<size_t>(i)] = static_cast<int>(o);
    return Status::Ok();
  }

  void ResetState() override { state_.clear(); }

  void Trim() override { executor_->Trim(); }

  MemoryReport memory() const override {
    MemoryReport m;
    m.weights = weights_;
    m.packed = executor_->packed_bytes();
    if (const auto* plan = executor_->plan()) {
      m.arena_before = plan->memory.before;
      m.arena = plan->memory.peak;
      for (const auto& s : plan->steps) m.scratch = std::max<uint64_t>(m.scratch, s.configured.scratch_bytes);
    }
    m.outputs = executor_->output_bytes();
    m.charged = machine_->budget.used();
    m.cached_shapes = executor_->cached_shapes();
    return m;
  }

  std::vector<KernelReport> kernels() const override {
    std::vector<KernelReport> reports;
    Collect(*executor_, *machine_, &reports);
    return reports;
  }

 private:
  // The value whose type says what the step computes in.
  static const artifact::ProgramValue* PrecisionValue(const Program& p, const artifact::Step& step) {
    if (step.inputs.size() > 1 && step.inputs[1] != artifact::kAbsent) {
      const auto& weights = p.values[static_cast<size_t>(step.inputs[1])];
      if (weights.constant.defined() && weights.constant.shape().rank() >= 2) return &weights;
    }
    if (step.outputs.empty() || step.outputs[0] == artifact::kAbsent) return nullptr;
    return &p.values[static_cast<size_t>(step.outputs[0])];
  }

  static void Collect(const Executor& executor, const hw::Machine& machine, std::vector<KernelReport>* reports) {
    for (const auto& step : executor.prepared().steps) {
      KernelReport r;
      r.node = step.step->name;
      r.op = step.step->op;
      if (step.row != nullptr && !step.op->is_view) r.kernel = step.row->name;
      if (const artifact::ProgramValue* v = PrecisionValue(executor.program(), *step.step)) r.precision = DTypeName(v->dtype);
      const auto others = runtime::Alternatives(executor.program(), step, machine);
      r.alternatives.assign(others.begin(), others.end());
      for (const auto& [name, reason] : step.refused) r.refused.emplace_back(name, reason);
      reports->push_back(std::move(r));
      for (const auto& body : step.bodies) {
        if (body != nullptr) Collect(*body, machine, reports);
      }
    }
  }

  Status Feed(size_t index, const HostTensor& t, InputBinder* binder) {
    const TensorInfo& info = inputs_[index];
    if (info.is_sequence && !t.is_sequence && t.dtype == info.dtype) {
      // A tensor where an optional is taken: an optional that has it.
      HostTensor optional;
      optional.is_sequence = true;
      optional.sequence.push_back(t);
      return Feed(index, optional, binder);
    }
    if (t.is_sequence != info.is_sequence || (!t.is_sequence && t.dtype != info.dtype)) {
      return Usage("input '{}'; {}{} given; the model takes {}{}", info.name, t.is_sequence ? "sequence of " : "",
                   DTypeName(t.dtype), info.is_sequence ? "sequence of " : "", DTypeName(info.dtype));
    }
    TENON_ASSIGN_OR_RETURN(views_[index], binder->Bind(t));
    fed_[index] = true;
    return Status::Ok();
  }

  Status Execute(const RunOptions& options) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (fed_[i]) continue;
      auto it = carried_from_[i] >= 0 ? state_.find(i) : state_.end();
      const Tensor& fallback = artifact_.program.values[static_cast<size_t>(artifact_.program.inputs[i])].constant;
      if (it == state_.end() && fallback.defined()) {
        views_[i] = fallback.view();
        continue;
      }
      if (it == state_.end()) return Usage("input '{}' is missing; the model takes {}", inputs_[i].name, Join(inputs_));
      views_[i] = it->second.view();
    }
    TENON_RETURN_IF_ERROR(CheckShapes());
    machine_->team.Enter();
    TENON_RETURN_IF_ERROR(executor_->Run(views_, options));
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (carried_from_[i] < 0) continue;
      TENON_RETURN_IF_ERROR(KeepState(i, executor_->output(static_cast<size_t>(carried_from_[i]))));
    }
    return Status::Ok();
  }

  // States are small: one copy into memory that is kept from run to run.
  Status KeepState(size_t input, const View& v) {
    if (v.sequence != nullptr) return Unsupported("a sequence cannot be carried as state");
    Tensor& t = state_[input];
    if (!t.defined() || t.dtype() != v.dtype || !(t.shape() == v.shape) || v.dtype == DType::kString) {
      TENON_ASSIGN_OR_RETURN(t, Tensor::CopyOf(v));
    } else if (v.bytes() > 0) {
      std::memcpy(t.mutable_data(), v.data, v.bytes());
    }
    return Status::Ok();
  }

  // Declared extents hold, and one symbol has one value throughout.
  Status CheckShapes() {
    bound_.clear();
    const Program& p = artifact_.program;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const SymShape& declared = p.values[static_cast<size_t>(p.inputs[i])].shape;
      const View& given = views_[i];
      if (given.sequence != nullptr || !declared.has_rank()) continue;
      if (given.shape.rank() != declared.rank()) {
        return Usage("input '{}'; shape {} given; the model takes {}", inputs_[i].name, given.shape.ToString(),
                     declared.ToString());
      }
      for (int d = 0; d < declared.rank(); ++d) TENON_RETURN_IF_ERROR(CheckExtent(i, d, declared, given.shape));
    }
    return Status::Ok();
  }

  Status CheckExtent(size_t i, int d, const SymShape& declared, const Shape& given) {
    const Dim& want = declared[d];
    if (want.is_const()) {
      if (want.value() == given[d]) return Status::Ok();
      return Usage("input '{}'; shape {} given; the model takes {}", inputs_[i].name, given.ToString(), declared.ToString());
    }
    if (want.is_unknown()) return Status::Ok();
    if (const auto symbol = want.symbol()) {
      const auto range = artifact_.program.ranges.find(*symbol);
      if (range != artifact_.program.ranges.end() && (given[d] < range->second.first || given[d] > range->second.second)) {
        return Usage("input '{}'; extent {} given for '{}'; the artifact was compiled for {}..{}", inputs_[i].name, given[d],
                     *symbol, range->second.first, range->second.second);
      }
    }
    for (const auto& [dim, value, input] : bound_) {
      if (!(*dim == want)) continue;
      if (value == given[d]) return Status::Ok();
      return Usage("inputs '{}' and '{}' disagree; symbol '{}' is {} in one and {} in the other", inputs_[input].name,
                   inputs_[i].name, want.ToString(), value, given[d]);
    }
    bound_.push_back({&want, given[d], i});
    return Status::Ok();
  }

  struct Bound {
    const Dim* dim;
    int64_t value;
    size_t input;
  };

  artifact::Artifact artifact_;
  std::unique_ptr<hw::Machine> machine_;
  std::unique_ptr<Executor> executor_;
  std::vector<TensorInfo> inputs_;
  std::vector<TensorInfo> outputs_;
  std::vector<View> views_;
  std::vector<bool> fed_;
  std::vector<int> carried_from_;        // per input: output it is carried from, or -1
  std::map<size_t, Tensor> state_;
  std::vector<Bound> bound_;
  uint64_t weights_ = 0;
};

Result<std::unique_ptr<hw::Machine>> MakeMachine(const SessionOptions& options) {
  const hw::CpuAllowance allowance = hw::DetectCpuAllowance();
  if (options.threads < 0) return Usage("{} threads; the number must not be negative", options.threads);
  for (int core : options.cores) {
    if (!std::binary_search(allowance.cpus.begin(), allowance.cpus.end(), core)) {
      return Usage("core {} is not among those this process may use; {}", core, allowance.explanation);
    }
  }
  constexpr int kMaxThreads = 1024;
  int threads = options.threads;
  if (threads == 0) threads = options.cores.empty() ? allowance.threads : static_cast<int>(options.cores.size());
  TENON_ASSIGN_OR_RETURN(hw::IsaMask isa, hw::ActiveIsa());
  if (!options.isa.empty()) {
    TENON_ASSIGN_OR_RETURN(const hw::IsaMask wish, hw::IsaFromLevel(options.isa));
    isa = wish == ~hw::IsaMask{0} ? hw::DetectIsa() : wish;
    if (!hw::Covers(hw::DetectIsa(), isa)) {
      return Unsupported("instruction set '{}'; this CPU has {}", options.isa, hw::IsaToString(hw::DetectIsa()));
    }
  }
  return std::make_unique<hw::Machine>(isa, std::min(threads, kMaxThreads), options.cores, options.memory_limit);
}

// `with_packed`: on the packed weights of the file, where it has those for this machine.
Result<std::unique_ptr<Session>> OpenFile(const std::string& path, const SessionOptions& options, bool with_packed) {
  TENON_ASSIGN_OR_RETURN(auto machine, MakeMachine(options));
  machine->team.Enter();
  artifact::ReadOptions read;
  read.for_each = [&](int64_t n, const std::function<void(int64_t)>& fn) {
    machine->team.ParallelFor(n, 1, [&](int64_t begin, int64_t end, int /*thread*/) {
      for (int64_t i = begin; i < end; ++i) fn(i);
    });
  };
  if (with_packed) read.packed_for = runtime::PackedFor(machine->isa);
  TENON_ASSIGN_OR_RETURN(auto artifact, artifact::Read(path, read));
  const bool packed = artifact.packed;
  auto session = std::make_unique<ModelSession>(std::move(artifact), std::move(machine));
  Status status = session->Prepare(options.max_cached_shapes).Within(fmt::format("artifact '{}'", path));
  // Where another kernel was chosen than the one that was packed for, the constants are needed after all, and they were not
  // checked.
  if (packed && !(status.ok() && session->packs_serve())) return OpenFile(path, options, false);
  TENON_RETURN_IF_ERROR(std::move(status));
  return std::unique_ptr<Session>(std::move(session));
}

}  // namespace

namespace runtime {

Result<std::unique_ptr<Session>> OpenArtifact(artifact::Artifact artifact, const SessionOptions& options) {
  TENON_ASSIGN_OR_RETURN(auto machine, MakeMachine(options));
  auto session = std::make_unique<ModelSession>(std::move(artifact), std::move(machine));
  TENON_RETURN_IF_ERROR(session->Prepare(options.max_cached_shapes));
  return std::unique_ptr<Session>(std::move(session));
}

void BindKv(Session& session, const kernels::KvStep* kv) {
  dynamic_cast<ModelSession&>(session).BindKv(kv);
}

Result<std::unique_ptr<Session>> OpenProgram(artifact::Program program, const SessionOptions& options) {
  artifact::Artifact artifact;
  artifact.program = std::move(program);
  return OpenArtifact(std::move(artifact), options);
}

}  // namespace runtime

Result<std::unique_ptr<Session>> Session::Open(const std::string& path, const SessionOptions& options) {
  return OpenFile(path, options, true);
}

}  // namespace tenon
