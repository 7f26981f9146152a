// Names of element types in the KServe v2 protocol.
#ifndef TENON_SERVER_DATATYPE_H_
#define TENON_SERVER_DATATYPE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"

namespace tenon::server {

/// "FP32", "BYTES", ...; "INVALID" for types the protocol has no name for.
std::string_view DatatypeName(DType type);
std::optional<DType> DatatypeFromName(std::string_view name);

/// Elements of `shape`; kUsage names `what` when an extent is negative or the product is out of range.
Result<int64_t> ElementsOf(const std::vector<int64_t>& shape, const std::string& what);

}  // namespace tenon::server

#endif  // TENON_SERVER_DATATYPE_H_
