// decoding_cache: keys and values of what a decoder has read, so that each step computes those of the new tokens alone.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <headred/backend/tensor.hpp>
#include <headred/nn/sequence.hpp>
#include <headred/nn/transformer_config.hpp>

namespace headred {

/// Keys and values of one attention block: (R, kv_heads head_size) each.
template <class T, backend Backend>
struct kept_keys {
  tensor<T, 2, Backend> keys, values;

  kept_keys() = default;
  kept_keys(Backend& be, index_t rows, const attention_config& c)
      : keys(be, {rows, c.kv_heads * c.head_size}), values(be, {rows, c.kv_heads * c.head_size}) {}
};

/// What the rows of a decoder's batch have read. A row lives in a place that holds `capacity()` tokens in every layer;
/// rows that leave free their place, rows that continue the same row get copies of it. The memory grows by doubling and
/// is kept: once it is large enough nothing is allocated.
template <class T, host_backend Backend>
class decoding_cache {
 public:
  explicit decoding_cache(Backend& be) : backend_(&be) {}

  /// Forgets all rows; begins one row for each sentence, and can hold `most_rows`. `sources` : the rows of each sentence
  /// in the encoder's states, whose keys and values `cross` of each layer then waits for; empty without an encoder.
  void begin(const stack_config& stack, index_t sentences, index_t most_rows, std::span<const sequence> sources) {
    const bool same = places_ >= most_rows && layers_.size() == stack.layers.size() && stack == stack_;
    stack_ = stack;
    if (!same) {
      layers_.clear();
      places_ = most_rows;
      capacity_ = std::max<index_t>(capacity_, least);
      for (const layer_config& c : stack.layers) layers_.emplace_back(*backend_, places_ * capacity_, c.self);
    }
    sources_.assign(sources.begin(), sources.end());
    cross_.resize(sources.empty() ? 0 : stack.layers.size());
    for (std::size_t l = 0; l < cross_.size(); ++l)
      if (!same || cross_[l].keys.extent(0) < rows_of(sources))
        cross_[l] = kept_keys<T, Backend>(*backend_, rows_of(sources), stack.layers[l].cross);
    rows_.clear();
    for (index_t i = 0; i < sentences; ++i) rows_.push_back({i, i, 0});
    free_.clear();
    for (index_t i = places_; i-- > sentences;) free_.push_back(i);
  }

  index_t rows() const noexcept { return static_cast<index_t>(rows_.size()); }
  index_t most_rows() const noexcept { return places_; }
  index_t capacity() const noexcept { return capacity_; }
  /// Tokens that row r has read.
  index_t length(index_t r) const { return at(r).length; }
  /// The sentence that row r belongs to.
  index_t sentence(index_t r) const { return at(r).sentence; }

  kept_keys<T, Backend>& self(index_t layer) { return layers_[static_cast<std::size_t>(layer)]; }
  kept_keys<T, Backend>& cross(index_t layer) { return cross_[static_cast<std::size_t>(layer)]; }
  /// Where the keys of row r lie in `self`, those of `more` new tokens included.
  sequence self_rows(index_t r, index_t more) const { return {at(r).place * capacity_, at(r).length + more}; }
  /// Where the keys of its sentence lie in `cross`.
  sequence cross_rows(index_t r) const { return sources_[static_cast<std::size_t>(at(r).sentence)]; }

  /// Makes room for tokens up to this length of a row.
  void reserve(index_t length) {
    if (length <= capacity_) return;
    const index_t capacity = std::max(length, 2 * capacity_);
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      kept_keys<T, Backend> larger(*backend_, places_ * capacity, stack_.layers[l].self);
      const index_t width = larger.keys.extent(1);
      for (const row& r : rows_)
        for (const auto& [from, to] : {std::pair(&layers_[l].keys, &larger.keys), {&layers_[l].values, &larger.values}})
          std::copy_n(from->data() + r.place * capacity_ * width, r.length * width,
                      to->data() + r.place * capacity * width);
      layers_[l] = std::move(larger);
    }
    capacity_ = capacity;
  }
  /// Row r has read n more tokens.
  void advance(index_t r, index_t n) { rows_[static_cast<std::size_t>(r)].length += n; }

  /// The new row i continues row parents[i]; rows that are nobody's parent are forgotten. The first to continue a row
  /// takes over its place. Throws argument_error for a parent that is not there and for more rows than `most_rows`.
  void select(std::span<const index_t> parents) {
    if (static_cast<index_t>(parents.size()) > places_)
      throw argument_error("decoding_cache: " + std::to_string(parents.size()) + " rows, expected at most " +
                           std::to_string(places_));
    taken_.assign(rows_.size(), false);
    for (const index_t p : parents) {
      if (p < 0 || p >= rows())
        throw argument_error("decoding_cache: there is no row " + std::to_string(p) + " of " + std::to_string(rows()));
      taken_[static_cast<std::size_t>(p)] = true;
    }
    for (std::size_t r = 0; r < rows_.size(); ++r)
      if (!taken_[r]) free_.push_back(rows_[r].place);
    next_.clear();
    for (const index_t p : parents) {
      row r = rows_[static_cast<std::size_t>(p)];
      if (!taken_[static_cast<std::size_t>(p)]) {
        r.place = free_.back();
        free_.pop_back();
        copy(rows_[static_cast<std::size_t>(p)], r.place);
      }
      taken_[static_cast<std::size_t>(p)] = false;
      next_.push_back(r);
    }
    rows_.swap(next_);
  }

 private:
  static constexpr index_t least = 32;

  struct row {
    index_t place, sentence, length;
  };

  const row& at(index_t r) const { return rows_[static_cast<std::size_t>(r)]; }

  void copy(const row& from, index_t place) {
    for (auto& layer : layers_)
      for (auto* kept : {&layer.keys, &layer.values}) {
        const index_t width = kept->extent(1);
        std::copy_n(kept->data() + from.place * capacity_ * width, from.length * width,
                    kept->data() + place * capacity_ * width);
      }
  }

  Backend* backend_;
  stack_config stack_;
  std::vector<kept_keys<T, Backend>> layers_, cross_;
  std::vector<sequence> sources_;
  std::vector<row> rows_, next_;
  std::vector<index_t> free_;
  std::vector<bool> taken_;
  index_t places_ = 0, capacity_ = 0;
};

}  // namespace headred
