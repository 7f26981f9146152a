// Elements of any numeric type as doubles.
#ifndef TENON_GUARD_VALUES_H_
#define TENON_GUARD_VALUES_H_

#include <optional>
#include <vector>

#include "tenon/session.h"
#include "tensor/tensor.h"

namespace tenon::guard {

/// Floats, integers and booleans; nothing for other types, sequences and packed types.
std::optional<std::vector<double>> Doubles(const View& view);
std::optional<std::vector<double>> Doubles(const HostTensor& tensor);

View ViewOf(const HostTensor& tensor);

}  // namespace tenon::guard

#endif  // TENON_GUARD_VALUES_H_
