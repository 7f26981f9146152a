#include "quantize/export_qdq.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <optional>

#include "base/mapped_file.h"
#include "import/onnx/external_data.h"
#include "import/onnx/load.h"
#include "kernels/gemm/activation.h"
#include "quantize/qdq_writer.h"

namespace tenon::quantize {
namespace {

using artifact::ProgramValue;
using artifact::Step;
using kernels::gemm::Act;

constexpr uint64_t kMaxFileBytes = uint64_t{2} << 30;    // protobuf holds no more
constexpr uint64_t kMaxInlinedBytes = uint64_t{3} << 29;
constexpr int64_t kFirstOpset = 13;
constexpr int64_t kGeluOpset = 20;
constexpr size_t kX = 0, kW = 1, kScale = 2, kBias = 3, kResidual = 4, kZero = 5;

void CollectNames(const onnx::GraphProto& graph, std::set<std::string>* names) {
  for (const auto& v : graph.input()) names->insert(v.name());
  for (const auto& v : graph.initializer()) names->insert(v.name());
  for (const auto& n : graph.node()) {
    names->insert(n.output().begin(), n.output().end());
    for (const auto& a : n.attribute()) {
      if (a.has_g()) CollectNames(a.g(), names);
    }
  }
}

void CollectUses(const onnx::GraphProto& graph, std::set<std::string>* uses) {
  for (const auto& v : graph.output()) uses->insert(v.name());
  for (const auto& n : graph.node()) {
    uses->insert(n.input().begin(), n.input().end());
    for (const auto& a : n.attribute()) {
      if (a.has_g()) CollectUses(a.g(), uses);
    }
  }
}

template <typename Keep>
void KeepNodes(onnx::GraphProto* graph, const Keep& keep) {
  google::protobuf::RepeatedPtrField<onnx::NodeProto> kept;
  for (auto& n : *graph->mutable_node()) {
    if (keep(n)) kept.Add(std::move(n));
  }
  graph->mutable_node()->Swap(&kept);
}

// Nodes and constants that nobody reads any more.
void RemoveUnused(onnx::GraphProto* graph) {
  for (int before = -1; before != graph->node_size();) {
    before = graph->node_size();
    std::set<std::string> uses;
    CollectUses(*graph, &uses);
    KeepNodes(graph, [&](const onnx::NodeProto& n) {
      return std::any_of(n.output().begin(), n.output().end(), [&](const std::string& o) { return uses.contains(o); });
    });
  }
  std::set<std::string> uses;
  CollectUses(*graph, &uses);
  for (const auto& v : graph->input()) uses.insert(v.name());
  google::protobuf::RepeatedPtrField<onnx::TensorProto> kept;
  for (auto& t : *graph->mutable_initializer()) {
    if (uses.contains(t.name())) kept.Add(std::move(t));
  }
  graph->mutable_initializer()->Swap(&kept);
}

class Exporter {
 public:
  Exporter(onnx::ModelProto* model, const artifact::Program& program, std::span<const BalancedTensor> balanced, int64_t opset)
      : graph_(model->mutable_graph()), program_(program), opset_(opset), writer_(graph_, NamesOf(*graph_)) {
    known_ = NamesOf(*graph_);
    for (const auto& n : graph_->node()) {
      if (n.output_size() == 1) producers_[n.output(0)] = &n;
    }
    for (const BalancedTensor& b : balanced) balanced_[b.name] = &b;
  }

  QdqReport Run(const std::set<std::string>& outputs) {
    QdqReport report;
    std::set<std::string> wanted;
    for (const std::string& o : outputs) wanted.insert(Known(o));
    std::map<std::string, const Step*> steps;   // by output
    for (const Step& s : program_.steps) {
      if (s.op != "QuantizedConv" && s.op != "QuantizedMatMul") continue;
      const std::string output = Known(program_.values[static_cast<size_t>(s.outputs[0])].name);
      if (output.empty() || !wanted.contains(output)) continue;
      const std::string reason = WhyNot(s, output);
      if (reason.empty()) {
        steps[output] = &s;
      } else {
        report.kept.push_back(fmt::format("{}: {}", s.name, reason));
      }
    }
    for (auto& n : *graph_->mutable_node()) {
      const auto it = n.output_size() == 1 ? steps.find(n.output(0)) : steps.end();
      if (it == steps.end()) {
        writer_.nodes().push_back(n);
      } else {
        Write(*it->second, it->first);
        ++report.exported;
      }
    }
    graph_->clear_node();
    for (auto& n : writer_.nodes()) *graph_->add_node() = std::move(n);
    RemoveUnused(graph_);
    return report;
  }

 private:
  static std::set<std::string> NamesOf(const onnx::GraphProto& graph) {
    std::set<std::string> names;
    CollectNames(graph, &names);
    return names;
  }

  const ProgramValue* ValueOf(const Step& s, size_t i) const {
    if (i >= s.inputs.size() || s.inputs[i] == artifact::kAbsent) return nullptr;
    return &program_.values[static_cast<size_t>(s.inputs[i])];
  }

  // What the source calls the value, of which this may be another form: "<name>:<form>". Empty: nothing.
  std::string Known(std::string name) const {
    while (!known_.contains(name)) {
      const size_t colon = name.rfind(':');
      if (colon == std::string::npos) return "";
      name.resize(colon);
    }
    return name;
  }

  std::string WhyNot(const Step& s, const std::string& output) const {
    if (!producers_.contains(output)) return "the source has no node of this result alone";
    if (ValueOf(s, kX) == nullptr || Known(ValueOf(s, kX)->name).empty()) return "the source has no such input";
    if (ValueOf(s, kResidual) != nullptr && Known(ValueOf(s, kResidual)->name).empty()) return "the source has no such addend";
    if (s.attrs.Int("dynamic", 0) != 0) return "its range is measured in each run";
    const ProgramValue* w = ValueOf(s, kW);
    if (w == nullptr || w->dtype != DType::kI8 || !w->constant.defined() || ValueOf(s, kZero) != nullptr)
      return "weights not int8";
    const ProgramValue* bias = ValueOf(s, kBias);
    if (bias != nullptr && (bias->dtype != DType::kF32 || !bias->constant.defined())) return "its bias is no constant";
    if (s.attrs.Has("grid_scale")) return "its result is rounded before an addition";
    return kernels::gemm::ParseActivation(s.attrs).ok() ? "" : "its activation is unknown";
  }

  // x as `s` reads it: divided by its balance, rounded and back.
  std::string Input(const Step& s) {
    const std::string x = Known(ValueOf(s, kX)->name);
    const float scale = s.attrs.Float("x_scale", 1);
    const auto zero = static_cast<uint8_t>(s.attrs.Int("x_zero_point", 0));
    const bool is_signed = s.attrs.Int("x_dtype", static_cast<int64_t>(DType::kU8)) == static_cast<int64_t>(DType::kI8);
    const auto balance = s.op == "QuantizedMatMul" ? balanced_.find(x) : balanced_.end();
    std::string& made = rounded_[fmt::format("{} {} {} {} {}", x, balance != balanced_.end(), scale, zero, is_signed)];
    if (!made.empty()) return made;
    std::string from = x;
    if (balance != balanced_.end()) {
      std::vector<float> inverse;
      for (const float v : balance->second->scales) inverse.push_back(1 / v);
      const auto size = static_cast<int64_t>(inverse.size());
      from = writer_.Node("Mul", x + "_balance", {x, writer_.Floats(x + "_balance", inverse, {size})});
    }
    const std::string steps = writer_.Scalar(x + "_scale", scale);
    const std::string zero_point =
        writer_.Constant(x + "_zero_point", is_signed ? DType::kI8 : DType::kU8, {}, &zero, sizeof zero);
    const std::string bytes = writer_.Node("QuantizeLinear", x + "_QuantizeLinear", {from, steps, zero_point});
    made = writer_.Node("DequantizeLinear", x + "_DequantizeLinear", {bytes, steps, zero_point});
    return made;
  }

  std::string Dequantised(const std::string& name, DType type, const std::vector<int64_t>& dims, const void* data, size_t bytes,
                          const std::vector<float>& scales, int64_t axis) {
    const auto n = static_cast<int64_t>(scales.size());
    const std::string raw = writer_.Constant(name + "_quantized", type, dims, data, bytes);
    const std::string steps = writer_.Floats(name + "_scale", scales, {n});
    const std::vector<char> zeros(DTypeBytes(type, n));
    const std::string zero = writer_.Constant(name + "_zero_point", type, {n}, zeros.data(), zeros.size());
    const std::string y = writer_.Node("DequantizeLinear", name + "_DequantizeLinear", {raw, steps, zero});
    writer_.SetInt("axis", axis);
    return y;
  }

  std::vector<float> ScalesOf(const Step& s, int64_t channels) const {
    const Tensor& t = ValueOf(s, kScale)->constant;
    const auto* p = t.Data<float>();
    std::vector<float> scales;
    for (int64_t i = 0; i < channels; ++i) scales.push_back(p[t.shape().num_elements() == 1 ? 0 : i]);
    return scales;
  }

  std::string WriteConv(const Step& s) {
    const std::string x = Input(s);
    const Tensor& w = ValueOf(s, kW)->constant;
    const int64_t channels = w.shape()[0];
    std::vector<int64_t> dims;
    for (int i = 0; i < w.shape().rank(); ++i) dims.push_back(w.shape()[i]);
    const std::vector<float> scales = ScalesOf(s, channels);
    std::vector<std::string> inputs = {x, Dequantised(s.name + "_weight", DType::kI8, dims, w.Data<int8_t>(),
                                                      static_cast<size_t>(w.shape().num_elements()), scales, 0)};
    if (const ProgramValue* bias = ValueOf(s, kBias)) inputs.push_back(ConvBias(s, *bias, scales));
    const std::string y = writer_.Node("Conv", s.name, inputs);
    for (const char* name : {"kernel_shape", "pads", "strides", "dilations"}) {
      if (s.attrs.Has(name)) writer_.SetInts(name, s.attrs.Ints(name, {}));
    }
    writer_.SetInt("group", s.attrs.Int("group", 1));
    if (s.attrs.Has("auto_pad")) writer_.SetString("auto_pad", s.attrs.String("auto_pad", "NOTSET"));
    return y;
  }

  // In the steps of the sums where int32 can say it, as integer kernels want it.
  std::string ConvBias(const Step& s, const ProgramValue& bias, std::vector<float> scales) {
    const int64_t count = bias.constant.shape().num_elements();
    std::vector<float> values;
    std::vector<int32_t> steps;
    bool fits = true;
    for (size_t i = 0; i < scales.size(); ++i) {
      values.push_back(bias.constant.Data<float>()[count == 1 ? 0 : i]);
      scales[i] *= s.attrs.Float("x_scale", 1);
      const double q = std::nearbyint(values[i] / static_cast<double>(scales[i]));
      fits = fits && scales[i] > 0 && std::abs(q) < 2e9;
      steps.push_back(fits ? static_cast<int32_t>(q) : 0);
    }
    const auto n = static_cast<int64_t>(values.size());
    if (!fits) return writer_.Floats(s.name + "_bias", values, {n});
    return Dequantised(s.name + "_bias", DType::kI32, {n}, steps.data(), steps.size() * sizeof(int32_t), scales, 0);
  }

  std::string WriteMatMul(const Step& s) {
    const std::string x = Input(s);
    const Tensor& w = ValueOf(s, kW)->constant;
    const bool transposed = s.attrs.Int("transB", 0) != 0;
    const int64_t depth = w.shape()[transposed ? 1 : 0];
    const int64_t columns = w.shape()[transposed ? 0 : 1];
    std::vector<int8_t> bytes(static_cast<size_t>(depth * columns));
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t n = 0; n < columns; ++n) {
        bytes[static_cast<size_t>(k * columns + n)] = w.Data<int8_t>()[transposed ? n * depth + k : k * columns + n];
      }
    }
    const std::string b =
        Dequantised(s.name + "_weight", DType::kI8, {depth, columns}, bytes.data(), bytes.size(), ScalesOf(s, columns), 1);
    std::string y = writer_.Node("MatMul", s.name, {x, b});
    const ProgramValue* bias = ValueOf(s, kBias);
    if (bias == nullptr) return y;
    const auto* p = bias->constant.Data<float>();
    const int64_t count = bias->constant.shape().num_elements();
    const std::string addend = writer_.Floats(s.name + "_bias", std::vector<float>(p, p + count), {count});
    return writer_.Node("Add", s.name + "_bias", {y, addend});
  }

  std::string Activated(const Step& s, const std::string& v) {
    const auto activation = kernels::gemm::ParseActivation(s.attrs);
    const std::string name(kernels::gemm::ActivationName(activation->kind));
    const auto params = s.attrs.Floats("activation_params", {});
    const auto param = [&](size_t i, float fallback) { return i < params.size() ? params[i] : fallback; };
    const std::string node = s.name + "_" + name;
    if (name.empty()) return v;
    if (name == "Clip") {
      return writer_.Node("Clip", node,
                          {v, writer_.Scalar(node + "_min", param(0, 0)), writer_.Scalar(node + "_max", param(1, 0))});
    }
    if (name == "Silu") return writer_.Node("Mul", node, {v, writer_.Node("Sigmoid", node + "_Sigmoid", {v})});
    if (name == "HardSwish" && opset_ < 14) {
      const std::string gate = writer_.Node("HardSigmoid", node + "_gate", {v});
      writer_.SetFloat("alpha", 1.0F / 6);
      return writer_.Node("Mul", node, {v, gate});
    }
    if (name == "Gelu" || name == "GeluTanh") return Gelu(node, v, name == "GeluTanh");
    const std::string y = writer_.Node(name, node, {v});
    if (name == "HardSigmoid") {
      writer_.SetFloat("alpha", param(0, 0.2F));
      writer_.SetFloat("beta", param(1, 0.5F));
    }
    if (name == "LeakyRelu") writer_.SetFloat("alpha", param(0, 0.01F));
    return y;
  }

  // v / 2 * (1 + erf(v / sqrt 2)), or with tanh(sqrt(2 / pi) * (v + 0.044715 v^3)) for erf.
  std::string Gelu(const std::string& node, const std::string& v, bool tanh) {
    if (opset_ >= kGeluOpset) {
      const std::string y = writer_.Node("Gelu", node, {v});
      writer_.SetString("approximate", tanh ? "tanh" : "none");
      return y;
    }
    const auto times = [&](const std::string& a, float b) {
      return writer_.Node("Mul", node + "_Mul", {a, writer_.Scalar(node + "_factor", b)});
    };
    std::string inner;
    if (tanh) {
      const std::string cube = writer_.Node("Mul", node + "_cube", {writer_.Node("Mul", node + "_square", {v, v}), v});
      inner = writer_.Node("Tanh", node + "_Tanh",
                           {times(writer_.Node("Add", node + "_Add", {v, times(cube, 0.044715F)}), 0.7978845608F)});
    } else {
      inner = writer_.Node("Erf", node + "_Erf", {times(v, 0.70710678F)});
    }
    const std::string one = writer_.Node("Add", node + "_plus_one", {inner, writer_.Scalar(node + "_one", 1)});
    return times(writer_.Node("Mul", node, {v, one}), 0.5F);
  }

  void Write(const Step& s, const std::string& output) {
    std::string y = s.op == "QuantizedConv" ? WriteConv(s) : WriteMatMul(s);
    if (const ProgramValue* residual = ValueOf(s, kResidual)) {
      y = writer_.Node("Add", s.name + "_residual", {y, Known(residual->name)});
    }
    y = Activated(s, y);
    if (const float scale = s.attrs.Float("post_scale", 1); scale != 1) {
      y = writer_.Node("Mul", s.name + "_post_scale", {y, writer_.Scalar(s.name + "_post_scale", scale)});
    }
    if (const float shift = s.attrs.Float("post_shift", 0); shift != 0) {
      y = writer_.Node("Add", s.name + "_post_shift", {y, writer_.Scalar(s.name + "_post_shift", shift)});
    }
    // What balancing took out of a product's own weights is put back: other readers want the source's value.
    const auto balance = balanced_.find(output);
    if (balance != balanced_.end() && balance->second->folded) {
      const auto& scales = balance->second->scales;
      const std::string factors = writer_.Floats(output + "_unbalance", scales, {static_cast<int64_t>(scales.size())});
      y = writer_.Node("Mul", output + "_unbalance", {y, factors});
    }
    // The last node gives the value its name in the source.
    *writer_.nodes().back().mutable_output(0) = output;
  }

  onnx::GraphProto* graph_;
  const artifact::Program& program_;
  int64_t opset_;
  QdqWriter writer_;
  std::set<std::string> known_;
  std::map<std::string, const onnx::NodeProto*> producers_;
  std::map<std::string, const BalancedTensor*> balanced_;
  std::map<std::string, std::string> rounded_;
};

// The file holds what lay beside the source.
Status TakeIn(const std::string& source, onnx::GraphProto* graph) {
  const std::filesystem::path path(source);
  import::onnx_format::ExternalData external({path.has_parent_path() ? path.parent_path().string() : "."}, true);
  uint64_t total = 0;
  for (auto& t : *graph->mutable_initializer()) {
    if (t.data_location() != onnx::TensorProto::EXTERNAL) continue;
    import::onnx_format::ExternalLocation where;
    for (const auto& e : t.external_data()) {
      if (e.key() == "location") where.location = e.value();
      if (e.key() == "offset") where.offset = e.value();
      if (e.key() == "length") where.length = e.value();
    }
    uint64_t elements = 1;
    for (const int64_t d : t.dims()) {
      if (d < 0 || (d > 0 && elements > kMaxInlinedBytes / static_cast<uint64_t>(d))) {
        return Unsupported("tensor '{}' is too large for one ONNX file", t.name());
      }
      elements *= static_cast<uint64_t>(d);
    }
    const uint64_t bytes = DTypeBytes(static_cast<DType>(t.data_type()), static_cast<int64_t>(elements));
    total += bytes;
    if (total > kMaxInlinedBytes) return Unsupported("constants beside '{}' are too large for one ONNX file", source);
    TENON_ASSIGN_OR_RETURN(const auto buffer, external.Read(where, bytes, 1));
    t.set_raw_data(buffer->data(), bytes);
    t.clear_external_data();
    t.clear_data_location();
  }
  return Status::Ok();
}

}  // namespace

Result<QdqReport> ExportQdq(const std::string& source, const std::string& out, const artifact::Program& lowered,
                            const std::set<std::string>& outputs, std::span<const BalancedTensor> balanced) {
  TENON_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(source, kMaxFileBytes));
  onnx::ModelProto model;
  TENON_RETURN_IF_ERROR(import::onnx_format::ParseModel(bytes, &model));
  int64_t opset = 0;
  for (const auto& o : model.opset_import()) {
    if (o.domain().empty() || o.domain() == "ai.onnx") opset = o.version();
  }
  if (opset < kFirstOpset) {
    return Unsupported("export of '{}' as QDQ: opset {}; scales per channel need {} or later (onnx.version_converter)", source,
                       opset, kFirstOpset);
  }
  QdqReport report = Exporter(&model, lowered, balanced, opset).Run(outputs);
  TENON_RETURN_IF_ERROR(TakeIn(source, model.mutable_graph()));
  if (model.ByteSizeLong() >= kMaxFileBytes) return Unsupported("export of '{}' as QDQ: too large for one ONNX file", source);
  const std::string text = model.SerializeAsString();
  TENON_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(out));
  TENON_RETURN_IF_ERROR(file.Append(text.data(), text.size()));
  TENON_RETURN_IF_ERROR(file.Commit());
  return report;
}

}  // namespace tenon::quantize
