#include "guard/values.h"

#include "base/dtype.h"

namespace tenon::guard {

std::optional<std::vector<double>> Doubles(const View& view) {
  if (view.sequence != nullptr) return std::nullopt;
  if (auto floats = ToDoubles(view)) return floats;
  std::vector<double> out;
  const auto n = static_cast<size_t>(view.num_elements());
  const bool known = DispatchDType<TENON_INT_TYPES>(view.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    out.assign(view.Data<T>(), view.Data<T>() + n);
  });
  if (!known && view.dtype == DType::kBool) {
    for (size_t i = 0; i < n; ++i) out.push_back(view.Data<uint8_t>()[i] != 0 ? 1 : 0);
    return out;
  }
  if (!known) return std::nullopt;
  return out;
}

View ViewOf(const HostTensor& t) {
  View v{t.dtype, Shape(std::span<const int64_t>(t.shape)), t.data, nullptr};
  if (t.dtype == DType::kString) v.data = t.strings.data();
  return v;
}

std::optional<std::vector<double>> Doubles(const HostTensor& tensor) {
  if (tensor.is_sequence) return std::nullopt;
  return Doubles(ViewOf(tensor));
}

}  // namespace tenon::guard
