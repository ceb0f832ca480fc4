// prune_plan: which heads of a model stay.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <headred/prune/plan_layout.hpp>
#include <headred/prune/prune_unit.hpp>

namespace headred {

/// The heads that stay, for each attention kind and layer, in the numbers of the unpruned model.
/// A key/value head goes when the last query head of its group goes, and stays with all its width as long as one of them
/// is kept. A plan of unit `head` may keep part of a group; a plan of unit `kv_group` keeps or removes groups whole.
/// A new plan keeps everything. Every member that takes a kind, layer or head throws argument_error, naming it, where
/// the layout has none such; on an exception the plan is unchanged.
class prune_plan {
 public:
  /// Version of the text and JSON forms.
  static constexpr int schema = 1;

  prune_plan() = default;
  /// Keeps every head of the layout.
  explicit prune_plan(plan_layout layout, prune_unit unit = prune_unit::head)
      : layout_(std::move(layout)), unit_(checked(unit)) {
    for (const attention_kind kind : layout_.kinds()) {
      auto& layers = kept_[kind];
      for (const index_t heads : layout_.heads(kind).heads_per_layer()) layers.push_back(numbers_below(heads));
    }
  }

  /// Removes every head of the layout: the start of a plan that is filled layer by layer.
  static prune_plan keep_nothing(plan_layout layout, prune_unit unit = prune_unit::head) {
    prune_plan plan;
    plan.unit_ = checked(unit);
    plan.layout_ = std::move(layout);
    for (const attention_kind kind : plan.layout_.kinds())
      plan.kept_[kind].resize(static_cast<std::size_t>(plan.layout_.heads(kind).layers()));
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
  bool removes_nothing() const { return count() == layout_.size(); }

  /// Keeps exactly these heads of the layer, given in any order. Throws argument_error also for a head named twice and,
  /// in a plan of unit kv_group, for a group kept in part.
  void set_kept(attention_kind kind, index_t layer, std::vector<index_t> heads) {
    auto& place = slot(kind, layer);
    for (const index_t head : heads) require_head(kind, layer, head);
    std::sort(heads.begin(), heads.end());
    const auto twice = std::adjacent_find(heads.begin(), heads.end());
    if (twice != heads.end())
      throw argument_error(where(kind, layer) + ": head " + std::to_string(*twice) + " is named twice");
    if (unit_ == prune_unit::kv_group) require_whole_groups(kind, layer, heads);
    place = std::move(heads);
  }
  /// Keeps exactly the heads of these key/value groups of the layer, given in any order.
  void set_kept_groups(attention_kind kind, index_t layer, std::vector<index_t> groups) {
    require_layer(kind, layer);
    const std::vector<index_t> group = group_of_heads(kind, layer);
    const index_t count = group.empty() ? 0 : group.back() + 1;
    std::sort(groups.begin(), groups.end());
    for (const index_t g : groups)
      if (g < 0 || g >= count)
        throw argument_error(where(kind, layer) + ": group " + std::to_string(g) + " is not in [0," +
                             std::to_string(count) + ")");
    const auto twice = std::adjacent_find(groups.begin(), groups.end());
    if (twice != groups.end())
      throw argument_error(where(kind, layer) + ": group " + std::to_string(*twice) + " is named twice");
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

  /// The same kept heads as a plan of another unit; throws argument_error where a group is kept in part.
  prune_plan with_unit(prune_unit unit) const {
    prune_plan other = keep_nothing(layout_, unit);
    for (const auto& [kind, layers] : kept_)
      for (index_t layer = 0; layer < static_cast<index_t>(layers.size()); ++layer)
        other.set_kept(kind, layer, layers[static_cast<std::size_t>(layer)]);
    return other;
  }

  /// Equal layout, unit and kept heads.
  friend bool operator==(const prune_plan&, const prune_plan&) = default;

 private:
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

  void require_layer(attention_kind kind, index_t layer) const {
    const index_t layers = layout_.heads(kind).layers();
    if (layer < 0 || layer >= layers)
      throw argument_error("prune_plan: " + std::string(to_string(kind)) + " has no layer " + std::to_string(layer) +
                           ", expected [0," + std::to_string(layers) + ")");
  }
  void require_head(attention_kind kind, index_t layer, index_t head) const {
    const index_t heads = layout_.heads(kind).heads(layer);
    if (head < 0 || head >= heads)
      throw argument_error(where(kind, layer) + ": head " + std::to_string(head) + " is not in [0," +
                           std::to_string(heads) + ")");
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
};

/// Refuses a plan that was made for another model: throws shape_error with both layouts in its text.
inline void validate_plan(const prune_plan& plan, const plan_layout& model) {
  if (plan.layout() != model)
    throw shape_error("prune_plan: the plan is for " + to_string(plan.layout()) + ", expected " + to_string(model));
}

}  // namespace headred
