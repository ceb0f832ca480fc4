// Numbering of the heads of one attention kind when layers may hold different head counts.
#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <headred/core/error.hpp>
#include <headred/core/head.hpp>

namespace headred {

/// Flat numbers 0..N-1 for (layer, head), layer-major; a layer may have any number of heads, zero included.
class head_layout {
 public:
  head_layout() = default;
  /// `layers` layers of `heads` heads each.
  head_layout(index_t layers, index_t heads)
      : head_layout(std::vector<index_t>(checked(layers, "layers"), checked_heads(heads))) {}
  /// One entry a layer: its number of heads.
  explicit head_layout(std::vector<index_t> heads_per_layer) : heads_(std::move(heads_per_layer)) {
    first_.reserve(heads_.size() + 1);
    for (const index_t h : heads_) {
      if (checked_heads(h) > std::numeric_limits<index_t>::max() - first_.back())
        throw argument_error("head_layout: the number of heads overflows");
      first_.push_back(first_.back() + h);
    }
  }

  /// Number of layers, those without heads included.
  index_t layers() const noexcept { return static_cast<index_t>(heads_.size()); }
  /// Number of heads of one layer. Throws argument_error for a layer that is not there.
  index_t heads(index_t layer) const {
    if (layer < 0 || layer >= layers())
      throw argument_error("layer " + std::to_string(layer) + " is not in a layout of " + std::to_string(layers()) +
                           " layers");
    return heads_[static_cast<std::size_t>(layer)];
  }
  const std::vector<index_t>& heads_per_layer() const noexcept { return heads_; }
  /// Number of heads in all.
  index_t size() const noexcept { return first_.empty() ? 0 : first_.back(); }  // empty: moved from

  /// Number of a head among all, layer after layer. Throws argument_error for a head that is not there.
  index_t flat(head_id id) const {
    if (id.layer < 0 || id.layer >= layers() || id.head < 0 || id.head >= heads(id.layer))
      throw argument_error("head (" + std::to_string(id.layer) + "," + std::to_string(id.head) +
                           ") is not in a layout of " + std::to_string(layers()) + " layers");
    return first_[static_cast<std::size_t>(id.layer)] + id.head;
  }
  /// The head of this number. Throws argument_error for a number outside [0, size()).
  head_id id(index_t flat) const {
    if (flat < 0 || flat >= size())
      throw argument_error("head number " + std::to_string(flat) + " is not in [0," + std::to_string(size()) + ")");
    const auto next = std::upper_bound(first_.begin(), first_.end(), flat);
    const index_t layer = static_cast<index_t>(next - first_.begin()) - 1;
    return {layer, flat - first_[static_cast<std::size_t>(layer)]};
  }

  friend bool operator==(const head_layout&, const head_layout&) = default;

 private:
  static std::size_t checked(index_t n, const char* name) {
    constexpr index_t most = index_t{1} << 31;
    if (n < 0 || n > most)
      throw argument_error(std::string(name) + " is " + std::to_string(n) + ", expected 0 to " + std::to_string(most));
    return static_cast<std::size_t>(n);
  }
  static index_t checked_heads(index_t n) { return static_cast<index_t>(checked(n, "heads of a layer")); }

  std::vector<index_t> heads_;
  std::vector<index_t> first_{0};  // flat number of each layer's first head; one past the end last
};

}  // namespace headred
