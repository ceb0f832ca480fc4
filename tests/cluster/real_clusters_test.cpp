// Clusters of a real model's heads against references made by numpy and scipy.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <headred/backend/cpu.hpp>
#include <headred/cluster/auto_clusters.hpp>
#include <headred/cluster/cluster_count.hpp>
#include <headred/cluster/hierarchical_order.hpp>
#include <headred/cluster/representatives.hpp>

#include "environment.hpp"
#include "oracle/npy_matrix.hpp"

namespace hr = headred;
using labels_t = std::vector<hr::index_t>;

TEST_SUITE("real") {
  TEST_CASE("BERT-base: clusters, silhouettes and kept heads") {
    const auto dir = headred_test::shared_dir();
    if (dir.empty()) return headred_test::skip("no folder with real data");
    hr::cpu be{{.threads = 2}};
    for (const char* sentences : {"four", "all"}) {
      CAPTURE(sentences);
      const auto folder = dir / "oracles" / "bert_base_sst2" / sentences;
      const auto d = headred_test::oracle::npy_matrix(folder / "jensen_shannon.npy");
      const auto reference = nlohmann::json::parse(std::ifstream(folder / "clustering_jensen_shannon.json"));
      const hr::spectral_embedding e{be, d};

      const auto values = reference["laplacian_eigenvalues"].get<std::vector<double>>();
      REQUIRE(values.size() == e.eigenvalues().size());
      for (std::size_t i = 0; i < values.size(); ++i) CHECK(std::abs(values[i] - e.eigenvalues()[i]) < 1e-13);

      const auto r = hr::auto_clusters(be, e, {.min = 2, .max = 72});
      const auto curve = reference["mean_silhouette"].get<std::vector<double>>();
      const auto found = reference["clusters_not_empty"].get<labels_t>();
      REQUIRE(curve.size() == r.curve.size());
      for (std::size_t i = 0; i < curve.size(); ++i) {
        CHECK(std::abs(curve[i] - r.curve[i].mean_silhouette) < 1e-12);
        CHECK(found[i] == r.curve[i].found);
      }
      CHECK(r.k == reference["best_k"].get<hr::index_t>());

      for (const auto& [text, plan] : reference["plans"].items()) {
        const auto k = static_cast<hr::index_t>(std::stol(text));
        CAPTURE(k);
        const auto c = e.clusters(k);
        CHECK(c.status == hr::status::converged);
        CHECK(c.labels == plan["labels"].get<labels_t>());
        const auto s = hr::silhouette(be, d, c);
        const auto expected = plan["silhouette"].get<std::vector<double>>();
        for (std::size_t i = 0; i < expected.size(); ++i) CHECK(std::abs(expected[i] - s.values[i]) < 1e-12);
        labels_t kept;
        for (const auto& head : plan["representatives"])
          kept.push_back(12 * head[0].get<hr::index_t>() + head[1].get<hr::index_t>());
        CHECK(hr::representatives(c, s) == kept);
      }
      CHECK(hr::cluster_count(144, .75) == 36);

      const auto order = hr::hierarchical_order(d);
      double along = 0;
      for (std::size_t i = 1; i < order.size(); ++i) along += d(order[i], order[i - 1]);
      // scipy's optimal leaf order of the same tree: 60.5979 and 57.8719; the layers' own order: 80.41 and 76.00
      CHECK(along < 1.01 * (std::string(sentences) == "four" ? 60.5979 : 57.8719));
    }
  }

  TEST_CASE("BERT-base: k-means labels do not depend on threads") {
    const auto dir = headred_test::shared_dir();
    if (dir.empty()) return headred_test::skip("no folder with real data");
    const auto d = headred_test::oracle::npy_matrix(dir / "oracles/bert_base_sst2/all/jensen_shannon.npy");
    hr::cpu one{{.threads = 1}}, two{{.threads = 2}};
    const hr::spectral_options options{.count = 36, .method = hr::labelling::kmeans, .seed = 7};
    const auto a = hr::spectral_embedding{one, d}.clusters(options);
    CHECK(a == hr::spectral_embedding{two, d}.clusters(options));
    CHECK(a.found == 36);
  }
}
