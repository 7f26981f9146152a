// gzip and deflate of HTTP bodies.
#ifndef TENON_SERVER_COMPRESS_H_
#define TENON_SERVER_COMPRESS_H_

#include <string>
#include <string_view>

#include "base/status.h"

namespace tenon::server {

/// A body sent with "Content-Encoding: gzip" or "deflate" (zlib, or raw). kResourceLimit: more than `limit` bytes come out.
Result<std::string> Inflate(std::string_view body, uint64_t limit);
/// Fast rather than small. `gzip` or zlib.
std::string Deflate(std::string_view body, bool gzip);

}  // namespace tenon::server

#endif  // TENON_SERVER_COMPRESS_H_
