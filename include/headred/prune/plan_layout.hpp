// The heads that a model had before anything was pruned: what the numbers in a plan refer to.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <headred/core/head_layout.hpp>

namespace headred {

/// Heads per layer of each attention kind, and how they share key/value heads.
/// A layer of H heads has key/value groups of consecutive heads; their sizes are at least 1 and sum to H. A layer without
/// shared key/value heads has H groups of one head. Throws argument_error, see `add`; cost O(layers).
class plan_layout {
 public:
  /// Most heads that one layer may have.
  static constexpr index_t max_heads = 4096;
  /// Most heads that all layers of all kinds may have together.
  static constexpr index_t max_heads_in_all = index_t{1} << 22;

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

  bool contains(attention_kind kind) const noexcept {
    return std::any_of(entries_.begin(), entries_.end(), [&](const entry& e) { return e.kind == kind; });
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

  std::vector<entry> entries_;  // by kind
};

/// The layout in one line for messages: "encoder_self 12x12 heads", "cross 5,1,12 heads; layer 2 in groups 6+6".
inline std::string to_string(const plan_layout& layout) {
  std::string text;
  for (const attention_kind kind : layout.kinds()) {
    const head_layout& heads = layout.heads(kind);
    const auto& each = heads.heads_per_layer();
    text.append(text.empty() ? "" : ", ").append(to_string(kind)).append(" ");
    if (std::all_of(each.begin(), each.end(), [&](index_t h) { return h == each.front(); })) {
      text.append(std::to_string(heads.layers())).append("x").append(std::to_string(each.front()));
    } else {
      for (std::size_t i = 0; i < each.size(); ++i) text.append(i ? "," : "").append(std::to_string(each[i]));
    }
    text += " heads";
    for (index_t layer = 0; layer < heads.layers(); ++layer) {
      if (!layout.grouped(kind, layer)) continue;
      text.append("; layer ").append(std::to_string(layer)).append(" in groups ");
      const auto sizes = layout.groups(kind, layer);
      for (std::size_t i = 0; i < sizes.size(); ++i) text.append(i ? "+" : "").append(std::to_string(sizes[i]));
    }
  }
  return text.empty() ? "no attention" : text;
}

}  // namespace headred
