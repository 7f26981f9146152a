#include "serve/blocks.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace tenon::serve {

int64_t ElementsOf(std::span<const int64_t> shape) {
  int64_t elements = 1;
  for (int64_t extent : shape) elements *= extent;
  return elements;
}

void CopyBlock(const char* from, std::span<const int64_t> from_shape, char* to, std::span<const int64_t> to_shape,
               size_t element) {
  const auto from_row = from_shape.subspan(1), to_row = to_shape.subspan(1);
  const int64_t common = std::min(from_shape[0], to_shape[0]);
  const size_t from_step = static_cast<size_t>(ElementsOf(from_row)) * element;
  const size_t to_step = static_cast<size_t>(ElementsOf(to_row)) * element;
  if (std::equal(from_row.begin(), from_row.end(), to_row.begin())) {
    if (common > 0 && from_step > 0) std::memcpy(to, from, static_cast<size_t>(common) * from_step);
    return;
  }
  for (int64_t i = 0; i < common; ++i, from += from_step, to += to_step) CopyBlock(from, from_row, to, to_row, element);
}

HostTensor CopyElements(const HostTensor& t, int64_t begin, int64_t count, std::vector<int64_t> shape) {
  HostTensor part;
  part.name = t.name;
  part.dtype = t.dtype;
  if (t.dtype == DType::kString) {
    part.strings.assign(t.strings.begin() + begin, t.strings.begin() + begin + count);
    part.shape = std::move(shape);
    return part;
  }
  const auto elements = static_cast<size_t>(std::max<int64_t>(1, ElementsOf(t.shape)));
  part.bytes = t.bytes / elements * static_cast<size_t>(count);
  const auto memory = std::shared_ptr<char[]>(new char[part.bytes]);
  if (part.bytes > 0)
    std::memcpy(memory.get(), static_cast<const char*>(t.data) + t.bytes / elements * static_cast<size_t>(begin), part.bytes);
  part.data = memory.get();
  part.owner = memory;
  part.shape = std::move(shape);
  return part;
}

}  // namespace tenon::serve
