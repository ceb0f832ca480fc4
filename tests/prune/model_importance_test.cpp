// Models scored on data, plans made of scores, and the JSON form between them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <headred/io/scores_json.hpp>
#include <headred/prune/ablation.hpp>
#include <headred/prune/apply.hpp>
#include <headred/prune/model_importance.hpp>
#include <headred/prune/schedule.hpp>

#include "environment.hpp"
#include "prune/small_models.hpp"

namespace hr = headred;
using headred::index_t;
using kind_of = hr::attention_kind;

namespace {

template <class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const hr::error& problem) {
    return problem.what();
  }
  return "nothing was thrown";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Sentences of the model's kind with labels; one text in each batch, or all in one.
std::vector<hr::training_batch> labelled(const hr::transformer_config& c, bool apart) {
  const auto texts = [](index_t vocabulary, std::uint64_t seed) {
    const auto batch = headred_test::small_batch(5, vocabulary, seed);
    hr::corpus all;
    for (const auto& s : batch.sentences)
      all.emplace_back(batch.ids.begin() + s.begin, batch.ids.begin() + s.begin + s.length);
    return all;
  };
  const auto sources = texts(c.source.vocabulary, 11);
  const auto targets = c.has_cross() ? texts(c.target.vocabulary, 12) : hr::corpus();
  std::vector<hr::training_batch> batches;
  const auto fill = [&](const std::vector<index_t>& numbers) {
    auto& batch = batches.emplace_back();
    if (c.has_cross())
      hr::fill_pairs(batch, sources, targets, numbers, c.begin_id, c.end_id);
    else if (c.kind == hr::architecture::decoder)
      hr::fill_causal(batch, sources, numbers, c.begin_id, c.end_id);
    else
      hr::fill_masked(batch, sources, numbers, {.mask_id = 3, .vocabulary = c.source.vocabulary, .chosen = .4}, 0);
  };
  if (apart)
    for (index_t i = 0; i < 5; ++i) fill({i});
  else
    fill({0, 1, 2, 3, 4});
  return batches;
}

void check_close(const hr::head_scores& a, const hr::head_scores& b, double limit) {
  REQUIRE(a.kinds() == b.kinds());
  for (const auto kind : a.kinds()) {
    double most = 1e-300;
    for (const double x : b.of(kind)) most = std::max(most, std::abs(x));
    for (std::size_t i = 0; i < a.of(kind).size(); ++i) CHECK(std::abs(a.of(kind)[i] - b.of(kind)[i]) <= limit * most);
  }
}

}  // namespace

TEST_SUITE("prune") {
  TEST_CASE("model importance: twice, split, threads, masked and pruned models; Taylor by differences") {
    for (const auto& [name, config] : headred_test::small_models()) {
      CAPTURE(name);
      hr::cpu be{{.threads = 1}}, two{{.threads = 2}};
      auto model = headred_test::small_model<double>(be, config, 5);
      auto same = headred_test::small_model<double>(two, config, 5);
      const auto together = labelled(config, false), apart = labelled(config, true);
      const auto score = [&](auto& m, const auto& batches) { return hr::model_taylor(m, std::span(batches)); };
      const auto first = score(model, together);
      CHECK(first == score(model, together));
      CHECK(first == score(same, together));
      check_close(score(model, apart), first, 1e-12);
      for (const auto kind : first.kinds()) CHECK(*std::max_element(first.of(kind).begin(), first.of(kind).end()) > 0);

      // weights that are trained change nothing and are left with gradients of zero
      model.train();
      check_close(score(model, together), first, 1e-14);
      hr::visit_parameters(model.weights(), [&](const std::string& which, auto& p) {
        CAPTURE(which);
        CHECK(std::all_of(p.gradient.data(), p.gradient.data() + p.gradient.size(), [](double x) { return x == 0; }));
      });
      model.train(false);

      // |dL/dgate| by central differences, also at gates of 0
      hr::model_gates<double, hr::cpu> gates(be, config);
      const auto kinds = hr::attention_kinds(config);
      gates.of(kinds[0], 0).value.data()[1] = 0;
      const auto masked =
          hr::model_taylor(model, std::span(together), hr::taylor_absolute::per_example, {.gates = &gates});
      CHECK(masked ==
            hr::model_taylor(model, std::span(together), hr::taylor_absolute::per_example, {.gates = &gates}));
      hr::tape<double, hr::cpu> t(be, hr::tape_mode::inference);
      hr::forward_options<double, hr::cpu> pass;
      pass.gates = &gates;
      for (const auto kind : kinds) {
        double expected = 0;
        double& gate = gates.of(kind, 0).value.data()[1];
        for (const auto& one : apart) {
          const double before = gate, h = 1e-6;
          gate = before + h;
          const double up = hr::mean_loss(model, t, std::span(&one, 1), pass);
          gate = before - h;
          const double down = hr::mean_loss(model, t, std::span(&one, 1), pass);
          gate = before;
          expected += std::abs(up - down) / (2 * h) / 5;
        }
        CHECK(masked.value(kind, {0, 1}) == doctest::Approx(expected).epsilon(1e-5));
      }

      // a physically pruned model scores as the masked one does
      hr::prune_plan plan(hr::model_layout(config));
      const index_t heads = plan.layout().heads(kinds[0]).heads(0);
      std::vector<index_t> kept{0};
      for (index_t h = 2; h < heads; ++h) kept.push_back(h);
      plan.set_kept(kinds[0], 0, kept);
      auto pruned = hr::apply(plan, model, {.shared = hr::shared_layers::untie, .uneven = hr::uneven_groups::repeat});
      const auto left = hr::model_taylor(pruned, std::span(together));
      for (std::size_t h = 0; h < kept.size(); ++h)
        CHECK(left.value(kinds[0], {0, static_cast<index_t>(h)}) ==
              doctest::Approx(masked.value(kinds[0], {0, kept[h]})).epsilon(1e-9));

      // leaving a head out costs what the pruned model costs more
      const auto rise = hr::model_ablation(model, std::span(together));
      CHECK(rise == hr::model_ablation(same, std::span(together)));
      check_close(hr::model_ablation(model, std::span(apart)), rise, 1e-10);
      const double cost = hr::mean_loss(pruned, t, std::span(together)) - hr::mean_loss(model, t, std::span(together));
      CHECK(rise.value(kinds[0], {0, 1}) == doctest::Approx(cost).epsilon(1e-8));
      index_t calls = 0;
      hr::scoring_options<double, hr::cpu> stop;
      stop.progress = [&](index_t, index_t) { return ++calls < 3; };
      CHECK_THROWS_AS(hr::model_ablation(model, std::span(together), {}, stop), hr::cancelled);

      // confidence in and out of batches
      const auto& all = together[0];
      const auto sure =
          hr::model_confidence(model, all.source, all.target, {.confidence = {.end = hr::end_token::included}});
      const auto alone = hr::model_confidence(
          same, all.source, all.target, {.confidence = {.end = hr::end_token::included}, .pass = {.batch_tokens = 1}});
      check_close(alone, sure, 1e-13);
      for (const auto kind : sure.kinds())
        for (const double x : sure.of(kind)) CHECK((x > 0 && x <= 1));
    }
  }

  TEST_CASE("model importance: broken weights are refused by name") {
    const auto config = headred_test::small_models()[0].config;
    hr::cpu be{{.threads = 1}};
    auto model = headred_test::small_model<double>(be, config, 5);
    model.weights().encoder[0].self.output.weight.value.data()[0] = std::nan("");
    const auto batches = labelled(config, false);
    CHECK(contains(error_of([&] { hr::model_taylor(model, std::span(batches)); }),
                   "taylor: an output times its gradient is not finite"));
    CHECK(contains(error_of([&] { hr::model_ablation(model, std::span(batches)); }),
                   "the ablation of encoder_self head (0,0) is not finite"));
  }

  TEST_CASE("schedule: by rank, by layer, step by step") {
    hr::plan_layout layout(hr::head_layout(2, 3));
    layout.add(kind_of::cross, hr::head_layout(std::vector<index_t>{2, 0}));
    hr::head_scores scores("x");
    scores.add(kind_of::encoder_self, hr::head_layout(2, 3), {9, 8, 7, 1, 2, 3});
    scores.add(kind_of::cross, hr::head_layout(std::vector<index_t>{2, 0}), {4, 9});
    const auto four = hr::keep_highest(scores, layout, 4);
    CHECK(four.kept(kind_of::encoder_self) == std::vector<index_t>{0, 1, 2});
    CHECK(four.kept(kind_of::cross) == std::vector<index_t>{1});
    const auto held = hr::keep_highest(scores, layout, 4, {.at_least_one = true});
    CHECK(held.kept(kind_of::encoder_self) == std::vector<index_t>{0, 1, 5});
    CHECK(held.count() == 4);
    CHECK(hr::keep_highest(scores, layout, 0, {.at_least_one = true}).count() == 3);
    const auto one_kind = hr::keep_highest(scores, layout, 2, {.kinds = {kind_of::encoder_self}});
    CHECK(one_kind.count(kind_of::cross) == 2);
    CHECK(one_kind.kept(kind_of::encoder_self) == std::vector<index_t>{0, 1});
    CHECK(hr::keep_highest(scores, layout, 8).removes_nothing());
    const auto third = hr::keep_share_per_layer(scores, layout, 1. / 3);
    CHECK(third.kept(kind_of::encoder_self) == std::vector<index_t>{0, 5});
    CHECK(third.kept(kind_of::cross) == std::vector<index_t>{1});
    CHECK(hr::keep_share_per_layer(scores, layout, 0).count() == 0);
    CHECK(hr::keep_share_per_layer(scores, layout, 0, {.at_least_one = true}).count() == 3);
    hr::head_scores wide("x");
    wide.add(kind_of::encoder_self, hr::head_layout(1, 20), std::vector<double>(20, 1));
    CHECK(hr::keep_share_per_layer(wide, hr::plan_layout(hr::head_layout(1, 20)), .15).count() == 3);
    CHECK(contains(error_of([&] { hr::keep_highest(scores, layout, 9); }), "keep is 9, expected 0 to 8"));
    CHECK(contains(error_of([&] { hr::keep_share_per_layer(scores, layout, NAN); }), "share is nan, expected [0,1]"));
    CHECK(contains(error_of([&] { hr::keep_highest(wide, layout, 1); }), "are for 20 heads in 1 layers"));
    CHECK_THROWS_AS(hr::keep_highest(wide, layout, 1, {.kinds = {kind_of::cross}}), hr::argument_error);

    // Each head has a fixed value, and a head that stays rises when its left neighbour goes: only scoring anew sees it.
    std::vector<index_t> sizes;
    const auto rescored = [&](const hr::prune_plan& plan) {
      sizes.push_back(plan.count());
      hr::head_scores now("y");
      const auto between = hr::pruned_layout(plan);
      for (const auto kind : between.kinds()) {
        std::vector<double> values;
        for (const index_t flat : plan.kept(kind)) {
          const auto id = plan.layout().heads(kind).id(flat);
          const bool lonely = id.head > 0 && !plan.is_kept(kind, {id.layer, id.head - 1});
          values.push_back(static_cast<double>(flat) + (lonely ? 100 : 0) + (kind == kind_of::cross ? 50 : 0));
        }
        now.add(kind, between.heads(kind), values);
      }
      return now;
    };
    const auto stepped = hr::prune_iteratively(layout, 5, rescored, {.step = .1});
    CHECK(sizes == std::vector<index_t>{8, 7, 6});
    CHECK(stepped.layout() == layout);
    CHECK(stepped.kept(kind_of::encoder_self) == std::vector<index_t>{1, 4, 5});  // 0, then 2, then 3 go
    CHECK(stepped.count(kind_of::cross) == 2);
    CHECK(hr::prune_iteratively(layout, 0, rescored, {.step = 1}).count() == 0);
    CHECK(hr::prune_iteratively(layout, 0, rescored, {.schedule = {.at_least_one = true}}).count() == 3);
    CHECK(contains(error_of([&] { hr::prune_iteratively(layout, 5, rescored, {.step = 0}); }), "expected (0,1]"));
    CHECK(contains(error_of([&] { hr::prune_iteratively(layout, 9, rescored); }), "keep is 9, expected 0 to 8"));
    CHECK_THROWS_AS(
        hr::prune_iteratively(layout, 5, rescored, {.progress = [](index_t left, index_t) { return left > 7; }}),
        hr::cancelled);
  }

  TEST_CASE("scores as JSON: there and back, and what is refused") {
    hr::head_scores scores("taylor");
    scores.add(kind_of::cross, hr::head_layout(std::vector<index_t>{2, 0, 1}), {.1, -1e-300, 1. / 3}, {20, 160, 1});
    scores.add(kind_of::encoder_self, hr::head_layout(1, 1), {1e22}, {20, 0, 0});
    const std::string text = hr::to_json_text(scores);
    CHECK(hr::parse_scores_json(text) == scores);
    CHECK(hr::parse_scores_json(hr::to_json_text(hr::head_scores("x"))) == hr::head_scores("x"));
    const auto changed = [&](const std::string& from, const std::string& to) {
      std::string other = text;
      const auto at = other.find(from);
      REQUIRE(at != std::string::npos);
      other.replace(at, from.size(), to);
      return error_of([&] { hr::parse_scores_json(other, "s.json"); });
    };
    CHECK(contains(changed("headred.head_scores", "other"), "s.json: format is not"));
    CHECK(contains(changed("\"schema\": 1", "\"schema\": 2"), "s.json: schema is 2"));
    CHECK(contains(changed("\"schema\": 1,", ""), "no key \"schema\""));
    CHECK(contains(changed("0.1", "null"), "layers[0] holds null"));
    CHECK(contains(changed("0.1", "1e999"), "out of range"));
    CHECK(contains(changed("\"cross\"", "\"encoder_self\""), "encoder_self is given twice"));
    CHECK(contains(changed("\"cross\"", "\"sideways\""), "expected one of encoder_self"));
    CHECK(contains(changed("\"skipped\": 1", "\"skipped\": -1"), "attention[1].skipped is -1"));
    CHECK(contains(changed("\"skipped\": 1", "\"skipped\": 1, \"skipped\": 1"), "is given twice"));
    CHECK(contains(changed("\"skipped\": 1", "\"skipped\": 1, \"more\": 1"), "unknown key \"more\""));
    CHECK(contains(changed("\"taylor\"", "\"tay\\nlor\""), "the criterion"));
    CHECK(contains(error_of([&] { hr::parse_scores_json(text.substr(0, 90)); }), "is not JSON"));
    CHECK(contains(error_of([&] { hr::to_json_text(hr::head_scores("\n")); }), "the criterion"));
  }
}
