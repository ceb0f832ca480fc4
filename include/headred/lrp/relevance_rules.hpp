// relevance_rules: which rule each op of a sweep follows.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string_view>

#include <headred/core/view.hpp>
#include <headred/lrp/rule_policies.hpp>

namespace headred {

/// The kinds of op that a rule can be chosen for.
enum class relevance_op {
  linear,
  add,
  layer_norm,
  activation,
  dropout,
  attention,
  softmax,
  select_rows,
  embedding,
  gate
};

/// The name of a kind of op.
inline std::string_view to_string(relevance_op op) {
  constexpr std::string_view names[] = {"linear",    "add",     "layer_norm",  "activation", "dropout",
                                        "attention", "softmax", "select_rows", "embedding",  "gate"};
  return names[static_cast<std::size_t>(op)];
}

/// What a user's own rule sees of an op with one input: views of the tape's memory, an absent operand empty.
template <class T>
struct relevance_operands {
  relevance_op op = relevance_op::linear;
  tensor_view<const T, 2> x = {};              ///< (R,I)
  tensor_view<const T, 2> y = {};              ///< (R,O)
  tensor_view<const T, 2> weight = {};         ///< (O,I), of linear
  tensor_view<const T, 1> scale = {};          ///< (I), of layer_norm
  tensor_view<const T, 1> bias = {};           ///< (O), of linear and layer_norm
  tensor_view<const T, 2> relevance_out = {};  ///< (R,O)
  tensor_view<T, 2> relevance_in = {};         ///< (R,I), to be written, every entry
};

/// A rule of one's own: writes relevance_in and returns what of the relevance it did not hand on.
template <class T>
using own_rule = std::function<relevance_terms(const relevance_operands<T>&)>;

/// One rule for all ops, others for some kinds of op and for some weights. Activations, dropout, rows and open
/// gates always follow identity; layer_norm does so by default for epsilon and attn, because there J x ~ 0.
template <class T>
class relevance_rules {
 public:
  relevance_rules() : relevance_rules(relevance_rule{}) {}
  /// Throws argument_error for a rule that is not valid, or identity as the rule of all ops.
  relevance_rules(const relevance_rule& rule) : rule_(rule) {
    rule.validate();
    if (rule.kind == rule_kind::identity)
      throw argument_error("relevance_rules: identity for all ops, expected a rule that linear can follow");
    if (rule.kind == rule_kind::epsilon || rule.kind == rule_kind::attn)
      set(relevance_op::layer_norm, relevance_rule::identity());
  }

  /// Another rule for a kind of op.
  relevance_rules& set(relevance_op op, const relevance_rule& rule) {
    rule.validate();
    by_op_[static_cast<std::size_t>(op)] = rule;
    return *this;
  }
  /// Another rule for the op whose weight (of a linear) or scale (of a layer_norm) this parameter is.
  template <class Parameter>
  relevance_rules& set_for(const Parameter& weight, const relevance_rule& rule) {
    rule.validate();
    by_weight_[static_cast<const void*>(&weight)] = rule;
    return *this;
  }
  /// A user's rule for a kind of op with one input: linear, layer_norm, activation or softmax.
  relevance_rules& set_own(relevance_op op, own_rule<T> rule) {
    if (op != relevance_op::linear && op != relevance_op::layer_norm && op != relevance_op::activation &&
        op != relevance_op::softmax)
      throw argument_error("relevance_rules: an own rule for " + std::string(to_string(op)) +
                           ", expected linear, layer_norm, activation or softmax");
    own_[static_cast<std::size_t>(op)] = std::move(rule);
    return *this;
  }

  /// The rule of an op: that of its weight, else of its kind, else the one for all.
  const relevance_rule& of(relevance_op op, const void* weight = nullptr) const {
    if (weight != nullptr)
      if (const auto found = by_weight_.find(weight); found != by_weight_.end()) return found->second;
    const auto& rule = by_op_[static_cast<std::size_t>(op)];
    return rule ? *rule : rule_;
  }
  /// A user's rule for this kind of op, or none.
  const own_rule<T>* own(relevance_op op) const {
    const auto& rule = own_[static_cast<std::size_t>(op)];
    return rule ? &rule : nullptr;
  }

 private:
  static constexpr std::size_t ops = static_cast<std::size_t>(relevance_op::gate) + 1;
  relevance_rule rule_;
  std::array<std::optional<relevance_rule>, ops> by_op_;
  std::array<own_rule<T>, ops> own_;
  std::map<const void*, relevance_rule> by_weight_;
};

}  // namespace headred
