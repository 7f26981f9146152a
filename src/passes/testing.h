// For tests of passes: graphs from text, a plain interpreter over kernels::Evaluate, and comparison before and after.
#ifndef TENON_PASSES_TESTING_H_
#define TENON_PASSES_TESTING_H_

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "passes/pipeline.h"

namespace tenon::passes::testing {

/// A context for this machine with one thread and `verify` on.
PassContext Context();

/// Parses and infers; a failure is a failure of the test (message on stderr, abort).
ir::Graph Build(std::string_view text);

/// Runs the graph node by node (If included) on the given inputs.
Result<std::vector<Tensor>> Interpret(const ir::Graph& graph, const std::vector<Tensor>& inputs);

/// Inputs for the graph from a seed; symbols become `extent`. Float elements in [-2, 2), integers in [0, 3].
std::vector<Tensor> RandomInputs(const ir::Graph& graph, uint32_t seed, int64_t extent = 5);

/// Largest |a-b| / (1 + |a|); infinity where types, shapes or NaNs differ.
double Difference(const Tensor& a, const Tensor& b);

/// Number of live nodes of `op`, bodies included (empty: all).
int CountOps(const ir::Graph& graph, std::string_view op = {});

/// What the passes made of the text: the graph after them, and the largest difference of any output on random inputs.
struct Outcome {
  ir::Graph graph;
  double difference = 0;
  int changes = 0;
  std::map<std::string, int> refusals;
};
/// Runs the named passes in order (empty: the whole pipeline) and compares outputs before and after, for a few seeds.
Outcome Optimise(std::string_view text, const std::vector<std::string>& passes = {}, const PassContext& context = Context());

}  // namespace tenon::passes::testing

#endif  // TENON_PASSES_TESTING_H_
