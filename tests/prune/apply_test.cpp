#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <headred/io/load_transformer.hpp>
#include <headred/io/save_transformer.hpp>
#include <headred/nn/model_cost.hpp>
#include <headred/prune/gated_plan.hpp>
#include <headred/prune/plan_history.hpp>
#include <headred/prune/random_plan.hpp>

#include "environment.hpp"
#include "oracle/plan_sets.hpp"
#include "prune/small_models.hpp"

namespace hr = headred;
namespace oracle = headred_test::oracle;
using headred_test::difference;
using headred_test::logits_of;
using headred_test::small_batch;
using headred_test::small_model;
using headred_test::small_models;
using hr::attention_kind;
using hr::cpu;
using hr::index_t;
using hr::prune_plan;
using hr::prune_unit;
using numbers = std::vector<index_t>;

namespace {

template <class Error, class F>
std::string error_text(const F& f) {
  try {
    f();
  } catch (const Error& problem) {
    return problem.what();
  }
  return "no error";
}

/// Gates of 0 on the heads that the plan removes, and 1, or `seed`'s random numbers in [.5,1.5), on the others.
template <class T>
hr::model_gates<T, cpu> gates_of(cpu& be, const hr::transformer_config& c, const prune_plan& plan,
                                 std::uint64_t seed = 0) {
  hr::model_gates<T, cpu> gates(be, c);
  for (const auto kind : plan.layout().kinds())
    for (index_t l = 0; l < plan.layout().heads(kind).layers(); ++l) {
      const hr::random_stream random(seed, static_cast<std::uint64_t>(l));
      for (index_t h = 0; h < plan.layout().heads(kind).heads(l); ++h) {
        const double open = seed == 0 ? 1 : 0.5 + random.uniform(static_cast<std::uint64_t>(h));
        gates.of(kind, l).value(h) = plan.is_kept(kind, {l, h}) ? static_cast<T>(open) : T(0);
      }
    }
  return gates;
}

template <class Weights>
std::string bits_of(const Weights& weights) {
  std::string bits;
  hr::visit_parameters(weights, [&](const std::string& name, const auto& p) {
    bits += name + hr::shape_text(p.value.shape());
    bits.append(reinterpret_cast<const char*>(p.value.data()), p.value.bytes());
  });
  return bits;
}

/// A plan in which every group of a grouped layer keeps as many heads, or none.
prune_plan even_plan(const hr::transformer_config& c, std::uint64_t seed) {
  const hr::plan_layout layout = hr::model_layout(c);
  prune_plan plan(layout);
  const hr::random_stream random(seed, 7);
  std::uint64_t draw = 0;
  for (const auto kind : layout.kinds())
    for (index_t l = 0; l < layout.heads(kind).layers(); ++l) {
      const numbers sizes = layout.groups(kind, l);
      if (sizes.empty()) continue;
      const auto each = static_cast<index_t>(random.below(draw++, static_cast<std::uint64_t>(sizes[0]) + 1));
      numbers kept;
      index_t first = 0;
      for (const index_t size : sizes) {
        if (random.below(draw++, 3) > 0) {
          const auto from = static_cast<index_t>(random.below(draw++, static_cast<std::uint64_t>(size - each) + 1));
          for (index_t i = 0; i < each; ++i) kept.push_back(first + from + i);
        }
        first += size;
      }
      plan.set_kept(kind, l, kept);
    }
  return plan;
}

/// Keeps each neuron and each layer with probability 1/2, at least one layer, and of the heads what even_plan does.
prune_plan random_whole_plan(const hr::transformer_config& c, std::uint64_t seed) {
  const hr::random_stream random(seed, 8);
  std::uint64_t draw = 0;
  prune_plan plan(hr::whole_layout(c));
  const auto some = [&](index_t n) {
    numbers kept;
    for (index_t i = 0; i < n; ++i)
      if (random.below(draw++, 2) == 0) kept.push_back(i);
    return kept;
  };
  for (const auto stack : plan.layout().stacks()) {
    const index_t layers = plan.layout().layers(stack);
    numbers kept = some(layers);
    if (kept.empty()) kept.push_back(static_cast<index_t>(random.below(draw++, static_cast<std::uint64_t>(layers))));
    plan.set_kept_layers(stack, kept);
    for (const index_t l : kept)
      plan.set_kept_neurons(stack, l, some(plan.layout().neurons(stack)[static_cast<std::size_t>(l)]));
  }
  return hr::plan_intersection(even_plan(c, seed), plan);
}

/// Gates of 0 on what the plan removes, 1 or random on the other heads and neurons, 1 on layers.
template <class T>
hr::model_gates<T, cpu> whole_gates_of(cpu& be, const hr::transformer_config& c, const prune_plan& plan,
                                       std::uint64_t seed = 0) {
  hr::model_gates<T, cpu> gates(be, c, {plan.layout().stacks(), plan.layout().stacks()});
  const hr::random_stream random(seed, 9);
  std::uint64_t draw = 0;
  const auto set = [&](auto& of, const numbers& kept, bool vary) {
    for (index_t i = 0; i < of.value.size(); ++i) of.value(i) = T(0);
    for (const index_t i : kept) of.value(i) = vary && seed > 0 ? static_cast<T>(.5 + random.uniform(draw++)) : T(1);
  };
  for (const auto kind : plan.layout().kinds())
    for (index_t l = 0; l < plan.layout().heads(kind).layers(); ++l) set(gates.of(kind, l), plan.kept(kind, l), true);
  for (const auto stack : plan.layout().stacks()) {
    for (index_t l = 0; l < plan.layout().layers(stack); ++l)
      set(gates.neurons(stack, l), plan.kept_neurons(stack, l), true);
    set(gates.layers(stack), plan.kept_layers(stack), false);
  }
  return gates;
}

template <class T>
void check_whole_plans(double tolerance) {
  cpu be{{.threads = 2}};
  for (const auto& [name, config] : small_models()) {
    const auto& which = name;  // clang 14: lambdas cannot capture structured bindings
    CAPTURE(which);
    auto model = small_model<T>(be, config, headred_test::seed());
    const auto source = small_batch(5, config.source.vocabulary, 3), target = small_batch(5, 9, 4);
    const auto whole = logits_of(model, source, target);
    const std::vector<index_t> lengths{7, 3}, targets = config.has_cross() ? lengths : std::vector<index_t>();
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      CAPTURE(seed);
      const prune_plan plan = seed == 0 ? prune_plan(hr::whole_layout(config)) : random_whole_plan(config, seed);
      auto gates = whole_gates_of<T>(be, config, plan);
      const auto expected = logits_of(model, source, target, &gates);
      auto pruned = hr::apply(plan, model, {.shared = hr::shared_layers::untie});
      CHECK(difference(logits_of(pruned, source, target), expected) < tolerance);
      CHECK(hr::whole_layout(pruned.config()) == hr::pruned_layout(plan));
      CHECK(hr::gated_plan(be, config, gates) == plan);
      auto open = whole_gates_of<T>(be, config, plan, seed + 100);
      auto folded = hr::apply(plan, model, {.shared = hr::shared_layers::untie}, &open);
      CHECK(difference(logits_of(folded, source, target), logits_of(model, source, target, &open)) < tolerance);
      if (seed == 0) {
        CHECK(bits_of(pruned.weights()) == bits_of(model.weights()));
        CHECK(pruned.config() == config);
        CHECK(expected == whole);
        continue;
      }
      CHECK(difference(expected, whole) > 1e-4);
      CHECK(hr::forward_flops(pruned.config(), lengths, targets).total() <
            hr::forward_flops(config, lengths, targets).total());
      if (name != "shared") CHECK(hr::parameter_count(pruned.config()).total() < hr::parameter_count(config).total());
      double counted = 0;
      hr::visit_parameters(pruned.weights(),
                           [&](const std::string&, const auto& p) { counted += static_cast<double>(p.value.size()); });
      CHECK(counted == hr::parameter_count(pruned.config()).total());
    }
  }
}

template <class T>
void check_against_gates(double tolerance) {
  cpu be{{.threads = 2}};
  for (const auto& [name, config] : small_models()) {
    const auto& which = name;  // clang 14: lambdas cannot capture structured bindings
    CAPTURE(which);
    auto model = small_model<T>(be, config, headred_test::seed());
    const auto source = small_batch(5, config.source.vocabulary, 3), target = small_batch(5, 9, 4);
    const auto whole = logits_of(model, source, target);
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      CAPTURE(seed);
      // the first plans are the edges: nothing removed, everything removed
      prune_plan plan = seed == 0   ? prune_plan(hr::model_layout(config))
                        : seed == 1 ? prune_plan::keep_nothing(hr::model_layout(config))
                                    : even_plan(config, seed);
      auto gates = gates_of<T>(be, config, plan);
      const auto expected = logits_of(model, source, target, &gates);
      auto pruned = hr::apply(plan, model, {.shared = hr::shared_layers::untie});
      CHECK(difference(logits_of(pruned, source, target), expected) < tolerance);
      if (seed != 0) CHECK(difference(expected, whole) > 1e-4);  // the heads matter
      CHECK(hr::model_layout(pruned.config()) == hr::pruned_layout(plan));

      auto open = gates_of<T>(be, config, plan, seed + 100);
      const auto with_gates = logits_of(model, source, target, &open);
      auto folded = hr::apply(plan, model, {.shared = hr::shared_layers::untie}, &open);
      CHECK(difference(logits_of(folded, source, target), with_gates) < tolerance);

      // a random plan leaves uneven groups: their key/value heads are repeated
      plan = oracle::random_units(hr::model_layout(config), prune_unit::head, seed);
      auto closed = gates_of<T>(be, config, plan);
      auto repeated = hr::apply(plan, model, {hr::shared_layers::untie, hr::uneven_groups::repeat});
      CHECK(difference(logits_of(repeated, source, target), logits_of(model, source, target, &closed)) < tolerance);
      for (const auto kind : plan.layout().kinds())
        CHECK(hr::model_layout(repeated.config()).heads(kind).heads_per_layer() ==
              hr::pruned_layout(plan).heads(kind).heads_per_layer());
    }
  }
}

}  // namespace

TEST_SUITE("prune") {
  TEST_CASE("a pruned model computes what the model with closed gates computes, f64") {
    check_against_gates<double>(1e-12);
  }
  TEST_CASE("a pruned model computes what the model with closed gates computes, f32") {
    check_against_gates<float>(2e-5);
  }

  TEST_CASE("neurons and layers too: a pruned model computes what the model with closed gates computes, f64") {
    check_whole_plans<double>(1e-12);
  }
  TEST_CASE("neurons and layers too: a pruned model computes what the model with closed gates computes, f32") {
    check_whole_plans<float>(2e-5);
  }

  TEST_CASE("neurons and layers: what stays of weights and configuration, saved and loaded bit by bit") {
    cpu be;
    hr::transformer_config c = small_models()[3].config;
    auto model = small_model<double>(be, c, 9);
    prune_plan plan(hr::whole_layout(c));
    plan.set_kept_neurons(hr::model_stack::encoder, 1, {2, 11});
    plan.set_kept_neurons(hr::model_stack::decoder, 1, {});
    plan.set_kept_layers(hr::model_stack::encoder, {1});
    plan.set_kept(attention_kind::encoder_self, 1, {1});
    const auto pruned = hr::apply(plan, model);
    REQUIRE(pruned.config().encoder.layers.size() == 1);
    CHECK(pruned.config().encoder.layers[0] == hr::layer_config{{1, 1, 4, {1}}, {}, 2});
    CHECK(pruned.config().decoder.layers[0] == c.decoder.layers[0]);
    CHECK(pruned.config().decoder.layers[1].feed_forward == 0);
    const auto& left = pruned.weights().encoder[0];
    const auto& old = model.weights().encoder[1];
    CHECK(left.expand.weight.value.shape() == hr::shape_t<2>{2, 8});
    CHECK(left.contract.weight.value.shape() == hr::shape_t<2>{8, 2});
    const index_t from[] = {2, 11};
    for (index_t i = 0; i < 2; ++i) {
      CHECK(left.expand.bias.value(i) == old.expand.bias.value(from[i]));
      for (index_t j = 0; j < 8; ++j) {
        CHECK(left.expand.weight.value(i, j) == old.expand.weight.value(from[i], j));
        CHECK(left.contract.weight.value(j, i) == old.contract.weight.value(j, from[i]));
        CHECK(left.contract.bias.value(j) == old.contract.bias.value(j));
        CHECK(left.self.norm.scale.value(j) == old.self.norm.scale.value(j));
      }
    }
    CHECK(pruned.weights().decoder[1].contract.weight.value.shape() == hr::shape_t<2>{8, 0});
    CHECK(pruned.weights().decoder[1].contract.bias.value.size() == 8);

    const auto folder = std::filesystem::temp_directory_path() / "headred_apply_test_whole";
    hr::save_transformer(folder, pruned.config(), pruned.weights(), plan);
    const auto loaded = hr::load_transformer<double>(be, folder);
    CHECK(loaded.config == pruned.config());
    CHECK(bits_of(loaded.weights) == bits_of(pruned.weights()));
    CHECK(loaded.plan == plan);
    std::filesystem::remove_all(folder);

    // the moments of an optimiser, and gates by name, follow
    const hr::model_selection selection(plan, c);
    CHECK(selection.of("encoder.0.contract.weight").from == "encoder.1.contract.weight");
    CHECK(selection.of("encoder.0.expand.bias").pieces == numbers{2, 11});
    CHECK(selection.of("gates.encoder_self.0").from == "gates.encoder_self.1");
    CHECK_THROWS_WITH_AS(selection.of("encoder.1.norm.scale"),
                         "model_selection: there is no weight set for encoder.1.norm.scale", hr::argument_error);
  }

  TEST_CASE("layers that share weights: a layer fewer, the set stays; other neurons are refused or untied") {
    cpu be;
    const hr::transformer_config c = small_models()[1].config;  // weights 0, 0, 1, 0
    auto model = small_model<double>(be, c, 9);
    prune_plan plan(hr::whole_layout(c));
    plan.set_kept_layers(hr::model_stack::encoder, {1, 3});
    const auto two = hr::apply(plan, model);
    CHECK(two.config().encoder.weights == numbers{0, 0});
    CHECK(two.weights().encoder.size() == 1);
    plan.set_kept_layers(hr::model_stack::encoder, {2, 3});
    CHECK(hr::apply(plan, model).config().encoder.weights == numbers{1, 0});
    plan.set_kept_layers(hr::model_stack::encoder, {2});
    const auto one = hr::apply(plan, model);
    CHECK(one.config().encoder.weights == numbers{0});
    CHECK(one.weights().encoder[0].expand.bias.value(3) == model.weights().encoder[1].expand.bias.value(3));
    plan = prune_plan(hr::whole_layout(c));
    plan.set_kept_neurons(hr::model_stack::encoder, 3, {0, 1});
    CHECK_THROWS_WITH_AS(
        hr::apply(plan, model),
        "apply: encoder layer 3 shares its weights with layer 0 and would keep other heads, neurons or "
        "factors, expected the same or shared_layers::untie",
        hr::argument_error);
    CHECK(hr::apply(plan, model, {.shared = hr::shared_layers::untie}).config().encoder.weights == numbers{0, 0, 1, 2});
  }

  TEST_CASE("neurons and layers: what cannot be applied") {
    cpu be;
    const hr::transformer_config c = small_models()[0].config;
    auto model = small_model<double>(be, c, 9);
    prune_plan plan(hr::whole_layout(c));
    plan.set_kept_layers(hr::model_stack::encoder, {});
    CHECK(error_text<hr::argument_error>([&] { hr::apply(plan, model); }) ==
          "apply: the plan removes every layer of the encoder, expected at least one to stay");
    hr::transformer_config other = c;
    other.encoder.layers[1].feed_forward = 7;
    CHECK(error_text<hr::shape_error>([&] {
            hr::apply(prune_plan(hr::whole_layout(other)), model);
          }).find("encoder 20,7,8 neurons, expected") != std::string::npos);
    hr::model_gates<double, cpu> gates(be, c, {{}, {hr::model_stack::encoder}});
    gates.layers(hr::model_stack::encoder).value(1) = .5;
    CHECK(error_text<hr::argument_error>([&] { hr::apply(prune_plan(hr::model_layout(c)), model, {}, &gates); }) ==
          "apply: the gate of encoder layer 1, which stays, is not 1, and weights cannot take it up");
    CHECK(hr::gated_plan(be, c, gates).removes_nothing());
    gates.layers(hr::model_stack::encoder).value(1) = std::nan("");
    CHECK(error_text<hr::argument_error>([&] { hr::gated_plan(be, c, gates); }) ==
          "gated_plan: the gate of layer 1 in encoder is not finite");
    CHECK(error_text<hr::argument_error>([&] { hr::model_gates<double, cpu>(be, c, {{hr::model_stack::decoder}}); }) ==
          "model_gates: the model has no decoder");
    CHECK(error_text<hr::argument_error>([&] { gates.neurons(hr::model_stack::encoder, 0); }) ==
          "model_gates: the neurons of encoder layer 0 have no gates");
    CHECK(error_text<hr::argument_error>([&] {
            hr::model_selection(prune_plan(hr::model_layout(c)), c, {}, {},
                                {{hr::model_stack::encoder, {{1}, {1}, {1}}}});
          }) == "apply: the factors of encoder neurons layer 0 are 1, expected 20");
  }

  TEST_CASE("a plan that removes nothing gives the same model, bit by bit") {
    cpu be;
    for (const auto& [name, config] : small_models()) {
      const auto model = small_model<float>(be, config, 5);
      for (const auto unit : {prune_unit::head, prune_unit::kv_group}) {
        const auto same = hr::apply(prune_plan(hr::model_layout(config), unit), model);
        CHECK(same.config() == config);
        CHECK(bits_of(same.weights()) == bits_of(model.weights()));
      }
    }
  }

  TEST_CASE("what is taken of each parameter") {
    cpu be;
    hr::transformer_config c = small_models()[3].config;  // cross: 6 heads in 3 groups, 4 heads in 1 group
    auto model = small_model<double>(be, c, 9);
    prune_plan plan(hr::model_layout(c));
    plan.set_kept(attention_kind::encoder_self, 0, {1, 3});
    plan.set_kept(attention_kind::cross, 0, {0, 5});
    plan.set_kept(attention_kind::cross, 1, {});
    auto pruned = hr::apply(plan, model);
    const auto& self = pruned.config().encoder.layers[0].self;
    CHECK(self == hr::attention_config{2, 2, 2, {1, 3}});
    CHECK(pruned.config().encoder.layers[1] == c.encoder.layers[1]);  // untouched: no original numbers written
    CHECK(pruned.config().decoder.layers[0].cross == hr::attention_config{2, 2, 2, {0, 5}});
    CHECK(pruned.config().decoder.layers[1].cross == hr::attention_config{0, 0, 2, {}});
    const auto& q = pruned.weights().encoder[0].self.query;
    CHECK(q.weight.value.shape() == hr::shape_t<2>{4, 8});
    const auto& o = pruned.weights().encoder[0].self.output;
    CHECK(o.weight.value.shape() == hr::shape_t<2>{8, 4});
    const auto& old = model.weights().encoder[0].self;
    const index_t from[] = {2, 3, 6, 7};
    for (index_t i = 0; i < 4; ++i)
      for (index_t j = 0; j < 8; ++j) {
        CHECK(q.weight.value(i, j) == old.query.weight.value(from[i], j));
        CHECK(q.bias.value(i) == old.query.bias.value(from[i]));
        CHECK(o.weight.value(j, i) == old.output.weight.value(j, from[i]));
        CHECK(o.bias.value(j) == old.output.bias.value(j));
      }
    const auto& cross = pruned.weights().decoder[0].cross;
    CHECK(cross.query.weight.value.shape() == hr::shape_t<2>{4, 8});
    CHECK(cross.key.weight.value.shape() == hr::shape_t<2>{4, 8});
    CHECK(cross.key.bias.value(2) == model.weights().decoder[0].cross.key.bias.value(4));  // group 2 follows group 0
    CHECK(pruned.weights().decoder[1].cross.output.weight.value.shape() == hr::shape_t<2>{8, 0});
    CHECK(pruned.weights().decoder[1].cross.output.bias.value.size() == 8);
  }

  TEST_CASE("two plans in either order, in old or new numbers, leave the same model") {
    cpu be;
    for (const auto& [name, config] : small_models()) {
      const auto& which = name;  // clang 14: lambdas cannot capture structured bindings
      CAPTURE(which);
      auto model = small_model<double>(be, config, 11);
      const hr::plan_layout layout = hr::model_layout(config);
      const hr::apply_options untie{.shared = hr::shared_layers::untie};
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const auto a = oracle::random_units(layout, prune_unit::kv_group, seed);
        const auto b = oracle::random_units(layout, prune_unit::kv_group, seed + 1000);
        const auto both = hr::apply(hr::plan_intersection(a, b), model, untie);
        const auto ab = hr::apply(hr::plan_after(a, b), hr::apply(a, model, untie), untie);
        const auto ba = hr::apply(hr::plan_after(b, a), hr::apply(b, model, untie), untie);
        for (const auto* one : {&ab, &ba}) {
          // weight sets of layers that became alike again stay apart: compare what layers see
          for (const auto kind : layout.kinds()) {
            const auto found = hr::attention_blocks(one->config(), kind),
                       wanted = hr::attention_blocks(both.config(), kind);
            for (std::size_t l = 0; l < wanted.size(); ++l) {
              CHECK(found[l]->heads == wanted[l]->heads);
              for (index_t h = 0; h < wanted[l]->heads; ++h)
                CHECK(found[l]->original_of(h) == wanted[l]->original_of(h));
            }
          }
          if (config.encoder.weights.empty()) CHECK(bits_of(one->weights()) == bits_of(both.weights()));
        }
        CHECK(hr::joint_plan(a, b) == hr::plan_intersection(a, b));
        CHECK(hr::joint_plan(a, hr::plan_after(a, b)) == hr::plan_intersection(a, b));
      }
    }
    const prune_plan first = hr::random_plan(hr::head_layout(2, 4), 5, 1);
    CHECK(error_text<hr::shape_error>([&] {
            hr::plan_after(first, prune_plan(hr::plan_layout({2, 7})));
          }).find("plan_after: the plan is for encoder_self 2x7 heads, expected encoder_self ") == 0);
    CHECK(error_text<hr::argument_error>([&] { hr::plan_after(first, first.with_unit(prune_unit::kv_group)); }) ==
          "plan_after: the plan has unit kv_group, expected head");
  }

  TEST_CASE("layers that share their weights") {
    cpu be;
    const auto config = small_models()[1].config;  // weights 0 0 1 0
    auto model = small_model<float>(be, config, 13);
    prune_plan plan(hr::model_layout(config));
    const auto keep = [&](index_t layer, numbers heads) { plan.set_kept(attention_kind::encoder_self, layer, heads); };
    for (const index_t layer : {0, 1, 3}) keep(layer, {0, 2});
    keep(2, {1});
    CHECK(hr::apply(plan, model).config().encoder.weights == numbers{0, 0, 1, 0});  // alike: nothing to untie
    keep(1, {0, 3});
    CHECK(error_text<hr::argument_error>([&] { hr::apply(plan, model); }) ==
          "apply: encoder layer 1 shares its weights with layer 0 and would keep other heads, neurons or factors, "
          "expected the same or shared_layers::untie");
    const auto untied = hr::apply(plan, model, {.shared = hr::shared_layers::untie});
    CHECK(untied.config().encoder.weights == numbers{0, 2, 1, 0});
    CHECK(untied.weights().encoder.size() == 3);
    CHECK(hr::parameter_count(untied.config()).total() > hr::parameter_count(config).total());
    // gates that differ between them count too
    keep(1, {0, 2});
    hr::model_gates<float, cpu> gates(be, config);
    gates.of(attention_kind::encoder_self, 3).value(2) = 0.5f;
    CHECK_THROWS_AS(hr::apply(plan, model, {}, &gates), hr::argument_error);
    gates.of(attention_kind::encoder_self, 3).value(2) = 1;
    gates.of(attention_kind::encoder_self, 3).value(1) = 0.5f;  // of a head that goes
    CHECK(hr::apply(plan, model, {}, &gates).config().encoder.weights == numbers{0, 0, 1, 0});
    gates.of(attention_kind::encoder_self, 0).value(0) = std::numeric_limits<float>::quiet_NaN();
    CHECK(error_text<hr::argument_error>([&] { hr::apply(plan, model, {}, &gates); }) ==
          "apply: the factors of encoder_self layer 0 are not all finite");
  }

  TEST_CASE("key/value groups that a plan leaves uneven") {
    cpu be;
    const auto config = small_models()[2].config;  // layer 0: 6 heads in 2 groups
    auto model = small_model<float>(be, config, 17);
    prune_plan plan(hr::model_layout(config));
    plan.set_kept(attention_kind::decoder_self, 0, {0, 1, 4});
    CHECK(error_text<hr::argument_error>([&] { hr::apply(plan, model); }) ==
          "apply: the plan leaves key/value groups of different sizes in decoder_self layer 0, expected equal ones (a "
          "plan of unit kv_group) or uneven_groups::repeat");
    plan.set_kept(attention_kind::decoder_self, 1, {0, 1, 2, 3, 5, 6});  // groups of 4 and 2: halves of 2
    const auto pruned = hr::apply(plan, model, {.uneven = hr::uneven_groups::repeat});
    CHECK(pruned.config().decoder.layers[0].self == hr::attention_config{3, 3, 3, {0, 1, 4}});
    CHECK(pruned.config().decoder.layers[1].self == hr::attention_config{6, 3, 2, {0, 1, 2, 3, 5, 6}});
  }

  TEST_CASE("a plan of another model is refused, with both layouts") {
    cpu be;
    const auto config = small_models()[0].config;
    const auto model = small_model<float>(be, config, 19);
    CHECK(error_text<hr::shape_error>([&] {
            hr::apply(prune_plan(hr::plan_layout({3, 4})), model);
          }) == "prune_plan: the plan is for encoder_self 3x4 heads, expected encoder_self 4,3,6 heads");
    const hr::model_selection selection(prune_plan(hr::model_layout(config)), config);
    hr::transformer_weights<float, cpu> others(be, small_models()[3].config);
    CHECK_THROWS_AS(hr::apply(selection, be, others), hr::shape_error);
    CHECK(error_text<hr::argument_error>([&] { selection.of("encoder.3.self.query.weight"); }) ==
          "model_selection: there is no weight set for encoder.3.self.query.weight");
    CHECK(error_text<hr::argument_error>([&] {
            hr::model_selection(prune_plan(hr::model_layout(config)), config, {},
                                {{attention_kind::encoder_self, {{1}}}});
          }) == "apply: the factors of encoder_self are for 1 layers, expected 3");
  }

  TEST_CASE("saved and loaded, a pruned model gives the same bits from less") {
    cpu be{{.threads = 2}};
    const auto folder = std::filesystem::temp_directory_path() / "headred_apply_test";
    for (const auto& [name, config] : small_models()) {
      const auto& which = name;  // clang 14: lambdas cannot capture structured bindings
      CAPTURE(which);
      auto model = small_model<float>(be, config, 23);
      const bool shared = !config.encoder.weights.empty();
      prune_plan plan = even_plan(config, 31);
      if (shared)
        for (const index_t layer : {1, 3})
          plan.set_kept(attention_kind::encoder_self, layer, plan.kept(attention_kind::encoder_self, 0));
      const auto source = small_batch(4, config.source.vocabulary, 3), target = small_batch(4, 9, 4);
      auto pruned = hr::apply(plan, model);
      hr::save_transformer(folder / "whole", config, model.weights());
      hr::save_transformer(folder / "pruned", pruned.config(), pruned.weights(), plan);
      auto loaded = hr::load_transformer<float>(be, folder / "pruned");
      CHECK(loaded.config == pruned.config());
      REQUIRE(loaded.plan.has_value());
      CHECK(*loaded.plan == plan);
      hr::transformer<float, cpu> again(be, loaded.config, std::move(loaded.weights));
      const auto a = logits_of(pruned, source, target), b = logits_of(again, source, target);
      REQUIRE(a.size() == b.size());
      CHECK(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
      CHECK(std::filesystem::file_size(folder / "pruned" / "model.safetensors") <
            std::filesystem::file_size(folder / "whole" / "model.safetensors"));
      CHECK(hr::parameter_count(pruned.config()).total() < hr::parameter_count(config).total());
      const numbers lengths{9, 30};
      const auto targets = config.has_cross() ? numbers{4, 11} : numbers{};
      CHECK(hr::forward_flops(pruned.config(), lengths, targets).total() <
            hr::forward_flops(config, lengths, targets).total());
    }
    std::filesystem::remove_all(folder);
  }
}
