#include "serve/warm_up.h"

#include <charconv>
#include <optional>
#include <set>

#include "base/dtype.h"

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

}  // namespace

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
