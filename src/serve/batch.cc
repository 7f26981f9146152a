#include "serve/batch.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <set>

#include <fmt/ranges.h>

#include "base/dtype.h"

namespace tenon::serve {
namespace {

std::string Names(const std::vector<TensorInfo>& infos) {
  std::vector<std::string> names;
  for (const TensorInfo& i : infos) names.push_back("'" + i.name + "'");
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string DimsText(const TensorInfo& info) {
  return fmt::format("[{}]", fmt::join(info.dims, ","));
}

// The extent when it is a number.
bool Fixed(const std::string& dim, int64_t* value) {
  const auto [end, error] = std::from_chars(dim.data(), dim.data() + dim.size(), *value);
  return error == std::errc() && end == dim.data() + dim.size();
}

bool IsName(const std::string& dim) {
  return !dim.empty() && (std::isalpha(static_cast<unsigned char>(dim[0])) != 0 || dim[0] == '_');
}

Status CheckOne(const TensorInfo& info, const HostTensor& t) {
  if (info.is_sequence) return Unsupported("input '{}'; a sequence, which this protocol has no form for", info.name);
  if (info.dtype != t.dtype) {
    return Usage("input '{}'; type {} given; the model takes {}", t.name, DTypeName(t.dtype), DTypeName(info.dtype));
  }
  if (!info.has_rank) return Status::Ok();
  bool fits = info.dims.size() == t.shape.size();
  for (size_t d = 0; fits && d < t.shape.size(); ++d) {
    int64_t want = 0;
    fits = !Fixed(info.dims[d], &want) || want == t.shape[d];
  }
  if (fits) return Status::Ok();
  return Usage("input '{}'; shape [{}] given; the model takes {}", t.name, fmt::join(t.shape, ","), DimsText(info));
}

HostTensor Slice(const HostTensor& t, int64_t begin, int64_t rows, int64_t total) {
  HostTensor part;
  part.name = t.name;
  part.dtype = t.dtype;
  part.shape = t.shape;
  const bool whole = begin == 0 && rows == total;
  if (!whole) part.shape[0] = t.shape[0] / total * rows;
  if (t.dtype == DType::kString) {
    const auto per_row = static_cast<std::ptrdiff_t>(t.strings.size()) / total;
    part.strings.assign(t.strings.begin() + begin * per_row, t.strings.begin() + (begin + rows) * per_row);
    return part;
  }
  const size_t per_row = t.bytes / static_cast<size_t>(total);
  part.bytes = whole ? t.bytes : per_row * static_cast<size_t>(rows);
  const auto memory = std::shared_ptr<char[]>(new char[part.bytes]);
  if (part.bytes > 0)
    std::memcpy(memory.get(), static_cast<const char*>(t.data) + per_row * static_cast<size_t>(begin), part.bytes);
  part.data = memory.get();
  part.owner = memory;
  return part;
}

}  // namespace

bool Signature::LeadingExtentShared() const {
  std::set<std::string> leading;
  for (const auto* infos : {&inputs, &outputs}) {
    for (const TensorInfo& i : *infos) {
      if (i.is_sequence || !i.has_rank || i.dims.empty() || !IsName(i.dims[0])) return false;
      leading.insert(i.dims[0]);
    }
  }
  return leading.size() == 1;
}

bool Signature::LooksBatched() const {
  if (!LeadingExtentShared()) return false;
  std::string name = inputs.empty() ? "" : inputs[0].dims[0];
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name.find("batch") != std::string::npos || name == "n" || name == "b" || name == "bs";
}

Status Signature::Check(const std::vector<HostTensor>& given) const {
  for (size_t i = 0; i < given.size(); ++i) {
    const HostTensor& t = given[i];
    const auto info = std::find_if(inputs.begin(), inputs.end(), [&](const TensorInfo& x) { return x.name == t.name; });
    if (info == inputs.end()) return Usage("unknown input '{}'; the model takes {}", t.name, Names(inputs));
    for (size_t j = 0; j < i; ++j) {
      if (given[j].name == t.name) return Usage("input '{}' is given twice", t.name);
    }
    TENON_RETURN_IF_ERROR(CheckOne(*info, t));
  }
  return Status::Ok();
}

Status Signature::CheckOutputs(const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    if (std::none_of(outputs.begin(), outputs.end(), [&](const TensorInfo& o) { return o.name == name; })) {
      return Usage("unknown output '{}'; the model gives {}", name, Names(outputs));
    }
  }
  return Status::Ok();
}

std::string JoinKey(const std::vector<HostTensor>& inputs, int64_t* rows) {
  std::vector<std::string> parts;
  *rows = 1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const HostTensor& t = inputs[i];
    if (t.is_sequence || t.shape.empty() || t.shape[0] < 1 || (i > 0 && t.shape[0] != *rows)) return "";
    *rows = t.shape[0];
    parts.push_back(
        fmt::format("{}:{}:{}", t.name, static_cast<int>(t.dtype), fmt::join(t.shape.begin() + 1, t.shape.end(), ",")));
  }
  return fmt::format("{}", fmt::join(parts, ";"));
}

std::vector<HostTensor> Join(const std::vector<const std::vector<HostTensor>*>& requests,
                             std::vector<std::vector<char>>* buffers) {
  const std::vector<HostTensor>& first = *requests[0];
  buffers->resize(first.size());
  std::vector<HostTensor> joined;
  for (size_t i = 0; i < first.size(); ++i) {
    HostTensor t;
    t.name = first[i].name;
    t.dtype = first[i].dtype;
    t.shape = first[i].shape;
    t.shape[0] = 0;
    std::vector<char>& memory = (*buffers)[i];
    size_t bytes = 0;
    for (const auto* r : requests) bytes += (*r)[i].bytes;
    memory.resize(bytes);
    for (const auto* r : requests) {
      const HostTensor& from = (*r)[i];
      if (from.bytes > 0) std::memcpy(memory.data() + t.bytes, from.data, from.bytes);
      t.bytes += from.bytes;
      t.shape[0] += from.shape[0];
      t.strings.insert(t.strings.end(), from.strings.begin(), from.strings.end());
    }
    t.data = memory.data();
    joined.push_back(std::move(t));
  }
  return joined;
}

Result<std::vector<HostTensor>> Part(const std::vector<HostTensor>& outputs, int64_t begin, int64_t rows, int64_t total,
                                     const std::vector<std::string>& wanted) {
  const auto cut = [&](const HostTensor& t) -> Result<HostTensor> {
    if (t.is_sequence) return Unsupported("output '{}'; a sequence, which this protocol has no form for", t.name);
    if (begin == 0 && rows == total) return Slice(t, 0, 1, 1);
    if (t.shape.empty() || t.shape[0] % total != 0) {
      return Internal("output '{}'; shape [{}] does not part into {} rows; serve this model with max_batch 0", t.name,
                      fmt::join(t.shape, ","), total);
    }
    return Slice(t, begin, rows, total);
  };
  std::vector<HostTensor> parts;
  if (wanted.empty()) {
    for (const HostTensor& t : outputs) {
      TENON_ASSIGN_OR_RETURN(HostTensor part, cut(t));
      parts.push_back(std::move(part));
    }
    return parts;
  }
  for (const std::string& name : wanted) {
    const auto it = std::find_if(outputs.begin(), outputs.end(), [&](const HostTensor& t) { return t.name == name; });
    CHECK(it != outputs.end());   // CheckOutputs ran when the request came
    TENON_ASSIGN_OR_RETURN(HostTensor part, cut(*it));
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace tenon::serve
