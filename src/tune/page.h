// The report of a tuning as one page of HTML that needs nothing else: no script, no font, no picture from anywhere. All text of
// models is escaped.
#ifndef TENON_TUNE_PAGE_H_
#define TENON_TUNE_PAGE_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tenon::tune {

/// `document` as docs/tune-report.schema.json says.
std::string ReportPage(const nlohmann::ordered_json& document);

/// For text and attributes of HTML; bytes that are no UTF-8 become '?'.
std::string Escape(const std::string& text);

/// Pictures in SVG; empty where the document has nothing to show.
std::string TimeBars(const nlohmann::ordered_json& document);
std::string DropCurve(const nlohmann::ordered_json& document);
std::string Roofline(const nlohmann::ordered_json& document);

}  // namespace tenon::tune

#endif  // TENON_TUNE_PAGE_H_
