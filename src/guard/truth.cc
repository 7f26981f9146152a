#include "guard/truth.h"

#include <algorithm>
#include <map>

#include "guard/slice.h"
#include "guard/source.h"
#include "media/npz.h"
#include "runtime/open.h"

namespace tenon::guard {
namespace {

namespace fs = std::filesystem;

class ProgramTruth final : public Truth {
 public:
  ProgramTruth(std::string name, std::unique_ptr<Session> session, std::map<std::string, std::string> steps)
      : name_(std::move(name)), session_(std::move(session)), steps_(std::move(steps)) {}

  Status Use(const Sample& sample, const RunOptions& run) override {
    std::vector<HostTensor> inputs;
    for (const TensorInfo& info : session_->inputs()) {
      const auto it =
          std::find_if(sample.inputs.begin(), sample.inputs.end(), [&](const HostTensor& t) { return t.name == info.name; });
      if (it == sample.inputs.end()) return BadInput("{} takes an input '{}', which the other model does not", name_, info.name);
      inputs.push_back(*it);
    }
    auto outputs = session_->Run(inputs, run);
    if (!outputs.ok()) return std::move(outputs).TakeStatus().Within(name_);
    values_.clear();
    for (const HostTensor& t : inputs) values_.emplace(t.name, t);
    for (HostTensor& t : *outputs) values_.insert_or_assign(t.name, std::move(t));
    return Status::Ok();
  }

  Result<std::optional<HostTensor>> Find(const std::string& name) override {
    const auto it = values_.find(name);
    return it == values_.end() ? std::optional<HostTensor>() : it->second;
  }

  std::string Describe() const override { return name_; }
  std::string StepOf(const std::string& name) const override {
    const auto it = steps_.find(name);
    return it == steps_.end() ? "" : it->second;
  }

 private:
  std::string name_;
  std::unique_ptr<Session> session_;
  std::map<std::string, std::string> steps_;
  std::map<std::string, HostTensor> values_;
};

// Arrays of a dump, read when asked for.
class Dump {
 public:
  static Result<std::unique_ptr<Dump>> Open(const std::string& path) {
    auto dump = std::make_unique<Dump>();
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      TENON_ASSIGN_OR_RETURN(dump->npz_, media::NpzFile::Open(path));
      return dump;
    }
    TENON_ASSIGN_OR_RETURN(const auto paths, List(path));
    for (const fs::path& p : paths) {
      if (p.extension() == ".npy") dump->files_.emplace(p.stem().string(), p.string());
    }
    if (dump->files_.empty()) return BadInput("'{}'; holds no .npy files", path);
    return dump;
  }

  Result<std::optional<media::NpyArray>> Find(const std::string& name) {
    for (const std::string& key : {name, FileNameOf(name)}) {
      if (npz_ != nullptr ? !npz_->arrays().contains(key) : !files_.contains(key)) continue;
      TENON_ASSIGN_OR_RETURN(media::NpyArray array, npz_ != nullptr ? npz_->Read(key) : media::ReadNpy(files_.at(key)));
      return std::optional(std::move(array));
    }
    return std::optional<media::NpyArray>();
  }

 private:
  std::unique_ptr<media::NpzFile> npz_;
  std::map<std::string, std::string> files_;
};

class DumpTruth final : public Truth {
 public:
  DumpTruth(std::string path, std::unique_ptr<Dump> dump) : path_(std::move(path)), dump_(std::move(dump)) {}
  Status Use(const Sample& sample, const RunOptions& /*run*/) override {
    inputs_ = sample.inputs;
    return Status::Ok();
  }
  Result<std::optional<HostTensor>> Find(const std::string& name) override {
    for (const HostTensor& t : inputs_) {
      if (t.name == name) return std::optional(t);
    }
    TENON_ASSIGN_OR_RETURN(const auto array, dump_->Find(name));
    return array ? std::optional(ToHost(name, array->tensor)) : std::optional<HostTensor>();
  }
  std::string Describe() const override { return fmt::format("dumps in '{}'", path_); }
  std::string StepOf(const std::string& /*name*/) const override { return ""; }

 private:
  std::string path_;
  std::unique_ptr<Dump> dump_;
  std::vector<HostTensor> inputs_;
};

}  // namespace

Result<std::unique_ptr<Truth>> TruthFromProgram(const artifact::Program& program, const std::string& name,
                                                const SessionOptions& options) {
  auto session = runtime::OpenProgram(WithAllOutputs(program), options);
  if (!session.ok()) return std::move(session).TakeStatus().Within(name);
  std::map<std::string, std::string> steps;
  for (const artifact::Step& step : program.steps) {
    for (const artifact::ValueIndex v : step.outputs) {
      if (v != artifact::kAbsent) steps.emplace(program.values[static_cast<size_t>(v)].name, step.name);
    }
  }
  return {std::make_unique<ProgramTruth>(name, std::move(session).value(), std::move(steps))};
}

Result<std::unique_ptr<Truth>> TruthFromDumps(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(auto dump, Dump::Open(path));
  return {std::make_unique<DumpTruth>(path, std::move(dump))};
}

Result<std::optional<Sample>> SampleFromDumps(const std::string& path, const std::vector<TensorInfo>& inputs) {
  TENON_ASSIGN_OR_RETURN(const auto dump, Dump::Open(path));
  Sample sample;
  sample.where = fmt::format("'{}'", path);
  for (const TensorInfo& info : inputs) {
    TENON_ASSIGN_OR_RETURN(const auto array, dump->Find(info.name));
    if (!array) return std::optional<Sample>();
    auto tensor = ToType(*array, info.dtype);
    if (!tensor.ok()) return std::move(tensor).TakeStatus().Within(fmt::format("'{}': array '{}'", path, info.name));
    TENON_RETURN_IF_ERROR(CheckShape(tensor->shape(), info).Within(fmt::format("'{}': array '{}'", path, info.name)));
    sample.inputs.push_back(ToHost(info.name, *tensor));
  }
  return std::optional(std::move(sample));
}

}  // namespace tenon::guard
