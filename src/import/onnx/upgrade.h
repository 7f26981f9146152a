// Upgrades of operators from older opsets to canonical form (the newest ONNX opset), one small function for each step at
// which an operator's meaning or form changed. The table is upgrade.inc; docs/import.md lists it in words.
#ifndef TENON_IMPORT_ONNX_UPGRADE_H_
#define TENON_IMPORT_ONNX_UPGRADE_H_

#include <cstdint>
#include <string_view>

#include "import/onnx/builder.h"

namespace tenon::import::onnx_format {

/// The newest opset of the default domain that the table was written for.
inline constexpr int64_t kNewestOpset = 28;
/// Since-version of steps that apply to every version.
inline constexpr int64_t kAnyVersion = int64_t{1} << 40;

/// Rewrites `p` as version `since` of its operator would say it. May emit nodes before it, and leave some in `p->after`.
/// A step may change the operator; its steps for later versions follow.
using UpgradeStep = Status (*)(Builder* b, Pending* p);

#define UPGRADE(op, since, function) Status function(Builder* b, Pending* p);
#include "import/onnx/upgrade.inc"
#undef UPGRADE

/// All steps that apply to `p`, in order of version.
Status Upgrade(Builder* b, Pending* p);

/// Some version of `op` (with domain) is upgraded: with a com.microsoft operator, Tenon has a canonical form of it.
bool HasUpgrade(std::string_view op);

/// Output `index` of `p` gets a new producer after p's node: returns the value that p's node writes instead.
ir::ValueId DivertOutput(Builder* b, Pending* p, size_t index);
/// Adds a node after p's node.
void After(Pending* p, const char* op, std::vector<ir::ValueId> inputs, Attrs attrs, ir::ValueId output);
/// Axes attribute `name`, when there, becomes input `index`.
void AttrToInput(Builder* b, Pending* p, const char* name, size_t index);

}  // namespace tenon::import::onnx_format

#endif  // TENON_IMPORT_ONNX_UPGRADE_H_
