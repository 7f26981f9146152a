#include "passes/testing.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>

#include "ir/text.h"
#include "ops/op.h"

namespace tenon::passes::testing {
namespace {

[[noreturn]] void Die(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::abort();
}

hw::Team& OneThread() {
  static hw::Team team(1);
  return team;
}

template <typename F>
Tensor Fill(DType t, const Shape& shape, F&& next) {
  auto tensor = Tensor::Zeros(t, shape);
  if (!tensor.ok()) Die(tensor.status().message());
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    switch (t) {
      case DType::kF32: tensor->MutableData<float>()[i] = static_cast<float>(next()); break;
      case DType::kF64: tensor->MutableData<double>()[i] = next(); break;
      case DType::kBF16: tensor->MutableData<BFloat16>()[i] = BFloat16(static_cast<float>(next())); break;
      case DType::kI64: tensor->MutableData<int64_t>()[i] = static_cast<int64_t>(std::abs(next() * 2)); break;
      case DType::kI32: tensor->MutableData<int32_t>()[i] = static_cast<int32_t>(std::abs(next() * 2)); break;
      case DType::kBool: tensor->MutableData<bool>()[i] = next() > 0; break;
      default: Die("no random contents for this type");
    }
  }
  return *std::move(tensor);
}

}  // namespace

PassContext Context() {
  PassContext context;
  context.isa = hw::DetectIsa();
  context.team = &OneThread();
  context.verify = true;
  return context;
}

ir::Graph Build(std::string_view text) {
  auto graph = ir::Parse(text);
  if (!graph.ok()) Die(graph.status().message());
  const Status inferred = ops::InferGraph(*graph);
  if (!inferred.ok()) Die(inferred.message());
  const Status verified = ir::Verify(*graph);
  if (!verified.ok()) Die(verified.message());
  return std::move(graph).value();
}

Result<std::vector<Tensor>> Interpret(const ir::Graph& graph, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> values(graph.num_value_slots());
  for (size_t i = 0; i < values.size(); ++i) values[i] = graph.value(static_cast<ir::ValueId>(i)).constant;
  for (size_t i = 0; i < graph.inputs().size(); ++i) values[static_cast<size_t>(graph.inputs()[i])] = inputs[i];
  TENON_ASSIGN_OR_RETURN(const auto order, graph.TopologicalOrder());
  for (ir::NodeId id : order) {
    const ir::Node& n = graph.node(id);
    std::vector<View> in;
    for (ir::ValueId v : n.inputs) in.push_back(v == ir::kNone ? View{} : values[static_cast<size_t>(v)].view());
    std::vector<Tensor> out;
    if (n.op == "If") {
      std::vector<Tensor> captured;
      for (size_t i = 1; i < n.inputs.size(); ++i) captured.push_back(values[static_cast<size_t>(n.inputs[i])]);
      TENON_ASSIGN_OR_RETURN(out, Interpret(*n.bodies[*in[0].Data<bool>() ? 0 : 1], captured));
    } else {
      auto result = kernels::Evaluate(n.op, n.attrs, in, static_cast<int>(n.outputs.size()), hw::DetectIsa(), OneThread());
      if (!result.ok()) return std::move(result).TakeStatus().Within(ops::Describe(n));
      out = *std::move(result);
    }
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      if (n.outputs[i] != ir::kNone) values[static_cast<size_t>(n.outputs[i])] = out[i];
    }
  }
  std::vector<Tensor> outputs;
  for (ir::ValueId v : graph.outputs()) outputs.push_back(values[static_cast<size_t>(v)]);
  return outputs;
}

std::vector<Tensor> RandomInputs(const ir::Graph& graph, uint32_t seed, int64_t extent) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(-2, 2);
  std::vector<Tensor> inputs;
  for (ir::ValueId id : graph.inputs()) {
    const ir::Value& v = graph.value(id);
    Shape shape;
    for (int i = 0; i < v.shape.rank(); ++i) shape.push_back(v.shape[i].is_const() ? v.shape[i].value() : extent);
    inputs.push_back(Fill(v.dtype, shape, [&] { return uniform(engine); }));
  }
  return inputs;
}

double Difference(const Tensor& a, const Tensor& b) {
  const double different = std::numeric_limits<double>::infinity();
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return different;
  const auto x = ToDoubles(a.view());
  const auto y = ToDoubles(b.view());
  if (!x || !y) return SameTensor(a.view(), b.view()) ? 0 : different;
  double worst = 0;
  for (size_t i = 0; i < x->size(); ++i) {
    if (std::isnan((*x)[i]) && std::isnan((*y)[i])) continue;
    if ((*x)[i] == (*y)[i]) continue;
    const double d = std::abs((*x)[i] - (*y)[i]) / (1 + std::abs((*x)[i]));
    if (!(d <= worst)) worst = std::isnan(d) ? different : d;
  }
  return worst;
}

int CountOps(const ir::Graph& graph, std::string_view op) {
  int count = 0;
  for (size_t i = 0; i < graph.num_node_slots(); ++i) {
    const ir::Node& n = graph.node(static_cast<ir::NodeId>(i));
    if (n.dead) continue;
    count += op.empty() || n.op == op ? 1 : 0;
    for (const auto& body : n.bodies) count += CountOps(*body, op);
  }
  return count;
}

Outcome Optimise(std::string_view text, const std::vector<std::string>& passes, const PassContext& context) {
  const ir::Graph before = Build(text);
  Outcome outcome{Build(text)};
  const auto fail = [&](const Status& s) { Die(s.message() + "\n" + ir::Print(outcome.graph)); };
  if (passes.empty()) {
    PipelineReport report;
    const Status status = RunPipeline(outcome.graph, context, &report);
    if (!status.ok()) fail(status);
    for (const PassReport& p : report.passes) {
      outcome.changes += p.changes;
      for (const auto& [reason, n] : p.refusals) outcome.refusals[reason] += n;
    }
  }
  for (const std::string& pass : passes) {
    PassReport report;
    const Status status = RunPass(pass, outcome.graph, context, &report);
    if (!status.ok()) fail(status);
    outcome.changes += report.changes;
    for (const auto& [reason, n] : report.refusals) outcome.refusals[reason] += n;
  }
  const Status verified = ir::Verify(outcome.graph);
  if (!verified.ok()) fail(verified);
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    const std::vector<Tensor> inputs = RandomInputs(before, seed, 3 + seed);
    auto expected = Interpret(before, inputs);
    auto actual = Interpret(outcome.graph, inputs);
    if (!expected.ok()) fail(expected.status());
    if (!actual.ok()) fail(actual.status());
    for (size_t i = 0; i < expected->size(); ++i) {
      outcome.difference = std::max(outcome.difference, Difference((*expected)[i], (*actual)[i]));
    }
  }
  for (size_t i = 0; i < before.outputs().size(); ++i) {
    if (before.value(before.outputs()[i]).name != outcome.graph.value(outcome.graph.outputs()[i]).name) {
      Die("an output lost its name\n" + ir::Print(outcome.graph));
    }
  }
  return outcome;
}

}  // namespace tenon::passes::testing
