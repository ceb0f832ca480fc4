#include <doctest/doctest.h>

#include <Eigen/Core>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/prune/keep_representatives.hpp>

#include "environment.hpp"

namespace hr = headred;
using hr::attention_kind;
using numbers = std::vector<hr::index_t>;

TEST_SUITE("prune") {
  TEST_CASE("keep_representatives: keeps what it is given; an emptied layer keeps its residual path only") {
    const hr::head_layout layout({3, 0, 2, 4});
    const auto plan = hr::keep_representatives(layout, numbers{8, 1, 5});
    CHECK(plan.kept(attention_kind::encoder_self) == numbers{1, 5, 8});
    CHECK(plan.kept(attention_kind::encoder_self, 2).empty());
    CHECK(hr::keep_representatives(layout, numbers{}).count() == 0);
  }

  TEST_CASE("keep_representatives: at_least_one gives each layer its best head, ties to the lowest") {
    const hr::head_layout layout({3, 0, 2, 4});
    const std::vector<double> scores = {.1, .9, .2, .5, .5, -.3, -.1, -.1, -.2};
    const auto plan =
        hr::keep_representatives(layout, numbers{2}, {.at_least_one = true, .kind = attention_kind::cross}, scores);
    CHECK(plan.layout() == hr::plan_layout(layout, attention_kind::cross));
    CHECK(plan.kept(attention_kind::cross, 0) == numbers{2});
    CHECK(plan.kept(attention_kind::cross, 1).empty());  // it never had one
    CHECK(plan.kept(attention_kind::cross, 2) == numbers{0});
    CHECK(plan.kept(attention_kind::cross, 3) == numbers{1});
  }

  TEST_CASE("keep_representatives: other kinds stay whole") {
    hr::plan_layout layout(hr::head_layout(2, 3));
    layout.add(attention_kind::cross, hr::head_layout(1, 4));
    const auto plan = hr::keep_representatives(layout, numbers{3}, {.kind = attention_kind::cross});
    CHECK(plan.count(attention_kind::encoder_self) == 6);
    CHECK(plan.kept(attention_kind::cross) == numbers{3});
  }

  TEST_CASE("keep_representatives: the worked six heads, from clusters and silhouettes") {
    hr::cpu be{{.threads = 1}};
    Eigen::Matrix<double, 6, 6> d;
    d << 0, .10, .12, .80, .85, .90, .10, 0, .11, .82, .84, .88, .12, .11, 0, .79, .83, .87, .80, .82, .79, 0, .15, .60,
        .85, .84, .83, .15, 0, .62, .90, .88, .87, .60, .62, 0;
    const hr::head_layout layout(2, 3);
    const auto self = attention_kind::encoder_self;
    const auto two = hr::make_clustering(numbers{0, 0, 0, 1, 1, 1});
    CHECK(hr::keep_representatives(two, hr::silhouette(be, d, two), layout).kept(self) == numbers{1, 4});
    const auto three = hr::make_clustering(numbers{0, 0, 0, 1, 1, 2});
    CHECK(hr::keep_representatives(three, hr::silhouette(be, d, three), layout).kept(self) == numbers{1, 4, 5});
    // every head its own cluster: nothing is removed, though silhouettes are undefined
    const auto all = hr::make_clustering(numbers{0, 1, 2, 3, 4, 5});
    CHECK(hr::keep_representatives(all, hr::silhouette(be, d, all), layout).removes_nothing());
    // one cluster: head 0 stands for all; at_least_one adds the lowest head of the other layer
    const auto one = hr::make_clustering(numbers{0, 0, 0, 0, 0, 0});
    const auto undefined = hr::silhouette(be, d, one);
    CHECK(hr::keep_representatives(one, undefined, layout).kept(self) == numbers{0});
    CHECK(hr::keep_representatives(one, undefined, layout, {.at_least_one = true}).kept(self) == numbers{0, 3});
    CHECK_THROWS_WITH_AS(hr::keep_representatives(two, hr::silhouette(be, d, two), hr::head_layout(2, 4)),
                         "keep_representatives: 6 labels, expected 8, one a head of encoder_self 2x4 heads",
                         hr::shape_error);
  }

  TEST_CASE("keep_representatives: bad input") {
    const hr::head_layout layout(2, 2);
    CHECK_THROWS_WITH_AS(hr::keep_representatives(layout, numbers{4}), "head number 4 is not in [0,4)",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::keep_representatives(layout, numbers{1, 1}),
                         "prune_plan: encoder_self layer 0: head 1 is named twice", hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::keep_representatives(layout, numbers{1}, {.at_least_one = true}),
                         "keep_representatives: got 0 scores for at_least_one, expected 4", hr::argument_error);
    const std::vector<double> scores = {0, 0, std::numeric_limits<double>::quiet_NaN(), 0};
    CHECK_THROWS_WITH_AS(hr::keep_representatives(layout, numbers{1}, {.at_least_one = true}, scores),
                         "keep_representatives: the score of head 2 is not finite", hr::argument_error);
    CHECK_THROWS_AS(hr::keep_representatives(hr::plan_layout(layout), numbers{1}, {.kind = attention_kind::cross}),
                    hr::argument_error);
  }
}

TEST_SUITE("real") {
  TEST_CASE("keep_representatives: the plans of BERT-base at k = 3, 36 and 72, and no empty layer on request") {
    const auto file = headred_test::shared_dir() / "oracles/bert_base_sst2/all/clustering_jensen_shannon.json";
    if (headred_test::shared_dir().empty() || !std::filesystem::exists(file))
      return headred_test::leave_out("no reference clusters of BERT-base");
    const auto reference = nlohmann::json::parse(std::ifstream(file));
    const hr::head_layout layout(12, 12);
    for (const char* k : {"3", "36", "72"}) {
      const auto& expected = reference["plans"][k];
      const auto clusters = hr::make_clustering(expected["labels"].get<numbers>());
      hr::silhouettes scores;
      scores.values = expected["silhouette"].get<std::vector<double>>();
      const auto plan = hr::keep_representatives(clusters, scores, layout);
      numbers kept, per_layer;
      for (const auto& id : expected["representatives"].get<std::vector<numbers>>())
        kept.push_back(layout.flat({id.at(0), id.at(1)}));
      hr::index_t emptied = 0;
      for (hr::index_t layer = 0; layer < 12; ++layer) {
        per_layer.push_back(plan.count(attention_kind::encoder_self, layer));
        emptied += per_layer.back() == 0;
      }
      CHECK(plan.kept(attention_kind::encoder_self) == kept);
      CHECK(per_layer == expected["heads_kept_per_layer"].get<numbers>());
      const auto filled = hr::keep_representatives(clusters, scores, layout, {.at_least_one = true});
      CHECK(filled.count() == plan.count() + emptied);
      for (hr::index_t layer = 0; layer < 12; ++layer) CHECK(filled.count(attention_kind::encoder_self, layer) >= 1);
    }
  }
}
