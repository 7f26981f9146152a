// The results of a run, parted among its requests.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/dim_value.h"
#include "base/dtype.h"
#include "base/shape.h"
#include "serve/blocks.h"
#include "serve/layout.h"

namespace tenon::serve {
namespace {

// The shape in which a request gets a ragged output; nothing where its elements cannot be counted.
Result<std::vector<int64_t>> RaggedShape(const BatchOutput& how, const Request& inputs, int64_t* elements) {
  const auto source = std::find_if(inputs.begin(), inputs.end(), [&](const HostTensor& t) { return t.name == how.source; });
  std::vector<int64_t> shape = {source->shape[0]};
  for (size_t d = 0; d < how.dims.size(); ++d) shape.push_back(how.dims[d] < 0 ? source->shape[d + 1] : how.dims[d]);
  *elements = 1;
  for (int64_t extent : shape) {
    const auto product = CheckedMul(*elements, extent);
    if (!product) return Internal("batch_output; shape [{}] has too many elements", fmt::join(shape, ","));
    *elements = *product;
  }
  return shape;
}

}  // namespace

Result<std::vector<HostTensor>> Parting::Next(const Request& inputs, int64_t rows, const std::vector<std::string>& wanted) {
  std::vector<HostTensor> parts;
  const auto add = [&](const HostTensor& t) -> Status {
    TENON_ASSIGN_OR_RETURN(HostTensor part, Cut(t, inputs, rows));
    parts.push_back(std::move(part));
    return Status::Ok();
  };
  for (const HostTensor& t : outputs_) {
    if (wanted.empty()) TENON_RETURN_IF_ERROR(add(t));
  }
  for (const std::string& name : wanted) {
    const auto it = std::find_if(outputs_.begin(), outputs_.end(), [&](const HostTensor& t) { return t.name == name; });
    CHECK(it != outputs_.end());   // Signature::CheckOutputs ran when the request came
    TENON_RETURN_IF_ERROR(add(*it));
  }
  return parts;
}

void Parting::Advance(const Request& inputs, int64_t rows) {
  row_ += rows;
  for (const auto& [name, how] : layout_.batch_outputs_) {
    int64_t elements = 0;
    if (RaggedShape(how, inputs, &elements).ok()) element_[name] += elements;
  }
}

Result<HostTensor> Parting::Cut(const HostTensor& output, const Request& inputs, int64_t rows) const {
  if (output.is_sequence) return Unsupported("output '{}'; a sequence, which this protocol has no form for", output.name);
  const auto ragged = layout_.batch_outputs_.find(output.name);
  if (ragged != layout_.batch_outputs_.end()) return CutRagged(output, ragged->second, inputs, rows);
  if (rows == rows_) return CopyElements(output, 0, ElementsOf(output.shape), output.shape);
  if (output.shape.empty() || output.shape[0] % rows_ != 0) {
    return Internal("output '{}'; shape [{}] does not part into {} rows; serve this model with max_batch 0", output.name,
                    fmt::join(output.shape, ","), rows_);
  }
  std::vector<int64_t> shape = output.shape;
  shape[0] = output.shape[0] / rows_ * rows;
  const int64_t row = ElementsOf(output.shape) / rows_;
  HostTensor part = CopyElements(output, row * row_, row * rows, shape);
  return layout_.pad_.empty() ? part : CutPadding(std::move(part), layout_.ExtentsOf(inputs));
}

Result<HostTensor> Parting::CutRagged(const HostTensor& output, const BatchOutput& how, const Request& inputs,
                                      int64_t rows) const {
  int64_t count = 0;
  TENON_ASSIGN_OR_RETURN(std::vector<int64_t> shape, RaggedShape(how, inputs, &count));
  const auto at = element_.find(output.name);
  const int64_t begin = at == element_.end() ? 0 : at->second, all = ElementsOf(output.shape);
  const bool last = row_ + rows == rows_;
  if (count > all - begin || (last && count < all - begin)) {
    return Internal("output '{}'; {} elements given; its requests make {}{}", output.name, all, last ? "" : "more than ",
                    last ? begin + count : all);
  }
  return CopyElements(output, begin, count, std::move(shape));
}

Result<HostTensor> Parting::CutPadding(HostTensor part, const Layout::Extents& extents) const {
  const std::vector<std::string>& dims = layout_.model_.Output(part.name)->dims;
  std::vector<int64_t> shape = part.shape;
  for (size_t d = 1; d < shape.size(); ++d) {
    const auto extent = d < dims.size() ? DimValue(dims[d], extents) : std::nullopt;
    if (!extent || *extent < 0 || *extent > shape[d])
      return Internal("output '{}'; shape [{}] is not the one that its inputs tell", part.name, fmt::join(shape, ","));
    shape[d] = *extent;
  }
  if (shape == part.shape) return part;
  const size_t element = DTypeBytes(part.dtype, 1);
  const size_t bytes = element * static_cast<size_t>(ElementsOf(shape));
  const auto memory = std::shared_ptr<char[]>(new char[bytes]);
  CopyBlock(static_cast<const char*>(part.data), part.shape, memory.get(), shape, element);
  part.shape = std::move(shape);
  part.bytes = bytes;
  part.data = memory.get();
  part.owner = memory;
  return part;
}

}  // namespace tenon::serve
