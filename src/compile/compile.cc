// The public face of compilation: model file to artifact.
#include "tenon/compile.h"

#include <filesystem>

#include "artifact/artifact.h"
#include "base/digest.h"
#include "base/version.h"
#include "compile/stages.h"
#include "hw/quota.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

hw::Team MakeTeam() {
  return hw::Team(hw::DetectCpuAllowance().threads);
}

// The temporary files and the artifact would be the same file as the source: refuse before anything is written.
Status CheckOutput(const std::string& model, const std::string& out) {
  std::error_code error;
  if (fs::is_directory(out, error)) return Usage("cannot write '{}'; it is a folder", out);
  if (fs::equivalent(model, out, error)) return Usage("cannot write '{}'; it is the model itself", out);
  return Status::Ok();
}

std::map<std::string, std::string> Provenance(const std::string& model, const std::string& digest,
                                              const CompileOptions& options) {
  return {{"tool", std::string("tenon ") + kVersionString},
          {"source", fs::path(model).filename().string()},
          {"source_digest", digest},
          {"command_line", options.command_line}};
}

}  // namespace

Result<CompileReport> Compile(const std::string& model, const std::string& out, const CompileOptions& options) {
  TENON_RETURN_IF_ERROR(CheckOutput(model, out));
  hw::Team team = MakeTeam();
  team.Enter();
  CompileReport report;
  TENON_ASSIGN_OR_RETURN(const std::string digest, FileDigest(model));
  TENON_ASSIGN_OR_RETURN(const artifact::Program program, compile::CompileInMemory(model, options, team, &report));
  artifact::WriteOptions write;
  write.external_weights = options.external_weights;
  write.provenance = Provenance(model, digest, options);
  write.report = compile::ReportToJson(report);
  TENON_RETURN_IF_ERROR(artifact::Write(program, out, write));
  return report;
}

}  // namespace tenon
