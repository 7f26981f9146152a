// The public face of compilation: model file to artifact.
#include "tenon/compile.h"

#include "compile/stages.h"
#include "hw/quota.h"

namespace tenon {
namespace {

hw::Team MakeTeam() {
  return hw::Team(hw::DetectCpuAllowance().threads);
}

}  // namespace

Result<CompileReport> Compile(const std::string& model, const std::string& out, const CompileOptions& options) {
  TENON_RETURN_IF_ERROR(compile::CheckOutput(model, out));
  hw::Team team = MakeTeam();
  team.Enter();
  CompileReport report;
  TENON_ASSIGN_OR_RETURN(const artifact::Program program, compile::CompileInMemory(model, options, team, &report));
  TENON_RETURN_IF_ERROR(compile::WriteProgram(program, model, out, options, compile::ReportToJson(report)));
  return report;
}

}  // namespace tenon
