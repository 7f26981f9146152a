#include "quantize/balance.h"

#include <algorithm>
#include <cmath>

#include "guard/views.h"
#include "passes/rewriter.h"

namespace tenon::quantize {
namespace {

using ir::kNone;
using ir::NodeId;
using ir::ValueId;
using passes::Rewriter;

constexpr float kMinScale = 1e-4F, kMaxScale = 1e4F;

bool IsProduct(std::string_view op) {
  return op == "MatMul" || op == "FusedMatMul";
}

class Maximum final : public StepObserver {
 public:
  /// `sources`: the value that is seen -> the entries of `maxima` that show it.
  Maximum(const std::map<std::string, std::vector<std::string>>& sources, ChannelMaxima* maxima)
      : sources_(sources), maxima_(maxima) {}
  bool WantsValues() const override { return true; }
  bool WantsShapes() const override { return false; }
  void OnStep(const StepRecord& record) override {
    for (const HostTensor& t : record.outputs) Add(t);
  }
  void Add(const HostTensor& t) {
    const auto it = sources_.find(t.name);
    if (it == sources_.end() || t.dtype != DType::kF32 || t.is_sequence || t.data == nullptr) return;
    const auto* p = static_cast<const float*>(t.data);
    const size_t n = t.bytes / sizeof(float);
    for (const std::string& name : it->second) {
      std::vector<float>& most = maxima_->at(name);
      if (most.empty() || n % most.size() != 0) continue;
      for (size_t i = 0; i < n; i += most.size()) {
        for (size_t c = 0; c < most.size(); ++c) most[c] = std::max(most[c], std::abs(p[i + c]));
      }
    }
  }

 private:
  const std::map<std::string, std::vector<std::string>>& sources_;
  ChannelMaxima* maxima_;
};

class Balancer {
 public:
  Balancer(Rewriter& r, const ChannelMaxima& maxima, double alpha) : r_(r), maxima_(maxima), alpha_(alpha) {}

  // The products that read `x` get heavier weights, and x becomes lighter.
  Status Run(ValueId x, const std::vector<NodeId>& products, std::vector<BalancedTensor>* done) {
    const auto it = maxima_.find(r_.value(x).name);
    const int64_t depth = r_.ExtentOf(x, -1);
    if (it == maxima_.end() || static_cast<int64_t>(it->second.size()) != depth) return Status::Ok();
    const std::vector<float> scales = Scales(it->second, products);
    if (scales.empty()) return Status::Ok();
    BalancedTensor tensor{r_.value(x).name, scales, false};
    std::vector<float> inverse;
    for (const float s : scales) inverse.push_back(1 / s);
    tensor.folded = OnlyReaders(x, products) && Fold(r_.value(x).producer, inverse);
    if (!tensor.folded) {
      TENON_ASSIGN_OR_RETURN(const ValueId factors, Vector(tensor.name + "_balance", inverse));
      const ValueId lighter = r_.Add("Mul", {x, factors}, {}, products[0]);
      if (lighter == kNone) return Status::Ok();
      r_.patch().NameAfter(lighter, x, "balanced");
      for (const NodeId p : products) r_.SetInput(p, 0, lighter);
    }
    for (const NodeId p : products) {
      const bool transposed = r_.node(p).attrs.Int("transB", 0) != 0;
      TENON_RETURN_IF_ERROR(ScaleWeights(p, 1, scales, transposed));
    }
    done->push_back(std::move(tensor));
    return Status::Ok();
  }

 private:
  std::vector<float> Scales(const std::vector<float>& x, const std::vector<NodeId>& products) const {
    std::vector<float> w(x.size());
    for (const NodeId p : products) {
      const ir::Value& value = r_.value(r_.In(p, 1));
      const bool transposed = r_.node(p).attrs.Int("transB", 0) != 0;
      const auto* data = value.constant.Data<float>();
      const int64_t rows = value.constant.shape()[0];
      const int64_t columns = value.constant.shape()[1];
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t k = 0; k < columns; ++k) {
          float& m = w[static_cast<size_t>(transposed ? k : i)];
          m = std::max(m, std::abs(data[i * columns + k]));
        }
      }
    }
    std::vector<float> scales;
    for (size_t k = 0; k < x.size(); ++k) {
      if (!std::isfinite(x[k]) || !std::isfinite(w[k])) return {};
      const bool used = x[k] > 0 && w[k] > 0;
      const double s = used ? std::pow(x[k], alpha_) / std::pow(w[k], 1 - alpha_) : 1;
      scales.push_back(std::clamp(static_cast<float>(s), kMinScale, kMaxScale));
    }
    return scales;
  }

  bool OnlyReaders(ValueId x, const std::vector<NodeId>& products) const {
    return r_.value(x).producer != kNone && !r_.graph().IsOutput(x) && r_.graph().UseCount(x) == products.size();
  }

  Result<ValueId> Vector(const std::string& name, const std::vector<float>& values) {
    TENON_ASSIGN_OR_RETURN(Tensor t, Tensor::Allocate(DType::kF32, Shape({static_cast<int64_t>(values.size())})));
    std::copy(values.begin(), values.end(), t.MutableData<float>());
    return r_.Constant(name, std::move(t));
  }

  // Input `index` of the node, [a, b] or [b], times `factors` along its first axis, or its last one.
  Status ScaleWeights(NodeId id, size_t index, const std::vector<float>& factors, bool last_axis) {
    const ValueId v = r_.In(id, index);
    const Tensor& w = r_.value(v).constant;
    TENON_ASSIGN_OR_RETURN(Tensor scaled, Tensor::Allocate(DType::kF32, w.shape()));
    const auto* from = w.Data<float>();
    auto* to = scaled.MutableData<float>();
    const auto count = static_cast<int64_t>(factors.size());
    const int64_t inner = last_axis ? 1 : w.shape().num_elements() / count;
    for (int64_t i = 0, n = w.shape().num_elements(); i < n; ++i)
      to[i] = from[i] * factors[static_cast<size_t>(i / inner % count)];
    r_.SetInput(id, index, r_.Constant(r_.value(v).name + "_balanced", std::move(scaled)));
    return Status::Ok();
  }

  bool IsVector(NodeId id, size_t index, size_t size) const {
    const ValueId v = r_.In(id, index);
    return v != kNone && r_.ConstFloats(v) != nullptr && r_.RankOf(v) == 1 && r_.ExtentOf(v, 0) == static_cast<int64_t>(size);
  }

  // 1/s into what makes the tensor.
  bool Fold(NodeId id, const std::vector<float>& inverse) {
    const ir::Node& n = r_.node(id);
    if (n.op == "LayerNormalization" || n.op == "RMSNormalization") {
      const int64_t axis = n.attrs.Int("axis", -1);
      if ((axis != -1 && axis != r_.RankOf(r_.Out(id)) - 1) || !IsVector(id, 1, inverse.size())) return false;
      const bool shifted = r_.In(id, 2) != kNone;
      if (shifted && !IsVector(id, 2, inverse.size())) return false;
      if (!ScaleWeights(id, 1, inverse, true).ok()) return false;
      return !shifted || ScaleWeights(id, 2, inverse, true).ok();
    }
    if (!IsProduct(n.op) || !HasScalableWeights(id) || r_.In(id, 3) != kNone) return false;
    const std::string act = n.attrs.String("activation", "");
    if ((!act.empty() && act != "Relu" && act != "LeakyRelu") || n.attrs.Float("post_shift", 0) != 0) return false;
    const bool biased = r_.In(id, 2) != kNone;
    if (biased && !IsVector(id, 2, inverse.size())) return false;
    const bool transposed = n.attrs.Int("transB", 0) != 0;
    if (!ScaleWeights(id, 1, inverse, !transposed).ok()) return false;
    return !biased || ScaleWeights(id, 2, inverse, true).ok();
  }

  bool HasScalableWeights(NodeId id) const {
    const ValueId w = r_.In(id, 1);
    return w != kNone && r_.ConstFloats(w) != nullptr && r_.RankOf(w) == 2;
  }

  Rewriter& r_;
  const ChannelMaxima& maxima_;
  double alpha_;
};

bool IsCandidate(const Rewriter& r, NodeId id) {
  const ir::Node& n = r.node(id);
  const ValueId w = IsProduct(n.op) ? r.In(id, 1) : kNone;
  return w != kNone && r.ConstFloats(w) != nullptr && r.RankOf(w) == 2 && n.attrs.Int("transA", 0) == 0 &&
         !r.IsConst(r.In(id, 0)) && r.ExtentOf(r.In(id, 0), -1) == r.ExtentOf(w, n.attrs.Int("transB", 0) != 0 ? 1 : 0);
}

}  // namespace

Result<ChannelMaxima> MeasureMaxima(const artifact::Program& program, Session& session, guard::DataSet& data,
                                    std::span<const size_t> samples, const RunOptions& run) {
  const auto views = guard::ViewSources(program);
  std::map<std::string, std::vector<std::string>> sources;
  ChannelMaxima maxima;
  for (const artifact::Step& s : program.steps) {
    if (!IsProduct(s.op) || s.inputs[0] == artifact::kAbsent || s.inputs[1] == artifact::kAbsent) continue;
    const Tensor& w = program.values[static_cast<size_t>(s.inputs[1])].constant;
    if (!w.defined() || w.shape().rank() != 2) continue;
    const std::string& x = program.values[static_cast<size_t>(s.inputs[0])].name;
    const auto depth = static_cast<size_t>(w.shape()[s.attrs.Int("transB", 0) != 0 ? 1 : 0]);
    if (maxima.emplace(x, std::vector<float>(depth)).second) sources[guard::SourceOf(views, x)].push_back(x);
  }
  Maximum maximum(sources, &maxima);
  RunOptions observed = run;
  observed.observer = &maximum;
  for (const size_t i : samples) {
    TENON_ASSIGN_OR_RETURN(const guard::Sample sample, data.Load(i));
    for (const HostTensor& t : sample.inputs) maximum.Add(t);
    TENON_RETURN_IF_ERROR(session.Run(sample.inputs, observed).status());
  }
  return maxima;
}

Result<std::vector<BalancedTensor>> Balance(ir::Graph& graph, const ChannelMaxima& maxima, double alpha) {
  passes::PassReport report;
  const passes::PassContext context;
  Rewriter r(graph, context, &report);
  TENON_ASSIGN_OR_RETURN(const auto order, graph.TopologicalOrder());
  std::vector<ValueId> inputs;   // in order
  std::map<ValueId, std::vector<NodeId>> readers;
  for (const NodeId id : order) {
    if (!IsCandidate(r, id)) continue;
    auto& products = readers[r.In(id, 0)];
    if (products.empty()) inputs.push_back(r.In(id, 0));
    products.push_back(id);
  }
  std::vector<BalancedTensor> done;
  Balancer balancer(r, maxima, alpha);
  for (const ValueId x : inputs) TENON_RETURN_IF_ERROR(balancer.Run(x, readers.at(x), &done));
  return done;
}

}  // namespace tenon::quantize
