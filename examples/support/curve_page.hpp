// A page with curves, tables and maps that needs nothing but itself.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <headred/report/safe_text.hpp>

namespace examples {

struct line_point {
  double x = 0, y = 0;
  double spread = 0;  ///< drawn as a bar of y +- spread
};
struct chart_line {
  std::string name;
  std::vector<line_point> points;
};
struct grid_cell {
  double shade = 0;   ///< in [-1,1]: blue the darker the closer to 1, red below 0
  std::string text;   ///< what stands in the cell
  std::string marks;  ///< letters in its corner
  std::string title;  ///< shown under the pointer
};

/// The page is built from top to bottom; all text is escaped.
class curve_page {
 public:
  explicit curve_page(const std::string& title) {
    text_ =
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
        headred::detail::html_text(title) + "</title>\n<style>" + style + "</style></head>\n<body>\n<h1>" +
        headred::detail::html_text(title) + "</h1>\n";
  }

  void heading(const std::string& text) { text_ += "<h2>" + headred::detail::html_text(text) + "</h2>\n"; }
  void paragraph(const std::string& text) { text_ += "<p>" + headred::detail::html_text(text) + "</p>\n"; }

  void table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows) {
    text_ += "<table>\n<tr>";
    for (const auto& cell : head) text_ += "<th>" + headred::detail::html_text(cell) + "</th>";
    text_ += "</tr>\n";
    for (const auto& row : rows) {
      text_ += "<tr>";
      for (const auto& cell : row) text_ += "<td>" + headred::detail::html_text(cell) + "</td>";
      text_ += "</tr>\n";
    }
    text_ += "</table>\n";
  }

  /// Lines with error bars; what is not finite is left out.
  void chart(const std::string& x_name, const std::string& y_name, const std::vector<chart_line>& lines) {
    double left = INFINITY, right = -INFINITY, low = INFINITY, high = -INFINITY;
    for (const auto& line : lines)
      for (const auto& p : line.points) {
        if (!std::isfinite(p.y)) continue;
        const double bar = std::isfinite(p.spread) ? p.spread : 0;
        left = std::min(left, p.x);
        right = std::max(right, p.x);
        low = std::min(low, p.y - bar);
        high = std::max(high, p.y + bar);
      }
    if (!(left <= right)) return;
    if (left == right) right = left + 1;
    if (low == high) high = low + 1;
    const auto x = [&](double v) { return 60 + (v - left) / (right - left) * 480; };
    const auto y = [&](double v) { return 270 - (v - low) / (high - low) * 250; };
    text_ +=
        "<svg viewBox=\"0 0 600 " + std::to_string(320 + 18 * static_cast<int>(lines.size())) + "\" role=\"img\">\n";
    for (int i = 0; i <= 4; ++i) {
      const double v = low + (high - low) * i / 4, h = left + (right - left) * i / 4;
      text_ += "<line class=\"grid\" x1=\"60\" x2=\"540\" y1=\"" + brief(y(v)) + "\" y2=\"" + brief(y(v)) + "\"/>";
      label(54, y(v) + 4, "end", brief(v));
      label(x(h), 286, "middle", brief(h));
    }
    label(300, 304, "middle", x_name);
    label(60, 14, "start", y_name);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::string colour = colours[i % std::size(colours)];
      std::string path;
      for (const auto& p : lines[i].points) {
        if (!std::isfinite(p.y)) continue;
        path += (path.empty() ? "M" : "L") + brief(x(p.x)) + " " + brief(y(p.y));
        if (std::isfinite(p.spread) && p.spread > 0)
          text_ += "<line stroke=\"" + colour + "\" x1=\"" + brief(x(p.x)) + "\" x2=\"" + brief(x(p.x)) + "\" y1=\"" +
                   brief(y(p.y - p.spread)) + "\" y2=\"" + brief(y(p.y + p.spread)) + "\"/>";
      }
      text_ += "<path d=\"" + path + "\" fill=\"none\" stroke-width=\"2\" stroke=\"" + colour + "\"/>";
      const double at = 326 + 18 * static_cast<double>(i);
      text_ += "<line stroke-width=\"3\" stroke=\"" + colour + "\" x1=\"60\" x2=\"84\" y1=\"" + brief(at - 4) +
               "\" y2=\"" + brief(at - 4) + "\"/>";
      label(90, at, "start", lines[i].name);
    }
    text_ += "</svg>\n";
  }

  /// Values in [0,1], darker for more; row by row, of any lengths.
  void map(const std::vector<std::vector<double>>& rows) {
    text_ += "<table class=\"map\">\n";
    for (std::size_t r = 0; r < rows.size(); ++r) {
      text_ += "<tr><th>" + std::to_string(r) + "</th>";
      for (const double v : rows[r])
        text_ += "<td style=\"background:rgba(30,80,160," + brief(v) + ")\">" + brief(v) + "</td>";
      text_ += "</tr>\n";
    }
    text_ += "</table>\n";
  }

  /// Cells row by row, of any lengths.
  void grid(const std::vector<std::vector<grid_cell>>& rows) {
    text_ += "<table class=\"map\">\n";
    for (std::size_t r = 0; r < rows.size(); ++r) {
      text_ += "<tr><th>" + std::to_string(r) + "</th>";
      for (const grid_cell& c : rows[r]) {
        const std::string shade = brief(std::min(1., std::abs(c.shade)));
        text_ += "<td style=\"background:rgba(" + std::string(c.shade < 0 ? "180,40,40," : "30,80,160,") + shade + ")" +
                 (std::abs(c.shade) > .6 ? ";color:#fff" : "") + "\" title=\"" + headred::detail::html_text(c.title) +
                 "\">" + headred::detail::html_text(c.text);
        if (!c.marks.empty()) text_ += " <sup>" + headred::detail::html_text(c.marks) + "</sup>";
        text_ += "</td>";
      }
      text_ += "</tr>\n";
    }
    text_ += "</table>\n";
  }

  std::string finish() const { return text_ + "</body></html>\n"; }

  /// A short number for people, "-" for none.
  static std::string brief(double v) {
    if (!std::isfinite(v)) return "-";
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", v);
    return text;
  }

 private:
  static constexpr const char* style =
      "body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}"
      "table{border-collapse:collapse;margin:1em 0}td,th{padding:.15em .6em;text-align:right;border-bottom:1px solid "
      "#ddd}"
      "svg{max-width:40em;display:block}svg text{font-size:12px;fill:#333}.grid{stroke:#ddd}"
      ".map td{border:1px solid #fff;min-width:2.2em;text-align:center;font-size:12px}";
  static constexpr const char* colours[] = {"#0b62a8", "#c2571a", "#2d8a4e", "#a03a8c", "#777777", "#b8960c"};

  void label(double x, double y, const char* anchor, const std::string& text) {
    text_ += "<text x=\"" + brief(x) + "\" y=\"" + brief(y) + "\" text-anchor=\"" + anchor + "\">" +
             headred::detail::html_text(text) + "</text>";
  }

  std::string text_;
};

}  // namespace examples
