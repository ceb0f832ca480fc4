#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include <headred/prune/plan_history.hpp>
#include <headred/prune/plan_overlap.hpp>
#include <headred/prune/random_plan.hpp>

#include "environment.hpp"
#include "oracle/plan_sets.hpp"

namespace hr = headred;
namespace oracle = headred_test::oracle;
using hr::attention_kind;
using hr::prune_unit;
using numbers = std::vector<hr::index_t>;

TEST_SUITE("prune") {
  TEST_CASE("union, intersection, complement: as those of sets") {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      const auto layout = oracle::random_layout(headred_test::seed() + seed, true);
      const auto unit = seed % 2 == 0 ? prune_unit::head : prune_unit::kv_group;
      const auto a = oracle::random_units(layout, unit, 2 * seed), b = oracle::random_units(layout, unit, 2 * seed + 1);
      const auto x = oracle::kept_set(a), y = oracle::kept_set(b), all = oracle::kept_set(hr::prune_plan(layout));
      std::set<oracle::kept_head> either, both, rest;
      std::set_union(x.begin(), x.end(), y.begin(), y.end(), std::inserter(either, either.end()));
      std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::inserter(both, both.end()));
      std::set_difference(all.begin(), all.end(), x.begin(), x.end(), std::inserter(rest, rest.end()));
      CHECK(oracle::kept_set(hr::plan_union(a, b)) == either);
      CHECK(oracle::kept_set(hr::plan_intersection(a, b)) == both);
      CHECK(oracle::kept_set(hr::plan_complement(a)) == rest);
      CHECK(hr::plan_complement(hr::plan_complement(a)) == a);
      CHECK(hr::plan_union(a, hr::plan_complement(a)).removes_nothing());
      CHECK(hr::plan_union(a, b).unit() == unit);
    }
  }

  TEST_CASE("neurons and layers: union, intersection, complement, rounds of pruning, as those of sets") {
    const auto with = [](const auto& x, const auto& y, auto&& combine) {
      std::remove_cvref_t<decltype(x)> z;
      combine(x.begin(), x.end(), y.begin(), y.end(), std::inserter(z, z.end()));
      return z;
    };
    const auto either = [](auto... x) { return std::set_union(x...); };
    const auto both = [](auto... x) { return std::set_intersection(x...); };
    const auto rest = [](auto... x) { return std::set_difference(x...); };
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      const auto layout = oracle::random_whole_layout(headred_test::seed() + seed);
      const auto a = oracle::random_whole_units(layout, 2 * seed), b = oracle::random_whole_units(layout, 2 * seed + 1);
      const auto x = oracle::kept_whole_set(a), y = oracle::kept_whole_set(b),
                 all = oracle::kept_whole_set(hr::prune_plan(layout));
      const auto sets = [&](const oracle::whole_set& p, const oracle::whole_set& q, const auto& combine) {
        return oracle::whole_set{with(p.heads, q.heads, combine), with(p.neurons, q.neurons, combine),
                                 with(p.layers, q.layers, combine)};
      };
      CHECK(oracle::kept_whole_set(hr::plan_union(a, b)) == sets(x, y, either));
      CHECK(oracle::kept_whole_set(hr::plan_intersection(a, b)) == sets(x, y, both));
      const auto other = oracle::kept_whole_set(hr::plan_complement(a));
      CHECK(other.heads == with(all.heads, x.heads, rest));
      CHECK(other.neurons == with(all.neurons, x.neurons, rest));
      CHECK(hr::plan_union(a, hr::plan_complement(a)).removes_nothing());
      CHECK(a.neuron_count() == static_cast<hr::index_t>(x.neurons.size()));
      CHECK(a.layer_count() == static_cast<hr::index_t>(x.layers.size()));
      // two plans for the unpruned model, one after the other
      const auto after = hr::plan_after(a, b);
      CHECK(after.layout() == hr::pruned_layout(a));
      CHECK(hr::compose(a, after) == hr::plan_intersection(a, b));
      CHECK(hr::joint_plan(a, b) == hr::plan_intersection(a, b));
      CHECK(hr::compose(a, hr::prune_plan(hr::pruned_layout(a))) == a);
      CHECK(hr::compose(hr::prune_plan(layout), a) == a);
      const auto later = oracle::random_whole_units(hr::pruned_layout(a), seed);
      CHECK(hr::pruned_layout(hr::compose(a, later)) == hr::pruned_layout(later));
      // a plan for heads alone keeps the rest
      const auto heads = oracle::random_units(layout.heads_alone(), prune_unit::head, seed);
      CHECK(hr::plan_union(heads, a).neuron_count() == layout.neurons());
      CHECK(hr::plan_intersection(heads, a) == hr::plan_intersection(heads.with_layout(layout), a));
      CHECK(hr::compose(a, hr::plan_after(a, heads)) == hr::plan_intersection(a, heads));
      CHECK(hr::joint_plan(heads, a) == hr::plan_intersection(a, heads));
      CHECK(hr::compose(heads, hr::plan_after(heads, a)) == hr::plan_intersection(a, heads));
      // in the numbers of the model that a plan for heads alone left
      hr::plan_layout left = hr::pruned_layout(heads);
      for (const auto stack : layout.stacks()) left.add_stack(stack, layout.neurons(stack));
      const auto next = oracle::random_whole_units(left, seed);
      CHECK(hr::plan_after(heads, next) == next);
      CHECK(hr::pruned_layout(hr::joint_plan(heads, next)) == hr::pruned_layout(next));
    }
  }

  TEST_CASE("plans of different models or units do not combine") {
    const hr::prune_plan a(hr::plan_layout(hr::head_layout(2, 4))), b(hr::plan_layout(hr::head_layout(numbers{4, 3})));
    CHECK_THROWS_WITH_AS(hr::plan_union(a, b),
                         "plan_union: b is for encoder_self 4,3 heads, expected encoder_self 2x4 heads",
                         hr::shape_error);
    CHECK_THROWS_WITH_AS(hr::overlap(a, b), "overlap: b is for encoder_self 4,3 heads, expected encoder_self 2x4 heads",
                         hr::shape_error);
    CHECK_THROWS_WITH_AS(hr::plan_intersection(a, a.with_unit(prune_unit::kv_group)),
                         "plan_intersection: b has unit kv_group, expected head", hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::compose(a, b),
                         "compose: the later plan is for encoder_self 4,3 heads, expected encoder_self 2x4 heads",
                         hr::shape_error);
    CHECK_THROWS_WITH_AS(hr::compose(a, a.with_unit(prune_unit::kv_group)),
                         "compose: the later plan has unit kv_group, expected head", hr::argument_error);
  }

  TEST_CASE("compose: worked example in the numbers of the unpruned model") {
    const auto self = attention_kind::encoder_self;
    hr::prune_plan first(hr::plan_layout(hr::head_layout(2, 6)));
    first.set_kept(self, 0, {1, 3, 5});
    first.set_kept(self, 1, {});
    const auto between = hr::pruned_layout(first);
    CHECK(between == hr::plan_layout(hr::head_layout(numbers{3, 0})));
    hr::prune_plan later(between);
    later.set_kept(self, 0, {0, 2});
    const auto both = hr::compose(first, later);
    CHECK(both.layout() == first.layout());
    CHECK(both.kept(self, 0) == numbers{1, 5});
    CHECK(both.kept(self, 1).empty());
  }

  TEST_CASE("compose: neutral plans, associativity, layouts that agree") {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      const auto unit = seed % 2 == 0 ? prune_unit::head : prune_unit::kv_group;
      const auto layout = oracle::random_layout(headred_test::seed() + seed, true);
      const auto a = oracle::random_units(layout, unit, 3 * seed);
      const auto b = oracle::random_units(hr::pruned_layout(a), unit, 3 * seed + 1);
      const auto c = oracle::random_units(hr::pruned_layout(b), unit, 3 * seed + 2);
      const auto ab = hr::compose(a, b);
      CHECK(hr::compose(a, hr::prune_plan(hr::pruned_layout(a), unit)) == a);
      CHECK(hr::compose(hr::prune_plan(layout, unit), a) == a);
      CHECK(hr::pruned_layout(ab) == hr::pruned_layout(b));
      CHECK(hr::compose(ab, c) == hr::compose(a, hr::compose(b, c)));
      CHECK(hr::plan_intersection(a, ab) == ab);
      CHECK(ab.count() == b.count());
    }
  }

  TEST_CASE("pruned_layout: groups shrink to their kept heads and vanish with the last") {
    hr::plan_layout layout;
    layout.add_grouped(attention_kind::cross, hr::head_layout(1, 6), 3);
    hr::prune_plan plan(layout);
    plan.set_kept(attention_kind::cross, 0, {0, 1, 5});
    hr::plan_layout expected;
    expected.add(attention_kind::cross, hr::head_layout({3}), {{2, 1}});
    CHECK(hr::pruned_layout(plan) == expected);
  }

  TEST_CASE("overlap: worked values, symmetry, plans that keep nothing") {
    const auto self = attention_kind::encoder_self;
    hr::prune_plan a(hr::plan_layout(hr::head_layout(2, 6))), b = a;
    a.set_kept(self, numbers{0, 1, 2, 3});
    b.set_kept(self, numbers{2, 3, 4, 5, 6, 7});
    const auto o = hr::overlap(a, b);
    CHECK(o.common == 2);
    CHECK(o.jaccard == 2.0 / 8);
    CHECK(o.share == 4.0 / 10);
    CHECK(o.expected_common == 2);
    CHECK(hr::overlap(b, a).jaccard == o.jaccard);
    CHECK(hr::overlap(a, a).jaccard == 1);
    CHECK(hr::overlap(a, hr::plan_complement(a)).common == 0);
    const auto none = hr::prune_plan::keep_nothing(a.layout());
    CHECK(hr::overlap(none, none).jaccard == 1);
    CHECK(hr::overlap(none, none).share == 1);
    CHECK(hr::overlap(none, a).jaccard == 0);
  }

  TEST_CASE("mean_overlap: the mean over pairs of seeds; random plans meet their expectation") {
    const hr::head_layout layout(12, 12);
    std::vector<hr::prune_plan> plans;
    for (std::uint64_t seed = 0; seed < 40; ++seed) plans.push_back(hr::random_plan(layout, 36, seed));
    const auto three = hr::mean_overlap({plans.data(), 3});
    CHECK(three.jaccard ==
          doctest::Approx((hr::overlap(plans[0], plans[1]).jaccard + hr::overlap(plans[0], plans[2]).jaccard +
                           hr::overlap(plans[1], plans[2]).jaccard) /
                          3));
    const auto all = hr::mean_overlap(plans);
    CHECK(all.expected_common == doctest::Approx(9));
    CHECK(all.common == doctest::Approx(9).epsilon(0.05));
    CHECK(all.share == doctest::Approx(all.common / 36));
    CHECK_THROWS_WITH_AS(hr::mean_overlap({plans.data(), 1}), "mean_overlap: got 1 plans, expected at least 2",
                         hr::argument_error);
  }

  TEST_CASE("random_plan: exact counts, same seed same plan, every head equally likely") {
    const hr::head_layout layout({3, 0, 5, 2});
    numbers hits(10);
    for (std::uint64_t seed = 0; seed < 4000; ++seed) {
      const auto plan = hr::random_plan(layout, 4, seed);
      REQUIRE(plan.count() == 4);
      for (const auto head : plan.kept(attention_kind::encoder_self)) ++hits[static_cast<std::size_t>(head)];
    }
    for (const auto n : hits) CHECK(std::abs(static_cast<double>(n) - 1600) < 5 * 31);  // 5 sd of Binomial(4000, .4)
    CHECK(hr::random_plan(layout, 4, 7) == hr::random_plan(layout, 4, 7));
    CHECK(hr::random_plan(layout, 10, 7).removes_nothing());
    CHECK(hr::random_plan(layout, 0, 7).count() == 0);
    CHECK_THROWS_WITH_AS(hr::random_plan(layout, 11, 7), "random_plan: keep_count is 11, expected 0 to 10",
                         hr::argument_error);
    CHECK_THROWS_AS(hr::random_plan(layout, -1, 7), hr::argument_error);
    hr::plan_layout two(layout);
    two.add(attention_kind::cross, layout);
    const auto cross = hr::random_plan(two, 1, 7, attention_kind::cross);
    CHECK(cross.count(attention_kind::cross) == 1);
    CHECK(cross.count(attention_kind::encoder_self) == 10);
  }
}
