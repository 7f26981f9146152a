#include "server/compress.h"

#include <zlib.h>

#include <algorithm>
#include <memory>

namespace tenon::server {
namespace {

constexpr int kWindow = 15;
constexpr int kGzip = 16;        // added to the window: gzip framing
constexpr int kEither = 32;      // added to the window: gzip or zlib, whichever comes
constexpr size_t kPiece = 256 << 10;

Bytef* In(std::string_view text) {
  return reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
}

Result<std::string> InflateAs(std::string_view body, uint64_t limit, int window) {
  z_stream z{};
  if (inflateInit2(&z, window) != Z_OK) return Internal("zlib cannot start");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&z, inflateEnd);
  std::string out;
  z.next_in = In(body);
  z.avail_in = static_cast<uInt>(body.size());
  int code = Z_OK;
  while (code == Z_OK) {
    const size_t before = out.size();
    if (before >= limit) return ResourceLimit("the body unpacks to more than {} bytes", limit);
    out.resize(std::min<uint64_t>(before + kPiece, limit));
    z.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    z.avail_out = static_cast<uInt>(out.size() - before);
    code = inflate(&z, Z_NO_FLUSH);
    out.resize(out.size() - z.avail_out);
    if (code == Z_BUF_ERROR || (code == Z_OK && z.avail_in == 0 && out.size() == before)) break;
  }
  if (code != Z_STREAM_END) return Usage("the body is no valid gzip or deflate data");
  return out;
}

}  // namespace

Result<std::string> Inflate(std::string_view body, uint64_t limit) {
  auto out = InflateAs(body, limit, kWindow + kEither);
  if (out.ok() || out.status().code() != Code::kUsage) return out;
  return InflateAs(body, limit, -kWindow);
}

std::string Deflate(std::string_view body, bool gzip) {
  z_stream z{};
  if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, kWindow + (gzip ? kGzip : 0), 8, Z_DEFAULT_STRATEGY) != Z_OK) return "";
  std::string out(deflateBound(&z, body.size()), '\0');
  z.next_in = In(body);
  z.avail_in = static_cast<uInt>(body.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  const bool whole = deflate(&z, Z_FINISH) == Z_STREAM_END;
  out.resize(whole ? z.total_out : 0);
  deflateEnd(&z);
  return out;
}

}  // namespace tenon::server
