// apply: a model without the heads that a plan removes, smaller in memory and in work.
#pragma once

#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <headred/nn/transformer.hpp>
#include <headred/prune/select_pieces.hpp>

namespace headred {

/// The factors of the heads that gates hold, for a model_selection.
template <class T, backend Backend>
head_factors gate_factors(Backend& be, const transformer_config& config, const model_gates<T, Backend>& gates) {
  head_factors factors;
  for (const attention_kind kind : attention_kinds(config)) {
    const auto layers = static_cast<index_t>(attention_blocks(config, kind).size());
    for (index_t l = 0; l < layers; ++l) {
      const auto& own = gates.of(kind, l).value;
      std::vector<T> values(static_cast<std::size_t>(own.size()));
      if (!values.empty()) be.download(values.data(), own.data(), own.bytes());
      be.synchronize();
      factors[kind].emplace_back(values.begin(), values.end());
    }
  }
  return factors;
}

/// The weights that a selection leaves; parameters that collect gradients do so again, from zero.
/// Throws shape_error for weights that are not those of the selection's unpruned model.
template <class T, backend Backend>
transformer_weights<T, Backend> apply(const model_selection& selection, Backend& be,
                                      const transformer_weights<T, Backend>& weights) {
  using source = std::variant<const parameter<T, 1, Backend>*, const parameter<T, 2, Backend>*>;
  std::map<std::string, source> sources;
  visit_parameters(weights, [&](const std::string& name, const auto& p) { sources.emplace(name, &p); });
  transformer_weights<T, Backend> left(be, selection.config());
  visit_parameters(left, [&](const std::string& name, auto& p) {
    const parameter_selection part = selection.of(name);
    using kind = std::remove_reference_t<decltype(p)>;
    const auto found = sources.find(part.from);
    if (found == sources.end() || !std::holds_alternative<const kind*>(found->second))
      throw shape_error("apply: the weights have no " + part.from + ", expected " + shape_text(p.value.shape()) +
                        " for " + name);
    const kind& from = *std::get<const kind*>(found->second);
    auto value = select_pieces(be, from.value.view(), part, true);
    if (value.shape() != p.value.shape())
      throw shape_error("apply: " + part.from + " is " + shape_text(from.value.shape()) + ", expected " +
                        shape_text(p.value.shape()) + " of it for " + name);
    p.value = std::move(value);
    p.train(be, from.trained());
  });
  return left;
}

/// The model without the heads that the plan removes: it computes what the model with gates of 0 on them computes.
///   Plans speak of the model as it is; for one that was pruned before, see plan_after. A plan that removes nothing
/// gives the same model bit by bit. The model itself stays; the result works on its backend.
///   gates, if given : each remaining head's gate is multiplied into O's columns, so that the result without gates
/// computes what the model with these gates and 0 on the removed heads does
/// Throws what model_selection throws: shape_error for a plan of another model, argument_error by the options. Cost
/// O(parameters).
template <class T, host_backend Backend>
transformer<T, Backend> apply(const prune_plan& plan, const transformer<T, Backend>& model,
                              const apply_options& options = {},
                              const std::type_identity_t<model_gates<T, Backend>>* gates = nullptr) {
  Backend& be = model.backend();
  const model_selection selection(plan, model.config(), options,
                                  gates == nullptr ? head_factors() : gate_factors(be, model.config(), *gates));
  return transformer<T, Backend>(be, selection.config(), apply(selection, be, model.weights()));
}

}  // namespace headred
