#include "serve/signature.h"

#include <algorithm>
#include <cctype>
#include <set>

#include <fmt/ranges.h>

#include "base/dim.h"
#include "base/dim_value.h"
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

Status CheckOne(const TensorInfo& info, const HostTensor& t) {
  if (info.is_sequence) return Unsupported("input '{}'; a sequence, which this protocol has no form for", info.name);
  if (info.dtype != t.dtype) {
    return Usage("input '{}'; type {} given; the model takes {}", t.name, DTypeName(t.dtype), DTypeName(info.dtype));
  }
  if (!info.has_rank) return Status::Ok();
  bool fits = info.dims.size() == t.shape.size();
  for (size_t d = 0; fits && d < t.shape.size(); ++d) {
    fits = FixedExtent(info.dims[d]).value_or(t.shape[d]) == t.shape[d];
  }
  if (fits) return Status::Ok();
  return Usage("input '{}'; shape [{}] given; the model takes {}", t.name, fmt::join(t.shape, ","), DimsText(info));
}

const TensorInfo* Find(const std::vector<TensorInfo>& infos, std::string_view name) {
  const auto it = std::find_if(infos.begin(), infos.end(), [&](const TensorInfo& i) { return i.name == name; });
  return it == infos.end() ? nullptr : &*it;
}

}  // namespace

bool IsSymbol(const std::string& dim) {
  if (dim.empty() || dim.find('(') != std::string::npos) return false;
  const auto parsed = Dim::Parse(dim);
  // Names with odd characters, as "batch size", are symbols nobody can compute with.
  return parsed.ok() ? parsed->symbol() == dim : std::isalpha(static_cast<unsigned char>(dim[0])) != 0;
}

const TensorInfo* Signature::Input(std::string_view name) const {
  return Find(inputs, name);
}

const TensorInfo* Signature::Output(std::string_view name) const {
  return Find(outputs, name);
}

bool Signature::LeadingExtentShared() const {
  std::set<std::string> leading;
  for (const auto* infos : {&inputs, &outputs}) {
    for (const TensorInfo& i : *infos) {
      if (i.is_sequence || !i.has_rank || i.dims.empty() || !IsSymbol(i.dims[0])) return false;
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
    const TensorInfo* info = Input(t.name);
    if (info == nullptr) return Usage("unknown input '{}'; the model takes {}", t.name, Names(inputs));
    for (size_t j = 0; j < i; ++j) {
      if (given[j].name == t.name) return Usage("input '{}' is given twice", t.name);
    }
    TENON_RETURN_IF_ERROR(CheckOne(*info, t));
  }
  return Status::Ok();
}

Status Signature::CheckOutputs(const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    if (Output(name) == nullptr) return Usage("unknown output '{}'; the model gives {}", name, Names(outputs));
  }
  return Status::Ok();
}

}  // namespace tenon::serve
