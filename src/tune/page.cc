#include "tune/page.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace tenon::tune {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kStyle = R"css(
:root{--ink:#1d2733;--soft:#5d6b7a;--line:#e3e8ee;--back:#f6f8fa;--card:#fff;--before:#b3bfcc;--after:#2f6fdb;--good:#1f9d6b;--bad:#d4493f}
@media(prefers-color-scheme:dark){:root{--ink:#e6ebf1;--soft:#9aa7b5;--line:#2c3642;--back:#12171d;--card:#1a212a;--before:#5b6875;--after:#6aa1ff;--good:#45c48f;--bad:#f0766d}}
*{box-sizing:border-box}body{margin:0;background:var(--back);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1060px;margin:0 auto;padding:32px 20px 60px}h1{margin:0;font-size:26px}h2{margin:0 0 4px;font-size:18px}
p{margin:4px 0 14px;color:var(--soft)}.verdict{margin:2px 0;color:var(--ink)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(175px,1fr));gap:12px;margin:22px 0}
.card,section{background:var(--card);border:1px solid var(--line);border-radius:10px}.card{padding:14px 16px}
.card b{display:block;font-size:24px;line-height:1.25}.card span{color:var(--soft);font-size:13px}
section{padding:20px 22px;margin:16px 0;overflow-x:auto}svg{width:100%;height:auto;min-width:640px;display:block}
table{border-collapse:collapse;width:100%;font-size:13px}th{text-align:left;color:var(--soft);font-weight:600}
th,td{padding:5px 10px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
td.name{max-width:330px;overflow-wrap:anywhere}td.won{color:var(--good);font-weight:600}
summary{cursor:pointer;font-size:18px;font-weight:600}.key i{display:inline-block;width:11px;height:11px;border-radius:2px;margin:0 5px 0 14px}
.grid{stroke:var(--line)}.label{font-size:11px;fill:var(--soft)}.axis{font-size:12px;fill:var(--soft)}.before{fill:var(--before)}.after{fill:var(--after)}
.whisker{stroke:var(--ink);stroke-width:1;opacity:.55}.allowed{stroke:var(--bad);stroke-dasharray:6 4}.allowed-text{fill:var(--bad)}
.roof{stroke:var(--soft);stroke-width:1.6}.good{fill:var(--good)}.bad{fill:var(--bad)}.op{fill:var(--after);fill-opacity:.45;stroke:var(--after)}
)css";

double Number(const Json& row, const char* key) {
  const auto it = row.find(key);
  return it != row.end() && it->is_number() ? it->get<double>() : 0;
}

std::string Text(const Json& row, const char* key) {
  const auto it = row.find(key);
  return it != row.end() && it->is_string() ? it->get<std::string>() : std::string();
}

Json Member(const Json& row, const char* key) {
  const auto it = row.find(key);
  return it == row.end() ? Json() : *it;
}

std::string Card(const std::string& value, const std::string& meaning) {
  return fmt::format("<div class=\"card\"><b>{}</b><span>{}</span></div>", Escape(value), Escape(meaning));
}

// Columns whose header begins with '#' hold numbers.
class Table {
 public:
  explicit Table(const std::vector<std::string>& header) {
    for (const std::string& h : header) {
      numbers_.push_back(h.starts_with('#'));
      html_ += fmt::format("<th{}>{}</th>", numbers_.back() ? " class=\"n\"" : "", Escape(numbers_.back() ? h.substr(1) : h));
    }
    html_ = "<table><thead><tr>" + html_ + "</tr></thead><tbody>";
  }
  void Add(const std::vector<std::string>& cells, bool won = false) {
    html_ += "<tr>";
    for (size_t i = 0; i < cells.size(); ++i)
      html_ += fmt::format("<td class=\"{}{}\">{}</td>", numbers_[i] ? "n" : "name", won ? " won" : "", Escape(cells[i]));
    html_ += "</tr>";
  }
  std::string Html() const { return html_ + "</tbody></table>"; }

 private:
  std::vector<bool> numbers_;
  std::string html_;
};

std::string Section(const char* title, const char* explanation, const std::string& body) {
  if (body.empty()) return {};
  return fmt::format("<section><h2>{}</h2><p>{}</p>{}</section>", title, explanation, body);
}

std::string Folded(const std::string& title, const std::string& body) {
  if (body.empty()) return {};
  return fmt::format("<section><details><summary>{}</summary>{}</details></section>", Escape(title), body);
}

std::string Mebibytes(double bytes) {
  return fmt::format("{:.1f} MiB", bytes / (1 << 20));
}

std::string Cards(const Json& d) {
  std::string html = "<div class=\"cards\">";
  const Json latency = Member(d, "latency_ms");
  if (latency.is_object()) {
    const double before = Number(latency, "before");
    const double after = Number(latency, "after");
    html += Card(fmt::format("{:.2f} x", after > 0 ? before / after : 1),
                 fmt::format("as fast, +-{:.1f} %", 100 * Number(latency, "noise")));
    html += Card(fmt::format("{:.3f} ms", after), fmt::format("a run; {:.3f} before", before));
  }
  const Json memory = Member(d, "memory");
  if (memory.is_object())
    html += Card(Mebibytes(Number(memory["after"], "charged")),
                 "peak memory; " + Mebibytes(Number(memory["before"], "charged")) + " before");
  html += Card(fmt::format("{:.0f}", Number(d["groups"], "after")),
               fmt::format("groups of {:.0f} operators", Number(d["groups"], "before")));
  const Json drop = Member(d, "drop");
  if (drop.is_object())
    html += Card(fmt::format("{:.3f} %", 100 * Number(drop, "relative")), Text(drop, "metric") + " lost on held-out samples");
  html += Card(fmt::format("{:.1f} s", Number(d, "seconds")), fmt::format("of {:g} s allowed", Number(d, "budget_s")));
  return html + "</div>";
}

std::string OperatorTable(const Json& d) {
  const Json operators = Member(d, "operators");
  if (!operators.is_array() || operators.empty()) return {};
  Table table({"operator", "type", "kernel", "#before us", "#+-%", "#after us", "#+-%", "#roof us", "#of roof", "bound"});
  for (const Json& row : operators) {
    const double after = Number(row, "after_us");
    const std::string before_kernel = Text(row, "kernel_before");
    const std::string after_kernel = Text(row, "kernel_after");
    const bool same = before_kernel == after_kernel || before_kernel.empty() || after_kernel.empty();
    table.Add({Text(row, "name"), Text(row, "type"),
               same ? before_kernel.empty() ? after_kernel : before_kernel : before_kernel + " -> " + after_kernel,
               fmt::format("{:.1f}", Number(row, "before_us")), fmt::format("{:.1f}", 100 * Number(row, "noise_before")),
               fmt::format("{:.1f}", after), fmt::format("{:.1f}", 100 * Number(row, "noise_after")),
               fmt::format("{:.1f}", Number(row, "roof_us")),
               after > 0 ? fmt::format("{:.0f} %", 100 * Number(row, "roof_us") / after) : "-", Text(row, "bound")});
  }
  return table.Html();
}

std::string KernelTable(const Json& d) {
  const Json kernels = Member(d, "kernels");
  if (!kernels.is_object() || kernels["operators"].empty()) return {};
  Table table({"operator", "type", "candidate", "#us", "#+-%", "#rounds", "why"});
  for (const Json& row : kernels["operators"]) {
    bool first = true;
    for (const Json& c : row["candidates"]) {
      const bool won = Text(c, "kernel") == Text(row, "winner");
      table.Add({first ? Text(row, "name") : "", first ? Text(row, "type") : "", Text(c, "kernel"),
                 fmt::format("{:.1f}", Number(c, "us")), fmt::format("{:.1f}", 100 * Number(c, "noise")),
                 fmt::format("{:.0f}", Number(c, "rounds")), won ? Text(row, "why") : Text(c, "failure")},
                won);
      first = false;
    }
  }
  return table.Html();
}

std::string LoweredTable(const Json& d) {
  const Json ops = Member(d, "ops");
  if (!ops.is_array() || ops.empty()) return {};
  Table table({"operator", "type", "precision", "#before us", "#after us", "#error alone", "#drop alone %"});
  for (const Json& row : ops) {
    const bool lowered = Text(row, "precision") != "float32";
    const bool known = Member(row, "error").is_number();
    table.Add({Text(row, "name"), Text(row, "type"), Text(row, "precision"), fmt::format("{:.1f}", Number(row, "before_us")),
               lowered ? fmt::format("{:.1f}", Number(row, "after_us")) : "-",
               known ? fmt::format("{:.2e}", Number(row, "error")) : "-",
               known ? fmt::format("{:.3f}", 100 * Number(row, "drop")) : "-"},
              lowered);
  }
  return table.Html();
}

std::string Verdicts(const Json& d) {
  std::string html;
  for (const char* key : {"guard", "kernels"}) {
    const Json part = Member(d, key);
    if (part.is_object())
      html += fmt::format("<p class=\"verdict\"><b>{}:</b> {}</p>", key[0] == 'g' ? "precision" : "kernels",
                          Escape(Text(part, "verdict")));
  }
  return html;
}

// The length of the character at `at` if it is valid UTF-8, else 0.
size_t Utf8Length(const std::string& s, size_t at) {
  const auto byte = [&](size_t i) { return at + i < s.size() ? static_cast<unsigned char>(s[at + i]) : 0U; };
  const unsigned lead = byte(0);
  const size_t n = lead < 0x80                   ? 1
                   : lead >= 0xc2 && lead < 0xe0 ? 2
                   : lead >= 0xe0 && lead < 0xf0 ? 3
                   : lead >= 0xf0 && lead < 0xf5 ? 4
                                                 : 0;
  for (size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool odd = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) >= 0xa0) || (lead == 0xf0 && byte(1) < 0x90) ||
                   (lead == 0xf4 && byte(1) >= 0x90);
  return odd ? 0 : n;
}

}  // namespace

std::string Escape(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t n = Utf8Length(text, i);
    const char c = text[i];
    if (n == 0 || (n == 1 && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f))) {
      out += c == '\n' || c == '\t' ? " " : "?";
      ++i;
      continue;
    }
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += text.substr(i, n);
    }
    i += n;
  }
  return out;
}

std::string ReportPage(const Json& d) {
  const Json machine = Member(d, "machine");
  std::string html =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">";
  html += fmt::format("<title>Tuning of {}</title><style>{}</style></head><body><main>", Escape(Text(d, "model")), kStyle);
  html += fmt::format("<h1>{}</h1><p>{}, {}, {:.0f} threads; {}</p>", Escape(Text(d, "model")), Escape(Text(machine, "cpu")),
                      Escape(Text(machine, "isa")), Number(d, "threads"), Escape(Text(d, "data")));
  html += Verdicts(d) + Cards(d);
  html += Section("Time of each operator",
                  "The longest first. <span class=\"key\"><i style=\"background:var(--before)\"></i>before<i "
                  "style=\"background:var(--after)\"></i>after</span>; "
                  "whiskers: noise of the measurement.",
                  TimeBars(d));
  html += Section("Drop against time", "Every combination of precisions that was judged on the deciding samples.", DropCurve(d));
  html +=
      Section("Roofline",
              "What each operator reaches after tuning, under the measured peaks of this machine; size: its share of the time.",
              Roofline(d));
  html += Folded("All operators", OperatorTable(d));
  html += Folded("Kernels tried", KernelTable(d));
  html += Folded("Precision", LoweredTable(d));
  return html + "</main></body></html>\n";
}

}  // namespace tenon::tune
