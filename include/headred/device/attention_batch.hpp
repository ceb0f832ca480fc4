// Which rows of a packed batch attend to which, in a device's memory.
#pragma once

#include <algorithm>
#include <ranges>
#include <string>
#include <vector>

#include <headred/backend/tensor.hpp>
#include <headred/device/block_context.hpp>

namespace headred::device {
namespace detail {

/// Queries and keys of a sentence, and the number of the first place, or tile of rows, that is its own.
struct attention_sentence {
  index_t query_begin, queries, key_begin, keys;
  index_t place;  // of its probabilities, for one head
  index_t query_tile, key_tile;
  index_t number;  // among the caller's
};

inline constexpr int attention_tile_rows = 16;
constexpr index_t attention_tiles(index_t rows) { return (rows + attention_tile_rows - 1) / attention_tile_rows; }

/// What the kernels see of a batch: sentences with queries, in ascending order.
struct attention_table {
  const attention_sentence* sentences;
  index_t count, query_tiles, key_tiles, places;

  /// The last sentence whose field is <= at.
  HEADRED_FUNCTION const attention_sentence& find(index_t attention_sentence::*field, index_t at) const {
    index_t low = 0, high = count;
    while (high - low > 1) {
      const index_t middle = (low + high) / 2;
      (sentences[middle].*field <= at ? low : high) = middle;
    }
    return sentences[low];
  }
  /// Whether a row is the query of a sentence.
  HEADRED_FUNCTION bool covers(index_t row) const {
    if (count == 0) return false;
    const attention_sentence& s = find(&attention_sentence::query_begin, row);
    return row >= s.query_begin && row < s.query_begin + s.queries;
  }
};

}  // namespace detail

/// The sentences of a batch for attention on a device: the queries of sentence b attend to the keys of sentence b. Made
/// once for a batch, used by each layer. Ranges of rows as nn/sequence.hpp has them: anything with `begin` and
/// `length`.
template <device_backend Backend>
class attention_batch {
 public:
  /// A batch without sentences. The backend must outlive it, and be the one of all ops that read the batch.
  explicit attention_batch(Backend& be) : backend_(&be) {}
  template <std::ranges::sized_range Rows>
  attention_batch(Backend& be, const Rows& queries, const Rows& keys) : backend_(&be) {
    assign(queries, keys);
  }

  /// Other sentences; a batch of no more of them than before allocates nothing. The queries of sentences stand in
  /// ascending order, apart. Throws argument_error for those that do not, and for queries and keys of unequal number;
  /// the batch is empty then.
  template <std::ranges::sized_range Rows>
  void assign(const Rows& queries, const Rows& keys) {
    const auto count = [](const Rows& rows) { return static_cast<index_t>(std::ranges::size(rows)); };
    if (count(queries) != count(keys))
      throw argument_error("attention_batch: queries of " + std::to_string(count(queries)) + " sentences, keys of " +
                           std::to_string(count(keys)));
    host_.clear();
    detail::attention_table t{};
    table_ = {};  // what throws below leaves a batch of no sentence
    sentences_ = query_rows_ = key_rows_ = greatest_queries_ = greatest_keys_ = 0;
    keys_apart_ = true;
    struct on_throw {
      attention_batch& batch;
      bool done = false;
      ~on_throw() {
        if (done) return;
        batch.host_.clear();
        batch.query_rows_ = batch.key_rows_ = batch.greatest_queries_ = batch.greatest_keys_ = 0;
      }
    } guard{*this};
    index_t number = 0;
    auto key = std::ranges::begin(keys);
    for (const auto& query : queries) {
      const index_t begin = query.begin, length = query.length, key_begin = key->begin, key_length = key->length;
      ++key;
      require("queries", number, begin, length);
      require("keys", number++, key_begin, key_length);
      if (length == 0) continue;  // such a sentence has neither rows nor probabilities
      if (begin < query_rows_)
        throw argument_error("attention_batch: the queries of sentence " + std::to_string(number - 1) +
                             " begin at row " + std::to_string(begin) + ", expected at " + std::to_string(query_rows_) +
                             " or later, after the sentence before");
      host_.push_back({begin, length, key_begin, key_length, t.places, t.query_tiles, t.key_tiles, number - 1});
      t.places += length * key_length;
      t.query_tiles += detail::attention_tiles(length);
      t.key_tiles += detail::attention_tiles(key_length);
      query_rows_ = begin + length;
      if (key_length == 0) continue;
      keys_apart_ = keys_apart_ && key_begin >= key_rows_;
      key_rows_ = std::max(key_rows_, key_begin + key_length);
      greatest_queries_ = std::max(greatest_queries_, length);
      greatest_keys_ = std::max(greatest_keys_, key_length);
    }
    t.count = static_cast<index_t>(host_.size());
    if (device_.size() < t.count) device_ = tensor<detail::attention_sentence, 1, Backend>(*backend_, {t.count});
    if (t.count > 0) backend_->upload(device_.data(), host_.data(), host_.size() * sizeof(host_.front()));
    t.sentences = device_.data();
    table_ = t;
    sentences_ = number;
    guard.done = true;
  }

  /// The probabilities of all sentences lie one sentence after the other, each (heads, T_b, S_b): how many they are.
  index_t probability_count(index_t heads) const noexcept { return heads * table_.places; }
  /// Sentences, those without queries included.
  index_t sentences() const noexcept { return sentences_; }
  /// One past the last row that a sentence uses.
  index_t query_rows() const noexcept { return query_rows_; }
  index_t key_rows() const noexcept { return key_rows_; }
  /// The greatest lengths, of sentences that have queries and keys.
  index_t greatest_queries() const noexcept { return greatest_queries_; }
  index_t greatest_keys() const noexcept { return greatest_keys_; }
  /// Whether no two sentences share keys: their gradients may then be added to at once.
  bool keys_apart() const noexcept { return keys_apart_; }
  /// For the kernels, and the same sentences on the host.
  const detail::attention_table& table() const noexcept { return table_; }
  const std::vector<detail::attention_sentence>& sentences_on_host() const noexcept { return host_; }

 private:
  static void require(const char* name, index_t number, index_t begin, index_t length) {
    constexpr index_t most = index_t{1} << 31;
    if (begin < 0 || length < 0 || begin > most || length > most - 1)
      throw argument_error(std::string("attention_batch: the ") + name + " of sentence " + std::to_string(number) +
                           " are rows " + std::to_string(begin) + " and " + std::to_string(length) +
                           " on, expected within [0,2^31)");
  }

  Backend* backend_;
  std::vector<detail::attention_sentence> host_;
  tensor<detail::attention_sentence, 1, Backend> device_;
  detail::attention_table table_{};
  index_t sentences_ = 0, query_rows_ = 0, key_rows_ = 0, greatest_queries_ = 0, greatest_keys_ = 0;
  bool keys_apart_ = true;
};

}  // namespace headred::device
