// A report as the JSON text that the page's script reads.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <headred/report/base64.hpp>
#include <headred/report/packed_triangle.hpp>
#include <headred/report/redundancy_report.hpp>
#include <headred/report/safe_text.hpp>

namespace headred::detail {

/// "name":value, with the comma that precedes every member but the first.
inline void json_member(std::string& object, std::string_view name, const std::string& value) {
  object += object.empty() ? '{' : ',';
  object += '"';
  object += name;
  object += "\":";
  object += value;
}

/// Smallest, mean and largest distance of two different heads; null where there is none.
inline std::string spread_json(const matrix& values) {
  double low = redundancy_report::unknown, high = low, sum = 0, count = 0;
  for (index_t i = 0; i < values.rows(); ++i)
    for (index_t j = i + 1; j < values.cols(); ++j) {
      const double x = std::clamp(values(i, j), 0.0, 1.0);
      if (std::isnan(x)) continue;
      low = count == 0 ? x : std::min(low, x);
      high = count == 0 ? x : std::max(high, x);
      sum += x;
      ++count;
    }
  return "[" + json_number(low) + "," + json_number(sum / count) + "," + json_number(high) + "]";
}

inline std::string matrix_json(const matrix& m) {
  std::vector<index_t> rows(static_cast<std::size_t>(m.rows())), cols(static_cast<std::size_t>(m.cols()));
  std::iota(rows.begin(), rows.end(), index_t{0});
  std::iota(cols.begin(), cols.end(), index_t{0});
  return json_array(rows, [&](index_t i) { return json_array(cols, [&](index_t j) { return json_number(m(i, j)); }); });
}

/// The heads in display order: as given, else by label and then by number.
inline std::vector<index_t> display_order(const redundancy_report& r) {
  if (!r.order.empty() || r.labels.empty()) return r.order;
  std::vector<index_t> order(r.labels.size());
  std::iota(order.begin(), order.end(), index_t{0});
  std::sort(order.begin(), order.end(), [&](index_t a, index_t b) {
    return std::pair(r.labels[static_cast<std::size_t>(a)], a) < std::pair(r.labels[static_cast<std::size_t>(b)], b);
  });
  return order;
}

/// The whole report. Characters that could leave a script element are escaped; equal reports give equal bytes.
inline std::string report_json(const redundancy_report& r) {
  const auto integer = [](index_t x) { return std::to_string(x); };
  const auto text = [](const std::string& s) { return json_text(s); };
  const int bits = packed_bits(r.layout.size(), r.distances.size());
  std::string json;
  json_member(json, "kind", json_text(to_string(r.kind)));
  json_member(json, "heads", json_array(r.layout.heads_per_layer(), integer));
  json_member(json, "bits", std::to_string(bits));
  json_member(json, "distances", json_array(r.distances, [&](const redundancy_report::distance& d) {
                std::string item;
                json_member(item, "name", json_text(d.name));
                json_member(item, "spread", spread_json(d.values));
                json_member(item, "packed", '"' + base64(packed_triangle(d.values, bits)) + '"');
                return item + '}';
              }));
  json_member(json, "order", json_array(display_order(r), integer));
  json_member(json, "labels", json_array(r.labels, integer));
  json_member(json, "silhouettes", json_array(r.silhouettes, json_number));
  json_member(json, "kept", r.kept ? json_array(*r.kept, integer) : "null");
  json_member(json, "on", json_text(r.clustered_on));
  json_member(json, "k", std::to_string(r.chosen_k));
  json_member(json, "mean", json_number(r.mean_silhouette));
  json_member(json, "by", json_text(r.chosen_by));
  json_member(json, "curve", json_array(r.curve, [](const redundancy_report::curve_point& p) {
                return "[" + std::to_string(p.k) + "," + json_number(p.mean_silhouette) + "]";
              }));
  std::string table;
  json_member(table, "names", json_array(r.comparison.names, text));
  json_member(table, "correlation", matrix_json(r.comparison.correlation));
  json_member(table, "p", matrix_json(r.comparison.p_value));
  json_member(table, "difference", matrix_json(r.comparison.mean_difference));
  json_member(json, "comparison", table + '}');
  json_member(json, "gaps", json_array(r.gaps, [](const redundancy_report::gap_curve& curve) {
                std::string item;
                json_member(item, "name", json_text(curve.name));
                json_member(item, "points", json_array(curve.points, [](const redundancy_report::gap_point& p) {
                              return "[" + std::to_string(p.gap) + "," + json_number(p.mean) + "," +
                                     json_number(p.low) + "," + json_number(p.high) + "]";
                            }));
                return item + '}';
              }));
  json_member(json, "settings", json_array(r.settings, [](const redundancy_report::entry& e) {
                return "[" + json_text(e.key) + "," + json_text(e.value) + "]";
              }));
  json_member(json, "notes", json_array(r.notes, text));
  return json + '}';
}

}  // namespace headred::detail
