// An ensemble checked and put into order: which part waits for which values.
#ifndef TENON_SERVE_ENSEMBLE_PLAN_H_
#define TENON_SERVE_ENSEMBLE_PLAN_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/steps/step.h"
#include "tenon/server.h"

namespace tenon::serve {

/// One input or output of a part.
struct PartPort {
  std::string name;       ///< at the part
  size_t value = 0;       ///< SIZE_MAX: not wired
  DType dtype = DType::kUndefined;
  bool list = false;      ///< a built-in step's list
};

struct PlannedPart {
  std::string model, version;   ///< no model: a step
  std::shared_ptr<const Step> step;
  std::string name;             ///< for messages
  std::vector<PartPort> inputs, outputs;
};

struct EnsemblePlan {
  std::vector<std::string> values;   ///< names
  std::vector<PlannedPart> parts;
  std::vector<TensorInfo> inputs, outputs;
  std::vector<size_t> input_values, output_values;
};

using Describer = std::function<Result<ModelDescription>(const std::string& model, const std::string& version)>;

Result<EnsemblePlan> PlanEnsemble(const Ensemble& ensemble, const Describer& describe);

}  // namespace tenon::serve

#endif  // TENON_SERVE_ENSEMBLE_PLAN_H_
