// The number that a dimension's text stands for.
#ifndef TENON_BASE_DIM_VALUE_H_
#define TENON_BASE_DIM_VALUE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tenon {

/// The value of `text`, as Dim::Parse reads it, when its symbols have `values`. Nothing where a symbol has none, or it is no
/// dimension.
std::optional<int64_t> DimValue(std::string_view text, const std::map<std::string, int64_t, std::less<>>& values);

/// The number of `dim`, or nothing for a symbol or an expression.
std::optional<int64_t> FixedExtent(const std::string& dim);

}  // namespace tenon

#endif  // TENON_BASE_DIM_VALUE_H_
