#include "tensor/attrs.h"

#include <algorithm>
#include <cstring>

namespace tenon {

bool SameTensor(const View& a, const View& b) {
  if (a.dtype != b.dtype || !(a.shape == b.shape)) return false;
  if (a.dtype == DType::kString) {
    const auto* x = a.Data<std::string>();
    return std::equal(x, x + a.num_elements(), b.Data<std::string>());
  }
  return a.bytes() == 0 || a.data == b.data || std::memcmp(a.data, b.data, a.bytes()) == 0;
}

namespace {

bool SameValue(const AttrValue& a, const AttrValue& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        const T& y = std::get<T>(b);
        if constexpr (std::is_same_v<T, Tensor>) {
          return SameTensor(x.view(), y.view());
        } else {
          return x == y;
        }
      },
      a);
}

}  // namespace

bool operator==(const Attrs& a, const Attrs& b) {
  return a.values_.size() == b.values_.size() &&
         std::equal(a.values_.begin(), a.values_.end(), b.values_.begin(),
                    [](const auto& x, const auto& y) { return x.first == y.first && SameValue(x.second, y.second); });
}

}  // namespace tenon
