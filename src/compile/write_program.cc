// The last stage: a program becomes a file.
#include <filesystem>

#include "artifact/artifact.h"
#include "base/digest.h"
#include "base/version.h"
#include "compile/stages.h"
#include "hw/quota.h"
#include "runtime/packed.h"

namespace tenon::compile {
namespace {

namespace fs = std::filesystem;

std::map<std::string, std::string> Provenance(const std::string& model, const std::string& digest,
                                              const CompileOptions& options) {
  return {{"tool", std::string("tenon ") + kVersionString},
          {"source", fs::path(model).filename().string()},
          {"source_digest", digest},
          {"command_line", options.command_line}};
}

}  // namespace

Status CheckOutput(const std::string& model, const std::string& out) {
  std::error_code error;
  if (fs::is_directory(out, error)) return Usage("cannot write '{}'; it is a folder", out);
  if (fs::equivalent(model, out, error)) return Usage("cannot write '{}'; it is the model itself", out);
  return Status::Ok();
}

Status WriteProgram(const artifact::Program& program, const std::string& model, const std::string& out,
                    const CompileOptions& options, const std::string& report) {
  TENON_ASSIGN_OR_RETURN(const std::string digest, ModelDigest(model));
  artifact::WriteOptions write;
  write.external_weights = options.external_weights;
  write.provenance = Provenance(model, digest, options);
  write.report = report;
  if (!options.packed_weights) return artifact::Write(program, out, write);
  TENON_ASSIGN_OR_RETURN(const hw::IsaMask isa, hw::ActiveIsa());
  hw::Machine machine(isa, hw::DetectCpuAllowance().threads, {}, 0);
  machine.team.Enter();
  artifact::Program packed = program;
  TENON_RETURN_IF_ERROR(runtime::PackWeights(&packed, machine));
  write.packed_for = runtime::PackedFor(isa);
  return artifact::Write(packed, out, write);
}

}  // namespace tenon::compile
