// The pipeline: named, timed, disableable passes in order. Graph in, equivalent faster graph out.
#ifndef TENON_PASSES_PIPELINE_H_
#define TENON_PASSES_PIPELINE_H_

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "hw/isa.h"
#include "hw/team.h"
#include "ir/graph.h"
#include "passes/precision.h"

namespace tenon::passes {

struct PassContext {
  hw::IsaMask isa = 0;                ///< what the kernels of the result may use
  hw::Team* team = nullptr;           ///< for constant folding; required
  int opt_level = 99;                 ///< 0 none, 1 clean-up and folding, 2 fusions, 3 layout, 99 all
  std::set<std::string> disabled;     ///< names of passes to leave out
  size_t fold_cap_bytes = 64u << 20;  ///< folding never makes a constant larger than this and than its inputs
  PrecisionPolicy precision;          ///< what LowerPrecision may do; nothing by default
  PrecisionOutcome* precision_outcome = nullptr;   ///< what it did is added here; may be null
  /// The pipeline may run in two halves, so that one model is optimised once and lowered in many ways.
  enum class Part { kAll, kBeforePrecision, kFromPrecision } part = Part::kAll;
  bool verify = false;                ///< ir::Verify after each pass that changed something
};

struct PassReport {
  std::string name;
  double ms = 0;
  int changes = 0;
  std::map<std::string, int> refusals;  ///< reason -> how often
};

/// One entry per pass that ran, in table order; a pass that ran several times is summed up.
struct PipelineReport {
  std::vector<PassReport> passes;
};

/// Optimises `graph` and its bodies. Inputs and outputs keep names, types and order. kUsage for an unknown name in `disabled`
/// or an unknown level. `report` may be null.
Status RunPipeline(ir::Graph& graph, const PassContext& context, PipelineReport* report);

/// One pass alone, once, bodies included (tests, tuning).
Status RunPass(std::string_view name, ir::Graph& graph, const PassContext& context, PassReport* report = nullptr);

/// Names of all passes in order.
std::vector<std::string> PassNames();

}  // namespace tenon::passes

#endif  // TENON_PASSES_PIPELINE_H_
