// model_selection: what of each parameter stays when heads are removed, and the geometry of the model that is left.
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

/// Layers that share one set of weights (ALBERT) and lose different heads.
enum class shared_layers {
  refuse,  ///< argument_error
  untie,   ///< such layers get sets of their own; layers that lose the same heads still share one
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

/// What is taken of one parameter: on `axis`, the pieces of `piece` rows (or columns) numbered `pieces`, in this order.
struct parameter_selection {
  std::string from;   ///< the parameter's name in the unpruned model
  int axis = -1;      ///< -1: all of it
  index_t piece = 1;  ///< rows of one head
  index_t count = 0;  ///< pieces in the unpruned parameter
  std::vector<index_t> pieces = {};
  std::vector<double> factors = {};  ///< one a piece where gates are folded into the parameter (O), else empty
};

/// What a plan leaves of a model: rows of Q for the kept heads, rows of K and V for the groups that have one, columns of
/// O, and their biases; O's own bias and all else stays whole. A function of the plan and the configuration alone, so it
/// serves weights and whatever is shaped like them, such as the moments of an optimiser.
///   A layer may lose all heads: its residual path and O's bias remain. Heads keep their original numbers in the
/// configuration. Weight sets keep their numbers; sets that untying adds come after them.
///   factors : multiplied into O's columns for the heads that stay; [layer][head] as the plan's layout
/// Throws shape_error for a plan of another model, argument_error as the options say, for an impossible configuration,
/// and for factors that are not finite or not one a head. Cost O(heads).
class model_selection {
 public:
  model_selection(const prune_plan& plan, const transformer_config& config, const apply_options& options = {},
                  const head_factors& factors = {})
      : plan_(plan), config_(valid(config)), encoder_(identity(config_.encoder)), decoder_(identity(config_.decoder)) {
    validate_plan(plan, model_layout(config));
    require_factors(plan, factors);
    if (config.has_encoder())
      choose(plan, options, factors, "encoder", config_.encoder, encoder_, attention_kind::encoder_self, false);
    if (config.has_decoder())
      choose(plan, options, factors, "decoder", config_.decoder, decoder_, attention_kind::decoder_self,
             config.has_cross());
  }

  /// Of the model that is left.
  const transformer_config& config() const noexcept { return config_; }

  /// What the parameter of that name (as visit_parameters gives it) in the model that is left is made of; names like
  /// "gates.cross.2" are known too. Throws argument_error for a weight set, kind or layer that the model has not.
  parameter_selection of(const std::string& name) const {
    for (const attention_kind kind : plan_.layout().kinds()) {
      const std::string gates = "gates." + std::string(to_string(kind)) + ".";
      if (!name.starts_with(gates)) continue;
      for (index_t l = 0; l < plan_.layout().heads(kind).layers(); ++l)
        if (gates + std::to_string(l) == name)
          return {name, 0, 1, plan_.layout().heads(kind).heads(l), plan_.kept(kind, l)};
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

  static void require_factors(const prune_plan& plan, const head_factors& factors) {
    for (const auto& [kind, layers] : factors) {
      const head_layout& heads = plan.layout().heads(kind);
      const std::string name = "apply: the factors of " + std::string(to_string(kind));
      if (static_cast<index_t>(layers.size()) != heads.layers())
        throw argument_error(name + " are for " + std::to_string(layers.size()) + " layers, expected " +
                             std::to_string(heads.layers()));
      for (std::size_t l = 0; l < layers.size(); ++l) {
        const index_t expected = heads.heads(static_cast<index_t>(l));
        if (static_cast<index_t>(layers[l].size()) != expected)
          throw argument_error(name + " layer " + std::to_string(l) + " are " + std::to_string(layers[l].size()) +
                               ", expected " + std::to_string(expected));
        for (const double f : layers[l])
          if (!std::isfinite(f)) throw argument_error(name + " layer " + std::to_string(l) + " are not all finite");
      }
    }
  }

  /// What stays of one attention block, whose configuration is brought up to date.
  static block choose_block(const prune_plan& plan, const apply_options& options, const head_factors& factors,
                            attention_kind kind, index_t layer, attention_config& c) {
    block b{c.heads, c.kv_heads, c.head_size, plan.kept(kind, layer), {}, {}};
    if (const auto found = factors.find(kind); found != factors.end())
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
    if (!even && options.uneven == uneven_groups::refuse)
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

  static void choose(const prune_plan& plan, const apply_options& options, const head_factors& factors,
                     const std::string& name, stack_config& stack, std::vector<weight_set>& sets, attention_kind self,
                     bool has_cross) {
    for (std::size_t l = 0; l < stack.layers.size(); ++l) {
      const auto layer = static_cast<index_t>(l);
      layer_config& c = stack.layers[l];
      weight_set wanted{stack.weights_of(layer), layer, choose_block(plan, options, factors, self, layer, c.self), {}};
      if (has_cross) wanted.cross = choose_block(plan, options, factors, attention_kind::cross, layer, c.cross);
      weight_set& own = sets[static_cast<std::size_t>(wanted.from)];
      if (own.layer < 0) {
        own = std::move(wanted);
        continue;
      }
      const auto same = std::find_if(sets.begin(), sets.end(), [&](const weight_set& s) {
        return s.from == wanted.from && s.layer >= 0 && s.self == wanted.self && s.cross == wanted.cross;
      });
      if (same == sets.end() && options.shared == shared_layers::refuse)
        throw argument_error("apply: " + name + " layer " + std::to_string(layer) + " shares its weights with layer " +
                             std::to_string(own.layer) +
                             " and would keep other heads or factors, expected the same or shared_layers::untie");
      stack.weights[l] = static_cast<index_t>(same - sets.begin());
      if (same == sets.end()) sets.push_back(std::move(wanted));
    }
  }

  static parameter_selection part_of(const weight_set& set, const std::string& from, const std::string& rest) {
    parameter_selection part{.from = from + "." + rest};
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
