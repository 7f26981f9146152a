#include "passes/pipeline.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "passes/pass.h"

namespace tenon::passes {
namespace {

enum Phase { kCleanup, kNormalise, kAlgebra, kLinear, kAttention, kFusion, kLayout, kPrecision, kFinal, kPhases };

struct Pass {
  std::string_view name;
  Phase phase;
  int level;
  Status (*run)(Rewriter&);
};

constexpr std::array kPasses = {
#define PASS(name, phase, level) Pass{#name, phase, level, name},
#include "passes/passes.inc"
#undef PASS
};
static_assert(std::is_sorted(kPasses.begin(), kPasses.end(), [](const Pass& a, const Pass& b) { return a.phase < b.phase; }),
              "passes.inc is kept in the order in which phases run");

// Clean-up passes feed each other; real models settle in two or three rounds.
constexpr int kMaxRounds = 10;

// A branch of an If that cannot take the shapes at hand is a fault only if it is taken (ops/control_flow.cc): it stays as it is.
bool FitsNot(const Status& inferred, PassReport* report) {
  if (inferred.code() != Code::kBadInput) return false;
  ++report->refusals["a branch does not fit the shapes"];
  return true;
}

Status RunOnGraph(const Pass& pass, ir::Graph& graph, const PassContext& context, PassReport* report, bool is_branch = false) {
  if (is_branch && FitsNot(ops::InferGraph(graph), report)) return Status::Ok();
  const int before = report->changes;
  const size_t slots = graph.num_value_slots();
  Rewriter rewriter(graph, context, report);
  TENON_RETURN_IF_ERROR(pass.run(rewriter));
  // Rules may also leave nodes that they tried in vain.
  if (report->changes != before || graph.num_value_slots() != slots) {
    rewriter.patch().RemoveDead();
    // What the pass found out may be what shows that the branch does not fit.
    Status inferred = ops::InferGraph(graph);
    if (is_branch && FitsNot(inferred, report)) return Status::Ok();
    TENON_RETURN_IF_ERROR(std::move(inferred));
    if (context.verify) TENON_RETURN_IF_ERROR(ir::Verify(graph));
  }
  for (size_t i = 0; i < graph.num_node_slots(); ++i) {
    const auto& node = graph.node(static_cast<NodeId>(i));
    if (node.dead) continue;
    for (const auto& body : node.bodies) TENON_RETURN_IF_ERROR(RunOnGraph(pass, *body, context, report, node.op == "If"));
  }
  return Status::Ok();
}

Status RunTimed(const Pass& pass, ir::Graph& graph, const PassContext& context, PassReport* report) {
  const auto start = std::chrono::steady_clock::now();
  Status status = RunOnGraph(pass, graph, context, report).Within(fmt::format("pass {}", pass.name));
  report->ms += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return status;
}

}  // namespace

std::vector<std::string> PassNames() {
  std::vector<std::string> names;
  for (const Pass& p : kPasses) names.emplace_back(p.name);
  return names;
}

Status RunPass(std::string_view name, ir::Graph& graph, const PassContext& context, PassReport* report) {
  PassReport unused;
  for (const Pass& p : kPasses) {
    if (p.name == name) return RunTimed(p, graph, context, report != nullptr ? report : &unused);
  }
  return Usage("there is no pass '{}'; passes are {}", name, fmt::join(PassNames(), ", "));
}

Status RunPipeline(ir::Graph& graph, const PassContext& context, PipelineReport* report) {
  CHECK(context.team != nullptr);
  const std::array levels = {0, 1, 2, 3, 99};
  if (std::find(levels.begin(), levels.end(), context.opt_level) == levels.end()) {
    return Usage("optimisation level {}; levels are 0, 1, 2, 3 and 99", context.opt_level);
  }
  for (const std::string& name : context.disabled) {
    const bool known = std::any_of(kPasses.begin(), kPasses.end(), [&](const Pass& p) { return p.name == name; });
    if (!known) return Usage("there is no pass '{}' to disable; passes are {}", name, fmt::join(PassNames(), ", "));
  }
  std::array<PassReport, kPasses.size()> reports;
  const auto run_phase = [&](Phase phase, int* changes) -> Status {
    for (size_t i = 0; i < kPasses.size(); ++i) {
      const Pass& p = kPasses[i];
      if (p.phase != phase || p.level > context.opt_level || context.disabled.count(std::string(p.name)) > 0) continue;
      reports[i].name = p.name;
      const int before = reports[i].changes;
      TENON_RETURN_IF_ERROR(RunTimed(p, graph, context, &reports[i]));
      *changes += reports[i].changes - before;
    }
    return Status::Ok();
  };
  const int begin = context.part == PassContext::Part::kFromPrecision ? kPrecision : kCleanup;
  const int end = context.part == PassContext::Part::kBeforePrecision ? kPrecision : kPhases;
  for (int phase = begin; phase < end; ++phase) {
    int changes = 0;
    if (phase != kCleanup) {
      TENON_RETURN_IF_ERROR(run_phase(static_cast<Phase>(phase), &changes));
      if (changes == 0) continue;
    }
    for (int round = 0; round < kMaxRounds; ++round) {
      changes = 0;
      TENON_RETURN_IF_ERROR(run_phase(kCleanup, &changes));
      if (changes == 0) break;
    }
  }
  if (report != nullptr) {
    for (PassReport& r : reports) {
      if (!r.name.empty()) report->passes.push_back(std::move(r));
    }
  }
  return Status::Ok();
}

}  // namespace tenon::passes
