// The heads, neurons and layers that a model had before anything was pruned: what the numbers in a plan refer to.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <headred/core/head_layout.hpp>
#include <headred/nn/model_stack.hpp>

namespace headred {

/// Heads per layer of each attention kind, how they share key/value heads, and neurons per layer of each stack.
/// A layer of H heads has key/value groups of consecutive heads; their sizes are at least 1 and sum to H. A layer
/// without shared key/value heads has H groups of one head. A layout need not name stacks: plans for it prune heads
/// alone.
/// Throws argument_error, see `add` and `add_stack`; cost O(layers).
class plan_layout {
 public:
  /// Most heads that one layer may have.
  static constexpr index_t max_heads = 4096;
  /// Most heads that all layers of all kinds may have together.
  static constexpr index_t max_heads_in_all = index_t{1} << 22;
  /// Most neurons that one feed-forward block may have, and all of them together.
  static constexpr index_t max_neurons = index_t{1} << 20;
  static constexpr index_t max_neurons_in_all = index_t{1} << 23;

  plan_layout() = default;
  /// A model with one attention kind and no shared key/value heads.
  explicit plan_layout(head_layout heads, attention_kind kind = attention_kind::encoder_self) {
    add(kind, std::move(heads));
  }

  /// Adds a kind; `groups[layer]` lists the sizes of the layer's key/value groups, empty where none is shared.
  /// Throws argument_error for an unknown or repeated kind, no layers, a layer above max_heads, groups that do not fit.
  plan_layout& add(attention_kind kind, head_layout heads, std::vector<std::vector<index_t>> groups = {}) {
    const std::string name(to_string(kind));
    if (name == "unknown") throw argument_error("plan_layout: unknown attention kind " + std::to_string(int(kind)));
    if (contains(kind)) throw argument_error("plan_layout: " + name + " is given twice");
    if (heads.layers() == 0) throw argument_error("plan_layout: " + name + " has no layers, expected at least 1");
    if (heads.size() > max_heads_in_all - size())
      throw argument_error("plan_layout: " + name + " has " + std::to_string(heads.size()) +
                           " heads, expected at most " + std::to_string(max_heads_in_all) + " in all");
    if (!groups.empty() && static_cast<index_t>(groups.size()) != heads.layers())
      throw argument_error("plan_layout: " + name + " has groups for " + std::to_string(groups.size()) +
                           " layers, expected " + std::to_string(heads.layers()));
    groups.resize(static_cast<std::size_t>(heads.layers()));
    for (index_t layer = 0; layer < heads.layers(); ++layer)
      check_layer(name, layer, heads.heads(layer), groups[static_cast<std::size_t>(layer)]);
    if (contains(stack_of(kind))) require_layers(stack_of(kind), name, heads.layers(), layers(stack_of(kind)));
    const auto later = [&](const entry& e) { return e.kind > kind; };
    entries_.insert(std::find_if(entries_.begin(), entries_.end(), later), {kind, std::move(heads), std::move(groups)});
    return *this;
  }

  /// Adds a kind whose layers each share `kv_heads` key/value heads evenly; layers without heads stay empty.
  /// Throws argument_error as `add`, and where kv_heads does not divide a layer's heads.
  plan_layout& add_grouped(attention_kind kind, head_layout heads, index_t kv_heads) {
    std::vector<std::vector<index_t>> groups;
    for (const index_t h : heads.heads_per_layer()) {
      if (kv_heads < 1 || h % kv_heads != 0 || h > max_heads)
        throw argument_error("plan_layout: " + std::string(to_string(kind)) + " has " + std::to_string(kv_heads) +
                             " key/value heads, expected a divisor of " + std::to_string(h) + " heads");
      groups.emplace_back(h == 0 ? 0 : static_cast<std::size_t>(kv_heads), h / kv_heads);
    }
    return add(kind, std::move(heads), std::move(groups));
  }

  /// Adds a stack by the neurons of its layers' feed-forward blocks: plans may then keep some of its neurons and
  /// layers.
  /// Throws argument_error for an unknown or repeated stack, no layers, another number of them than its attention has,
  /// neurons outside [0, max_neurons], or more than max_neurons_in_all in all.
  plan_layout& add_stack(model_stack stack, std::vector<index_t> neurons) {
    const std::string name(to_string(stack));
    if (name == "unknown") throw argument_error("plan_layout: unknown stack " + std::to_string(int(stack)));
    if (contains(stack)) throw argument_error("plan_layout: stack " + name + " is given twice");
    if (neurons.empty()) throw argument_error("plan_layout: stack " + name + " has no layers, expected at least 1");
    const auto count = static_cast<index_t>(neurons.size());
    for (const entry& e : entries_)
      if (stack_of(e.kind) == stack) require_layers(stack, std::string(to_string(e.kind)), e.heads.layers(), count);
    index_t left = max_neurons_in_all - this->neurons();
    for (std::size_t l = 0; l < neurons.size(); ++l) {
      if (neurons[l] < 0 || neurons[l] > max_neurons)
        throw argument_error("plan_layout: " + name + " layer " + std::to_string(l) + " has " +
                             std::to_string(neurons[l]) + " neurons, expected 0 to " + std::to_string(max_neurons));
      if (neurons[l] > left)
        throw argument_error("plan_layout: stack " + name + " has more neurons than the " +
                             std::to_string(max_neurons_in_all) + " expected at most in all");
      left -= neurons[l];
    }
    const auto later = [&](const stack_entry& e) { return e.stack > stack; };
    stacks_.insert(std::find_if(stacks_.begin(), stacks_.end(), later), {stack, std::move(neurons)});
    return *this;
  }
  /// Adds the stacks of another layout. Throws argument_error as add_stack.
  plan_layout& add_stacks(const plan_layout& from) {
    for (const stack_entry& e : from.stacks_) add_stack(e.stack, e.neurons);
    return *this;
  }

  bool contains(attention_kind kind) const noexcept {
    return std::any_of(entries_.begin(), entries_.end(), [&](const entry& e) { return e.kind == kind; });
  }
  bool contains(model_stack stack) const noexcept {
    return std::any_of(stacks_.begin(), stacks_.end(), [&](const stack_entry& e) { return e.stack == stack; });
  }
  /// The stacks named, in the order of the enumeration.
  std::vector<model_stack> stacks() const {
    std::vector<model_stack> all;
    for (const stack_entry& e : stacks_) all.push_back(e.stack);
    return all;
  }
  /// Neurons of a stack's layers; throws argument_error where the layout names no such stack.
  const std::vector<index_t>& neurons(model_stack stack) const {
    for (const stack_entry& e : stacks_)
      if (e.stack == stack) return e.neurons;
    throw argument_error("plan_layout: the layout names no neurons of the " + std::string(to_string(stack)));
  }
  /// Layers of a stack; throws as `neurons`.
  index_t layers(model_stack stack) const { return static_cast<index_t>(neurons(stack).size()); }
  /// Neurons of all stacks together.
  index_t neurons() const noexcept {
    index_t n = 0;
    for (const stack_entry& e : stacks_)
      for (const index_t own : e.neurons) n += own;
    return n;
  }
  /// The same without stacks.
  plan_layout heads_alone() const {
    plan_layout heads;
    heads.entries_ = entries_;
    return heads;
  }
  /// Whether a plan for this layout speaks of that model: heads alike, and stacks too where this one names any.
  bool fits(const plan_layout& model) const {
    return entries_ == model.entries_ && (stacks_.empty() || stacks_ == model.stacks_);
  }

  /// The kinds present, in the order of the enumeration.
  std::vector<attention_kind> kinds() const {
    std::vector<attention_kind> all;
    for (const entry& e : entries_) all.push_back(e.kind);
    return all;
  }
  /// Heads per layer of a kind; throws argument_error where the model has no such kind.
  const head_layout& heads(attention_kind kind) const { return find(kind).heads; }
  /// Heads of all kinds together.
  index_t size() const noexcept {
    index_t n = 0;
    for (const entry& e : entries_) n += e.heads.size();
    return n;
  }

  /// Whether some heads of the layer share a key/value head; throws argument_error for an unknown kind or layer.
  bool grouped(attention_kind kind, index_t layer) const { return !stored_groups(kind, layer).empty(); }
  /// Sizes of the layer's key/value groups, in head order; throws argument_error for an unknown kind or layer.
  std::vector<index_t> groups(attention_kind kind, index_t layer) const {
    const auto& stored = stored_groups(kind, layer);
    return stored.empty() ? std::vector<index_t>(static_cast<std::size_t>(heads(kind).heads(layer)), 1) : stored;
  }

  friend bool operator==(const plan_layout&, const plan_layout&) = default;

 private:
  struct entry {
    attention_kind kind;
    head_layout heads;
    std::vector<std::vector<index_t>> groups;  // [layer]; empty when every head has its own key/value head
    friend bool operator==(const entry&, const entry&) = default;
  };

  struct stack_entry {
    model_stack stack;
    std::vector<index_t> neurons;  // [layer]
    friend bool operator==(const stack_entry&, const stack_entry&) = default;
  };

  static void require_layers(model_stack stack, const std::string& kind, index_t found, index_t expected) {
    if (found != expected)
      throw argument_error("plan_layout: " + kind + " has " + std::to_string(found) + " layers, expected the " +
                           std::to_string(expected) + " of the " + std::string(to_string(stack)));
  }

  static void check_layer(const std::string& name, index_t layer, index_t heads, std::vector<index_t>& groups) {
    const std::string where = "plan_layout: " + name + " layer " + std::to_string(layer);
    if (heads > max_heads)
      throw argument_error(where + " has " + std::to_string(heads) + " heads, expected at most " +
                           std::to_string(max_heads));
    index_t sum = 0;
    for (const index_t size : groups) {
      if (size < 1 || size > heads - sum)
        throw argument_error(where + ": its key/value groups do not divide " + std::to_string(heads) + " heads");
      sum += size;
    }
    if (!groups.empty() && sum != heads)
      throw argument_error(where + ": its key/value groups hold " + std::to_string(sum) + " heads, expected " +
                           std::to_string(heads));
    // One form for "nothing shared", so that equal layouts compare equal.
    if (static_cast<index_t>(groups.size()) == heads) groups.clear();
  }

  const entry& find(attention_kind kind) const {
    for (const entry& e : entries_)
      if (e.kind == kind) return e;
    throw argument_error("plan_layout: the model has no attention of kind " + std::string(to_string(kind)));
  }

  const std::vector<index_t>& stored_groups(attention_kind kind, index_t layer) const {
    const entry& e = find(kind);
    if (layer < 0 || layer >= e.heads.layers())
      throw argument_error("plan_layout: " + std::string(to_string(kind)) + " has no layer " + std::to_string(layer) +
                           ", expected [0," + std::to_string(e.heads.layers()) + ")");
    return e.groups[static_cast<std::size_t>(layer)];
  }

  std::vector<entry> entries_;       // by kind
  std::vector<stack_entry> stacks_;  // by stack
};

/// The layout in one line for messages: "encoder_self 12x12 heads, encoder 12x3072 neurons", "cross 5,1,12 heads; layer
/// 2 in groups 6+6".
inline std::string to_string(const plan_layout& layout) {
  std::string text;
  const auto append = [&](const std::vector<index_t>& each) {
    if (std::all_of(each.begin(), each.end(), [&](index_t n) { return n == each.front(); })) {
      text.append(std::to_string(each.size())).append("x").append(std::to_string(each.front()));
    } else {
      for (std::size_t i = 0; i < each.size(); ++i) text.append(i ? "," : "").append(std::to_string(each[i]));
    }
  };
  for (const attention_kind kind : layout.kinds()) {
    const head_layout& heads = layout.heads(kind);
    text.append(text.empty() ? "" : ", ").append(to_string(kind)).append(" ");
    append(heads.heads_per_layer());
    text += " heads";
    for (index_t layer = 0; layer < heads.layers(); ++layer) {
      if (!layout.grouped(kind, layer)) continue;
      text.append("; layer ").append(std::to_string(layer)).append(" in groups ");
      const auto sizes = layout.groups(kind, layer);
      for (std::size_t i = 0; i < sizes.size(); ++i) text.append(i ? "+" : "").append(std::to_string(sizes[i]));
    }
  }
  if (text.empty()) text = "no attention";
  for (const model_stack stack : layout.stacks()) {
    text.append(", ").append(to_string(stack)).append(" ");
    append(layout.neurons(stack));
    text += " neurons";
  }
  return text;
}

}  // namespace headred
