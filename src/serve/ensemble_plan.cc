#include "serve/ensemble_plan.h"

#include <algorithm>

#include "base/dtype.h"

namespace tenon::serve {
namespace {

constexpr size_t kMostParts = 256;

struct Value {
  bool made = false;
  bool taken = false;
  bool list = false;
  TensorInfo info;        // where somebody says so
};

class Planner {
 public:
  Planner(const Ensemble& ensemble, const Describer& describe) : ensemble_(ensemble), describe_(describe) {}

  Result<EnsemblePlan> Plan() {
    if (ensemble_.parts.size() > kMostParts) return BadInput("{} parts; {} are allowed", ensemble_.parts.size(), kMostParts);
    for (const EnsemblePart& part : ensemble_.parts) {
      Status status = part.model.empty() ? AddStep(part) : AddModel(part);
      if (!status.ok()) return std::move(status).Within(Name(part));
    }
    TENON_RETURN_IF_ERROR(CheckTypes());
    TENON_RETURN_IF_ERROR(CheckOrder());
    TENON_RETURN_IF_ERROR(FindBorder());
    return std::move(plan_);
  }

 private:
  static std::string Name(const EnsemblePart& part) {
    return part.model.empty() ? "step '" + part.step + "'" : "model '" + part.model + "'";
  }

  size_t ValueOf(const std::string& name) {
    const auto it = std::find(plan_.values.begin(), plan_.values.end(), name);
    if (it != plan_.values.end()) return static_cast<size_t>(it - plan_.values.begin());
    plan_.values.push_back(name);
    values_.emplace_back();
    values_.back().info.name = name;
    return values_.size() - 1;
  }

  // `wired`: what the part names; each name must be one of `ports`.
  static Status CheckNames(const std::map<std::string, std::string>& wired, const std::vector<PartPort>& ports,
                           const char* what) {
    for (const auto& [name, value] : wired) {
      if (std::any_of(ports.begin(), ports.end(), [&, n = name](const PartPort& p) { return p.name == n; })) continue;
      std::string allowed;
      for (const PartPort& p : ports) allowed += (allowed.empty() ? "" : ", ") + p.name;
      return BadInput("unknown {} '{}'; allowed: {}", what, name, allowed);
    }
    return Status::Ok();
  }

  Status Wire(const EnsemblePart& part, PlannedPart planned, const std::vector<TensorInfo>& in,
              const std::vector<TensorInfo>& out, const std::vector<bool>& optional) {
    planned.name = Name(part);
    TENON_RETURN_IF_ERROR(CheckNames(part.inputs, planned.inputs, "input"));
    TENON_RETURN_IF_ERROR(CheckNames(part.outputs, planned.outputs, "output"));
    if (part.outputs.empty()) return BadInput("no output is used");
    for (size_t i = 0; i < planned.inputs.size(); ++i) {
      PartPort& port = planned.inputs[i];
      const auto it = part.inputs.find(port.name);
      if (it == part.inputs.end() && (!planned.model.empty() || optional[i])) {
        port.value = SIZE_MAX;   // a model may have a default
        continue;
      }
      if (it == part.inputs.end()) return BadInput("input '{}' is not given", port.name);
      port.value = ValueOf(it->second);
      Value& value = values_[port.value];
      value.taken = true;
      if (value.info.dtype == DType::kUndefined) Describe(in[i], &value.info);
    }
    for (size_t i = 0; i < planned.outputs.size(); ++i) {
      PartPort& port = planned.outputs[i];
      const auto it = part.outputs.find(port.name);
      port.value = it == part.outputs.end() ? SIZE_MAX : ValueOf(it->second);
      if (port.value == SIZE_MAX) continue;
      Value& value = values_[port.value];
      if (value.made) return BadInput("value '{}' is made twice", it->second);
      value.made = true;
      value.list = port.list;
      Describe(out[i], &value.info);
    }
    plan_.parts.push_back(std::move(planned));
    return Status::Ok();
  }

  static void Describe(const TensorInfo& from, TensorInfo* to) {
    const std::string name = to->name;
    *to = from;
    to->name = name;
  }

  Status AddModel(const EnsemblePart& part) {
    auto model = describe_(part.model, part.version);
    if (!model.ok()) return BadInput("{}", model.status().message());
    PlannedPart planned;
    planned.model = part.model;
    planned.version = part.version;
    for (const TensorInfo& i : model->inputs) planned.inputs.push_back({i.name, SIZE_MAX, i.dtype, false});
    for (const TensorInfo& o : model->outputs) planned.outputs.push_back({o.name, SIZE_MAX, o.dtype, false});
    return Wire(part, std::move(planned), model->inputs, model->outputs, {});
  }

  static TensorInfo InfoOf(const Port& port) {
    TensorInfo info;
    info.name = port.name;
    info.dtype = port.dtype;
    info.has_rank = !port.dims.empty();
    for (size_t begin = 0; begin < port.dims.size();) {
      const size_t end = std::min(port.dims.find(',', begin), port.dims.size());
      info.dims.emplace_back(port.dims.substr(begin, end - begin));
      begin = end + 1;
    }
    return info;
  }

  Status AddStep(const EnsemblePart& part) {
    const StepKind* kind = FindStepKind(part.step);
    if (kind == nullptr) return BadInput("no such step; allowed: {}", StepKindNames());
    std::map<std::string, std::string> parameters = part.parameters, metadata;
    const auto source = parameters.find("model");
    if (source != parameters.end()) {
      auto model = describe_(source->second, "");
      if (!model.ok()) return BadInput("{}", model.status().message());
      metadata = model->metadata;
      parameters.erase(source);
    }
    TENON_ASSIGN_OR_RETURN(auto step, MakeStep(*kind, parameters, metadata));
    PlannedPart planned;
    planned.step = std::move(step);
    std::vector<TensorInfo> in, out;
    std::vector<bool> optional;
    for (const Port& p : kind->inputs) {
      planned.inputs.push_back({std::string(p.name), SIZE_MAX, p.dtype, p.list});
      optional.push_back(p.optional);
      in.push_back(InfoOf(p));
    }
    for (const Port& p : kind->outputs) {
      planned.outputs.push_back({std::string(p.name), SIZE_MAX, p.dtype, p.list});
      out.push_back(InfoOf(p));
    }
    return Wire(part, std::move(planned), in, out, optional);
  }

  Status CheckTypes() {
    for (const PlannedPart& part : plan_.parts) {
      for (const PartPort& port : part.inputs) {
        if (port.value == SIZE_MAX) continue;
        const Value& value = values_[port.value];
        const bool fits =
            port.dtype == DType::kUndefined || value.info.dtype == DType::kUndefined || port.dtype == value.info.dtype;
        if (!fits) {
          return BadInput("{}; input '{}' is {}; value '{}' is {}", part.name, port.name, DTypeName(port.dtype), value.info.name,
                          DTypeName(value.info.dtype));
        }
      }
    }
    return Status::Ok();
  }

  // Every part can run once others have: no value depends on itself. Lists follow: what a model makes of one is one.
  Status CheckOrder() {
    std::vector<bool> ready(values_.size()), done(plan_.parts.size());
    for (size_t v = 0; v < values_.size(); ++v) ready[v] = !values_[v].made;
    for (size_t round = 0; round < plan_.parts.size(); ++round) {
      for (size_t i = 0; i < plan_.parts.size(); ++i) {
        PlannedPart& part = plan_.parts[i];
        const auto waits = [&](const PartPort& p) { return p.value != SIZE_MAX && !ready[p.value]; };
        if (done[i] || std::any_of(part.inputs.begin(), part.inputs.end(), waits)) continue;
        done[i] = true;
        bool list = false;
        for (const PartPort& p : part.inputs) {
          if (p.value == SIZE_MAX || !values_[p.value].list) continue;
          if (part.model.empty() && !p.list)
            return BadInput("{}; input '{}' takes one tensor; value '{}' is a list", part.name, p.name,
                            values_[p.value].info.name);
          list = true;
        }
        for (const PartPort& p : part.outputs) {
          if (p.value == SIZE_MAX) continue;
          ready[p.value] = true;
          if (!part.model.empty()) values_[p.value].list = list;
        }
      }
    }
    for (size_t i = 0; i < plan_.parts.size(); ++i) {
      if (!done[i]) return BadInput("{}; it needs a value that comes after it", plan_.parts[i].name);
    }
    return Status::Ok();
  }

  Status FindBorder() {
    for (size_t v = 0; v < values_.size(); ++v) {
      if (values_[v].made) continue;
      plan_.inputs.push_back(values_[v].info);
      plan_.input_values.push_back(v);
    }
    std::vector<std::string> names = ensemble_.outputs;
    for (size_t v = 0; v < values_.size() && ensemble_.outputs.empty(); ++v) {
      if (values_[v].made && !values_[v].taken) names.push_back(plan_.values[v]);
    }
    for (const std::string& name : names) {
      const auto it = std::find(plan_.values.begin(), plan_.values.end(), name);
      const auto v = static_cast<size_t>(it - plan_.values.begin());
      if (it == plan_.values.end() || !values_[v].made) return BadInput("output '{}'; no part makes it", name);
      if (values_[v].list) return BadInput("output '{}'; it is a list, which no protocol has a form for", name);
      if (std::find(plan_.output_values.begin(), plan_.output_values.end(), v) != plan_.output_values.end())
        return BadInput("output '{}' is named twice", name);
      plan_.outputs.push_back(values_[v].info);
      plan_.output_values.push_back(v);
    }
    if (plan_.outputs.empty()) return BadInput("no output");
    return Status::Ok();
  }

  const Ensemble& ensemble_;
  const Describer& describe_;
  EnsemblePlan plan_;
  std::vector<Value> values_;
};

}  // namespace

Result<EnsemblePlan> PlanEnsemble(const Ensemble& ensemble, const Describer& describe) {
  return Planner(ensemble, describe).Plan();
}

}  // namespace tenon::serve
