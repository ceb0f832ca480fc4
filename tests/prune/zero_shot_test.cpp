#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <headred/distance/cosine.hpp>
#include <headred/prune/apply.hpp>
#include <headred/prune/random_tokens.hpp>
#include <headred/prune/zero_shot.hpp>

#include "environment.hpp"
#include "prune/small_models.hpp"

namespace hr = headred;
using headred_test::small_batch;
using headred_test::small_model;
using headred_test::small_models;
using hr::attention_kind;
using hr::cpu;
using hr::index_t;
using hr::matrix;
using numbers = std::vector<index_t>;

namespace {

/// The worked example of six heads: two groups of three, or {0,1,2} {3,4} {5}.
matrix worked() {
  const double d[6][6] = {{0, .10, .12, .80, .85, .90}, {.10, 0, .11, .82, .84, .88}, {.12, .11, 0, .79, .83, .87},
                          {.80, .82, .79, 0, .15, .60}, {.85, .84, .83, .15, 0, .62}, {.90, .88, .87, .60, .62, 0}};
  matrix m(6, 6);
  for (index_t i = 0; i < 6; ++i)
    for (index_t j = 0; j < 6; ++j) m(i, j) = d[i][j];
  return m;
}

template <class F>
std::string refusal(const F& f) {
  try {
    f();
  } catch (const hr::error& problem) {
    return problem.what();
  }
  return "no error";
}

/// A model in whose encoder the heads of each pair 2i, 2i+1 are copies.
hr::transformer<double, cpu> twins(cpu& be) {
  auto model = small_model<double>(be, small_models()[3].config, 3);
  for (auto& layer : model.weights().encoder) {
    auto& a = layer.self;
    const index_t k = &layer == &model.weights().encoder[0] ? 2 : 4, heads = k == 2 ? 4 : 2;
    for (auto* w : {&a.query, &a.key})
      for (index_t h = 0; h < heads; h += 2)
        for (index_t i = 0; i < k; ++i) {
          w->bias.value((h + 1) * k + i) = w->bias.value(h * k + i);
          for (index_t j = 0; j < 8; ++j) w->weight.value((h + 1) * k + i, j) = w->weight.value(h * k + i, j);
        }
  }
  return model;
}

}  // namespace

TEST_SUITE("prune") {
  TEST_CASE("zero_shot: the worked example, by kind") {
    cpu be;
    hr::plan_layout layout(hr::head_layout(2, 3));
    layout.add(attention_kind::cross, hr::head_layout(std::vector<index_t>{1, 5}));
    const hr::zero_shot<cpu> maker(be, layout,
                                   {{attention_kind::encoder_self, worked()}, {attention_kind::cross, worked()}});
    const auto half = maker.prune({.ratio = 0.5});  // 3 clusters: keep 1, 4, 5
    CHECK(half.plan.kept(attention_kind::encoder_self) == numbers{1, 4, 5});
    CHECK(half.plan.kept(attention_kind::cross) == numbers{1, 4, 5});
    REQUIRE(half.kinds.size() == 2);
    CHECK(half.kinds[1].kind == attention_kind::cross);
    CHECK(half.kinds[0].clusters.labels == numbers{0, 0, 0, 1, 1, 2});
    CHECK(half.kinds[0].scores.values[4] == doctest::Approx(.75806452).epsilon(1e-7));
    const auto one = maker.prune({.ratio = 0.7, .kinds = {attention_kind::cross}});  // 2 clusters: keep 1 and 4
    CHECK(one.plan.kept(attention_kind::cross) == numbers{1, 4});
    CHECK(one.plan.count(attention_kind::encoder_self) == 6);
    CHECK(maker.prune({.ratio = 0.7, .kinds = {attention_kind::cross}, .at_least_one = true})
              .plan.kept(attention_kind::cross, 0) == numbers{0});
    CHECK(maker.prune({.ratio = 0}).plan.removes_nothing());
    CHECK(maker.prune({.ratio = 0.5, .method = hr::labelling::kmeans, .seed = 4}).plan == half.plan);
  }

  TEST_CASE("zero_shot: a ratio spread over the kinds takes heads where they are alike") {
    cpu be;
    hr::plan_layout layout(hr::head_layout(1, 6));
    layout.add(attention_kind::decoder_self, hr::head_layout(2, 4));
    matrix far(8, 8);  // decoder heads: all far apart
    for (index_t i = 0; i < 8; ++i)
      for (index_t j = 0; j < 8; ++j) far(i, j) = i == j ? 0 : .9 + .001 * static_cast<double>(std::abs(i - j));
    const hr::zero_shot<cpu> maker(be, layout,
                                   {{attention_kind::encoder_self, worked()}, {attention_kind::decoder_self, far}});
    for (const double ratio : {.1, .2, .25}) {  // 1, 2, 3 of 14 heads go: all are near ones
      const auto plan = maker.prune({.ratio = ratio, .spread = hr::ratio_spread::across_kinds}).plan;
      CHECK(plan.count() == hr::cluster_count(14, ratio));
      CHECK(plan.count(attention_kind::decoder_self) == 8);
    }
    const auto least = maker.prune({.ratio = .99, .spread = hr::ratio_spread::across_kinds}).plan;
    CHECK(least.count(attention_kind::encoder_self) == 1);
    CHECK(least.count(attention_kind::decoder_self) == 1);
    for (double ratio = 0; ratio < 1; ratio += .07)
      CHECK(maker.prune({.ratio = ratio, .spread = hr::ratio_spread::across_kinds}).plan.count() ==
            std::max<index_t>(2, hr::cluster_count(14, ratio)));
  }

  TEST_CASE("zero_shot refuses what does not fit") {
    cpu be;
    const hr::plan_layout layout(hr::head_layout(2, 3));
    CHECK(refusal([&] {
            hr::zero_shot<cpu>(be, layout, {{attention_kind::encoder_self, matrix(5, 5)}});
          }) == "zero_shot: the matrix of encoder_self is (5,5), expected (6,6)");
    CHECK(refusal([&] {
            hr::zero_shot<cpu>(be, layout, {{attention_kind::cross, worked()}});
          }) == "plan_layout: the model has no attention of kind cross");
    const hr::zero_shot<cpu> maker(be, layout, {{attention_kind::encoder_self, worked()}});
    CHECK(refusal([&] { maker.prune({.kinds = {attention_kind::cross}}); }) ==
          "zero_shot: there is no matrix for cross");
    CHECK(refusal([&] {
            maker.prune({.kinds = {attention_kind::encoder_self, attention_kind::encoder_self}});
          }) == "zero_shot: encoder_self is named twice");
    CHECK_THROWS_AS(maker.prune({.ratio = 1}), hr::argument_error);
  }

  TEST_CASE("model_redundancy: attention goes in as the model computes it, however it is cut into passes") {
    cpu be{{.threads = 2}};
    for (const auto& [name, config] : small_models()) {
      CAPTURE(name);
      auto model = small_model<double>(be, config, 7);
      const auto source = small_batch(6, config.source.vocabulary, 3), target = small_batch(6, 9, 4);
      hr::model_redundancy<cpu> whole(be, config), parts(be, config);
      whole.add(model, source, target, {.batch_tokens = 1000});
      index_t passes = 0;
      parts.add(model, source, target, {.batch_tokens = 1, .progress = [&](index_t) { return ++passes > 0; }});
      CHECK(passes == 6);
      // by hand, from a recording
      for (const auto kind : hr::attention_kinds(config)) {
        const auto blocks = hr::attention_blocks(config, kind);
        std::vector<index_t> heads;
        for (const auto* block : blocks) heads.push_back(block->heads);
        hr::redundancy<hr::jensen_shannon, cpu> expected(be, hr::head_layout(heads));
        hr::tape<double, cpu> t(be, hr::tape_mode::recording);
        std::vector<hr::attention_record<double>> trace;
        hr::transformer<double, cpu>::options options;
        options.trace = &trace;
        model.hidden(t, source, target, options);
        for (index_t b = 0; b < 6; ++b) {
          std::vector<hr::tensor_view<const double, 3>> layers;
          for (const auto& record : trace)
            if (record.kind == kind) layers.push_back(record.probabilities(b));
          expected.add(layers);
        }
        const matrix m = whole.matrix(kind), n = parts.matrix(kind), e = expected.matrix();
        CHECK(whole.of(kind).sentences() == 6);
        for (index_t i = 0; i < m.rows() * m.cols(); ++i) {
          CHECK(std::abs(m.data()[i] - n.data()[i]) < 1e-12);  // products of other shapes round otherwise
          CHECK(m.data()[i] == e.data()[i]);
        }
      }
      CHECK_THROWS_AS(parts.add(model, source, target, {.progress = [](index_t) { return false; }}), hr::cancelled);
    }
  }

  TEST_CASE("zero_shot_plan: of copied heads one stays, and the rest of a model without them still works") {
    cpu be;
    auto model = twins(be);
    const auto tokens = hr::random_tokens(model.config(), {.sentences = 12, .max_length = 20});
    const auto found = hr::zero_shot_plan(model, tokens.source, tokens.target,
                                          {.ratio = 0.5, .kinds = {attention_kind::encoder_self}});
    CHECK(found.plan.kept(attention_kind::encoder_self) == numbers{0, 2, 4});
    CHECK(hr::zero_shot_plan<hr::cosine>(model, tokens.source, tokens.target,
                                         {.ratio = 0.5, .kinds = {attention_kind::encoder_self}})
              .plan == found.plan);
    // and again, on what is left: layers without heads are no hindrance
    const hr::prune_plan nothing_in_layer_0 = [&] {
      hr::prune_plan plan(hr::model_layout(model.config()));
      plan.set_kept(attention_kind::encoder_self, 0, {});
      plan.set_kept(attention_kind::decoder_self, 0, {});
      plan.set_kept(attention_kind::decoder_self, 1, {});
      return plan;
    }();
    auto left = hr::apply(nothing_in_layer_0, model);
    const auto again = hr::zero_shot_plan(left, tokens.source, tokens.target, {.ratio = 0.5});
    CHECK(again.plan.count(attention_kind::encoder_self) == 1);
    CHECK(again.plan.count(attention_kind::decoder_self) == 0);
    CHECK(again.kinds.size() == 2);
    CHECK(hr::model_layout(hr::apply(again.plan, left, {.uneven = hr::uneven_groups::repeat}).config())
              .heads(attention_kind::cross)
              .size() == again.plan.count(attention_kind::cross));
  }
}
