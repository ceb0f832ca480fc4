// model_selection: what of each parameter stays when a plan is carried out, and the geometry of the model that is left.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/prune/model_layout.hpp>
#include <headred/prune/plan.hpp>

namespace headred {

/// Layers that share one set of weights (ALBERT), stay, and lose different heads or neurons.
enum class shared_layers {
  refuse,  ///< argument_error
  untie,   ///< such layers get sets of their own; layers that lose the same still share one
};

/// Key/value groups that a layer's remaining heads fill unevenly.
enum class uneven_groups {
  refuse,  ///< argument_error; plans of unit kv_group never come to this
  repeat,  ///< the key/value heads are repeated until the groups are even; training then moves the copies apart
};

struct apply_options {
  shared_layers shared = shared_layers::refuse;
  uneven_groups uneven = uneven_groups::refuse;
};

/// A factor for every head of a kind, [layer][head]; a kind without an entry has factors of 1.
using head_factors = std::map<attention_kind, std::vector<std::vector<double>>>;

/// A factor for every neuron of a stack, [layer][neuron]; a stack without an entry has factors of 1.
using neuron_factors = std::map<model_stack, std::vector<std::vector<double>>>;

/// What is taken of one parameter: on `axis`, the pieces of `piece` rows (or columns) numbered `pieces`, in this order.
struct parameter_selection {
  std::string from;   ///< the parameter's name in the unpruned model
  int axis = -1;      ///< -1: all of it
  index_t piece = 1;  ///< rows of one head
  index_t count = 0;  ///< pieces in the unpruned parameter
  std::vector<index_t> pieces = {};
  std::vector<double> factors = {};  ///< one a piece where gates are folded into the parameter (O, W2), else empty
};

/// What a plan leaves of a model: rows of Q for the kept heads, rows of K and V for the groups that have one, columns
/// of O, and their biases; rows of W1 and b1 and columns of W2 for the kept neurons; of a layer that goes nothing, so
/// that its input is its output, without its norms before or after blocks. O's own bias, b2 and all else stays whole. A
/// function of the plan and the configuration alone, so it serves weights and whatever is shaped like them, such as the
/// moments of an optimiser.
///   A layer may lose all heads and neurons: its residual path, the biases of O and W2 and its norms remain. Heads keep
/// their original numbers in the configuration; layers that stay close ranks, and so do the weight sets that they use:
/// where layers share one, it stays as long as one of them does. Sets that untying adds come after the others.
///   heads, neurons : multiplied into O's and W2's columns for what stays; [layer][...] as the plan's layout
/// Throws shape_error for a plan of another model, argument_error as the options say, for an impossible configuration,
/// for a stack that loses all layers, and for factors that are not finite or not one each. Cost O(heads + neurons).
class model_selection {
 public:
  model_selection(const prune_plan& plan, const transformer_config& config, const apply_options& options = {},
                  const head_factors& heads = {}, const neuron_factors& neurons = {})
      : plan_(plan), config_(valid(config)), encoder_(identity(config_.encoder)), decoder_(identity(config_.decoder)) {
    validate_plan(plan, plan.layout().stacks().empty() ? model_layout(config) : whole_layout(config));
    for (const auto& [kind, layers] : heads)
      require_factors(std::string(to_string(kind)), layers, plan.layout().heads(kind).heads_per_layer());
    for (const auto& [stack, layers] : neurons) {
      const stack_config* const own = find_stack(config, stack);
      if (own == nullptr) throw argument_error("apply: the model has no " + std::string(to_string(stack)));
      std::vector<index_t> each;
      for (const layer_config& layer : own->layers) each.push_back(layer.feed_forward);
      require_factors(std::string(to_string(stack)) + " neurons", layers, each);
    }
    const sources from{plan, options, heads, neurons};
    if (config.has_encoder())
      choose(from, model_stack::encoder, config_.encoder, encoder_, attention_kind::encoder_self, false);
    if (config.has_decoder())
      choose(from, model_stack::decoder, config_.decoder, decoder_, attention_kind::decoder_self, config.has_cross());
  }

  /// Of the model that is left.
  const transformer_config& config() const noexcept { return config_; }

  /// What the parameter of that name (as visit_parameters gives it) in the model that is left is made of; names like
  /// "gates.cross.2" are known too. Throws argument_error for a weight set, kind or layer that the model has not.
  parameter_selection of(const std::string& name) const {
    for (const attention_kind kind : plan_.layout().kinds()) {
      const std::string gates = "gates." + std::string(to_string(kind)) + ".";
      if (!name.starts_with(gates)) continue;
      const auto layers = plan_.kept_layers(kind);
      for (std::size_t l = 0; l < layers.size(); ++l)
        if (gates + std::to_string(l) == name)
          return {gates + std::to_string(layers[l]), 0, 1, plan_.layout().heads(kind).heads(layers[l]),
                  plan_.kept(kind, layers[l])};
    }
    if (name.starts_with("gates.")) throw argument_error("model_selection: the model has no " + name);
    for (const std::string_view stack : {"encoder", "decoder"}) {
      const std::size_t dot = name.find('.', stack.size() + 1);
      if (!name.starts_with(stack) || name[stack.size()] != '.' || dot == std::string::npos) continue;
      const auto& sets = stack == "encoder" ? encoder_ : decoder_;
      const std::string number = name.substr(stack.size() + 1, dot - stack.size() - 1);
      for (std::size_t i = 0; i < sets.size(); ++i)
        if (std::to_string(i) == number)
          return part_of(sets[i], std::string(stack) + "." + std::to_string(sets[i].from), name.substr(dot + 1));
      throw argument_error("model_selection: there is no weight set for " + name);
    }
    return {.from = name};
  }

 private:
  struct block {
    index_t heads = 0, kv_heads = 0, head_size = 0;  // before
    std::vector<index_t> kept, groups;               // query heads and key/value heads that stay
    std::vector<double> factors;                     // one a kept head, or empty
    friend bool operator==(const block&, const block&) = default;
  };
  struct weight_set {
    index_t from = 0;
    index_t layer = -1;  // the first that uses it
    block self, cross;
    index_t feed_forward = 0;       // neurons before
    std::vector<index_t> neurons;   // that stay
    std::vector<double> neuron_by;  // one a kept neuron, or empty
    bool same(const weight_set& other) const {
      return from == other.from && self == other.self && cross == other.cross && neurons == other.neurons &&
             neuron_by == other.neuron_by;
    }
  };
  struct sources {
    const prune_plan& plan;
    const apply_options& options;
    const head_factors& heads;
    const neuron_factors& neurons;
  };

  static const transformer_config& valid(const transformer_config& config) {
    validate_config(config);
    return config;
  }
  static std::vector<weight_set> identity(const stack_config& stack) {
    std::vector<weight_set> sets(stack.layers.empty() ? 0 : static_cast<std::size_t>(stack.weight_sets()));
    for (std::size_t i = 0; i < sets.size(); ++i) sets[i].from = static_cast<index_t>(i);
    return sets;
  }

  static void require_factors(const std::string& of, const std::vector<std::vector<double>>& layers,
                              const std::vector<index_t>& each) {
    const std::string name = "apply: the factors of " + of;
    if (layers.size() != each.size())
      throw argument_error(name + " are for " + std::to_string(layers.size()) + " layers, expected " +
                           std::to_string(each.size()));
    for (std::size_t l = 0; l < layers.size(); ++l) {
      if (static_cast<index_t>(layers[l].size()) != each[l])
        throw argument_error(name + " layer " + std::to_string(l) + " are " + std::to_string(layers[l].size()) +
                             ", expected " + std::to_string(each[l]));
      for (const double f : layers[l])
        if (!std::isfinite(f)) throw argument_error(name + " layer " + std::to_string(l) + " are not all finite");
    }
  }

  /// What stays of one attention block, whose configuration is brought up to date.
  static block choose_block(const sources& from, attention_kind kind, index_t layer, attention_config& c) {
    block b{c.heads, c.kv_heads, c.head_size, from.plan.kept(kind, layer), {}, {}};
    if (const auto found = from.heads.find(kind); found != from.heads.end())
      for (const index_t head : b.kept)
        b.factors.push_back(found->second[static_cast<std::size_t>(layer)][static_cast<std::size_t>(head)]);

    const index_t size = c.kv_heads == 0 ? 1 : c.heads / c.kv_heads;
    std::vector<index_t> left(static_cast<std::size_t>(c.kv_heads), 0);  // heads of each group
    for (const index_t head : b.kept) ++left[static_cast<std::size_t>(head / size)];
    index_t common = 0;
    bool even = true;
    for (const index_t n : left) {
      even = even && (n == 0 || common == 0 || n == common);
      common = std::gcd(common, n);
    }
    if (!even && from.options.uneven == uneven_groups::refuse)
      throw argument_error("apply: the plan leaves key/value groups of different sizes in " +
                           std::string(to_string(kind)) + " layer " + std::to_string(layer) +
                           ", expected equal ones (a plan of unit kv_group) or uneven_groups::repeat");
    for (std::size_t g = 0; g < left.size(); ++g)
      if (left[g] > 0) b.groups.insert(b.groups.end(), static_cast<std::size_t>(left[g] / common), index_t(g));

    if (static_cast<index_t>(b.kept.size()) < c.heads) {
      std::vector<index_t> original;
      for (const index_t head : b.kept) original.push_back(c.original_of(head));
      c.original = std::move(original);
    }
    c.heads = static_cast<index_t>(b.kept.size());
    c.kv_heads = static_cast<index_t>(b.groups.size());
    return b;
  }

  /// The neurons that stay of one feed-forward block, whose configuration is brought up to date.
  static void choose_neurons(const sources& from, model_stack stack, index_t layer, weight_set& set, layer_config& c) {
    set.feed_forward = c.feed_forward;
    if (from.plan.layout().contains(stack)) {
      set.neurons = from.plan.kept_neurons(stack, layer);
    } else {
      set.neurons.resize(static_cast<std::size_t>(c.feed_forward));
      std::iota(set.neurons.begin(), set.neurons.end(), index_t{0});
    }
    if (const auto found = from.neurons.find(stack); found != from.neurons.end())
      for (const index_t neuron : set.neurons)
        set.neuron_by.push_back(found->second[static_cast<std::size_t>(layer)][static_cast<std::size_t>(neuron)]);
    c.feed_forward = static_cast<index_t>(set.neurons.size());
  }

  static void choose(const sources& from, model_stack name, stack_config& stack, std::vector<weight_set>& sets,
                     attention_kind self, bool has_cross) {
    const stack_config before = std::move(stack);
    stack = {};
    for (const index_t layer : from.plan.kept_layers(self)) {
      layer_config& c = stack.layers.emplace_back(before.layers[static_cast<std::size_t>(layer)]);
      weight_set wanted;
      wanted.from = before.weights_of(layer);
      wanted.layer = layer;
      wanted.self = choose_block(from, self, layer, c.self);
      if (has_cross) wanted.cross = choose_block(from, attention_kind::cross, layer, c.cross);
      choose_neurons(from, name, layer, wanted, c);
      const auto of_layer = static_cast<std::size_t>(wanted.from);
      auto chosen = sets.begin() + static_cast<std::ptrdiff_t>(of_layer);
      if (chosen->layer < 0) {
        *chosen = std::move(wanted);
      } else {
        chosen =
            std::find_if(sets.begin(), sets.end(), [&](const weight_set& s) { return s.layer >= 0 && s.same(wanted); });
        if (chosen == sets.end() && from.options.shared == shared_layers::refuse)
          throw argument_error("apply: " + std::string(to_string(name)) + " layer " + std::to_string(layer) +
                               " shares its weights with layer " + std::to_string(sets[of_layer].layer) +
                               " and would keep other heads, neurons or factors, expected the same or "
                               "shared_layers::untie");
        if (chosen == sets.end()) chosen = sets.insert(sets.end(), std::move(wanted));
      }
      stack.weights.push_back(static_cast<index_t>(chosen - sets.begin()));
    }
    if (stack.layers.empty())
      throw argument_error("apply: the plan removes every layer of the " + std::string(to_string(name)) +
                           ", expected at least one to stay");
    // sets that no layer uses any more go, the others close ranks
    std::vector<index_t> number(sets.size(), 0);
    index_t next = 0;
    for (std::size_t s = 0; s < sets.size(); ++s) number[s] = sets[s].layer < 0 ? -1 : next++;
    std::erase_if(sets, [](const weight_set& s) { return s.layer < 0; });
    for (index_t& w : stack.weights) w = number[static_cast<std::size_t>(w)];
    if (before.weights.empty()) stack.weights.clear();
  }

  static parameter_selection part_of(const weight_set& set, const std::string& from, const std::string& rest) {
    parameter_selection part{.from = from + "." + rest};
    if (rest.starts_with("expand.") || rest == "contract.weight") {
      part.axis = rest == "contract.weight" ? 1 : 0;
      part.count = set.feed_forward;
      part.pieces = set.neurons;
      if (part.axis == 1) part.factors = set.neuron_by;
      return part;
    }
    const bool self = rest.starts_with("self."), cross = rest.starts_with("cross.");
    if (!self && !cross) return part;
    const block& b = self ? set.self : set.cross;
    const std::string_view name = std::string_view(rest).substr(rest.find('.') + 1);
    part.piece = b.head_size;
    if (name.starts_with("query.")) {
      part.axis = 0;
      part.count = b.heads;
      part.pieces = b.kept;
    } else if (name.starts_with("key.") || name.starts_with("value.")) {
      part.axis = 0;
      part.count = b.kv_heads;
      part.pieces = b.groups;
    } else if (name == "output.weight") {
      part.axis = 1;
      part.count = b.heads;
      part.pieces = b.kept;
      part.factors = b.factors;
    }
    return part;
  }

  prune_plan plan_;
  transformer_config config_;
  std::vector<weight_set> encoder_, decoder_;
};

}  // namespace headred
