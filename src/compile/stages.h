// The stages of compilation in order, each handing over a value that can be looked at.
#ifndef TENON_COMPILE_STAGES_H_
#define TENON_COMPILE_STAGES_H_

#include <string>

#include "artifact/program.h"
#include "hw/team.h"
#include "ir/graph.h"
#include "passes/pipeline.h"
#include "tenon/compile.h"

namespace tenon::compile {

struct Imported {
  ir::Graph graph;
  std::map<std::string, Tensor> input_defaults;
  std::map<std::string, std::pair<int64_t, int64_t>> ranges;   ///< of input symbols, from CompileOptions::input_shapes
  std::vector<std::string> notes;
  double ms = 0;
};

/// Model file to graph, read and upgraded; operators that cannot run are in it too (import::Support lists them).
Result<Imported> Read(const std::string& model, const CompileOptions& options);

/// Makes what was read ready for the passes: all that Import does beyond it.
Status Ready(const std::string& model, const CompileOptions& options, Imported* imported);

/// Model file to graph: read, upgrade, apply `options.input_shapes`, infer. kUnsupported names the first operator that cannot
/// run.
Result<Imported> Import(const std::string& model, const CompileOptions& options);

/// Graph to optimised graph.
Status Optimize(Imported* imported, const CompileOptions& options, hw::Team& team, CompileReport* report);

/// The passes with a given policy, or the half of them that `part` says.
Status Optimize(Imported* imported, const CompileOptions& options, passes::PassContext context, CompileReport* report);

/// Optimised graph to program.
Result<artifact::Program> Finish(const Imported& imported, CompileReport* report);

/// kUsage when `out` cannot take an artifact: a folder, or the model itself. Asked before anything is written.
Status CheckOutput(const std::string& model, const std::string& out);

/// Program to file, with provenance; `model` is where it came from, `report` JSON text.
Status WriteProgram(const artifact::Program& program, const std::string& model, const std::string& out,
                    const CompileOptions& options, const std::string& report);

/// All of the above.
Result<artifact::Program> CompileInMemory(const std::string& model, const CompileOptions& options, hw::Team& team,
                                          CompileReport* report);

/// Operators by type, bodies included.
std::map<std::string, int> CountOps(const ir::Graph& graph);

/// Report as JSON text, kept in the artifact: without times, so that the same model and options give the same bytes.
std::string ReportToJson(const CompileReport& report);

}  // namespace tenon::compile

#endif  // TENON_COMPILE_STAGES_H_
