// prune_plan: which heads, neurons and layers of a model stay.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <headred/prune/plan_layout.hpp>
#include <headred/prune/prune_unit.hpp>

namespace headred {

/// The heads that stay, for each attention kind and layer, in the numbers of the unpruned model; and where the layout
/// names stacks, the neurons of each feed-forward block and the layers. A layer that goes takes its heads and neurons
/// along. A key/value head goes when the last query head of its group goes, and stays with all its width as long as one
/// of them is kept. A plan of unit `head` may keep part of a group; a plan of unit `kv_group` keeps or removes groups
/// whole. A new plan keeps everything. Every member that takes a kind, stack, layer, head or neuron throws
/// argument_error, naming it, where the layout has none such; on an exception the plan is unchanged.
class prune_plan {
 public:
  /// Newest version of the text and JSON forms: 2 has neurons and layers. A plan of heads alone is written as version
  /// 1.
  static constexpr int schema = 2;

  prune_plan() = default;
  /// Keeps everything in the layout.
  explicit prune_plan(plan_layout layout, prune_unit unit = prune_unit::head)
      : layout_(std::move(layout)), unit_(checked(unit)) {
    for (const attention_kind kind : layout_.kinds()) {
      auto& layers = kept_[kind];
      for (const index_t heads : layout_.heads(kind).heads_per_layer()) layers.push_back(numbers_below(heads));
    }
    for (const model_stack stack : layout_.stacks()) {
      auto& layers = part(stack).neurons;
      for (const index_t neurons : layout_.neurons(stack)) layers.push_back(numbers_below(neurons));
      part(stack).layers = numbers_below(layout_.layers(stack));
    }
  }

  /// Removes everything in the layout: the start of a plan that is filled layer by layer. Where the layout names stacks,
  /// set_kept_layers comes first; it gives layers back whole.
  static prune_plan keep_nothing(plan_layout layout, prune_unit unit = prune_unit::head) {
    prune_plan plan;
    plan.unit_ = checked(unit);
    plan.layout_ = std::move(layout);
    for (const attention_kind kind : plan.layout_.kinds())
      plan.kept_[kind].resize(static_cast<std::size_t>(plan.layout_.heads(kind).layers()));
    for (const model_stack stack : plan.layout_.stacks())
      plan.part(stack).neurons.resize(static_cast<std::size_t>(plan.layout_.layers(stack)));
    return plan;
  }

  /// Layout of the unpruned model.
  const plan_layout& layout() const noexcept { return layout_; }
  prune_unit unit() const noexcept { return unit_; }

  /// Heads of the layer that stay, ascending.
  const std::vector<index_t>& kept(attention_kind kind, index_t layer) const {
    const auto& layers = layers_of(kind);
    require_layer(kind, layer);
    return layers[static_cast<std::size_t>(layer)];
  }
  /// Heads of the kind that stay, as flat layer-major numbers, ascending.
  std::vector<index_t> kept(attention_kind kind) const {
    const head_layout& heads = layout_.heads(kind);
    std::vector<index_t> flat;
    for (index_t layer = 0; layer < heads.layers(); ++layer)
      for (const index_t head : kept(kind, layer)) flat.push_back(heads.flat({layer, head}));
    return flat;
  }
  /// Key/value groups of the layer with at least one kept head, ascending.
  std::vector<index_t> kept_groups(attention_kind kind, index_t layer) const {
    const std::vector<index_t> group = group_of_heads(kind, layer);
    std::vector<index_t> groups;
    for (const index_t head : kept(kind, layer)) {
      const index_t g = group[static_cast<std::size_t>(head)];
      if (groups.empty() || groups.back() != g) groups.push_back(g);
    }
    return groups;
  }
  bool is_kept(attention_kind kind, head_id id) const {
    const auto& heads = kept(kind, id.layer);
    require_head(kind, id.layer, id.head);
    return std::binary_search(heads.begin(), heads.end(), id.head);
  }

  /// Number of heads that stay: in a layer, in a kind, in all.
  index_t count(attention_kind kind, index_t layer) const { return static_cast<index_t>(kept(kind, layer).size()); }
  index_t count(attention_kind kind) const {
    index_t n = 0;
    for (const auto& heads : layers_of(kind)) n += static_cast<index_t>(heads.size());
    return n;
  }
  index_t count() const {
    index_t n = 0;
    for (const auto& [kind, layers] : kept_) n += count(kind);
    return n;
  }

  /// Neurons of the layer that stay, ascending; none in a layer that goes.
  const std::vector<index_t>& kept_neurons(model_stack stack, index_t layer) const {
    require_layer(stack, layer);
    return part(stack).neurons[static_cast<std::size_t>(layer)];
  }
  /// Layers of the stack that stay, ascending.
  const std::vector<index_t>& kept_layers(model_stack stack) const {
    static_cast<void>(layout_.neurons(stack));  // names the stack when the layout does not
    return part(stack).layers;
  }
  /// Layers of the kind that stay: all of them where the layout does not name the stack.
  std::vector<index_t> kept_layers(attention_kind kind) const {
    const index_t layers = layout_.heads(kind).layers();
    return layout_.contains(stack_of(kind)) ? part(stack_of(kind)).layers : numbers_below(layers);
  }
  bool is_kept(model_stack stack, index_t layer) const {
    require_layer(stack, layer);
    const auto& layers = part(stack).layers;
    return std::binary_search(layers.begin(), layers.end(), layer);
  }
  /// Number of neurons and of layers that stay, in all stacks.
  index_t neuron_count() const {
    index_t n = 0;
    for (const stack_part& own : stacks_)
      for (const auto& neurons : own.neurons) n += static_cast<index_t>(neurons.size());
    return n;
  }
  index_t layer_count() const {
    index_t n = 0;
    for (const stack_part& own : stacks_) n += static_cast<index_t>(own.layers.size());
    return n;
  }
  bool removes_nothing() const {
    index_t layers = 0;
    for (const model_stack stack : layout_.stacks()) layers += layout_.layers(stack);
    return count() == layout_.size() && neuron_count() == layout_.neurons() && layer_count() == layers;
  }

  /// Keeps exactly these heads of the layer, given in any order. Throws argument_error also for a head named twice and,
  /// in a plan of unit kv_group, for a group kept in part.
  void set_kept(attention_kind kind, index_t layer, std::vector<index_t> heads) {
    auto& place = slot(kind, layer);
    for (const index_t head : heads) require_head(kind, layer, head);
    require_once(where(kind, layer), "head", heads);
    require_there(kind, layer, heads.empty());
    if (unit_ == prune_unit::kv_group) require_whole_groups(kind, layer, heads);
    place = std::move(heads);
  }
  /// Keeps exactly the heads of these key/value groups of the layer, given in any order.
  void set_kept_groups(attention_kind kind, index_t layer, std::vector<index_t> groups) {
    require_layer(kind, layer);
    const std::vector<index_t> group = group_of_heads(kind, layer);
    const index_t count = group.empty() ? 0 : group.back() + 1;
    for (const index_t g : groups) require_below(where(kind, layer), "group", g, count);
    require_once(where(kind, layer), "group", groups);
    require_there(kind, layer, groups.empty());
    std::vector<index_t> heads;
    for (std::size_t h = 0; h < group.size(); ++h)
      if (std::binary_search(groups.begin(), groups.end(), group[h])) heads.push_back(static_cast<index_t>(h));
    slot(kind, layer) = std::move(heads);
  }
  /// Keeps exactly these heads of the kind, given as flat layer-major numbers in any order.
  void set_kept(attention_kind kind, std::span<const index_t> flat) {
    const head_layout& heads = layout_.heads(kind);
    std::vector<std::vector<index_t>> layers(static_cast<std::size_t>(heads.layers()));
    for (const index_t number : flat) {
      const head_id id = heads.id(number);
      layers[static_cast<std::size_t>(id.layer)].push_back(id.head);
    }
    prune_plan next = *this;
    for (index_t layer = 0; layer < heads.layers(); ++layer)
      next.set_kept(kind, layer, std::move(layers[static_cast<std::size_t>(layer)]));
    *this = std::move(next);
  }

  /// Keeps exactly these neurons of the layer, given in any order. Throws argument_error also for a neuron named twice
  /// and for a layer that goes.
  void set_kept_neurons(model_stack stack, index_t layer, std::vector<index_t> neurons) {
    require_layer(stack, layer);
    const index_t all = layout_.neurons(stack)[static_cast<std::size_t>(layer)];
    for (const index_t neuron : neurons) require_below(where(stack, layer), "neuron", neuron, all);
    require_once(where(stack, layer), "neuron", neurons);
    if (!neurons.empty() && !is_kept(stack, layer))
      throw argument_error(where(stack, layer) + " is removed, expected it in set_kept_layers before its neurons");
    part(stack).neurons[static_cast<std::size_t>(layer)] = std::move(neurons);
  }
  /// Keeps exactly these layers of the stack, given in any order: others go with their heads and neurons, those that
  /// were gone come back whole. Throws argument_error also for a layer named twice.
  void set_kept_layers(model_stack stack, std::vector<index_t> layers) {
    const index_t all = layout_.layers(stack);
    const std::string name = "prune_plan: " + std::string(to_string(stack));
    for (const index_t layer : layers) require_below(name, "layer", layer, all);
    require_once(name, "layer", layers);
    prune_plan next = *this;
    for (index_t layer = 0; layer < all; ++layer) {
      const bool stays = std::binary_search(layers.begin(), layers.end(), layer);
      if (stays == is_kept(stack, layer)) continue;
      const auto at = static_cast<std::size_t>(layer);
      const auto own = [&](index_t n) { return stays ? numbers_below(n) : std::vector<index_t>(); };
      next.part(stack).neurons[at] = own(layout_.neurons(stack)[at]);
      for (auto& [kind, heads] : next.kept_)
        if (stack_of(kind) == stack) heads[at] = own(layout_.heads(kind).heads(layer));
    }
    next.part(stack).layers = std::move(layers);
    *this = std::move(next);
  }

  /// The same plan for a layout that names stacks as well, of which it keeps everything.
  /// Throws shape_error unless this plan's layout fits the other.
  prune_plan with_layout(plan_layout layout) const {
    if (!layout_.fits(layout))
      throw shape_error("prune_plan: the plan is for " + to_string(layout_) + ", expected " + to_string(layout));
    if (layout_ == layout) return *this;
    prune_plan other(std::move(layout), unit_);
    other.kept_ = kept_;
    return other;
  }
  /// The same kept units as a plan of another unit; throws argument_error where a group is kept in part.
  prune_plan with_unit(prune_unit unit) const {
    prune_plan other = *this;
    other.unit_ = checked(unit);
    for (const auto& [kind, layers] : kept_)
      for (index_t layer = 0; layer < static_cast<index_t>(layers.size()); ++layer)
        other.set_kept(kind, layer, layers[static_cast<std::size_t>(layer)]);
    return other;
  }

  /// Equal layout, unit and what is kept.
  friend bool operator==(const prune_plan&, const prune_plan&) = default;

 private:
  struct stack_part {
    std::vector<std::vector<index_t>> neurons;  // [layer], ascending
    std::vector<index_t> layers;                // ascending
    friend bool operator==(const stack_part&, const stack_part&) = default;
  };
  stack_part& part(model_stack stack) { return stacks_[static_cast<std::size_t>(stack)]; }
  const stack_part& part(model_stack stack) const { return stacks_[static_cast<std::size_t>(stack)]; }

  static prune_unit checked(prune_unit unit) {
    if (to_string(unit) == "unknown") throw argument_error("prune_plan: unknown unit " + std::to_string(int(unit)));
    return unit;
  }
  static std::vector<index_t> numbers_below(index_t n) {
    std::vector<index_t> all(static_cast<std::size_t>(n));
    for (index_t i = 0; i < n; ++i) all[static_cast<std::size_t>(i)] = i;
    return all;
  }
  static std::string where(attention_kind kind, index_t layer) {
    return "prune_plan: " + std::string(to_string(kind)) + " layer " + std::to_string(layer);
  }

  static std::string where(model_stack stack, index_t layer) {
    return "prune_plan: " + std::string(to_string(stack)) + " layer " + std::to_string(layer);
  }
  static void require_below(const std::string& where, const char* what, index_t number, index_t count) {
    if (number < 0 || number >= count)
      throw argument_error(where + ": " + what + " " + std::to_string(number) + " is not in [0," +
                           std::to_string(count) + ")");
  }
  // Sorts the numbers.
  static void require_once(const std::string& where, const char* what, std::vector<index_t>& numbers) {
    std::sort(numbers.begin(), numbers.end());
    const auto twice = std::adjacent_find(numbers.begin(), numbers.end());
    if (twice != numbers.end())
      throw argument_error(where + ": " + what + " " + std::to_string(*twice) + " is named twice");
  }
  void require_there(attention_kind kind, index_t layer, bool keeps_nothing) const {
    const model_stack stack = stack_of(kind);
    if (!keeps_nothing && layout_.contains(stack) && !is_kept(stack, layer))
      throw argument_error(where(kind, layer) + " is removed, expected it in set_kept_layers before its heads");
  }
  void require_layer(model_stack stack, index_t layer) const {
    const index_t layers = layout_.layers(stack);
    if (layer < 0 || layer >= layers)
      throw argument_error("prune_plan: the " + std::string(to_string(stack)) + " has no layer " +
                           std::to_string(layer) + ", expected [0," + std::to_string(layers) + ")");
  }
  void require_layer(attention_kind kind, index_t layer) const {
    const index_t layers = layout_.heads(kind).layers();
    if (layer < 0 || layer >= layers)
      throw argument_error("prune_plan: " + std::string(to_string(kind)) + " has no layer " + std::to_string(layer) +
                           ", expected [0," + std::to_string(layers) + ")");
  }
  void require_head(attention_kind kind, index_t layer, index_t head) const {
    require_below(where(kind, layer), "head", head, layout_.heads(kind).heads(layer));
  }
  void require_whole_groups(attention_kind kind, index_t layer, const std::vector<index_t>& heads) const {
    index_t first = 0, number = 0;
    for (const index_t size : layout_.groups(kind, layer)) {
      const auto begin = std::lower_bound(heads.begin(), heads.end(), first);
      const auto found = std::lower_bound(heads.begin(), heads.end(), first + size) - begin;
      if (found != 0 && found != size)
        throw argument_error(where(kind, layer) + ": group " + std::to_string(number) + " keeps " +
                             std::to_string(found) + " of its " + std::to_string(size) +
                             " heads, expected all or none in a plan of unit kv_group");
      first += size;
      ++number;
    }
  }
  // [head] -> its key/value group
  std::vector<index_t> group_of_heads(attention_kind kind, index_t layer) const {
    std::vector<index_t> group;
    index_t number = 0;
    for (const index_t size : layout_.groups(kind, layer)) group.insert(group.end(), std::size_t(size), number++);
    return group;
  }
  const std::vector<std::vector<index_t>>& layers_of(attention_kind kind) const {
    static_cast<void>(layout_.heads(kind));  // names the kind when the model has none such
    return kept_.at(kind);
  }
  std::vector<index_t>& slot(attention_kind kind, index_t layer) {
    require_layer(kind, layer);
    return kept_.at(kind)[static_cast<std::size_t>(layer)];
  }

  plan_layout layout_;
  prune_unit unit_ = prune_unit::head;
  std::map<attention_kind, std::vector<std::vector<index_t>>> kept_;  // [kind][layer] -> heads, ascending
  std::array<stack_part, 2> stacks_;  // [stack]; empty where the layout does not name it
};

/// Refuses a plan that was made for another model: throws shape_error with both layouts in its text. Where the plan is
/// for heads alone, heads alone are compared.
inline void validate_plan(const prune_plan& plan, const plan_layout& model) {
  if (!plan.layout().fits(model))
    throw shape_error("prune_plan: the plan is for " + to_string(plan.layout()) + ", expected " + to_string(model));
}

}  // namespace headred
