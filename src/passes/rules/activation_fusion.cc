// ActivationFusion: exporters spell GELU, HardSwish, SiLU and others as a dozen small operators, each in several ways. A group of
// elementwise operators with scalar constants that depends on one value x only is a function f(x): it is evaluated at points that
// tell the known activations apart, then, where f equals one of them there, on a dense grid over all magnitudes (a Clip to +-50
// before a Relu is no Relu). Where it still does, the group becomes that operator.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "passes/pass.h"

namespace tenon::passes {
namespace {

constexpr size_t kMaxNodes = 14;
constexpr double kTolerance = 1e-6;  // constants such as sqrt(2) come rounded to f32; the next candidate differs by 1e-4 or more

using Samples = std::vector<double>;

const Samples& TellingPoints() {
  static const Samples points = {-25.0, -7.5, -4.0, -3.2, -3.0, -2.9, -2.2, -1.5, -1.0, -0.7, -0.3, -0.01,
                                 0.0,   0.02, 0.25, 0.6,  1.0,  1.7,  2.4,  2.95, 3.1,  4.5,  7.25, 25.0};
  return points;
}

// +-2^e in steps of an eighth of an octave, from 1e-6 to the largest float: a bound of any size shows.
const Samples& DensePoints() {
  static const Samples points = [] {
    Samples p;
    for (double x = std::exp2(-20); x < 3.4e38; x *= std::exp2(0.125)) p.insert(p.end(), {x, -x});
    return p;
  }();
  return points;
}

double Sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double Clamp01(double x) {
  return std::max(0.0, std::min(1.0, x));
}
double Softplus(double x) {
  return x > 30 ? x : std::log1p(std::exp(x));
}

struct Known {
  const char* op;
  const char* attr;  ///< a float attribute, or "approximate"; null: none
  double value;
  double (*f)(double x);
};
const Known kKnown[] = {
    {"Gelu", nullptr, 0, [](double x) { return x / 2 * (1 + std::erf(x * std::sqrt(0.5))); }},
    {"Gelu", "approximate", 0,
     [](double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x))); }},
    {"Silu", nullptr, 0, [](double x) { return x * Sigmoid(x); }},
    {"Swish", "alpha", 1.702, [](double x) { return x * Sigmoid(1.702 * x); }},
    {"HardSwish", nullptr, 0, [](double x) { return x * Clamp01(x / 6 + 0.5); }},
    {"HardSigmoid", "alpha", 1.0 / 6, [](double x) { return Clamp01(x / 6 + 0.5); }},
    {"HardSigmoid", "alpha", 0.2, [](double x) { return Clamp01(0.2 * x + 0.5); }},
    {"Mish", nullptr, 0, [](double x) { return x * std::tanh(Softplus(x)); }},
    {"Sigmoid", nullptr, 0, Sigmoid},
    {"Softplus", nullptr, 0, Softplus},
    {"Relu", nullptr, 0, [](double x) { return std::max(0.0, x); }},
};

template <typename F>
Samples Map(const Samples& a, F&& f) {
  Samples out(a.size());
  std::transform(a.begin(), a.end(), out.begin(), f);
  return out;
}
template <typename F>
Samples Map2(const Samples& a, const Samples& b, F&& f) {
  Samples out(a.size());
  std::transform(a.begin(), a.end(), b.begin(), out.begin(), f);
  return out;
}

// The operator on samples; nullopt for operators that play no part in activations.
std::optional<Samples> Apply(const ir::Node& n, const std::vector<std::optional<Samples>>& in) {
  const Samples& a = *in[0];
  const std::string& op = n.op;
  if (in.size() == 1) {
    if (op == "Erf") return Map(a, [](double x) { return std::erf(x); });
    if (op == "Tanh") return Map(a, [](double x) { return std::tanh(x); });
    if (op == "Exp") return Map(a, [](double x) { return std::exp(x); });
    if (op == "Neg") return Map(a, [](double x) { return -x; });
    if (op == "Reciprocal") return Map(a, [](double x) { return 1 / x; });
    if (op == "Sigmoid") return Map(a, Sigmoid);
    if (op == "Softplus") return Map(a, Softplus);
    if (op == "Relu") return Map(a, [](double x) { return std::max(0.0, x); });
    if (op == "HardSigmoid") {
      const double alpha = n.attrs.Float("alpha", 0.2f), beta = n.attrs.Float("beta", 0.5f);
      return Map(a, [=](double x) { return Clamp01(alpha * x + beta); });
    }
  }
  if (op == "Clip") {
    Samples y = a;
    if (in.size() > 1 && in[1]) y = Map2(y, *in[1], [](double x, double lo) { return std::max(x, lo); });
    if (in.size() > 2 && in[2]) y = Map2(y, *in[2], [](double x, double hi) { return std::min(x, hi); });
    return y;
  }
  if (in.size() != 2 || !in[1]) return std::nullopt;
  const Samples& b = *in[1];
  if (op == "Add") return Map2(a, b, std::plus<>());
  if (op == "Sub") return Map2(a, b, std::minus<>());
  if (op == "Mul") return Map2(a, b, std::multiplies<>());
  if (op == "Div") return Map2(a, b, std::divides<>());
  if (op == "Pow") return Map2(a, b, [](double x, double y) { return std::pow(x, y); });
  if (op == "Max") return Map2(a, b, [](double x, double y) { return std::max(x, y); });
  if (op == "Min") return Map2(a, b, [](double x, double y) { return std::min(x, y); });
  return std::nullopt;
}

bool MayTakePart(std::string_view op) {
  static constexpr std::array kOps = {"Add",  "Sub", "Mul",     "Div",      "Pow",  "Max",         "Min", "Clip",      "Erf",
                                      "Tanh", "Exp", "Sigmoid", "Softplus", "Relu", "HardSigmoid", "Neg", "Reciprocal"};
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

// f(x) for the value `v` in terms of x; collects the nodes it is made of. nullopt when v depends on more than x.
class Expression {
 public:
  Expression(const Rewriter& r, ValueId x, const Samples& points) : r_(r), x_(x), points_(points) {}

  std::optional<Samples> Of(ValueId v) {
    if (v == x_) return points_;
    if (auto it = done_.find(v); it != done_.end()) return it->second;
    if (r_.IsConst(v)) {
      const auto c = r_.Scalar(v);
      if (!c) return std::nullopt;
      return Samples(points_.size(), *c);
    }
    const NodeId p = r_.Producer(v);
    if (p == kNone || !MayTakePart(r_.node(p).op) || nodes_.size() >= kMaxNodes) return std::nullopt;
    nodes_.push_back(p);
    std::vector<std::optional<Samples>> in;
    for (ValueId i : r_.node(p).inputs) {
      in.push_back(i == kNone ? std::nullopt : Of(i));
      if (i != kNone && !in.back()) return std::nullopt;
    }
    if (in.empty() || !in[0]) return std::nullopt;
    auto y = Apply(r_.node(p), in);
    done_[v] = y;
    return y;
  }
  const std::vector<NodeId>& nodes() const { return nodes_; }

 private:
  const Rewriter& r_;
  ValueId x_;
  const Samples& points_;
  std::map<ValueId, std::optional<Samples>> done_;
  std::vector<NodeId> nodes_;
};

bool Equals(const Known& known, const Samples& points, const Samples& y) {
  for (size_t i = 0; i < points.size(); ++i) {
    const double expected = known.f(points[i]);
    // Where exp overflows, spellings such as exp(x) / (1 + exp(x)) have no value of their own to keep.
    const bool undefined = std::isnan(y[i]) && std::abs(points[i]) > 80;
    if (!undefined && !(y[i] == expected || std::abs(y[i] - expected) <= kTolerance * (1 + std::abs(expected)))) return false;
  }
  return true;
}

// The activation that value `y` is of `x`, given y at the telling points.
const Known* Recognise(const Rewriter& r, ValueId x, ValueId y, const Samples& samples) {
  for (const Known& k : kKnown) {
    if (!Equals(k, TellingPoints(), samples)) continue;
    const auto dense = Expression(r, x, DensePoints()).Of(y);
    return dense && Equals(k, DensePoints(), *dense) ? &k : nullptr;
  }
  return nullptr;
}

// Values inside the group may be read by the group only.
bool Private(Rewriter& r, const std::vector<NodeId>& nodes, ValueId result) {
  for (NodeId n : nodes) {
    const ValueId v = r.Out(n);
    if (v == result) continue;
    if (r.graph().IsOutput(v)) return false;
    for (NodeId reader : r.value(v).consumers) {
      if (std::find(nodes.begin(), nodes.end(), reader) == nodes.end()) return false;
    }
  }
  return true;
}

// Values from which `v` is made, nearest first: what x may be.
std::vector<ValueId> Ancestors(const Rewriter& r, ValueId v) {
  std::vector<ValueId> found{v};
  size_t nodes = 0;
  for (size_t i = 0; i < found.size() && nodes < kMaxNodes; ++i) {
    const NodeId p = r.Producer(found[i]);
    if (p == kNone || !MayTakePart(r.node(p).op)) continue;
    ++nodes;
    for (ValueId in : r.node(p).inputs) {
      if (in != kNone && !r.IsConst(in) && std::find(found.begin(), found.end(), in) == found.end()) found.push_back(in);
    }
  }
  return {found.begin() + 1, found.end()};
}

bool Fuse(Rewriter& r, NodeId id) {
  if (!MayTakePart(r.node(id).op) || r.TypeOf(r.Out(id)) != DType::kF32) return false;
  const ValueId y = r.Out(id);
  const std::vector<ValueId> candidates = Ancestors(r, y);
  for (auto x = candidates.rbegin(); x != candidates.rend(); ++x) {
    if (!(r.ShapeOf(*x) == r.ShapeOf(y)) || !r.ShapeOf(y).has_rank() || r.TypeOf(*x) != DType::kF32) continue;
    Expression e(r, *x, TellingPoints());
    const auto samples = e.Of(y);
    if (!samples || e.nodes().size() < 2) continue;
    const Known* known = Recognise(r, *x, y, *samples);
    if (known == nullptr || !Private(r, e.nodes(), y)) continue;
    Attrs attrs;
    if (known->attr != nullptr && std::string_view(known->attr) == "approximate") {
      attrs.Set("approximate", std::string("tanh"));
    } else if (known->attr != nullptr) {
      attrs.Set(known->attr, static_cast<float>(known->value));
    }
    if (!r.KernelExists(known->op, attrs, {*x})) continue;
    const ValueId fused = r.Add(known->op, {*x}, attrs, id);
    if (fused == kNone) continue;
    r.Replace(y, fused);
    return true;
  }
  return false;
}

}  // namespace

Status ActivationFusion(Rewriter& r) {
  // Larger groups first: x*sigmoid(x) ends in the same operators that a longer pattern begins with.
  TENON_ASSIGN_OR_RETURN(auto order, r.graph().TopologicalOrder());
  std::reverse(order.begin(), order.end());
  for (NodeId id : order) {
    if (!r.node(id).dead && r.node(id).outputs.size() == 1 && r.node(id).outputs[0] != kNone) Fuse(r, id);
  }
  return Status::Ok();
}

}  // namespace tenon::passes
