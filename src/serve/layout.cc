#include "serve/layout.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <type_traits>

#include "base/dim_value.h"
#include "base/dtype.h"
#include "base/shape.h"
#include "serve/blocks.h"

namespace tenon::serve {
namespace {

std::vector<std::string> RowDims(const std::vector<int64_t>& dims) {
  std::vector<std::string> texts = {"batch"};
  for (int64_t d : dims) texts.push_back(d < 0 ? "?" : std::to_string(d));
  return texts;
}

// `value` as one element of type `dtype`; nothing where the type does not hold it.
std::string ElementOf(DType dtype, double value) {
  std::string bytes;
  DispatchDType<TENON_NUMERIC_TYPES, bool>(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T element{};
    if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      const bool fits =
          value == std::trunc(value) && value >= static_cast<double>(Limits::lowest()) && value < std::ldexp(1.0, Limits::digits);
      if (!fits) return;
      element = static_cast<T>(value);
    } else if constexpr (std::is_floating_point_v<T>) {
      element = static_cast<T>(value);
    } else {
      element = T(static_cast<float>(value));
    }
    bytes.assign(reinterpret_cast<const char*>(&element), sizeof(element));
  });
  return bytes;
}

// The counts of a batch input, as its type holds them.
Status Encode(const std::vector<int64_t>& counts, const TensorInfo& info, std::vector<char>* memory) {
  const double most = info.dtype == DType::kF32 ? 16777216.0 : info.dtype == DType::kI32 ? 2147483647.0 : 1e18;
  const size_t size = DTypeBytes(info.dtype, 1);
  memory->resize(size * counts.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    if (static_cast<double>(counts[i]) > most)
      return ResourceLimit("batch input '{}'; {} does not fit its type {}", info.name, counts[i], DTypeName(info.dtype));
    const auto whole = static_cast<int32_t>(counts[i]);
    const auto real = static_cast<float>(counts[i]);
    const void* value = info.dtype == DType::kF32   ? static_cast<const void*>(&real)
                        : info.dtype == DType::kI32 ? static_cast<const void*>(&whole)
                                                    : static_cast<const void*>(&counts[i]);
    std::memcpy(memory->data() + i * size, value, size);
  }
  return Status::Ok();
}

const HostTensor& Find(const Request& inputs, const std::string& name) {
  return *std::find_if(inputs.begin(), inputs.end(), [&](const HostTensor& t) { return t.name == name; });
}

// What a batch input says of `source` in `requests`, and in which shape.
std::vector<int64_t> CountsOf(const BatchInput& input, const std::vector<const Request*>& requests, Shape* shape) {
  using Kind = BatchInput::Kind;
  std::vector<int64_t> counts;
  int64_t sum = 0, most = 0, rank = 0;
  if (input.kind == Kind::kAccumulatedElementCountWithZero) counts.push_back(0);
  for (const Request* request : requests) {
    const HostTensor& source = Find(*request, input.source);
    const int64_t elements = ElementsOf(source.shape);
    sum += elements;
    most = std::max(most, elements);
    rank = static_cast<int64_t>(source.shape.size()) - 1;
    if (input.kind == Kind::kElementCount) counts.push_back(elements);
    if (input.kind == Kind::kAccumulatedElementCount || input.kind == Kind::kAccumulatedElementCountWithZero)
      counts.push_back(sum);
    if (input.kind == Kind::kItemShape || input.kind == Kind::kItemShapeFlatten) {
      for (int64_t row = 0; row < source.shape[0]; ++row)
        counts.insert(counts.end(), source.shape.begin() + 1, source.shape.end());
    }
  }
  if (input.kind == Kind::kMaxElementCountAsShape) counts.assign(static_cast<size_t>(most), 0);
  const auto size = static_cast<int64_t>(counts.size());
  *shape = input.kind == Kind::kItemShape ? Shape{rank == 0 ? 0 : size / rank, rank} : Shape{size};
  return counts;
}

HostTensor Concatenated(const std::vector<const Request*>& requests, size_t input, std::vector<char>* memory) {
  const HostTensor& first = (*requests[0])[input];
  HostTensor t;
  t.name = first.name;
  t.dtype = first.dtype;
  t.shape = first.shape;
  t.shape[0] = 0;
  size_t bytes = 0;
  for (const Request* r : requests) bytes += (*r)[input].bytes;
  memory->resize(bytes);
  for (const Request* r : requests) {
    const HostTensor& from = (*r)[input];
    if (from.bytes > 0) std::memcpy(memory->data() + t.bytes, from.data, from.bytes);
    t.bytes += from.bytes;
    t.shape[0] += from.shape[0];
    t.strings.insert(t.strings.end(), from.strings.begin(), from.strings.end());
  }
  t.data = memory->data();
  return t;
}

HostTensor Padded(const std::vector<const Request*>& requests, size_t input, const std::string& element,
                  std::vector<char>* memory) {
  const HostTensor& first = (*requests[0])[input];
  HostTensor t;
  t.name = first.name;
  t.dtype = first.dtype;
  t.shape.assign(first.shape.size(), 0);
  for (const Request* r : requests) {
    const std::vector<int64_t>& shape = (*r)[input].shape;
    t.shape[0] += shape[0];
    for (size_t d = 1; d < shape.size(); ++d) t.shape[d] = std::max(t.shape[d], shape[d]);
  }
  t.bytes = static_cast<size_t>(ElementsOf(t.shape)) * element.size();
  memory->resize(t.bytes);
  for (size_t i = 0; i < t.bytes; i += element.size()) std::memcpy(memory->data() + i, element.data(), element.size());
  const size_t row = t.bytes / static_cast<size_t>(t.shape[0]);
  size_t at = 0;
  for (const Request* r : requests) {
    const HostTensor& from = (*r)[input];
    CopyBlock(static_cast<const char*>(from.data), from.shape, memory->data() + at, t.shape, element.size());
    at += row * static_cast<size_t>(from.shape[0]);
  }
  t.data = memory->data();
  return t;
}

}  // namespace

int64_t TokensOf(int64_t rows, const std::vector<int64_t>& extents) {
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t tokens = rows;
  for (int64_t extent : extents) tokens = std::min(kMost, CheckedMul(tokens, std::max<int64_t>(extent, 1)).value_or(kMost));
  return tokens;
}

Result<Layout> Layout::Make(const ModelConfig& config, Signature model) {
  Layout layout;
  layout.requests_ = model;
  layout.model_ = std::move(model);
  const bool several = config.max_batch.value_or(0) > 1;
  layout.joins_ = several && layout.model_.LeadingExtentShared();
  if (!config.ragged_inputs.empty()) {
    TENON_RETURN_IF_ERROR(layout.MakeRagged(config));
    layout.joins_ = several;
  } else if (!config.batch_inputs.empty() || !config.batch_outputs.empty()) {
    return BadInput("batch_input and batch_output tell of ragged inputs; no input has allow_ragged_batch");
  }
  if (!config.pad.empty()) TENON_RETURN_IF_ERROR(layout.MakePadded(config));
  return layout;
}

Status Layout::MakeRagged(const ModelConfig& config) {
  if (config.max_batch.value_or(0) < 1) return BadInput("allow_ragged_batch; max_batch_size is 0; allowed: 1 and more");
  const auto drop = [](std::vector<TensorInfo>* infos, const std::string& name) {
    std::erase_if(*infos, [&](const TensorInfo& i) { return i.name == name; });
  };
  const auto change = [](std::vector<TensorInfo>* infos, const std::string& name, const std::vector<int64_t>& dims) {
    std::find_if(infos->begin(), infos->end(), [&](const TensorInfo& i) { return i.name == name; })->dims = RowDims(dims);
  };
  const auto check = [](const TensorInfo* info, size_t rank, const char* what, const std::string& name) {
    if (info == nullptr) return BadInput("{}; the model has no '{}'", what, name);
    if (!info->has_rank || info->dims.size() == rank) return Status::Ok();
    return BadInput("{}; the model has '{}' in {} dimensions; {} is expected", what, name, info->dims.size(), rank);
  };
  for (const RaggedInput& input : config.ragged_inputs) {
    TENON_RETURN_IF_ERROR(check(model_.Input(input.name), 1, "allow_ragged_batch", input.name));
    if (!ragged_.emplace(input.name, input.dims).second) return BadInput("input '{}' is named twice", input.name);
    change(&requests_.inputs, input.name, input.dims);
  }
  for (const BatchInput& input : config.batch_inputs) {
    if (ragged_.count(input.source) == 0)
      return BadInput("batch_input; source_input is '{}'; an input with allow_ragged_batch is expected", input.source);
    for (const std::string& target : input.targets) {
      const TensorInfo* info = model_.Input(target);
      TENON_RETURN_IF_ERROR(check(info, input.kind == BatchInput::Kind::kItemShape ? 2 : 1, "batch_input", target));
      if (info->dtype != input.dtype)
        return BadInput("batch_input; the model takes '{}' as {}; {} given", target, DTypeName(info->dtype),
                        DTypeName(input.dtype));
      if (requests_.Input(target) == nullptr || ragged_.count(target) > 0)
        return BadInput("batch_input; '{}' is named twice, or ragged", target);
      drop(&requests_.inputs, target);
    }
  }
  batch_inputs_ = config.batch_inputs;
  for (const BatchOutput& output : config.batch_outputs) {
    const auto source = ragged_.find(output.source);
    if (source == ragged_.end())
      return BadInput("batch_output; source_input is '{}'; an input with allow_ragged_batch is expected", output.source);
    for (size_t d = source->second.size(); d < output.dims.size(); ++d) {
      if (output.dims[d] < 0) return BadInput("batch_output; extent {} is -1; '{}' has none there", d, output.source);
    }
    for (const std::string& target : output.targets) {
      TENON_RETURN_IF_ERROR(check(model_.Output(target), 1, "batch_output", target));
      if (!batch_outputs_.emplace(target, output).second) return BadInput("batch_output; '{}' is named twice", target);
      change(&requests_.outputs, target, output.dims);
    }
  }
  return Status::Ok();
}

Status Layout::MakePadded(const ModelConfig& config) {
  if (ragged()) return BadInput("pad; the model has ragged inputs, which are not padded");
  if (!joins_) return BadInput("pad; requests to this model do not join: max_batch, or its shapes, rule it out");
  for (const auto& [name, value] : config.pad) {
    const TensorInfo* info = model_.Input(name);
    if (info == nullptr) return BadInput("pad; the model has no input '{}'", name);
    TENON_RETURN_IF_ERROR(CheckPaddedInput(*info, value));
    pad_.emplace(name, ElementOf(info->dtype, value));
  }
  return CheckPaddedOutputs();
}

Status Layout::CheckPaddedInput(const TensorInfo& info, double value) {
  if (ElementOf(info.dtype, value).empty())
    return BadInput("pad; input '{}' is {}, which does not hold {}", info.name, DTypeName(info.dtype), value);
  bool open = false;
  for (size_t d = 1; d < info.dims.size(); ++d) {
    if (FixedExtent(info.dims[d])) continue;
    if (!IsSymbol(info.dims[d]))
      return BadInput("pad; input '{}'; extent '{}' cannot be padded; a symbol is expected", info.name, info.dims[d]);
    open = true;
  }
  return open ? Status::Ok() : BadInput("pad; input '{}' has no extent left open", info.name);
}

// Whoever shares a padded extent is padded too, and what the extents of results are follows from those of requests.
Status Layout::CheckPaddedOutputs() const {
  Extents padded, others;
  for (const TensorInfo& i : model_.inputs) {
    for (size_t d = 0; d < i.dims.size(); ++d) {
      if (IsSymbol(i.dims[d])) (d > 0 && Padded(i.name) ? padded : others)[i.dims[d]] = 1;
    }
  }
  for (const auto& [symbol, one] : padded) others.erase(symbol);
  Extents all = others;
  all.insert(padded.begin(), padded.end());
  for (const TensorInfo& i : model_.inputs) {
    if (Padded(i.name)) continue;
    for (const std::string& dim : i.dims) {
      if (!DimValue(dim, others) && DimValue(dim, all))
        return BadInput("pad; input '{}' shares extent '{}' with one that is padded; it needs a value too", i.name, dim);
    }
  }
  for (const TensorInfo& o : model_.outputs) {
    for (size_t d = 1; d < o.dims.size(); ++d) {
      if (!DimValue(o.dims[d], all))
        return BadInput("pad; output '{}'; extent '{}' does not follow from the inputs: padding could not be cut off", o.name,
                        o.dims[d]);
      if (o.dtype == DType::kString && !DimValue(o.dims[d], others)) return BadInput("pad; output '{}' has strings", o.name);
    }
  }
  return Status::Ok();
}

Result<Fit> Layout::FitOf(const Request& inputs) const {
  if (ragged()) return FitOfRagged(inputs);
  Fit fit;
  const std::string unknown = "?";
  std::map<std::string_view, int64_t> symbols;   // names are the model's
  bool joins = joins_;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const HostTensor& t = inputs[i];
    const TensorInfo* info = model_.Input(t.name);
    if (i == 0 && !t.shape.empty()) fit.rows = std::max<int64_t>(1, t.shape[0]);
    joins = joins && !t.is_sequence && !t.shape.empty() && t.shape[0] == fit.rows;
    fit.key += fmt::format("{}:{}", t.name, static_cast<int>(t.dtype));
    for (size_t d = 1; d < t.shape.size(); ++d) {
      const std::string& dim = info != nullptr && d < info->dims.size() ? info->dims[d] : unknown;
      const bool fixed = FixedExtent(dim).has_value(), symbol = IsSymbol(dim);
      const auto [seen, fresh] = symbol ? symbols.emplace(dim, t.shape[d]) : std::pair(symbols.end(), true);
      if (symbol && seen->second != t.shape[d]) joins = false;   // the session refuses it, by name
      if (!fixed && fresh) fit.extents.push_back(t.shape[d]);
      fit.key += !fixed && Padded(t.name) ? ",*" : fmt::format(",{}", t.shape[d]);
    }
    fit.key += ';';
  }
  fit.tokens = TokensOf(fit.rows, fit.extents);
  if (!joins || inputs.empty()) fit.key.clear();
  return fit;
}

Result<Fit> Layout::FitOfRagged(const Request& inputs) const {
  Fit fit;
  size_t ragged_inputs = 0;
  for (const HostTensor& t : inputs) {
    if (t.shape.empty() || t.shape[0] < 1)
      return Usage("input '{}'; shape [{}] given; one row or more are expected", t.name, fmt::join(t.shape, ","));
    if (&t == &inputs[0]) fit.rows = t.shape[0];
    if (t.shape[0] != fit.rows)
      return Usage("input '{}'; {} rows given; input '{}' has {}", t.name, t.shape[0], inputs[0].name, fit.rows);
    fit.key += fmt::format("{}:{};", t.name, static_cast<int>(t.dtype));
    const auto ragged = ragged_.find(t.name);
    if (ragged == ragged_.end()) {
      fit.key += fmt::format("{};", fmt::join(t.shape.begin() + 1, t.shape.end(), ","));
      continue;
    }
    ++ragged_inputs;
    std::vector<int64_t> open;
    for (size_t d = 0; d < ragged->second.size(); ++d) {
      if (ragged->second[d] < 0) open.push_back(t.shape[d + 1]);
    }
    fit.tokens = std::max(fit.tokens, TokensOf(fit.rows, open));
  }
  if (ragged_inputs < ragged_.size()) {
    const auto missing = std::find_if(ragged_.begin(), ragged_.end(), [&](const auto& r) {
      return std::none_of(inputs.begin(), inputs.end(), [&](const HostTensor& t) { return t.name == r.first; });
    });
    return Usage("input '{}' is missing", missing->first);
  }
  if (!joins_) fit.key.clear();
  return fit;
}

Layout::Extents Layout::ExtentsOf(const Request& inputs) const {
  Extents extents;
  for (const HostTensor& t : inputs) {
    const TensorInfo* info = model_.Input(t.name);
    for (size_t d = 0; info != nullptr && d < info->dims.size(); ++d) {
      if (IsSymbol(info->dims[d])) extents.emplace(info->dims[d], t.shape[d]);
    }
  }
  return extents;
}

Status Layout::Join(const std::vector<const Request*>& requests, std::vector<std::vector<char>>* buffers, Request* joined) const {
  const Request& first = *requests[0];
  size_t targets = 0;
  for (const BatchInput& input : batch_inputs_) targets += input.targets.size();
  buffers->resize(first.size() + targets);
  for (size_t i = 0; i < first.size(); ++i) {
    const auto pad = pad_.find(first[i].name);
    const bool differ = std::any_of(requests.begin(), requests.end(), [&](const Request* r) {
      return !std::equal((*r)[i].shape.begin() + 1, (*r)[i].shape.end(), first[i].shape.begin() + 1);
    });
    if (requests.size() == 1) {
      joined->push_back(first[i]);
    } else if (differ && pad != pad_.end()) {
      joined->push_back(serve::Padded(requests, i, pad->second, &(*buffers)[i]));
    } else {
      joined->push_back(Concatenated(requests, i, &(*buffers)[i]));
    }
    if (ragged_.count(first[i].name) == 0) continue;
    int64_t elements = 0;
    for (const Request* r : requests) elements += ElementsOf((*r)[i].shape);
    joined->back().shape = {elements};
  }
  return AddBatchInputs(requests, buffers, joined);
}

Status Layout::AddBatchInputs(const std::vector<const Request*>& requests, std::vector<std::vector<char>>* buffers,
                              Request* joined) const {
  for (const BatchInput& input : batch_inputs_) {
    Shape shape;
    const std::vector<int64_t> counts = CountsOf(input, requests, &shape);
    for (const std::string& target : input.targets) {
      std::vector<char>& memory = (*buffers)[joined->size()];
      HostTensor t;
      t.name = target;
      t.dtype = model_.Input(target)->dtype;
      t.shape.assign(shape.begin(), shape.end());
      TENON_RETURN_IF_ERROR(Encode(counts, *model_.Input(target), &memory));
      t.data = memory.data();
      t.bytes = memory.size();
      joined->push_back(std::move(t));
    }
  }
  return Status::Ok();
}

}  // namespace tenon::serve
