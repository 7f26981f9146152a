#include "compile/implmode.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "compile/stages.h"
#include "passes/precision.h"

namespace tenon::compile {
namespace {

// Operators with kernels that trade precision for speed: Winograd's convolutions; prompts of language models, multiplied in bf16
// or eight bits.
constexpr std::array kTwoWays = {"Conv", "FusedConv", "BlockMatMul", "CachedAttention"};

bool IsExact(const std::string& mode) {
  return mode == "high_precision" || mode == "high_precision_for_all";
}

bool IsOfType(const std::string& op, const std::string& type) {
  const auto parts = passes::PartsOf(op);
  return op == type || std::find(parts.begin(), parts.end(), type) != parts.end();
}

}  // namespace

Status CheckImplMode(const CompileOptions& options, const ir::Graph& imported) {
  const std::string& mode = options.op_select_implmode;
  if (!IsExact(mode) && mode != "high_performance" && mode != "high_performance_for_all")
    return Usage("unknown implementation mode '{}'; allowed: high_precision, high_performance", mode);
  const auto ops = CountOps(imported);
  for (const std::string& type : options.optypelist_for_implmode)
    if (std::none_of(ops.begin(), ops.end(), [&](const auto& op) { return IsOfType(op.first, type); }))
      return BadInput("implementation mode {}: the model has no operator '{}'", mode, type);
  return Status::Ok();
}

void ApplyImplMode(const CompileOptions& options, ir::Graph* graph) {
  if (!IsExact(options.op_select_implmode)) return;
  const auto& types = options.optypelist_for_implmode;
  for (size_t i = 0; i < graph->num_node_slots(); ++i) {
    ir::Node& node = graph->node(static_cast<ir::NodeId>(i));
    if (node.dead) continue;
    for (auto& body : node.bodies) ApplyImplMode(options, body.get());
    if (std::find(kTwoWays.begin(), kTwoWays.end(), std::string_view(node.op)) == kTwoWays.end()) continue;
    const bool wanted =
        types.empty() || std::any_of(types.begin(), types.end(), [&](const auto& t) { return IsOfType(node.op, t); });
    if (wanted) node.attrs.Set("exact", int64_t{1});
  }
}

}  // namespace tenon::compile
