// tenon run: one run, results shown and written as .npy.
#include <chrono>
#include <cmath>
#include <filesystem>

#include "base/dtype.h"
#include "cli/inputs.h"
#include "cli/model_options.h"
#include "media/npy.h"

namespace tenon::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  ModelOptions model;
  InputOptions inputs;
  std::string output;
};

struct Statistics {
  double min = 0;
  double max = 0;
  double mean = 0;
  bool known = false;
};

Statistics StatisticsOf(const HostTensor& t) {
  Statistics s;
  int64_t n = 1;
  for (int64_t d : t.shape) n *= d;
  if (n == 0) return s;
  double sum = 0;
  const auto add = [&](double v, bool first) {
    s.min = first || v < s.min ? v : s.min;
    s.max = first || v > s.max ? v : s.max;
    sum += v;
  };
  const auto visit = [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* p = static_cast<const T*>(t.data);
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_arithmetic_v<T>) {
        add(static_cast<double>(p[i]), i == 0);
      } else {
        add(static_cast<double>(static_cast<float>(p[i])), i == 0);
      }
    }
  };
  s.known = DispatchDType<TENON_NUMERIC_TYPES, bool>(t.dtype, visit);
  s.mean = sum / static_cast<double>(n);
  return s;
}

// Characters that a file name cannot hold become '_'; doubled names get a number.
std::string FileName(const std::string& name, std::set<std::string>* used) {
  std::string file = name.empty() ? "output" : name;
  for (char& c : file) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 || u == 0x7f || std::string_view("/\\:*?\"<>|").find(c) != std::string_view::npos) c = '_';
  }
  if (file == "." || file == "..") file = "_";
  constexpr size_t kMaxName = 200;
  file.resize(std::min(file.size(), kMaxName));
  std::string candidate = file;
  for (int i = 2; !used->insert(candidate).second; ++i) candidate = fmt::format("{}_{}", file, i);
  return candidate + ".npy";
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  if (shape.empty()) return "scalar";
  std::string text;
  for (int64_t d : shape) text += (text.empty() ? "" : "x") + std::to_string(d);
  return text;
}

View ViewOf(const HostTensor& t) {
  View v{t.dtype, Shape(std::span<const int64_t>(t.shape)), t.data, nullptr};
  if (t.dtype == DType::kString) v.data = t.strings.data();
  return v;
}

Json Number(double v) {
  return std::isfinite(v) ? Json(v) : Json(std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
}

// A sequence becomes name.0, name.1, ...
void Flatten(const HostTensor& t, std::vector<HostTensor>* out) {
  if (!t.is_sequence) {
    out->push_back(t);
    return;
  }
  for (size_t i = 0; i < t.sequence.size(); ++i) {
    HostTensor element = t.sequence[i];
    element.name = fmt::format("{}.{}", t.name, i);
    Flatten(element, out);
  }
}

Status WriteOutputs(const std::string& folder, const std::vector<HostTensor>& outputs, std::vector<std::string>* files) {
  std::error_code error;
  const bool existed = fs::exists(folder, error);
  fs::create_directories(folder, error);
  if (error) return BadInput("cannot create the folder '{}'; {}", folder, error.message());
  std::set<std::string> used;
  Status status;
  for (const HostTensor& t : outputs) {
    const std::string path = (fs::path(folder) / FileName(t.name, &used)).string();
    status = media::WriteNpy(path, ViewOf(t));
    if (!status.ok()) break;
    files->push_back(path);
  }
  if (!status.ok()) {  // all or nothing
    for (const std::string& f : *files) fs::remove(f, error);
    if (!existed) fs::remove(folder, error);
  }
  return status;
}

Status Run(const Options& options, Context& context) {
  ModelOptions model = options.model;
  TENON_ASSIGN_OR_RETURN(auto session, model.Open(context));
  TENON_ASSIGN_OR_RETURN(const auto inputs, options.inputs.Load(*session, 0, context));
  RunOptions run;
  run.cancel = &Interrupted();
  const auto start = std::chrono::steady_clock::now();
  TENON_ASSIGN_OR_RETURN(const auto results, session->Run(inputs, run));
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  std::vector<HostTensor> outputs;
  for (const HostTensor& t : results) Flatten(t, &outputs);
  std::vector<std::string> files;
  if (!options.output.empty()) TENON_RETURN_IF_ERROR(WriteOutputs(options.output, outputs, &files));

  Json rows = Json::array();
  std::vector<std::vector<std::string>> table = {{"output", "type", "shape", "min", "max", "mean"}};
  for (size_t i = 0; i < outputs.size(); ++i) {
    const HostTensor& t = outputs[i];
    const Statistics s = StatisticsOf(t);
    Json row = {{"name", t.name}, {"dtype", DTypeName(t.dtype)}, {"shape", t.shape}};
    row["min"] = s.known ? Number(s.min) : Json();
    row["max"] = s.known ? Number(s.max) : Json();
    row["mean"] = s.known ? Number(s.mean) : Json();
    row["file"] = files.empty() ? Json() : Json(files[i]);
    rows.push_back(std::move(row));
    const auto cell = [&](double v) { return s.known ? fmt::format("{:.6g}", v) : std::string("-"); };
    table.push_back({t.name, std::string(DTypeName(t.dtype)), ShapeText(t.shape), cell(s.min), cell(s.max), cell(s.mean)});
  }
  context.Document({{"outputs", rows}, {"time_ms", ms}});
  context.Say(Table(table));
  context.Say(fmt::format("{:.3f} ms (first run, with planning){}", ms, files.empty() ? "" : "; results in " + options.output));
  return Status::Ok();
}

}  // namespace

Command Make_run() {
  return {"run", "run a model once and show its outputs",
          "tenon run model.onnx --input x=picture.png --shape x=1x3x48x320 --output out", [](CLI::App& app) {
            auto options = std::make_shared<Options>();
            options->model.AddModel(app);
            options->inputs.Add(app);
            app.add_option("--output", options->output, "Folder for the outputs, one NAME.npy each");
            options->model.AddCompile(app);
            options->model.AddSession(app);
            return [options](Context& context) { return Run(*options, context); };
          }};
}

}  // namespace tenon::cli
