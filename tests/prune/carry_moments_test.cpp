#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include <headred/prune/apply.hpp>
#include <headred/prune/carry_moments.hpp>

#include "prune/small_models.hpp"

namespace hr = headred;
using headred_test::small_model;
using headred_test::small_models;
using hr::attention_kind;
using hr::cpu;
using hr::index_t;

TEST_SUITE("prune") {
  TEST_CASE("an optimiser's moments follow the weights: whatever is taken of one is taken of the other") {
    cpu be;
    for (const auto& [name, config] : small_models()) {
      CAPTURE(name);
      auto model = small_model<double>(be, config, 3);
      model.train();
      hr::model_gates<double, cpu> gates(be, config);
      gates.train();
      using list = hr::parameter_list<double, cpu>;
      list parameters(model.weights());
      parameters.add_gates(gates, config);
      hr::adam<double, cpu> before(be, parameters);
      // moments that say where they come from: the weight itself, and twice it
      std::map<std::string, const double*> values;
      for (const auto& p : before.parameters()) values[p.name] = p.value;
      before.visit_state([&](const std::string& state, auto m) {
        const double factor = state.starts_with("moment2") ? 2 : 1;
        for (index_t i = 0; i < m.size(); ++i) m(i) = factor * values.at(state.substr(8))[i];
      });
      before.set_steps(17);

      hr::prune_plan plan(hr::model_layout(config));
      for (const auto kind : plan.layout().kinds())
        for (index_t l = 0; l < plan.layout().heads(kind).layers(); ++l)
          plan.set_kept(
              kind, l, {0, 2 % plan.layout().heads(kind).heads(l) + (plan.layout().heads(kind).heads(l) == 2 ? 1 : 0)});
      const hr::model_selection selection(plan, config, {hr::shared_layers::refuse, hr::uneven_groups::repeat});
      hr::transformer<double, cpu> pruned(be, selection.config(), hr::apply(selection, be, model.weights()));
      hr::model_gates<double, cpu> fewer(be, selection.config());
      fewer.train();
      list rest(pruned.weights());  // they train, as the model's did
      rest.add_gates(fewer, selection.config());
      hr::adam<double, cpu> after(be, rest);
      hr::carry_moments(selection, before, after);
      CHECK(after.steps() == 17);
      values.clear();
      for (const auto& p : after.parameters()) values[p.name] = p.value;
      index_t compared = 0;
      after.visit_state([&](const std::string& state, auto m) {
        const double factor = state.starts_with("moment2") ? 2 : 1;
        for (index_t i = 0; i < m.size(); ++i, ++compared) CHECK(m(i) == factor * values.at(state.substr(8))[i]);
      });
      CHECK(compared == 2 * after.parameters().values());

      list some;
      some.add("encoder_norm.scale", model.weights().encoder_norm.scale);
      list other;
      other.add("source.tokens", model.weights().source.tokens);
      hr::adam<double, cpu> narrow(be, other);
      try {
        hr::carry_moments(selection, narrow, after);
        FAIL("no error");
      } catch (const hr::argument_error& problem) {
        CHECK(std::string(problem.what()).find("carry_moments: there are no moments of ") == 0);
      }
    }
  }
}
