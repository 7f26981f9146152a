#include "cli/model_options.h"

#include <charconv>

namespace tenon::cli {
namespace {

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::optional<int64_t> ParseInt(const std::string& text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

// Number and the unit after it.
std::optional<std::pair<double, std::string>> ParseQuantity(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !(number >= 0) || number > 1e18) return std::nullopt;
  return std::pair{number, std::string(end, text.data() + text.size())};
}

}  // namespace

Result<std::vector<int64_t>> ParseShape(const std::string& text, const std::string& what) {
  std::vector<int64_t> shape;
  if (text.empty() || text == "scalar") return shape;
  for (const std::string& part : Split(text, 'x')) {
    const auto n = ParseInt(part);
    if (!n || *n < 0) return Usage("shape '{}' of {}; allowed: extents >= 0 joined by 'x', as 1x3x224x224", text, what);
    shape.push_back(*n);
  }
  return shape;
}

Result<uint64_t> ParseBytes(const std::string& text) {
  const auto q = ParseQuantity(text);
  if (q) {
    const auto& [number, unit] = *q;
    constexpr std::array<std::pair<const char*, double>, 10> kUnits = {{{"", 1.0},
                                                                        {"B", 1.0},
                                                                        {"K", 1024.0},
                                                                        {"KiB", 1024.0},
                                                                        {"M", 1048576.0},
                                                                        {"MiB", 1048576.0},
                                                                        {"G", 1073741824.0},
                                                                        {"GiB", 1073741824.0},
                                                                        {"MB", 1e6},
                                                                        {"GB", 1e9}}};
    for (const auto& [name, factor] : kUnits) {
      if (unit == name && number * factor < 1e18) return static_cast<uint64_t>(number * factor);
    }
  }
  return Usage("size '{}'; allowed: a number with K, M or G, as 512M", text);
}

Result<double> ParseDuration(const std::string& text) {
  const auto q = ParseQuantity(text);
  if (q) {
    const auto& [number, unit] = *q;
    if (unit.empty() || unit == "s") return number;
    if (unit == "ms") return number / 1e3;
    if (unit == "us") return number / 1e6;
    if (unit == "m" || unit == "min") return number * 60;
  }
  return Usage("duration '{}'; allowed: a number with us, ms, s or m, as 500ms", text);
}

CLI::Validator IsSize() {
  return {[](std::string& text) { return ParseBytes(text).status().message(); }, "SIZE"};
}

CLI::Validator IsDuration() {
  return {[](std::string& text) { return ParseDuration(text).status().message(); }, "DURATION"};
}

Result<std::vector<int64_t>> ParseIntList(const std::string& text, const std::string& what) {
  std::vector<int64_t> out;
  for (const std::string& part : Split(text, ',')) {
    const auto n = ParseInt(part);
    if (!n || *n < 1) return Usage("{} '{}'; allowed: numbers >= 1 joined by commas", what, text);
    out.push_back(*n);
  }
  return out;
}

void ModelOptions::AddModel(CLI::App& app) {
  app.add_option("MODEL", model, "A model: .onnx, .gguf, a Hugging Face folder, or a compiled .tenon")->required();
}

void ModelOptions::AddCompile(CLI::App& app) {
  app.add_option("--input-shape", input_shapes, "Extents of an input, as x:1..8,3,224,n (number, name, range, -1)")
      ->envname("TENON_INPUT_SHAPE");
  app.add_option("--opt-level", compile.opt_level, "0 none, 1 basic, 2 extended, 3 layout, 99 all")
      ->capture_default_str()
      ->check(CLI::IsMember({0, 1, 2, 3, 99}))
      ->envname("TENON_OPT_LEVEL");
  app.add_option("--disable-pass", compile.disabled_passes, "Leave out a pass by name (repeatable)")
      ->envname("TENON_DISABLE_PASS");
  app.add_option("--precision", compile.precision, "f32, bf16, or mixed (bf16 by lists); ATC's words for them work too")
      ->capture_default_str()
      ->envname("TENON_PRECISION");
  app.add_option("--mixlist", compile.mixlist, "JSON file that edits the black, white and gray lists of --precision mixed")
      ->envname("TENON_MIXLIST");
  app.add_option("--keep-dtype", compile.keep_dtype, "File of nodes that stay f32: a name or OpType::NAME a line")
      ->envname("TENON_KEEP_DTYPE");
  app.add_option("--kv-cache", compile.kv_cache,
                 "Type of a language model's keys and values: f16, bf16, q8_0 (half the memory), or f32 (attention then is too)")
      ->capture_default_str()
      ->check(CLI::IsMember({"f16", "bf16", "q8_0", "f32"}))
      ->envname("TENON_KV_CACHE");
  app.add_option("--weights", compile.weights,
                 "Weights of a language model: file, as they lie in its file, or f32, unpacked (slower, and far more memory)")
      ->capture_default_str()
      ->check(CLI::IsMember({"file", "f32"}))
      ->envname("TENON_WEIGHTS");
  app.add_option("--op-select-implmode", compile.op_select_implmode,
                 "high_precision: no kernel that is faster but less exact; high_performance: the fastest")
      ->capture_default_str()
      ->envname("TENON_OP_SELECT_IMPLMODE");
  app.add_option("--optypelist-for-implmode", compile.optypelist_for_implmode,
                 "Operator types that the mode is for, as Conv,MatMul")
      ->delimiter(',')
      ->envname("TENON_OPTYPELIST_FOR_IMPLMODE");
  app.add_flag("--keep-initializer-inputs", compile.keep_initializer_inputs, "Initialisers that are also inputs stay overridable")
      ->envname("TENON_KEEP_INITIALIZER_INPUTS");
}

void ModelOptions::AddSession(CLI::App& app) {
  app.add_option("--device", device, "Device to run on")->capture_default_str()->envname("TENON_DEVICE");
  app.add_option("--threads", session.threads, "Threads; 0: as many as affinity and cgroup quota allow")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024))
      ->envname("TENON_THREADS");
  app.add_option("--memory-limit", memory_limit, "Bytes for weights, activations and outputs, as 512M")
      ->check(IsSize())
      ->envname("TENON_MEMORY_LIMIT");
  app.add_option("--cache-dir", cache_dir, "Where models compiled on the fly are kept; 'none': nowhere")
      ->envname("TENON_CACHE_DIR");
}

Status ModelOptions::Finish(const Context& context) {
  compile.command_line = context.command_line;
  if (device != "cpu") return Usage("unknown device '{}'; allowed: cpu", device);
  if (!memory_limit.empty()) {
    TENON_ASSIGN_OR_RETURN(session.memory_limit, ParseBytes(memory_limit));
  }
  for (const std::string& text : input_shapes) {
    // ATC's form has several inputs in one text, parted by ';'.
    for (const std::string& one : Split(text, ';')) {
      const size_t colon = one.rfind(':');
      if (colon == std::string::npos || colon == 0) return Usage("input shape '{}'; allowed: NAME:EXTENT,EXTENT,...", one);
      compile.input_shapes[one.substr(0, colon)] =
          colon + 1 == one.size() ? std::vector<std::string>{} : Split(one.substr(colon + 1), ',');
    }
  }
  return Status::Ok();
}

Result<std::unique_ptr<Session>> ModelOptions::Open(const Context& context) {
  TENON_RETURN_IF_ERROR(Finish(context));
  return OpenModel(model, compile, session, cache_dir);
}

}  // namespace tenon::cli
