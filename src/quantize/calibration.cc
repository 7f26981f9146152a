#include "quantize/calibration.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "quantize/histogram.h"

namespace tenon::quantize {
namespace {

using Json = nlohmann::json;

// Names of tensors need not be UTF-8.
std::string Text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json TensorsJson(const guard::Ranges& ranges) {
  Json tensors = Json::object();
  for (const auto& [name, range] : ranges) tensors[name] = {range.first, range.second};
  return tensors;
}

class Counter final : public StepObserver {
 public:
  explicit Counter(const guard::Ranges& ranges) {
    for (const auto& [name, range] : ranges) histograms_.emplace(name, Histogram(range.first, range.second));
  }
  bool WantsValues() const override { return true; }
  bool WantsShapes() const override { return false; }
  void OnStep(const StepRecord& record) override {
    for (const HostTensor& t : record.outputs) Add(t);
  }
  void Add(const HostTensor& t) {
    if (t.dtype != DType::kF32 || t.is_sequence || t.data == nullptr) return;
    const auto it = histograms_.find(t.name);
    if (it == histograms_.end()) return;
    it->second.Add(static_cast<const float*>(t.data), static_cast<int64_t>(t.bytes / sizeof(float)));
  }
  const std::map<std::string, Histogram, std::less<>>& histograms() const { return histograms_; }

 private:
  std::map<std::string, Histogram, std::less<>> histograms_;
};

Range Clip(const Histogram& histogram, const CalibrationOptions& options) {
  switch (options.method) {
    case Method::kMse: return histogram.LeastSquares();
    case Method::kEntropy: return histogram.LeastDivergence();
    default: return histogram.Percentile(options.percentile);
  }
}

// Of a model's values by histogram; `ranges` are their extremes.
Status ClipAll(Session& session, guard::DataSet& data, std::span<const size_t> samples, const CalibrationOptions& options,
               guard::Ranges* ranges) {
  Counter counter(*ranges);
  RunOptions observed = options.run;
  observed.observer = &counter;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (options.progress) options.progress("calibration: histograms", i, samples.size());
    TENON_ASSIGN_OR_RETURN(const guard::Sample sample, data.Load(samples[i]));
    for (const HostTensor& t : sample.inputs) counter.Add(t);
    TENON_RETURN_IF_ERROR(session.Run(sample.inputs, observed).status());
  }
  if (options.progress) options.progress("calibration: clipping", 0, 1);
  for (const auto& [name, histogram] : counter.histograms()) ranges->at(name) = Clip(histogram, options);
  return Status::Ok();
}

}  // namespace

Result<Method> ParseMethod(const std::string& text) {
  std::string word;
  for (const char c : text) {
    if (c != '-' && c != '_') word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (word == "minmax") return Method::kMinMax;
  if (word == "mse" || word == "ifmr") return Method::kMse;
  if (word == "entropy" || word == "kl") return Method::kEntropy;
  if (word == "percentile" || word == "quantile") return Method::kPercentile;
  return Usage("calibration '{}'; allowed: minmax, mse, entropy, percentile", text);
}

const char* MethodName(Method method) {
  switch (method) {
    case Method::kMinMax: return "minmax";
    case Method::kMse: return "mse";
    case Method::kEntropy: return "entropy";
    case Method::kPercentile: return "percentile";
  }
  return "";
}

std::string CalibrationTable::Digest() const {
  return TextDigest(Text(TensorsJson(ranges), -1));
}

std::string CalibrationTable::ToJson() const {
  return Text({{"method", method}, {"digest", Digest()}, {"tensors", TensorsJson(ranges)}}, 1) + "\n";
}

Result<CalibrationTable> CalibrationTable::FromJson(const std::string& text) {
  const Json root = Json::parse(text, nullptr, false);
  if (!root.is_object() || !root.contains("tensors") || !root["tensors"].is_object()) {
    return BadInput("not a calibration table: {{\"tensors\": {{NAME: [LOW, HIGH]}}}}");
  }
  CalibrationTable table;
  table.method = root.contains("method") && root["method"].is_string() ? root["method"].get<std::string>() : "given";
  for (const auto& [name, range] : root["tensors"].items()) {
    if (!range.is_array() || range.size() != 2 || !range[0].is_number() || !range[1].is_number()) {
      return BadInput("tensor '{}': {}; allowed: [LOW, HIGH]", name, range.dump().substr(0, 80));
    }
    const Range r = {range[0].get<float>(), range[1].get<float>()};
    if (!std::isfinite(r.first) || !std::isfinite(r.second) || r.first > r.second) {
      return BadInput("tensor '{}': [{}, {}]; allowed: finite numbers, LOW <= HIGH", name, r.first, r.second);
    }
    table.ranges.emplace(name, r);
  }
  return table;
}

Result<CalibrationTable> Calibrate(const artifact::Program& program, Session& session, guard::DataSet& data,
                                   std::span<const size_t> samples, const CalibrationOptions& options) {
  CalibrationTable table;
  table.method = MethodName(options.method);
  if (options.method == Method::kPercentile) table.method += fmt::format(" {}", options.percentile);
  if (options.progress) options.progress("calibration: extremes", 0, 1);
  TENON_ASSIGN_OR_RETURN(table.ranges, guard::MeasureRanges(session, data, samples, options.run));
  std::erase_if(table.ranges,
                [](const auto& entry) { return !std::isfinite(entry.second.first) || !std::isfinite(entry.second.second); });
  if (options.method != Method::kMinMax) TENON_RETURN_IF_ERROR(ClipAll(session, data, samples, options, &table.ranges));
  guard::AddViews(program, &table.ranges);
  return table;
}

std::vector<size_t> Spread(std::span<const size_t> samples, size_t count) {
  if (samples.size() <= count) return {samples.begin(), samples.end()};
  std::vector<size_t> some;
  for (size_t i = 0; i < count; ++i) some.push_back(samples[i * samples.size() / count]);
  return some;
}

}  // namespace tenon::quantize
