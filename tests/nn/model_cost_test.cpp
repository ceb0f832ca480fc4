#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <headred/nn/model_cost.hpp>
#include <headred/nn/transformer_weights.hpp>

#include "prune/small_models.hpp"

namespace hr = headred;
using headred_test::small_models;
using hr::index_t;
using numbers = std::vector<index_t>;

TEST_SUITE("nn") {
  TEST_CASE("parameter_count: what visit_parameters visits") {
    hr::cpu be;
    for (const auto& [name, config] : small_models()) {
      CAPTURE(name);
      hr::transformer_weights<float, hr::cpu> weights(be, config);
      index_t all = 0, norms = 0;
      hr::visit_parameters(weights, [&](const std::string& parameter, const auto& p) {
        all += p.value.size();
        if (parameter.ends_with(".scale") || parameter.ends_with(".shift")) norms += p.value.size();
      });
      CHECK(hr::parameter_count(config).total() == static_cast<double>(all));
      CHECK(hr::parameter_count(config).norms == static_cast<double>(norms));
    }
  }

  TEST_CASE("forward_flops: BERT-base, part by part") {
    hr::transformer_config c;
    c.width = 768;
    c.source = {30522, 768, hr::positions::learned, 512, 2, 1, true};
    c.encoder.layers.assign(12, {{12, 12, 64, {}}, {}, 3072});
    const auto n = hr::forward_flops(c, numbers{128});
    CHECK(n.projections == 12 * 603979776.);    // 8 T D^2
    CHECK(n.scores == 12 * 50331648.);          // 4 T^2 D
    CHECK(n.feed_forward == 12 * 1207959552.);  // 16 T D^2
    CHECK(n.total() == 22347251712.);
    CHECK(hr::forward_flops(c, numbers{128, 128}).total() == 2 * n.total());
    c.pooler = true;
    CHECK(hr::parameter_count(c).total() == 109482240.);      // as published: 110 M
    c.encoder.layers.assign(12, {{3, 3, 64, {}}, {}, 3072});  // a quarter of the heads
    CHECK(hr::forward_flops(c, numbers{128}).projections == n.projections / 4);
    CHECK(hr::forward_flops(c, numbers{128}).scores == n.scores / 4);
    c.encoder.layers.assign(12, {{0, 0, 64, {}}, {}, 3072});
    CHECK(hr::forward_flops(c, numbers{128}).projections == 0);
  }

  TEST_CASE("forward_flops: causal, cross, grouped, factorised") {
    hr::transformer_config c = small_models()[2].config;  // decoder, width 10
    c.decoder.layers = {{{6, 2, 3, {}}, {}, 16}};
    auto n = hr::forward_flops(c, numbers{5});
    CHECK(n.projections == 4. * 5 * 10 * 18 + 4. * 5 * 10 * 6);
    CHECK(n.scores == 4. * 18 * 15);  // 15 pairs of 25
    CHECK(n.feed_forward == 4. * 5 * 10 * 16);
    CHECK(n.output == 2. * 5 * 10 * 13);
    c = small_models()[3].config;
    n = hr::forward_flops(c, numbers{5}, numbers{3});
    const double encoder = 2 * (8. * 5 * 8 * 8);
    const double self = 8. * 3 * 8 * 8 + 8. * 3 * 8 * 9;
    const double cross = 4. * 3 * 8 * 12 + 4. * 5 * 8 * 6 + 4. * 3 * 8 * 8 + 4. * 5 * 8 * 2;
    CHECK(n.projections == encoder + self + cross);
    CHECK(n.scores == 2 * (4. * 8 * 25) + 4. * 8 * 6 + 4. * 9 * 6 + 4. * 12 * 15 + 4. * 8 * 15);
    CHECK(n.output == 2. * 3 * 8 * 9);
    c = small_models()[1].config;  // factorised: 7 wide tables of a model of width 12
    n = hr::forward_flops(c, numbers{4});
    CHECK(n.embeddings == 2. * 4 * 7 * 12);
    CHECK(n.output == 2. * 4 * 12 * 7 + 2. * 4 * 7 * 17);
    CHECK_THROWS_AS(hr::forward_flops(c, numbers{4}, numbers{4}), hr::argument_error);
    CHECK_THROWS_AS(hr::forward_flops(c, numbers{-1}), hr::argument_error);
    CHECK_THROWS_AS(hr::forward_flops(small_models()[3].config, numbers{4}), hr::argument_error);
  }
}
