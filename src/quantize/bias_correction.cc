#include "quantize/bias_correction.h"

#include <cmath>

#include "guard/views.h"

namespace tenon::quantize {
namespace {

using artifact::Program;
using artifact::ProgramValue;
using artifact::Step;

constexpr size_t kX = 0, kW = 1, kScale = 2, kBias = 3;   // of the integer operators

bool IsInteger(const Step& s) {
  return s.op == "QuantizedConv" || s.op == "QuantizedMatMul";
}

const ProgramValue* ValueOf(const Program& p, const Step& s, size_t i) {
  if (i >= s.inputs.size() || s.inputs[i] == artifact::kAbsent) return nullptr;
  return &p.values[static_cast<size_t>(s.inputs[i])];
}

// What the f32 model calls this value, which may be another form of it: "<name>:<form>".
std::string FullName(const std::string& name, const std::map<std::string, const Step*>& steps) {
  if (steps.contains(name)) return name;
  const size_t colon = name.rfind(':');
  return colon == std::string::npos ? name : name.substr(0, colon);
}

std::map<std::string, const Step*> StepsByOutput(const Program& p) {
  std::map<std::string, const Step*> steps;
  for (const Step& s : p.steps) {
    if (!s.outputs.empty() && s.outputs[0] != artifact::kAbsent) steps[p.values[static_cast<size_t>(s.outputs[0])].name] = &s;
  }
  return steps;
}

// Sums by channel of a tensor, and of what is left of it after rounding.
struct Sums {
  size_t depth = 0;        // channels on the last axis, however the tensor is seen; 0: axis 1 as it is seen
  float scale = 0;         // of the rounding; 0: by the range of each run, which moves no mean
  float zero = 0;
  float low = 0, high = 255;   // integers that its type has
  double count = 0;        // elements of a channel
  std::vector<double> x;
  std::vector<double> rounded;
};

class Summer final : public StepObserver {
 public:
  explicit Summer(std::multimap<std::string, Sums*, std::less<>> sums) : sums_(std::move(sums)) {}
  bool WantsValues() const override { return true; }
  bool WantsShapes() const override { return false; }
  void OnStep(const StepRecord& record) override {
    for (const HostTensor& t : record.outputs) Add(t);
  }
  void Add(const HostTensor& t) {
    if (t.dtype != DType::kF32 || t.is_sequence || t.data == nullptr) return;
    const auto [first, last] = sums_.equal_range(t.name);
    for (auto it = first; it != last; ++it) AddTo(t, it->second);
  }

 private:
  static void AddTo(const HostTensor& t, Sums* sums) {
    Sums& s = *sums;
    if (s.depth == 0 && t.shape.size() < 2) return;
    const auto channels = s.depth != 0 ? s.depth : static_cast<size_t>(t.shape[1]);
    size_t inner = 1;
    for (size_t i = 2; s.depth == 0 && i < t.shape.size(); ++i) inner *= static_cast<size_t>(t.shape[i]);
    const size_t total = t.bytes / sizeof(float);
    if (channels == 0 || inner == 0 || total % (channels * inner) != 0) return;
    s.x.resize(channels);
    s.rounded.resize(channels);
    const auto* p = static_cast<const float*>(t.data);
    for (size_t at = 0, c = 0; at < total; at += inner, c = c + 1 == channels ? 0 : c + 1) {
      for (size_t i = at; i < at + inner; ++i) {
        s.x[c] += p[i];
        s.rounded[c] += Rounded(s, p[i]);
      }
    }
    s.count += static_cast<double>(total / channels);
  }

  static float Rounded(const Sums& s, float v) {
    if (s.scale == 0) return v;
    return (std::clamp(std::nearbyint(v / s.scale) + s.zero, s.low, s.high) - s.zero) * s.scale;
  }
  std::multimap<std::string, Sums*, std::less<>> sums_;
};

// How both operators read weights: column n, depth k, `taps` elements for each depth.
struct Weights {
  int64_t columns = 0, depth = 0, taps = 1;
  int64_t column_stride = 0, depth_stride = 0;
  int64_t group_columns = 0;   // columns of a group, which has `depth` channels of its own
};

Weights WeightsOf(const Step& s, const Shape& w) {
  Weights r;
  if (s.op == "QuantizedConv") {
    r.columns = w[0];
    r.depth = w[1];
    r.taps = w.Product(2, w.rank());
    r.column_stride = r.depth * r.taps;
    r.depth_stride = r.taps;
    r.group_columns = std::max<int64_t>(r.columns / std::max<int64_t>(s.attrs.Int("group", 1), 1), 1);
    return r;
  }
  const bool transposed = s.attrs.Int("transB", 0) != 0;
  r.columns = w[transposed ? 0 : 1];
  r.depth = w[transposed ? 1 : 0];
  r.column_stride = transposed ? r.depth : 1;
  r.depth_stride = transposed ? 1 : r.columns;
  r.group_columns = r.columns;
  return r;
}

std::vector<float> ShiftOf(const Step& full, const Program& f, const Step& low, const Program& l, const Sums& sums) {
  const ProgramValue* w = ValueOf(f, full, kW);
  const ProgramValue* q = ValueOf(l, low, kW);
  const ProgramValue* scale = ValueOf(l, low, kScale);
  if (w == nullptr || q == nullptr || scale == nullptr || !w->constant.defined() || !q->constant.defined() ||
      !scale->constant.defined() || w->dtype != DType::kF32 || q->dtype != DType::kI8 || sums.count <= 0) {
    return {};
  }
  const Weights at = WeightsOf(low, q->constant.shape());
  const int64_t groups = at.columns / at.group_columns;
  const bool same_shape = w->constant.shape().num_elements() == q->constant.shape().num_elements();
  if (!same_shape || static_cast<int64_t>(sums.x.size()) != groups * at.depth ||
      scale->constant.shape().num_elements() != at.columns) {
    return {};
  }
  const float alpha = full.op == "FusedMatMul" ? full.attrs.Float("alpha", 1) : 1;   // the scales have it
  const auto* weights = w->constant.Data<float>();
  const auto* bytes = q->constant.Data<int8_t>();
  std::vector<float> shift;
  for (int64_t n = 0; n < at.columns; ++n) {
    double sum = 0;
    for (int64_t k = 0; k < at.depth; ++k) {
      const auto channel = static_cast<size_t>(n / at.group_columns * at.depth + k);
      double exact = 0;
      double rounded = 0;
      for (int64_t t = 0; t < at.taps; ++t) {
        const int64_t i = n * at.column_stride + k * at.depth_stride + t;
        exact += weights[i];
        rounded += bytes[i];
      }
      const double step = scale->constant.Data<float>()[n];
      sum += (exact * alpha * sums.x[channel] - rounded * step * sums.rounded[channel]) / sums.count;
    }
    shift.push_back(static_cast<float>(sum));
  }
  const bool finite = std::all_of(shift.begin(), shift.end(), [](float v) { return std::isfinite(v); });
  return finite ? shift : std::vector<float>{};
}

}  // namespace

Result<BiasCorrection> BiasCorrection::Measure(const Program& full, Session& session, const Program& lowered,
                                               guard::DataSet& data, std::span<const size_t> samples, const RunOptions& run) {
  const auto steps = StepsByOutput(full);
  struct Pair {
    const Step* full;
    const Step* lowered;
    std::string output;
    std::string input;
  };
  std::vector<Pair> pairs;
  const auto views = guard::ViewSources(full);
  std::map<std::string, Sums, std::less<>> sums;
  std::multimap<std::string, Sums*, std::less<>> sources;
  for (const Step& s : lowered.steps) {
    if (!IsInteger(s)) continue;
    const std::string output = FullName(lowered.values[static_cast<size_t>(s.outputs[0])].name, steps);
    const auto it = steps.find(output);
    const ProgramValue* x = it == steps.end() ? nullptr : ValueOf(full, *it->second, kX);
    if (x == nullptr) continue;
    const ProgramValue* w = ValueOf(lowered, s, kW);
    if (w == nullptr || !w->constant.defined() || w->constant.shape().rank() < 2) continue;
    const Weights at = WeightsOf(s, w->constant.shape());
    const bool last_axis = s.op == "QuantizedMatMul" || s.attrs.String("data_layout", "NCHW") == "NHWC";
    if (!last_axis && views.contains(x->name)) continue;   // another shape: its axis 1 is not known
    pairs.push_back({it->second, &s, output, x->name});
    const auto [entry, fresh] = sums.try_emplace(x->name);
    Sums& sum = entry->second;
    if (!fresh) continue;
    sources.emplace(guard::SourceOf(views, x->name), &sum);
    sum.depth = last_axis ? static_cast<size_t>(at.columns / at.group_columns * at.depth) : 0;
    if (s.attrs.Int("dynamic", 0) != 0) continue;
    const bool is_signed = s.attrs.Int("x_dtype", static_cast<int64_t>(DType::kU8)) == static_cast<int64_t>(DType::kI8);
    sum.scale = s.attrs.Float("x_scale", 0);
    sum.zero = static_cast<float>(s.attrs.Int("x_zero_point", 0));
    sum.low = is_signed ? -128 : 0;
    sum.high = is_signed ? 127 : 255;
  }
  Summer summer(std::move(sources));
  RunOptions observed = run;
  observed.observer = &summer;
  for (const size_t i : samples) {
    TENON_ASSIGN_OR_RETURN(const guard::Sample sample, data.Load(i));
    for (const HostTensor& t : sample.inputs) summer.Add(t);
    TENON_RETURN_IF_ERROR(session.Run(sample.inputs, observed).status());
  }
  BiasCorrection correction;
  for (const Pair& p : pairs) {
    auto shift = ShiftOf(*p.full, full, *p.lowered, lowered, sums.at(p.input));
    if (!shift.empty()) correction.shifts_[p.output] = std::move(shift);
  }
  return correction;
}

Result<size_t> BiasCorrection::Apply(Program* program) const {
  size_t corrected = 0;
  for (Step& s : program->steps) {
    if (!IsInteger(s)) continue;
    const std::string& output = program->values[static_cast<size_t>(s.outputs[0])].name;
    auto it = shifts_.find(output);
    if (it == shifts_.end()) it = shifts_.find(output.substr(0, output.rfind(':')));
    if (it == shifts_.end()) continue;
    const auto n = static_cast<int64_t>(it->second.size());
    TENON_ASSIGN_OR_RETURN(Tensor bias, Tensor::Allocate(DType::kF32, Shape({n})));
    auto* to = bias.MutableData<float>();
    std::copy(it->second.begin(), it->second.end(), to);
    if (const ProgramValue* old = ValueOf(*program, s, kBias)) {
      const int64_t count = old->constant.defined() ? old->constant.shape().num_elements() : 0;
      if (old->dtype != DType::kF32 || (count != n && count != 1)) continue;
      for (int64_t i = 0; i < n; ++i) to[i] += old->constant.Data<float>()[count == 1 ? 0 : i];
    }
    ProgramValue value;
    value.name = output + "_corrected_bias";
    value.dtype = DType::kF32;
    value.shape = SymShape({Dim(n)});
    value.constant = std::move(bias);
    s.inputs.resize(std::max(s.inputs.size(), kBias + 1), artifact::kAbsent);
    s.inputs[kBias] = static_cast<artifact::ValueIndex>(program->values.size());
    program->values.push_back(std::move(value));
    ++corrected;
  }
  return corrected;
}

}  // namespace tenon::quantize
