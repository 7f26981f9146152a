#include "kernels/cost.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

#include "kernels/attention/attention.h"

namespace tenon::kernels {

namespace {

struct Args {
  std::string_view op;
  const Attrs& attrs;
  std::span<const View> in, out;

  bool Has(size_t i) const { return i < in.size() && in[i].present() && in[i].sequence == nullptr; }
  double Elements(size_t i) const { return Has(i) ? static_cast<double>(in[i].num_elements()) : 0; }
  double OutElements() const { return !out.empty() && out[0].present() ? static_cast<double>(out[0].num_elements()) : 0; }
};

// Operations, and the operand whose type the products have; no such operand: 0.
struct Count {
  double flops = 0;
  size_t weights = 0;
};
using Counter = Count (*)(const Args& a);

Count Product(const Args& a) {
  const bool quantized = a.op == "QLinearMatMul";
  if (!a.Has(0) || a.in[0].shape.rank() == 0) return {};
  const Shape& x = a.in[0].shape;
  const int rank = x.rank();
  const bool turned = rank >= 2 && a.attrs.Int("transA", 0) != 0;
  return {2 * a.OutElements() * static_cast<double>(x[turned ? rank - 2 : rank - 1]), quantized ? 3U : 1U};
}

// The weights are the first operand behind x that has its rank (scales and zero points may stand between).
size_t WeightsOf(const Args& a) {
  for (size_t i = 1; i < a.in.size() && a.Has(0); ++i) {
    if (a.Has(i) && a.in[i].shape.rank() == a.in[0].shape.rank() && a.in[i].shape.rank() >= 2) return i;
  }
  return 0;
}

Count Convolution(const Args& a) {
  const size_t w = WeightsOf(a);
  if (w == 0 || a.in[w].shape[0] == 0) return {};
  return {2 * a.OutElements() * a.Elements(w) / static_cast<double>(a.in[w].shape[0]), w};
}

Count TransposedConvolution(const Args& a) {
  const size_t w = WeightsOf(a);
  if (w == 0 || a.in[w].shape[0] == 0) return {};
  return {2 * a.Elements(0) * a.Elements(w) / static_cast<double>(a.in[w].shape[0]), w};
}

Count Attention(const Args& a) {
  const auto params = attention::ParseAttention(a.op, a.attrs);
  if (!params.ok()) return {};
  auto core = attention::ResolveShapes(*params, a.in);
  if (!core.ok()) return {};
  // By position alone: neither the mask nor the lengths of sequences are known here.
  core->kv_lens = nullptr, core->mask_len = core->k_len;
  double pairs = 0;
  for (int64_t i = 0; i < core->q_len; ++i) {
    const auto seen = attention::VisibleKeys(*core, 0, i);
    pairs += static_cast<double>(seen.last - seen.first);
  }
  return {2 * static_cast<double>(core->batch * core->heads) * pairs * static_cast<double>(core->dim + core->v_dim),
          a.Has(1) ? 1U : 0U};
}

// x [seq, batch, in] (or [batch, seq, in]), w [directions, gates * hidden, in], r [directions, gates * hidden, hidden]
Count Recurrent(const Args& a) {
  if (!a.Has(0) || a.in[0].shape.rank() != 3) return {};
  return {2 * static_cast<double>(a.in[0].shape[0] * a.in[0].shape[1]) * (a.Elements(1) + a.Elements(2)), 1};
}

// Each label's extent once: all products of the sum.
Count Einsum(const Args& a) {
  const std::string equation = a.attrs.String("equation", "");
  std::map<char, double> extents;
  size_t operand = 0;
  int axis = 0;
  for (size_t i = 0; i < equation.size() && equation[i] != '-'; ++i) {
    if (equation[i] == ' ') continue;
    if (equation[i] == '.') return {a.OutElements(), 0};
    if (equation[i] == ',') {
      ++operand, axis = 0;
      continue;
    }
    if (!a.Has(operand) || axis >= a.in[operand].shape.rank()) return {};
    double& extent = extents[equation[i]];
    extent = std::max(extent, static_cast<double>(a.in[operand].shape[axis++]));
  }
  double all = static_cast<double>(std::max<size_t>(2, a.in.size()));
  for (const auto& [label, extent] : extents) all *= extent;
  return {all, a.in.size() > 1 ? 1U : 0U};
}

Count Chain(const Args& a) {
  return {a.OutElements() * static_cast<double>(a.attrs.Strings("ops").size()), 0};
}

Count Pool(const Args& a) {
  double area = 1;
  for (int64_t k : a.attrs.Ints("kernel_shape")) area *= static_cast<double>(k);
  return {a.OutElements() * area, 0};
}

Count None(const Args& /*a*/) {
  return {};
}
Count OnceByInput(const Args& a) {
  return {a.Elements(0), 0};
}
Count Softmax(const Args& a) {
  return {5 * a.Elements(0), 0};
}
Count Normalization(const Args& a) {
  return {8 * a.Elements(0), 0};
}
Count Affine(const Args& a) {
  return {2 * a.Elements(0), 0};
}

const std::unordered_map<std::string_view, Counter>& Counters() {
  static const auto* counters = new std::unordered_map<std::string_view, Counter>{
      {"MatMul", Product},
      {"Gemm", Product},
      {"FusedMatMul", Product},
      {"MatMulInteger", Product},
      {"QLinearMatMul", Product},
      {"QuantizedMatMul", Product},
      {"Conv", Convolution},
      {"FusedConv", Convolution},
      {"ConvInteger", Convolution},
      {"QLinearConv", Convolution},
      {"QuantizedConv", Convolution},
      {"DeformConv", Convolution},
      {"ConvTranspose", TransposedConvolution},
      {"FusedConvTranspose", TransposedConvolution},
      {"Attention", Attention},
      {"FusedAttention", Attention},
      {"RNN", Recurrent},
      {"GRU", Recurrent},
      {"LSTM", Recurrent},
      {"Einsum", Einsum},
      {"ElementwiseChain", Chain},
      {"AveragePool", Pool},
      {"MaxPool", Pool},
      {"LpPool", Pool},
      {"GlobalAveragePool", OnceByInput},
      {"GlobalMaxPool", OnceByInput},
      {"ReduceL1", Affine},
      {"ReduceL2", Affine},
      {"ReduceMax", OnceByInput},
      {"ReduceMean", OnceByInput},
      {"ReduceMin", OnceByInput},
      {"ReduceProd", OnceByInput},
      {"ReduceSum", OnceByInput},
      {"ReduceSumSquare", Affine},
      {"ReduceLogSum", OnceByInput},
      {"ReduceLogSumExp", Affine},
      {"ArgMax", OnceByInput},
      {"ArgMin", OnceByInput},
      {"Softmax", Softmax},
      {"LogSoftmax", Softmax},
      {"LayerNormalization", Normalization},
      {"RMSNormalization", Normalization},
      {"GroupNormalization", Normalization},
      {"InstanceNormalization", Normalization},
      {"SkipLayerNormalization", Normalization},
      {"SimplifiedLayerNormalization", Normalization},
      {"SkipSimplifiedLayerNormalization", Normalization},
      {"BatchNormalization", Affine},
      {"QuantizeLinear", Affine},
      {"DequantizeLinear", Affine},
      {"Cast", None},
      {"CastLike", None},
      {"Concat", None},
      {"ConstantOfShape", None},
      {"DepthToSpace", None},
      {"Expand", None},
      {"Gather", None},
      {"GatherElements", None},
      {"GatherND", None},
      {"Identity", None},
      {"Pad", None},
      {"Reshape", None},
      {"ScatterElements", None},
      {"ScatterND", None},
      {"Shape", None},
      {"Slice", None},
      {"SpaceToDepth", None},
      {"Split", None},
      {"Squeeze", None},
      {"Tile", None},
      {"Transpose", None},
      {"Unsqueeze", None},
  };
  return *counters;
}

// Of these operands only as much is read as comes out.
bool ReadsPart(std::string_view op) {
  return op == "Gather" || op == "GatherElements" || op == "GatherND" || op == "Slice";
}

double BytesOf(const View& v) {
  if (!v.present() || v.sequence != nullptr) return 0;
  return static_cast<double>(v.dtype == DType::kString ? 0 : v.bytes());
}

}  // namespace

Cost CostOf(std::string_view op, const Attrs& attrs, std::span<const View> in, std::span<const View> out) {
  const Args args{op, attrs, in, out};
  Cost cost;
  for (const View& v : out) cost.bytes += BytesOf(v);
  const double written = cost.bytes;
  for (size_t i = 0; i < in.size(); ++i) {
    cost.bytes += i == 0 && ReadsPart(op) ? std::min(BytesOf(in[i]), written) : BytesOf(in[i]);
  }
  const auto it = Counters().find(op);
  const Count count = it != Counters().end() ? it->second(args) : Count{args.OutElements(), 0};
  cost.flops = count.flops;
  const bool products = it != Counters().end() && count.flops > 0 && (count.weights != 0 || it->second == Attention);
  if (products && args.Has(count.weights)) cost.product = in[count.weights].dtype;
  return cost;
}

}  // namespace tenon::kernels
