// The version of the tool, kept in artifacts and shown by `tenon version`.
#ifndef TENON_BASE_VERSION_H_
#define TENON_BASE_VERSION_H_

namespace tenon {
inline constexpr const char* kVersionString = "0.1.0";
}

#endif  // TENON_BASE_VERSION_H_
