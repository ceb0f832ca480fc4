// write_redundancy_report: a report as one HTML file that needs nothing but a browser.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <headred/core/atomic_file.hpp>
#include <headred/core/version.hpp>
#include <headred/report/check_report.hpp>
#include <headred/report/cluster_order.hpp>
#include <headred/report/page_body.hpp>
#include <headred/report/page_script_base.hpp>
#include <headred/report/page_script_charts.hpp>
#include <headred/report/page_script_heatmap.hpp>
#include <headred/report/page_script_matrix.hpp>
#include <headred/report/page_script_tables.hpp>
#include <headred/report/page_style.hpp>
#include <headred/report/report_json.hpp>
#include <headred/report/safe_text.hpp>

namespace headred {
namespace detail {

inline std::string version_text() {
  return std::to_string(HEADRED_VERSION_MAJOR) + "." + std::to_string(HEADRED_VERSION_MINOR) + "." +
         std::to_string(HEADRED_VERSION_PATCH);
}

// The policy forbids every load from elsewhere; data-ready comes last, so it vouches for all that is drawn before it.
inline constexpr std::string_view page_head = R"html(<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline';
 script-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
)html";
inline constexpr std::string_view script_begin = R"js((() => {
'use strict';
const root = document.documentElement;
window.addEventListener('error', (event) => { root.dataset.error = event.message || 'error'; });
)js";
inline constexpr std::string_view script_end = R"js(
layOut();
drawTables();
drawCharts();
drawHeatmap();
root.dataset.ready = '1';
})();
)js";

}  // namespace detail

/// The page of a report as one HTML text, self-contained: no network, no font, no other file.
///   Heatmaps in layer and cluster order, silhouette curve, clusters, kept heads, comparison, layer gaps, settings.
///   Distances are stored as an upper triangle of 8 to 16 bits a value, the most that fit in 8 MB for all matrices; the
///   page states the step. 144 heads x 7 matrices: 0.25 MB; 1024 x 7: 8 MB (13 bits).
/// Equal reports give equal bytes; every string is escaped, ill-formed UTF-8 replaced by U+FFFD.
/// Throws shape_error and argument_error as check_report. Cost: O(matrices N^2).
inline std::string redundancy_page(const redundancy_report& report) {
  check_report(report);
  std::string page = "<!doctype html>\n<html lang=\"en\">\n<head>\n";
  page += detail::page_head;
  page += "<meta name=\"generator\" content=\"headred " + detail::version_text() + "\">\n";
  page += "<title>" + detail::html_text(report.title) + "</title>\n<style>";
  page += detail::page_style;
  page += "</style>\n</head>\n<body>\n<header><h1>" + detail::html_text(report.title) + "</h1>\n";
  page += "<p class=\"subtitle\">" + detail::html_text(report.subtitle) + "</p></header>";
  page += detail::page_body;
  page += "<footer id=\"footer\">Made by headred " + detail::version_text() + ".</footer>\n";
  page += "<script type=\"application/json\" id=\"data\">" + detail::report_json(report) + "</script>\n<script>";
  page += detail::script_begin;
  page += detail::page_script_base;
  page += detail::page_script_matrix;
  page += detail::page_script_heatmap;
  page += detail::page_script_charts;
  page += detail::page_script_tables;
  page += detail::script_end;
  page += "</script>\n</body>\n</html>\n";
  return page;
}

/// Writes the page of a report; the file appears complete or not at all.
/// Throws as redundancy_page, before any file is touched, and file_error where the file cannot be written.
inline void write_redundancy_report(const std::filesystem::path& path, const redundancy_report& report) {
  write_file_atomically(path, redundancy_page(report));
}

}  // namespace headred
