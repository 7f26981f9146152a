#include "guard/views.h"

#include "kernels/kernel.h"

namespace tenon::guard {

std::map<std::string, std::string> ViewSources(const artifact::Program& program) {
  std::map<std::string, std::string> sources;
  for (const artifact::Step& s : program.steps) {
    const kernels::OpKernels* op = kernels::FindOp(s.op);
    if (op == nullptr || !op->is_view || s.inputs.empty() || s.outputs.empty()) continue;
    if (s.inputs[0] == artifact::kAbsent || s.outputs[0] == artifact::kAbsent) continue;
    const std::string& from = program.values[static_cast<size_t>(s.inputs[0])].name;
    sources[program.values[static_cast<size_t>(s.outputs[0])].name] = SourceOf(sources, from);
  }
  return sources;
}

}  // namespace tenon::guard
