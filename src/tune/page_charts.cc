// Pictures of the report: bars, a curve, a roofline.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "tune/page.h"

namespace tenon::tune {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostBars = 24;

double Number(const Json& row, const char* key) {
  const auto it = row.find(key);
  return it != row.end() && it->is_number() ? it->get<double>() : 0;
}

std::string Text(const Json& row, const char* key) {
  const auto it = row.find(key);
  return it != row.end() && it->is_string() ? it->get<std::string>() : std::string();
}

const Json* List(const Json& document, const char* key) {
  const auto it = document.find(key);
  return it != document.end() && it->is_array() && !it->empty() ? &*it : nullptr;
}

std::string Shortened(const std::string& text, size_t most) {
  return text.size() <= most ? text : "..." + text.substr(text.size() - most + 3);
}

// 1, 2 or 5 times a power of ten: about `parts` steps up to `most`.
double NiceStep(double most, int parts) {
  const double raw = std::max(most, 1e-12) / parts;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double m : {1.0, 2.0, 5.0}) {
    if (raw <= m * power) return m * power;
  }
  return 10 * power;
}

std::string Line(double x1, double y1, double x2, double y2, const char* kind) {
  return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>", kind, x1, y1, x2, y2);
}

std::string Label(double x, double y, const char* anchor, const std::string& text, const char* kind = "label") {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>", kind, x, y, anchor,
                     Escape(text));
}

std::string Bar(double x, double y, double width, double height, const char* kind, const std::string& tip) {
  return fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"2\"><title>{}</title></rect>", kind,
      x, y, std::max(width, 0.5), height, Escape(tip));
}

// Half the width of a measurement's noise on each side of a bar's end.
std::string Whisker(double from, double to, double y) {
  return Line(from, y, to, y, "whisker") + Line(from, y - 2.5, from, y + 2.5, "whisker") +
         Line(to, y - 2.5, to, y + 2.5, "whisker");
}

std::string Svg(int width, double height, const std::string& body, const char* what) {
  return fmt::format("<svg viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-label=\"{}\">{}</svg>", width, height, what, body);
}

// Both axes of a plot, with a place for each value.
struct Plot {
  double left, top, right, bottom;
  double x0, x1, y0, y1;   // values at the borders; logarithms on logarithmic axes
  double X(double v) const { return left + (v - x0) / (x1 - x0) * (right - left); }
  double Y(double v) const { return bottom - (v - y0) / (y1 - y0) * (bottom - top); }
};

std::string Power(int exponent) {
  static constexpr const char* kSmall[] = {"0.001", "0.01", "0.1", "1", "10", "100", "1k", "10k", "100k", "1M"};
  return exponent >= -3 && exponent <= 6 ? kSmall[exponent + 3] : fmt::format("1e{}", exponent);
}

std::string Decades(const Plot& p) {
  std::string svg;
  for (int e = static_cast<int>(std::ceil(p.x0)); e <= p.x1; ++e)
    svg += Line(p.X(e), p.top, p.X(e), p.bottom, "grid") + Label(p.X(e), p.bottom + 16, "middle", Power(e));
  for (int e = static_cast<int>(std::ceil(p.y0)); e <= p.y1; ++e)
    svg += Line(p.left, p.Y(e), p.right, p.Y(e), "grid") + Label(p.left - 6, p.Y(e) + 4, "end", Power(e));
  return svg;
}

}  // namespace

std::string TimeBars(const Json& document) {
  const Json* operators = List(document, "operators");
  if (operators == nullptr) return {};
  std::vector<const Json*> rows;
  for (const Json& row : *operators) rows.push_back(&row);
  const auto longest = [](const Json* row) { return std::max(Number(*row, "before_us"), Number(*row, "after_us")); };
  std::stable_sort(rows.begin(), rows.end(), [&](const Json* a, const Json* b) { return longest(a) > longest(b); });
  rows.resize(std::min(rows.size(), kMostBars));
  const double most = std::max(longest(rows[0]), 1e-3) * 1.1;
  constexpr double kLeft = 300;
  constexpr double kRight = 870;
  constexpr double kRow = 27;
  const double bottom = 26 + kRow * static_cast<double>(rows.size());
  const auto at = [&](double us) { return kLeft + us / most * (kRight - kLeft); };
  std::string svg;
  const double step = NiceStep(most, 6);
  for (double us = 0; us <= most; us += step) {
    svg += Line(at(us), 20, at(us), bottom, "grid") + Label(at(us), 14, "middle", fmt::format("{:g} us", us));
  }
  double y = 26;
  for (const Json* row : rows) {
    svg += Label(kLeft - 8, y + 14, "end", Shortened(Text(*row, "name"), 30) + "  " + Text(*row, "type"));
    const auto bar = [&](const char* us_key, const char* noise_key, const char* kernel_key, const char* kind, double top) {
      const double us = Number(*row, us_key);
      const double noise = std::min(Number(*row, noise_key), 1.0);
      if (us <= 0) return;
      svg += Bar(kLeft, top, at(us) - kLeft, 9, kind,
                 fmt::format("{}: {:.1f} us +-{:.1f} %, {}", kind, us, 100 * noise, Text(*row, kernel_key)));
      svg += Whisker(at(us * (1 - noise)), std::min(at(us * (1 + noise)), kRight + 20), top + 4.5);
    };
    bar("before_us", "noise_before", "kernel_before", "before", y + 2);
    bar("after_us", "noise_after", "kernel_after", "after", y + 13);
    y += kRow;
  }
  return Svg(900, bottom + 6, svg, "time of each operator before and after");
}

std::string DropCurve(const Json& document) {
  const Json* trials = List(document, "trials");
  if (trials == nullptr) return {};
  const double allowed = document.contains("guard") ? Number(document["guard"], "max_drop") : 0;
  double most_ms = 0;
  double most_drop = 2 * allowed;
  double least_drop = 0;
  std::vector<const Json*> rows;
  for (const Json& t : *trials) {
    if (!t.contains("drop") || !t["drop"].is_number()) continue;
    rows.push_back(&t);
    most_ms = std::max(most_ms, Number(t, "estimated_us") / 1e3);
    least_drop = std::min(least_drop, Number(t, "drop"));
    most_drop = std::max(most_drop, Number(t, "high"));
  }
  if (rows.empty()) return {};
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Json* a, const Json* b) { return Number(*a, "estimated_us") < Number(*b, "estimated_us"); });
  // One trial that loses everything shall not press the others to the axis.
  if (allowed > 0) most_drop = std::min(most_drop, 20 * allowed);
  const double span = std::max(most_drop - least_drop, 1e-6);
  const Plot p{70, 16, 880, 300, 0, std::max(most_ms * 1.08, 1e-6), least_drop, least_drop + 1.08 * span};
  std::string svg;
  for (double v = 0; v <= p.x1; v += NiceStep(p.x1, 8)) {
    svg += Line(p.X(v), p.top, p.X(v), p.bottom, "grid") + Label(p.X(v), p.bottom + 16, "middle", fmt::format("{:g}", v));
  }
  const double step = NiceStep(100 * span, 6) / 100;
  for (double v = std::ceil(p.y0 / step) * step; v <= p.y1; v += step) {
    svg += Line(p.left, p.Y(v), p.right, p.Y(v), "grid") + Label(p.left - 6, p.Y(v) + 4, "end", fmt::format("{:.3g}", 100 * v));
  }
  if (allowed > 0)
    svg += Line(p.left, p.Y(allowed), p.right, p.Y(allowed), "allowed") +
           Label(p.right, p.Y(allowed) - 5, "end", "allowed", "label allowed-text");
  for (const Json* t : rows) {
    const double drop = Number(*t, "drop");
    const double high = Number(*t, "high");
    const double x = p.X(Number(*t, "estimated_us") / 1e3);
    const double y = p.Y(std::min(drop, p.y1));
    svg += Line(x, y, x, p.Y(std::clamp(high, drop, p.y1)), "grid");
    svg += fmt::format(
        "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\"><title>{}</title></circle>",
        t->value("within", false) ? "good" : "bad", x, y,
        Escape(fmt::format("{}: {:.0f} operators lowered, {:.3f} ms, drop {:.3f} %, at most {:.3f} %", Text(*t, "what"),
                           Number(*t, "lowered"), Number(*t, "estimated_us") / 1e3, 100 * drop, 100 * high)));
  }
  svg += Label(475, 336, "middle", "estimated time of a run, ms", "axis") + "<g transform=\"translate(16 158) rotate(-90)\">" +
         Label(0, 0, "middle", "drop on deciding samples, %", "axis") + "</g>";
  return Svg(900, 344, svg, "drop against time of the combinations that were judged");
}

std::string Roofline(const Json& document) {
  const Json* operators = List(document, "operators");
  if (operators == nullptr || !document.contains("roofline")) return {};
  const Json& roof = document["roofline"];
  const double bandwidth = Number(roof, "bytes_per_s");
  const Json* peaks = List(roof, "peaks");
  if (bandwidth <= 0 || peaks == nullptr) return {};
  double most_us = 0;
  for (const Json& row : *operators) most_us = std::max(most_us, Number(row, "after_us"));
  double top = 0;
  for (const Json& peak : *peaks) top = std::max(top, Number(peak, "flops_per_s"));
  const Plot p{70, 16, 880, 340, -1.3, 3.3, -1, std::log10(top / 1e9) + 0.3};
  std::string svg = Decades(p);
  const auto y_of = [&](double gflops) { return p.Y(std::clamp(std::log10(std::max(gflops, 1e-9)), p.y0, p.y1)); };
  const auto x_of = [&](double intensity) { return p.X(std::clamp(std::log10(std::max(intensity, 1e-9)), p.x0, p.x1)); };
  for (const Json& peak : *peaks) {
    const double flops = Number(peak, "flops_per_s");
    const double ridge = flops / bandwidth;
    svg += Line(x_of(ridge), y_of(flops / 1e9), p.right, y_of(flops / 1e9), "roof") +
           Label(p.right - 4, y_of(flops / 1e9) - 5, "end", Text(peak, "name"));
  }
  const double from = std::max(std::pow(10, p.x0), 1e8 / bandwidth);
  svg += Line(x_of(from), y_of(from * bandwidth / 1e9), x_of(top / bandwidth), y_of(top / 1e9), "roof") +
         Label(x_of(from) + 8, y_of(from * bandwidth / 1e9) - 14, "start", fmt::format("memory {:.1f} GB/s", bandwidth / 1e9));
  for (const Json& row : *operators) {
    const double us = Number(row, "after_us");
    const double flops = Number(row, "flops");
    const double bytes = Number(row, "bytes");
    if (us <= 0 || flops <= 0 || bytes <= 0) continue;
    svg += fmt::format(
        "<circle class=\"op\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\"><title>{}</title></circle>", x_of(flops / bytes),
        y_of(flops / us / 1e3), 3 + 9 * std::sqrt(us / most_us),
        Escape(fmt::format("{} {}: {:.1f} us, {:.1f} GFLOP/s, {:.2f} FLOP/byte, {:.0f} % of the roof", Text(row, "name"),
                           Text(row, "type"), us, flops / us / 1e3, flops / bytes, 100 * Number(row, "roof_us") / us)));
  }
  svg += Label(475, 376, "middle", "FLOP per byte", "axis") + "<g transform=\"translate(16 178) rotate(-90)\">" +
         Label(0, 0, "middle", "GFLOP/s", "axis") + "</g>";
  return Svg(900, 384, svg, "roofline of the operators after tuning");
}

}  // namespace tenon::tune
