// Opening models of any kind: compiles on the fly what is not compiled, and keeps the result in a cache.
#include <cstdlib>
#include <filesystem>

#include "artifact/artifact.h"
#include "base/cache_folder.h"
#include "base/digest.h"
#include "base/version.h"
#include "compile/stages.h"
#include "hw/quota.h"
#include "runtime/open.h"
#include "tenon/compile.h"
#include "tensor/gguf.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

std::string OptionsKey(const CompileOptions& o) {
  std::string key = fmt::format("{}|{}|{}|{}|", o.opt_level, o.keep_initializer_inputs, o.packed_weights, kVersionString);
  for (const auto& [name, dims] : o.input_shapes) {
    key += name + "=";
    for (const std::string& d : dims) key += d + ",";
    key += ";";
  }
  for (const std::string& p : o.disabled_passes) key += "|" + p;
  key += "|" + o.precision + "|" + o.kv_cache + "|" + o.weights + "|" + o.op_select_implmode;
  for (const std::string& type : o.optypelist_for_implmode) key += "," + type;
  for (const std::string& file : {o.mixlist, o.keep_dtype}) {
    const auto digest = file.empty() ? Result<std::string>(std::string()) : FileDigest(file);
    key += "|" + (digest.ok() ? *digest : file);
  }
  const char* isa = std::getenv("TENON_ISA");
  return key + "|" + (isa == nullptr ? "" : isa);
}

Result<std::unique_ptr<Session>> CompileAndOpen(const std::string& model, const CompileOptions& options,
                                                const SessionOptions& session_options) {
  hw::Team team(hw::DetectCpuAllowance().threads);
  team.Enter();
  CompileReport report;
  artifact::Artifact artifact;
  TENON_ASSIGN_OR_RETURN(artifact.program, compile::CompileInMemory(model, options, team, &report));
  artifact.report = compile::ReportToJson(report);
  return runtime::OpenArtifact(std::move(artifact), session_options);
}

}  // namespace

Result<std::unique_ptr<Session>> OpenModel(const std::string& model, const CompileOptions& options,
                                           const SessionOptions& session_options, const std::string& cache_dir) {
  if (artifact::LooksLikeArtifact(model) || model.ends_with(".tenon")) {
    if (options.precision != CompileOptions().precision) {
      return Usage("'{}' is compiled; its precision was settled then; compile the model again with precision '{}'", model,
                   options.precision);
    }
    if (options.op_select_implmode != CompileOptions().op_select_implmode)
      return Usage("'{}' is compiled; its kernels were settled then; compile the model again with op-select-implmode '{}'", model,
                   options.op_select_implmode);
    TENON_ASSIGN_OR_RETURN(auto session, Session::Open(model, session_options));
    const auto kept = session->metadata().find("tenon.kv_cache");
    if (kept != session->metadata().end() && options.kv_cache != CompileOptions().kv_cache && options.kv_cache != kept->second)
      return Usage("'{}' is compiled; its cache was settled then; compile the model again with kv-cache '{}'", model,
                   options.kv_cache);
    return session;
  }
  // Compiling one is quicker than reading all of its weights, which a look into the cache would take.
  if (LooksLikeGguf(model)) return CompileAndOpen(model, options, session_options);
  std::error_code is_folder;
  if (fs::is_directory(model, is_folder)) return CompileAndOpen(model, options, session_options);
  if (cache_dir == "none") return CompileAndOpen(model, options, session_options);
  TENON_ASSIGN_OR_RETURN(const std::string directory, CacheFolder(cache_dir));
  if (directory.empty()) return CompileAndOpen(model, options, session_options);
  TENON_ASSIGN_OR_RETURN(const std::string digest, FileDigest(model));
  // Weights outside the model file are not part of its digest: their size and time are.
  const std::string key = TextDigest(digest + OptionsKey(options) + SiblingStamp(model)).substr(0, 32);
  const std::string cached = (fs::path(directory) / (key + ".tenon")).string();
  std::error_code error;
  if (fs::exists(cached, error)) {
    auto session = Session::Open(cached, session_options);
    // A damaged or foreign cache entry is made again.
    if (session.ok() || session.status().code() != Code::kBadInput) return session;
  }
  auto compiled = Compile(model, cached, options);
  if (!compiled.ok()) {
    // A full disk must not keep a model from running.
    if (compiled.status().code() != Code::kResourceLimit) return std::move(compiled).TakeStatus();
    return CompileAndOpen(model, options, session_options);
  }
  return Session::Open(cached, session_options);
}

}  // namespace tenon
