// Texts as bytes: on the wire, and in files of warm-up data.
#ifndef TENON_SERVE_STRING_BYTES_H_
#define TENON_SERVE_STRING_BYTES_H_

#include <string>
#include <string_view>
#include <vector>

#include "tenon/status.h"

namespace tenon::serve {

/// Each element a 32-bit little-endian length and that many bytes.
std::string PackStrings(const std::vector<std::string>& strings);
/// kUsage names `what` when the lengths do not give exactly `count` elements.
Result<std::vector<std::string>> UnpackStrings(std::string_view bytes, int64_t count, const std::string& what);

}  // namespace tenon::serve

#endif  // TENON_SERVE_STRING_BYTES_H_
