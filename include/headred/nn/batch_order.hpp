// batch_order: which sentences go into which batch, epoch by epoch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <headred/core/error.hpp>
#include <headred/core/random.hpp>

namespace headred {

/// Where a run stands in its data: the batch that comes next.
struct epoch_position {
  index_t epoch = 0;
  index_t batch = 0;
  friend bool operator==(const epoch_position&, const epoch_position&) = default;
};

/// How sentences are put into batches.
struct batch_options {
  index_t tokens = 4096;   ///< most in one batch; a longer sentence is a batch of its own
  index_t sentences = 0;   ///< most in one batch; 0 is no limit
  std::uint64_t seed = 0;  ///< of the shuffling
  bool shuffle = true;     ///< otherwise sentences come in their order, neither sorted nor shuffled
};

namespace detail {

/// Streams of random numbers that no dropout site uses: those count steps, far below.
inline constexpr std::uint64_t shuffle_stream = std::uint64_t{1} << 63;
inline constexpr std::uint64_t masking_stream = std::uint64_t{3} << 62;

}  // namespace detail

/// The batches of every epoch: sentences of similar length together, up to a number of tokens. Which ones, and in which
/// order, is a function of lengths, options and epoch alone, so that a run goes on from an epoch_position as if it had
/// never stopped.
///   Shuffled: sentences sorted by length, equal lengths in random order, cut into batches, these in random order.
/// Throws argument_error for no sentences, a length or limit below 1.
/// Cost: N log N an epoch; memory is kept.
class batch_order {
 public:
  /// Sentences of these lengths, from a place in an earlier order on.
  explicit batch_order(std::vector<index_t> lengths, batch_options options = {}, epoch_position start = {})
      : lengths_(std::move(lengths)), options_(options) {
    if (lengths_.empty()) throw argument_error("batch_order: there is no sentence, expected at least 1");
    for (std::size_t i = 0; i < lengths_.size(); ++i)
      if (lengths_[i] < 1)
        throw argument_error("batch_order: sentence " + std::to_string(i) + " has length " +
                             std::to_string(lengths_[i]) + ", expected at least 1");
    if (options_.tokens < 1 || options_.sentences < 0)
      throw argument_error("batch_order: at most " + std::to_string(options_.tokens) + " tokens and " +
                           std::to_string(options_.sentences) + " sentences in a batch, expected at least 1 token");
    keys_.resize(lengths_.size());
    order_.resize(lengths_.size());
    seek(start);
  }

  /// The numbers of the sentences of the next batch; valid until the next call.
  std::span<const index_t> next() {
    if (position_.batch == batches()) seek({position_.epoch + 1, 0});
    const auto& [begin, end] = batches_[static_cast<std::size_t>(position_.batch++)];
    return std::span(order_).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  }

  /// Of the batch that `next` gives, for a checkpoint; the end of an epoch is the beginning of the one after it.
  epoch_position position() const noexcept {
    return position_.batch == batches() ? epoch_position{position_.epoch + 1, 0} : position_;
  }
  /// Goes to a position. Throws argument_error if the epoch has no such batch.
  void seek(epoch_position to) {
    if (to.epoch < 0) throw argument_error("batch_order: epoch " + std::to_string(to.epoch) + ", expected at least 0");
    if (batches_.empty() || to.epoch != position_.epoch) arrange(to.epoch);
    position_.epoch = to.epoch;
    if (to.batch < 0 || to.batch >= batches())
      throw argument_error("batch_order: batch " + std::to_string(to.batch) + " of epoch " + std::to_string(to.epoch) +
                           ", expected [0," + std::to_string(batches()) + ")");
    position_.batch = to.batch;
  }

  /// Batches in the present epoch; every epoch has as many.
  index_t batches() const noexcept { return static_cast<index_t>(batches_.size()); }
  index_t sentences() const noexcept { return static_cast<index_t>(lengths_.size()); }
  /// Tokens of each sentence.
  std::span<const index_t> lengths() const noexcept { return lengths_; }
  const batch_options& options() const noexcept { return options_; }

 private:
  void arrange(index_t epoch) {
    const random_stream draws(options_.seed, detail::shuffle_stream + static_cast<std::uint64_t>(epoch));
    for (std::size_t i = 0; i < order_.size(); ++i) {
      order_[i] = static_cast<index_t>(i);
      if (options_.shuffle) keys_[i] = draws.bits(i);
    }
    if (options_.shuffle)
      std::ranges::sort(order_, [&](index_t a, index_t b) {
        const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
        return std::tuple(lengths_[i], keys_[i], a) < std::tuple(lengths_[j], keys_[j], b);
      });
    batches_.clear();
    index_t begin = 0, tokens = 0;
    for (index_t i = 0; i < sentences(); ++i) {
      const index_t length = lengths_[static_cast<std::size_t>(order_[static_cast<std::size_t>(i)])];
      const bool full =
          tokens + length > options_.tokens || (options_.sentences > 0 && i - begin == options_.sentences);
      if (i > begin && full) {
        batches_.emplace_back(begin, i);
        begin = i;
        tokens = 0;
      }
      tokens += length;
    }
    batches_.emplace_back(begin, sentences());
    if (!options_.shuffle) return;
    for (std::uint64_t i = batches_.size() - 1; i > 0; --i)
      std::swap(batches_[i], batches_[draws.below(lengths_.size() + i, i + 1)]);
  }

  std::vector<index_t> lengths_;
  batch_options options_;
  epoch_position position_;
  std::vector<std::uint64_t> keys_;
  std::vector<index_t> order_;
  std::vector<std::pair<index_t, index_t>> batches_;  // [begin, end) in order_
};

}  // namespace headred
