#include "serve/warm_up.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <random>
#include <set>

#include "base/dtype.h"
#include "base/half.h"
#include "base/mapped_file.h"
#include "base/status.h"
#include "serve/string_bytes.h"

namespace tenon::serve {
namespace {

constexpr size_t kMaxBytes = size_t{256} << 20;   // an input larger than this is not worth a trial run

// Zeros of the declared shape with `rows` for a leading symbol; empty when the shape leaves something open.
std::optional<HostTensor> Zeros(const TensorInfo& info, int64_t rows, std::vector<char>* memory) {
  if (info.is_sequence || !info.has_rank) return std::nullopt;
  HostTensor t;
  t.name = info.name;
  t.dtype = info.dtype;
  double elements = 1;
  for (size_t d = 0; d < info.dims.size(); ++d) {
    int64_t extent = 0;
    const std::string& text = info.dims[d];
    const bool fixed = std::from_chars(text.data(), text.data() + text.size(), extent).ptr == text.data() + text.size();
    if (!fixed && d > 0) return std::nullopt;
    t.shape.push_back(fixed ? extent : rows);
    elements *= static_cast<double>(t.shape.back());
  }
  if (elements * 8 > static_cast<double>(kMaxBytes)) return std::nullopt;
  const auto count = static_cast<int64_t>(elements);
  if (t.dtype == DType::kString) {
    t.strings.resize(static_cast<size_t>(count));
    return t;
  }
  memory->assign(DTypeBytes(t.dtype, count), 0);
  t.data = memory->data();
  t.bytes = memory->size();
  return t;
}

// Floats of 0 to 1; integers of 0 and 1, which are indices into any table.
void FillRandom(DType dtype, std::vector<char>* memory) {
  std::mt19937 generator(1);
  std::uniform_real_distribution<float> unit(0, 1);
  const auto fill = [&](auto make) {
    using T = decltype(make());
    for (size_t at = 0; at + sizeof(T) <= memory->size(); at += sizeof(T)) {
      const T value = make();
      std::memcpy(memory->data() + at, &value, sizeof(value));
    }
  };
  switch (dtype) {
    case DType::kF64: return fill([&] { return static_cast<double>(unit(generator)); });
    case DType::kF32: return fill([&] { return unit(generator); });
    case DType::kF16: return fill([&] { return Half(unit(generator)); });
    case DType::kBF16: return fill([&] { return BFloat16(unit(generator)); });
    default: break;
  }
  const size_t size = DTypeBytes(dtype, 2) / 2;   // 0: less than a byte, left zero
  for (size_t at = 0; size > 0 && at < memory->size(); at += size) (*memory)[at] = static_cast<char>(generator() & 1);
}

Status ReadRow(const std::string& file, HostTensor* row, std::vector<char>* memory, int64_t elements) {
  TENON_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(file, kMaxBytes));
  if (row->dtype == DType::kString) {
    TENON_ASSIGN_OR_RETURN(row->strings, UnpackStrings(bytes, elements, fmt::format("'{}'", file)));
    return Status::Ok();
  }
  if (bytes.size() != memory->size()) return BadInput("'{}' has {} bytes; a row has {}", file, bytes.size(), memory->size());
  std::copy(bytes.begin(), bytes.end(), memory->begin());
  return Status::Ok();
}

// A row as `input` says, as often as there are rows.
Status MakeRows(const WarmUpInput& input, int rows, HostTensor* t, std::vector<char>* memory) {
  const size_t element = t->dtype == DType::kString ? sizeof(std::string) : DTypeBytes(t->dtype, 1);
  double all = rows;
  for (int64_t d : input.dims) all *= static_cast<double>(d);
  if (all * static_cast<double>(element) > static_cast<double>(kMaxBytes))
    return BadInput("it has {} elements; at most {} are allowed", all, kMaxBytes / element);
  const auto elements = static_cast<int64_t>(all) / rows;
  if (t->dtype == DType::kString) {
    t->strings.resize(static_cast<size_t>(elements));
  } else {
    memory->assign(DTypeBytes(t->dtype, elements), 0);
  }
  if (input.data == WarmUpInput::Data::kRandom && t->dtype != DType::kString) FillRandom(t->dtype, memory);
  if (input.data == WarmUpInput::Data::kFile) TENON_RETURN_IF_ERROR(ReadRow(input.file, t, memory, elements));
  const std::vector<char> row = *memory;
  const std::vector<std::string> strings = t->strings;
  for (int i = 1; i < rows; ++i) {
    memory->insert(memory->end(), row.begin(), row.end());
    t->strings.insert(t->strings.end(), strings.begin(), strings.end());
  }
  t->data = memory->data();
  t->bytes = memory->size();
  return Status::Ok();
}

Status RunOnce(Session& session, const Layout& layout, const Request& inputs) {
  TENON_RETURN_IF_ERROR(layout.requests().Check(inputs));
  if (!layout.ragged()) return session.Run(inputs).status();
  std::vector<std::vector<char>> buffers;
  Request joined;
  TENON_RETURN_IF_ERROR(layout.FitOf(inputs).status());
  TENON_RETURN_IF_ERROR(layout.Join({&inputs}, &buffers, &joined));
  return session.Run(joined).status();
}

}  // namespace

Status WarmUp(Session& session, const Layout& layout, bool batched, const WarmUpRun& run) {
  Request inputs;
  std::vector<std::vector<char>> memory(run.inputs.size());
  Status status;
  for (const auto& [name, input] : run.inputs) {
    HostTensor t;
    t.name = name;
    t.dtype = input.dtype;
    t.shape = input.dims;
    if (batched) t.shape.insert(t.shape.begin(), run.rows);
    if (layout.requests().Input(name) == nullptr) status = BadInput("unknown input '{}'", name);
    if (status.ok()) status = MakeRows(input, run.rows, &t, &memory[inputs.size()]).Within(fmt::format("input '{}'", name));
    inputs.push_back(std::move(t));
  }
  for (int i = 0; i < run.count && status.ok(); ++i) status = RunOnce(session, layout, inputs);
  return std::move(status).Within(fmt::format("warm-up '{}'", run.name));
}

Status WarmUp(Session& session, const Signature& signature, const ModelConfig& config) {
  std::set<int64_t> sizes(config.preferred_batch.begin(), config.preferred_batch.end());
  sizes.insert(1);
  if (config.max_batch.value_or(0) > 1) sizes.insert(*config.max_batch);
  for (int64_t rows : sizes) {
    std::vector<HostTensor> inputs;
    std::vector<std::vector<char>> memory(signature.inputs.size());
    for (size_t i = 0; i < signature.inputs.size(); ++i) {
      auto zeros = Zeros(signature.inputs[i], rows, &memory[i]);
      if (!zeros) return Status::Ok();
      inputs.push_back(*std::move(zeros));
    }
    const auto outputs = session.Run(inputs);
    if (!outputs.ok() && (outputs.status().code() == Code::kResourceLimit || outputs.status().code() == Code::kInternal)) {
      return Status(outputs.status()).Within(fmt::format("first run of {} rows", rows));
    }
  }
  return Status::Ok();
}

}  // namespace tenon::serve
