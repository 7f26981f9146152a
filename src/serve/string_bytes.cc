#include "serve/string_bytes.h"

#include <cstdint>
#include <cstring>

#include "base/status.h"

namespace tenon::serve {

std::string PackStrings(const std::vector<std::string>& strings) {
  std::string packed;
  size_t bytes = 0;
  for (const std::string& s : strings) bytes += s.size() + 4;
  packed.reserve(bytes);
  for (const std::string& s : strings) {
    const auto length = static_cast<uint32_t>(s.size());
    packed.append(reinterpret_cast<const char*>(&length), sizeof(length));
    packed += s;
  }
  return packed;
}

Result<std::vector<std::string>> UnpackStrings(std::string_view bytes, int64_t count, const std::string& what) {
  std::vector<std::string> strings;
  size_t at = 0;
  while (at < bytes.size()) {
    uint32_t length = 0;
    if (bytes.size() - at < sizeof(length)) return Usage("{}; its bytes end inside a length", what);
    std::memcpy(&length, bytes.data() + at, sizeof(length));
    at += sizeof(length);
    if (bytes.size() - at < length)
      return Usage("{}; element {} claims {} bytes; {} are left", what, strings.size(), length, bytes.size() - at);
    strings.emplace_back(bytes.substr(at, length));
    at += length;
    if (static_cast<int64_t>(strings.size()) > count) break;
  }
  if (static_cast<int64_t>(strings.size()) != count)
    return Usage("{}; {} elements given; the shape has {}", what, strings.size(), count);
  return strings;
}

}  // namespace tenon::serve
