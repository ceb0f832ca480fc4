#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <headred/prune/plan.hpp>

#include "environment.hpp"
#include "oracle/plan_sets.hpp"

namespace hr = headred;
using hr::attention_kind;
using hr::prune_unit;
using numbers = std::vector<hr::index_t>;

TEST_SUITE("prune") {
  TEST_CASE("plan_layout: kinds in order, groups, equality whatever the way it was built") {
    hr::plan_layout layout;
    layout.add(attention_kind::cross, hr::head_layout({5, 1, 12}))
        .add_grouped(attention_kind::encoder_self, hr::head_layout(2, 12), 4);
    CHECK(layout.kinds() == std::vector{attention_kind::encoder_self, attention_kind::cross});
    CHECK(layout.size() == 42);
    CHECK(layout.grouped(attention_kind::encoder_self, 1));
    CHECK_FALSE(layout.grouped(attention_kind::cross, 0));
    CHECK(layout.groups(attention_kind::encoder_self, 1) == numbers{3, 3, 3, 3});
    CHECK(layout.groups(attention_kind::cross, 0) == numbers{1, 1, 1, 1, 1});
    CHECK(to_string(layout) ==
          "encoder_self 2x12 heads; layer 0 in groups 3+3+3+3; layer 1 in groups 3+3+3+3, cross 5,1,12 heads");
    CHECK(to_string(hr::plan_layout()) == "no attention");

    hr::plan_layout other;
    other.add(attention_kind::encoder_self, hr::head_layout(2, 12), {{3, 3, 3, 3}, {3, 3, 3, 3}});
    CHECK(other != layout);
    other.add(attention_kind::cross, hr::head_layout({5, 1, 12}), {{1, 1, 1, 1, 1}, {1}, {}});
    CHECK(other == layout);
    // a key/value head for each head is no sharing
    hr::plan_layout ungrouped;
    ungrouped.add_grouped(attention_kind::cross, hr::head_layout(2, 4), 4);
    CHECK(ungrouped == hr::plan_layout(hr::head_layout(2, 4), attention_kind::cross));
  }

  TEST_CASE("plan_layout: what no model can have is refused by name") {
    hr::plan_layout layout(hr::head_layout(2, 12));
    const auto before = layout;
    using hr::argument_error;
    CHECK_THROWS_WITH_AS(layout.add(attention_kind::encoder_self, hr::head_layout(1, 1)),
                         "plan_layout: encoder_self is given twice", argument_error);
    CHECK_THROWS_WITH_AS(layout.add(attention_kind(9), hr::head_layout(1, 1)), "plan_layout: unknown attention kind 9",
                         argument_error);
    CHECK_THROWS_WITH_AS(layout.add(attention_kind::cross, hr::head_layout()),
                         "plan_layout: cross has no layers, expected at least 1", argument_error);
    CHECK_THROWS_WITH_AS(layout.add(attention_kind::cross, hr::head_layout(1, 4097)),
                         "plan_layout: cross layer 0 has 4097 heads, expected at most 4096", argument_error);
    CHECK_THROWS_WITH_AS(layout.add(attention_kind::cross, hr::head_layout(2, 4), {{4}}),
                         "plan_layout: cross has groups for 1 layers, expected 2", argument_error);
    CHECK_THROWS_WITH_AS(layout.add(attention_kind::cross, hr::head_layout(2, 4), {{4}, {2, 1}}),
                         "plan_layout: cross layer 1: its key/value groups hold 3 heads, expected 4", argument_error);
    for (const numbers& sizes : {numbers{4, 1}, numbers{0, 4}, numbers{-1, 5}, numbers{4, 0}})
      CHECK_THROWS_WITH_AS(layout.add(attention_kind::cross, hr::head_layout(1, 4), {sizes}),
                           "plan_layout: cross layer 0: its key/value groups do not divide 4 heads", argument_error);
    for (const hr::index_t kv : {0, -2, 3, 24})
      CHECK_THROWS_AS(layout.add_grouped(attention_kind::cross, hr::head_layout(2, 4), kv), argument_error);
    CHECK_THROWS_WITH_AS(layout.heads(attention_kind::cross), "plan_layout: the model has no attention of kind cross",
                         argument_error);
    CHECK_THROWS_WITH_AS(layout.groups(attention_kind::encoder_self, 2),
                         "plan_layout: encoder_self has no layer 2, expected [0,2)", argument_error);
    CHECK(layout == before);
  }

  TEST_CASE("plan_layout: stacks, and what they refuse") {
    using hr::argument_error;
    using hr::model_stack;
    hr::plan_layout layout(hr::head_layout(2, 12));
    CHECK_THROWS_WITH_AS(layout.neurons(model_stack::encoder),
                         "plan_layout: the layout names no neurons of the encoder", argument_error);
    CHECK_THROWS_WITH_AS(layout.add_stack(model_stack::encoder, {5}),
                         "plan_layout: encoder_self has 2 layers, expected the 1 of the encoder", argument_error);
    CHECK_THROWS_WITH_AS(layout.add_stack(model_stack::encoder, {5, -1}),
                         "plan_layout: encoder layer 1 has -1 neurons, expected 0 to 1048576", argument_error);
    CHECK_THROWS_WITH_AS(layout.add_stack(model_stack::decoder, numbers(9, hr::plan_layout::max_neurons)),
                         "plan_layout: stack decoder has more neurons than the 8388608 expected at most in all",
                         argument_error);
    CHECK_THROWS_WITH_AS(layout.add_stack(model_stack(7), {1}), "plan_layout: unknown stack 7", argument_error);
    CHECK_THROWS_WITH_AS(layout.add_stack(model_stack::decoder, {}),
                         "plan_layout: stack decoder has no layers, expected at least 1", argument_error);
    CHECK(layout == hr::plan_layout(hr::head_layout(2, 12)));
    hr::plan_layout whole = layout;
    whole.add_stack(model_stack::encoder, {5, 6});
    CHECK_THROWS_WITH_AS(whole.add_stack(model_stack::encoder, {5, 6}), "plan_layout: stack encoder is given twice",
                         argument_error);
    CHECK(layout.fits(whole));
    CHECK_FALSE(whole.fits(layout));
    CHECK(whole.heads_alone() == layout);
    CHECK(whole.neurons() == 11);
    whole.add_stack(model_stack::decoder, {1});
    CHECK_THROWS_WITH_AS(whole.add(attention_kind::cross, hr::head_layout(2, 1)),
                         "plan_layout: cross has 2 layers, expected the 1 of the decoder", argument_error);
  }

  TEST_CASE("prune_plan: neurons and layers; a layer that goes takes its heads and neurons along") {
    using hr::argument_error;
    using hr::model_stack;
    hr::plan_layout layout(hr::head_layout(2, 3));
    layout.add_stack(model_stack::encoder, {4, 5});
    hr::prune_plan plan(layout);
    CHECK(plan.removes_nothing());
    plan.set_kept_neurons(model_stack::encoder, 0, {3, 1});
    CHECK(plan.kept_neurons(model_stack::encoder, 0) == numbers{1, 3});
    CHECK(plan.neuron_count() == 7);
    CHECK(plan.layer_count() == 2);
    CHECK_FALSE(plan.removes_nothing());
    plan.set_kept_layers(model_stack::encoder, {0});
    CHECK(plan.kept(attention_kind::encoder_self, 1).empty());
    CHECK(plan.kept_neurons(model_stack::encoder, 1).empty());
    CHECK(plan.neuron_count() == 2);
    CHECK(plan.kept_layers(attention_kind::encoder_self) == numbers{0});
    CHECK_FALSE(plan.is_kept(model_stack::encoder, 1));
    const auto before = plan;
    CHECK_THROWS_WITH_AS(plan.set_kept_neurons(model_stack::encoder, 1, {0}),
                         "prune_plan: encoder layer 1 is removed, expected it in set_kept_layers before its neurons",
                         argument_error);
    CHECK_THROWS_WITH_AS(plan.set_kept(attention_kind::encoder_self, 1, {0}),
                         "prune_plan: encoder_self layer 1 is removed, expected it in set_kept_layers before its heads",
                         argument_error);
    CHECK_THROWS_WITH_AS(plan.set_kept_layers(model_stack::encoder, {0, 2}),
                         "prune_plan: encoder: layer 2 is not in [0,2)", argument_error);
    CHECK_THROWS_WITH_AS(plan.set_kept_layers(model_stack::encoder, {0, 0}),
                         "prune_plan: encoder: layer 0 is named twice", argument_error);
    CHECK_THROWS_WITH_AS(plan.set_kept_neurons(model_stack::encoder, 0, {4}),
                         "prune_plan: encoder layer 0: neuron 4 is not in [0,4)", argument_error);
    CHECK_THROWS_WITH_AS(plan.set_kept_neurons(model_stack::encoder, 2, {}),
                         "prune_plan: the encoder has no layer 2, expected [0,2)", argument_error);
    CHECK_THROWS_WITH_AS(plan.set_kept_layers(model_stack::decoder, {}),
                         "plan_layout: the layout names no neurons of the decoder", argument_error);
    CHECK(plan == before);
    plan.set_kept_layers(model_stack::encoder, {0, 1});  // comes back whole
    CHECK(plan.neuron_count() == 7);
    CHECK(plan.kept(attention_kind::encoder_self, 1) == numbers{0, 1, 2});
    CHECK(plan.kept_neurons(model_stack::encoder, 0) == numbers{1, 3});
    const auto none = hr::prune_plan::keep_nothing(layout);
    CHECK(none.count() + none.neuron_count() + none.layer_count() == 0);
    const hr::prune_plan heads(layout.heads_alone());
    CHECK(heads.with_layout(layout) == hr::prune_plan(layout));
    CHECK_NOTHROW(hr::validate_plan(heads, layout));
    CHECK_THROWS_WITH_AS(hr::validate_plan(plan, layout.heads_alone()),
                         "prune_plan: the plan is for encoder_self 2x3 heads, encoder 4,5 neurons, expected "
                         "encoder_self 2x3 heads",
                         hr::shape_error);
  }

  TEST_CASE("prune_plan: starts with everything kept; what is set is what is kept") {
    hr::prune_plan plan(hr::plan_layout(hr::head_layout({3, 0, 5})));
    CHECK(plan.removes_nothing());
    CHECK(plan.count() == 8);
    CHECK(plan.kept(attention_kind::encoder_self) == numbers{0, 1, 2, 3, 4, 5, 6, 7});
    CHECK(plan.kept(attention_kind::encoder_self, 1).empty());

    plan.set_kept(attention_kind::encoder_self, 2, {4, 0});
    CHECK(plan.kept(attention_kind::encoder_self, 2) == numbers{0, 4});
    CHECK(plan.kept(attention_kind::encoder_self) == numbers{0, 1, 2, 3, 7});
    CHECK(plan.count(attention_kind::encoder_self, 2) == 2);
    CHECK(plan.count(attention_kind::encoder_self) == 5);
    CHECK(plan.is_kept(attention_kind::encoder_self, {2, 4}));
    CHECK_FALSE(plan.is_kept(attention_kind::encoder_self, {2, 3}));
    CHECK_FALSE(plan.removes_nothing());

    plan.set_kept(attention_kind::encoder_self, numbers{7, 1});
    CHECK(plan.kept(attention_kind::encoder_self, 0) == numbers{1});
    CHECK(plan.kept(attention_kind::encoder_self, 2) == numbers{4});

    const auto none = hr::prune_plan::keep_nothing(plan.layout());
    CHECK(none.count() == 0);
    CHECK(hr::prune_plan().removes_nothing());
    CHECK(hr::prune_plan().count() == 0);
  }

  TEST_CASE("prune_plan: heads, layers and kinds that are not there; a refused change changes nothing") {
    hr::prune_plan plan(hr::plan_layout(hr::head_layout(4, 12)));
    plan.set_kept(attention_kind::encoder_self, 3, {0, 4, 7});
    const auto before = plan;
    const auto self = attention_kind::encoder_self;
    using hr::argument_error;
    CHECK_THROWS_WITH_AS(plan.set_kept(self, 3, {1, 12}), "prune_plan: encoder_self layer 3: head 12 is not in [0,12)",
                         argument_error);
    CHECK_THROWS_WITH_AS(plan.set_kept(self, 3, {-1}), "prune_plan: encoder_self layer 3: head -1 is not in [0,12)",
                         argument_error);
    CHECK_THROWS_WITH_AS(plan.set_kept(self, 3, {4, 1, 4}), "prune_plan: encoder_self layer 3: head 4 is named twice",
                         argument_error);
    CHECK_THROWS_WITH_AS(plan.set_kept(self, 4, {1}), "prune_plan: encoder_self has no layer 4, expected [0,4)",
                         argument_error);
    CHECK_THROWS_WITH_AS(plan.kept(self, -1), "prune_plan: encoder_self has no layer -1, expected [0,4)",
                         argument_error);
    CHECK_THROWS_WITH_AS(plan.is_kept(self, {0, 12}), "prune_plan: encoder_self layer 0: head 12 is not in [0,12)",
                         argument_error);
    CHECK_THROWS_WITH_AS(plan.count(attention_kind::cross), "plan_layout: the model has no attention of kind cross",
                         argument_error);
    CHECK_THROWS_WITH_AS(plan.set_kept(self, numbers{1, 48}), "head number 48 is not in [0,48)", argument_error);
    CHECK_THROWS_WITH_AS(plan.set_kept(self, numbers{0, 13, 13}),
                         "prune_plan: encoder_self layer 1: head 1 is named twice", argument_error);
    CHECK_THROWS_WITH_AS(plan.set_kept_groups(self, 0, {12}),
                         "prune_plan: encoder_self layer 0: group 12 is not in [0,12)", argument_error);
    CHECK_THROWS_WITH_AS(hr::prune_plan(plan.layout(), prune_unit(7)), "prune_plan: unknown unit 7", argument_error);
    CHECK(plan == before);
  }

  TEST_CASE("prune_plan: a key/value group lives as long as one of its heads") {
    hr::plan_layout layout;
    layout.add_grouped(attention_kind::decoder_self, hr::head_layout(2, 6), 2);
    const auto self = attention_kind::decoder_self;
    hr::prune_plan by_head(layout);
    CHECK(by_head.kept_groups(self, 0) == numbers{0, 1});
    by_head.set_kept(self, 0, {4});
    CHECK(by_head.kept_groups(self, 0) == numbers{1});
    by_head.set_kept(self, 0, {});
    CHECK(by_head.kept_groups(self, 0).empty());

    hr::prune_plan by_group(layout, prune_unit::kv_group);
    by_group.set_kept_groups(self, 0, {1});
    CHECK(by_group.kept(self, 0) == numbers{3, 4, 5});
    by_group.set_kept(self, 1, {2, 0, 1});
    CHECK(by_group.kept_groups(self, 1) == numbers{0});
    CHECK_THROWS_WITH_AS(by_group.set_kept(self, 1, {0, 1, 2, 4}),
                         "prune_plan: decoder_self layer 1: group 1 keeps 1 of its 3 heads, expected all or none in a "
                         "plan of unit kv_group",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(by_group.set_kept_groups(self, 1, {1, 1}),
                         "prune_plan: decoder_self layer 1: group 1 is named twice", hr::argument_error);
    CHECK(by_group.kept_groups(self, 1) == numbers{0});

    const auto as_heads = by_group.with_unit(prune_unit::head);
    CHECK(as_heads.unit() == prune_unit::head);
    CHECK(as_heads != by_group);
    CHECK(as_heads.with_unit(prune_unit::kv_group) == by_group);
    by_head.set_kept(self, 1, {0});
    CHECK_THROWS_AS(by_head.with_unit(prune_unit::kv_group), hr::argument_error);
  }

  TEST_CASE("validate_plan: a plan for another model is refused with both layouts") {
    const hr::plan_layout base(hr::head_layout(12, 12)), small(hr::head_layout(6, 8)),
        decoder(hr::head_layout(12, 12), attention_kind::decoder_self);
    const hr::prune_plan plan(base);
    CHECK_NOTHROW(hr::validate_plan(plan, base));
    CHECK_THROWS_WITH_AS(hr::validate_plan(plan, small),
                         "prune_plan: the plan is for encoder_self 12x12 heads, expected encoder_self 6x8 heads",
                         hr::shape_error);
    CHECK_THROWS_AS(hr::validate_plan(plan, decoder), hr::shape_error);
  }

  TEST_CASE("prune_plan: counts and membership agree with a plain set") {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const auto layout = headred_test::oracle::random_layout(headred_test::seed() + seed, true);
      for (const auto unit : {prune_unit::head, prune_unit::kv_group}) {
        const auto plan = headred_test::oracle::random_units(layout, unit, seed);
        const auto set = headred_test::oracle::kept_set(plan);
        CHECK(plan.count() == static_cast<hr::index_t>(set.size()));
        for (const auto kind : layout.kinds())
          for (hr::index_t flat = 0; flat < layout.heads(kind).size(); ++flat) {
            const auto id = layout.heads(kind).id(flat);
            CHECK(plan.is_kept(kind, id) == (set.count({kind, id.layer, id.head}) == 1));
          }
        auto rebuilt = hr::prune_plan::keep_nothing(layout, unit);
        for (const auto kind : layout.kinds()) rebuilt.set_kept(kind, plan.kept(kind));
        CHECK(rebuilt == plan);
      }
    }
  }
}
