#include "tune/fingerprint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>

#include "base/digest.h"
#include "base/version.h"
#include "hw/cpu.h"
#include "hw/quota.h"
#include "kernels/kernel.h"

namespace tenon::tune {
namespace {

constexpr size_t kMaxProblem = 2000;

std::string Hash(const void* data, size_t size) {
  const XXH128_hash_t h = XXH3_128bits(data, size);
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

std::string TensorText(const Tensor& t) {
  if (!t.defined()) return "-";
  std::string text = std::string(DTypeName(t.dtype())) + t.shape().ToString() + ":";
  if (t.dtype() != DType::kString) return text + Hash(t.data(), t.bytes());
  std::string joined;
  const auto* strings = t.Data<std::string>();
  for (int64_t i = 0; i < t.shape().num_elements(); ++i) joined += fmt::format("{}:{}", strings[i].size(), strings[i]);
  return text + Hash(joined.data(), joined.size());
}

struct ValueText {
  std::string operator()(int64_t v) const { return std::to_string(v); }
  std::string operator()(float v) const { return fmt::format("{}", v); }
  std::string operator()(const std::string& v) const { return v; }
  std::string operator()(const std::vector<int64_t>& v) const { return fmt::format("[{}]", fmt::join(v, ",")); }
  std::string operator()(const std::vector<float>& v) const { return fmt::format("[{}]", fmt::join(v, ",")); }
  std::string operator()(const std::vector<std::string>& v) const {
    std::string text;
    for (const std::string& s : v) text += fmt::format("{}:{}", s.size(), s);
    return "[" + text + "]";
  }
  std::string operator()(const Tensor& v) const { return TensorText(v); }
};

std::string AttrsText(const Attrs& attrs) {
  std::string text;
  for (const auto& [name, value] : attrs)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, std::visit(ValueText(), value));
  return text;
}

std::string OperandsText(const artifact::Program& program, const std::vector<artifact::ValueIndex>& indices,
                         const std::vector<OperandRecord>& records) {
  std::string text;
  for (size_t i = 0; i < records.size() && i < indices.size(); ++i) {
    text += text.empty() ? "" : ", ";
    if (indices[i] == artifact::kAbsent) {
      text += "-";
      continue;
    }
    const artifact::ProgramValue& value = program.values[static_cast<size_t>(indices[i])];
    // What a kernel may rely on is the declared shape; what it costs comes from the real one.
    text += fmt::format("{} {}", DTypeName(value.dtype), fmt::join(records[i].shape, "x"));
    if (value.constant.defined()) {
      text += " const";
    } else {
      text += " as " + value.shape.ToString();
    }
  }
  return text;
}

void AddProgram(const artifact::Program& program, std::string* text) {
  for (const auto& v : program.values) {
    *text += fmt::format("v {} {} {} {}\n", DTypeName(v.dtype), v.is_sequence, v.shape.ToString(), TensorText(v.constant));
  }
  *text += fmt::format("in {}\nout {}\n", fmt::join(program.inputs, ","), fmt::join(program.outputs, ","));
  for (const auto& s : program.steps) {
    *text += fmt::format("s {} {} ({})->({}) {}\n", s.op, s.kernel, fmt::join(s.inputs, ","), fmt::join(s.outputs, ","),
                         AttrsText(s.attrs));
    for (const auto& body : s.bodies) AddProgram(body, text);
  }
}

}  // namespace

Fingerprint ThisMachine(hw::IsaMask isa) {
  const hw::CacheSizes c = hw::DetectCaches();
  Fingerprint f;
  f.machine = fmt::format("{}; {}; L1 {} L2 {} L3 {}; {} cores", hw::CpuName(), hw::IsaToString(isa), c.l1, c.l2, c.l3,
                          hw::DetectCpuAllowance().threads);
  std::string tables = kVersionString;
  for (const auto& family : kernels::AllFamilies()) {
    for (const kernels::OpKernels& op : family) {
      tables += fmt::format("\n{}", op.op);
      for (const kernels::Row& row : op.rows) tables += fmt::format(" {}:{}", row.name, row.needs);
    }
  }
  f.build = fmt::format("{} {}", kVersionString, TextDigest(tables).substr(0, 16));
  return f;
}

std::string ProblemOf(const artifact::Program& program, const artifact::Step& step, const StepDetails& details,
                      std::span<const std::string> kernels, int threads) {
  std::string text = fmt::format("{}({}) ({})->({}) of {} threads {}", step.op, AttrsText(step.attrs),
                                 OperandsText(program, step.inputs, details.inputs),
                                 OperandsText(program, step.outputs, details.outputs), fmt::join(kernels, "|"), threads);
  std::string plain = text;
  for (char& c : plain) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = '?';
  }
  if (plain == text && text.size() <= kMaxProblem) return text;
  return plain.substr(0, kMaxProblem) + "... " + TextDigest(text);
}

std::string ProgramDigest(const artifact::Program& program) {
  std::string text;
  AddProgram(program, &text);
  return Hash(text.data(), text.size());
}

Result<std::string> FilesDigest(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::string> names;
  if (fs::is_directory(path, error)) {
    for (fs::recursive_directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
      if (it->is_regular_file(error)) names.push_back(it->path().string());
    }
    if (error) return BadInput("cannot read '{}'; {}", path, error.message());
    std::sort(names.begin(), names.end());
  } else {
    names.push_back(path);
  }
  std::string text;
  for (const std::string& name : names) {
    TENON_ASSIGN_OR_RETURN(const std::string digest, FileDigest(name));
    text += fmt::format("{} {}\n", fs::path(name).lexically_relative(path).string(), digest);
  }
  return TextDigest(text);
}

}  // namespace tenon::tune
