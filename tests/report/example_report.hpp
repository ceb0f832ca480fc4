// Reports with planted structure for the tests of report/ and the pages that the browser opens.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <headred/core/random.hpp>
#include <headred/report/redundancy_report.hpp>

namespace headred_test {

/// A report with every section filled: heads fall into `clusters` planted clusters, scattered over the layers.
inline headred::redundancy_report example_report(const headred::head_layout& layout, headred::index_t clusters,
                                                 std::size_t matrices = 7) {
  static const std::vector<std::string> names{"jensen_shannon",       "cosine",     "pearson",
                                              "bhattacharyya",        "procrustes", "distance_correlation",
                                              "canonical_correlation"};
  const headred::index_t n = layout.size();
  const headred::random_stream random(7);
  headred::redundancy_report r;
  r.title = "Planted clusters";
  r.subtitle = std::to_string(n) + " heads, generated";
  r.layout = layout;
  r.labels.resize(static_cast<std::size_t>(n));
  for (headred::index_t i = 0; i < n; ++i)
    r.labels[static_cast<std::size_t>(i)] =
        i < clusters ? i
                     : static_cast<headred::index_t>(
                           random.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(clusters)));
  for (std::size_t m = 0; m < matrices; ++m) {
    const headred::random_stream noise(11, m);
    headred::matrix d(n, n);
    for (headred::index_t i = 0; i < n; ++i)
      for (headred::index_t j = i + 1; j < n; ++j) {
        const bool same = r.labels[static_cast<std::size_t>(i)] == r.labels[static_cast<std::size_t>(j)];
        const double apart = std::abs(static_cast<double>(layout.id(i).layer - layout.id(j).layer));
        const double x =
            (same ? 0.15 : 0.55 + 0.01 * apart) + 0.2 * noise.uniform(static_cast<std::uint64_t>(i * n + j));
        d(i, j) = d(j, i) = std::min(1.0, x);
      }
    r.distances.push_back({names[m % names.size()], std::move(d)});
  }
  r.kept.emplace();
  for (headred::index_t i = 0; i < clusters; ++i) r.kept->push_back(i);
  for (headred::index_t i = 0; i < n; ++i)
    r.silhouettes.push_back(0.7 - 0.3 * random.uniform(static_cast<std::uint64_t>(n + i)));
  r.clustered_on = "jensen_shannon";
  r.chosen_k = clusters;
  r.mean_silhouette = 0.55;
  r.chosen_by = "Largest mean silhouette.";
  for (headred::index_t k = 2; k <= std::min<headred::index_t>(n, 3 * clusters); ++k)
    r.curve.push_back({k, 0.55 - 0.4 * std::abs(std::log(static_cast<double>(k) / static_cast<double>(clusters)))});
  auto& table = r.comparison;
  for (std::size_t m = 0; m < matrices; ++m) table.names.push_back(names[m % names.size()]);
  const auto size = static_cast<headred::index_t>(matrices);
  table.correlation = table.p_value = table.mean_difference = headred::matrix(size, size);
  for (headred::index_t a = 0; a < size; ++a)
    for (headred::index_t b = 0; b < size; ++b) {
      table.correlation(a, b) = std::cos(0.6 * static_cast<double>(a - b));
      table.p_value(a, b) = a == b ? headred::redundancy_report::unknown : 1.0 / 5001;
      table.mean_difference(a, b) = 0.03 * std::abs(static_cast<double>(a - b));
    }
  for (std::size_t m = 0; m < matrices; ++m) {
    headred::redundancy_report::gap_curve curve{names[m % names.size()], {}};
    for (headred::index_t gap = 0; gap < layout.layers(); ++gap) {
      const double x = 0.5 + 0.01 * static_cast<double>(gap);
      curve.points.push_back({gap, x, x - 0.01, x + 0.012});
    }
    r.gaps.push_back(std::move(curve));
  }
  r.settings = {{"sentences used", "40"}, {"labels", "cluster_qr"}, {"seed", "7"}};
  r.notes = {"These heads are generated; the clusters are planted."};
  return r;
}

/// Every string of the report tries to leave its place in the page.
inline headred::redundancy_report hostile_report() {
  headred::redundancy_report r = example_report(headred::head_layout({3, 1, 0, 4}), 3, 2);
  const std::string attack =
      "</script></title><script>document.documentElement.dataset.hacked='1'</script>"
      "<img src=x onerror=\"document.documentElement.dataset.hacked='2'\"> \" ' & \\ `${1}` ]]> <!-- \xE2\x80\xA8 "
      "\xE2\x80\xA9 \xE2\x80\xAE \x01 \xFF\xC0\xAF \xED\xA0\x80 \xF4\x90\x80\x80 \xE2\x82";
  r.title = r.subtitle = r.clustered_on = r.chosen_by = attack;
  r.distances[0].name = r.comparison.names[0] = r.gaps[0].name = attack;
  r.distances[1].name = std::string(3000, 'x');
  r.settings = {{attack, attack}, {"", ""}, {std::string("nul\0nul", 7), std::string(500, 'w')}};
  r.notes = {attack, "__proto__"};
  r.silhouettes[2] = r.curve[1].mean_silhouette = r.gaps[0].points[1].mean = r.gaps[0].points[0].low =
      headred::redundancy_report::unknown;
  r.comparison.correlation(0, 1) = headred::redundancy_report::unknown;
  r.distances[0].values(1, 2) = r.distances[0].values(2, 1) = headred::redundancy_report::unknown;
  return r;
}

}  // namespace headred_test
