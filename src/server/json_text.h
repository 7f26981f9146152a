// Pieces of JSON text.
#ifndef TENON_SERVER_JSON_TEXT_H_
#define TENON_SERVER_JSON_TEXT_H_

#include <string>
#include <string_view>

namespace tenon::server {

bool IsUtf8(std::string_view text);
/// `text` quoted; bytes that are no UTF-8 become U+FFFD.
void AppendJsonString(std::string_view text, std::string* out);
/// Shortest form that reads back as the same number. NaN becomes null, infinities numbers beyond the range, which read as them.
void AppendJsonNumber(float value, std::string* out);
void AppendJsonNumber(double value, std::string* out);

}  // namespace tenon::server

#endif  // TENON_SERVER_JSON_TEXT_H_
