#include "server/json_text.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <iterator>

namespace tenon::server {
namespace {

// Bytes of the UTF-8 character at `at`; 0: none.
size_t Utf8Length(std::string_view s, size_t at) {
  const auto byte = [&](size_t i) { return i < s.size() ? static_cast<uint8_t>(s[i]) : 0U; };
  const uint32_t lead = byte(at);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0U) != 0x80) return 0;
  }
  const uint32_t second = byte(at + 1);
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool outside = (lead == 0xed && second > 0x9f) || (lead == 0xf4 && second > 0x8f);
  return overlong || outside ? 0 : length;
}

template <typename T>
void AppendNumber(T value, std::string* out) {
  if (std::isnan(value)) {
    *out += "null";
  } else if (std::isinf(value)) {
    *out += value > 0 ? "1e999" : "-1e999";
  } else {
    fmt::format_to(std::back_inserter(*out), "{}", value);
  }
}

}  // namespace

bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t n = Utf8Length(text, i);
    if (n == 0) return false;
    i += n;
  }
  return true;
}

void AppendJsonString(std::string_view text, std::string* out) {
  *out += '"';
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    const size_t n = Utf8Length(text, i);
    if (n == 0) {
      *out += "\xef\xbf\xbd";
    } else if (c == '"' || c == '\\') {
      *out += '\\';
      *out += c;
    } else if (static_cast<uint8_t>(c) < 0x20) {
      fmt::format_to(std::back_inserter(*out), "\\u{:04x}", static_cast<int>(c));
    } else {
      out->append(text.substr(i, n));
    }
    i += n == 0 ? 1 : n;
  }
  *out += '"';
}

void AppendJsonNumber(float value, std::string* out) {
  AppendNumber(value, out);
}
void AppendJsonNumber(double value, std::string* out) {
  AppendNumber(value, out);
}

}  // namespace tenon::server
