// batches: what a model is trained on in one step, with the tokens it should predict.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <headred/core/number_text.hpp>
#include <headred/nn/batch_order.hpp>
#include <headred/nn/token_batch.hpp>

namespace headred {

/// Sentences of a corpus by number.
using corpus = std::vector<std::vector<token_id>>;

/// One batch to train on. An encoder-decoder reads `source` and `target`, the others `source` alone.
struct training_batch {
  token_batch source;
  token_batch target;
  std::vector<index_t> rows;     ///< of the hidden states, ascending, whose logits are needed; empty means all
  std::vector<token_id> labels;  ///< true token of each row that has logits, -1 for none

  void clear() {
    source.clear();
    target.clear();
    rows.clear();
    labels.clear();
  }
  /// Labels that count.
  index_t tokens() const noexcept {
    return static_cast<index_t>(std::ranges::count_if(labels, [](token_id label) { return label >= 0; }));
  }
};

/// Tokens of every sentence, `extra` more for those that are added (begin, end).
inline std::vector<index_t> sentence_lengths(const corpus& sentences, index_t extra = 0) {
  std::vector<index_t> lengths;
  lengths.reserve(sentences.size());
  for (const auto& s : sentences) lengths.push_back(static_cast<index_t>(s.size()) + extra);
  return lengths;
}
/// The longer of source and target, pair by pair: the length by which pairs are put into batches.
inline std::vector<index_t> pair_lengths(const corpus& sources, const corpus& targets) {
  if (sources.size() != targets.size())
    throw argument_error("pair_lengths: " + std::to_string(targets.size()) + " targets for " +
                         std::to_string(sources.size()) + " sources");
  std::vector<index_t> lengths = sentence_lengths(sources);
  for (std::size_t i = 0; i < targets.size(); ++i)
    lengths[i] = std::max(lengths[i], static_cast<index_t>(targets[i].size()) + 1);
  return lengths;
}

namespace detail {

inline const std::vector<token_id>& sentence_of(const char* what, const corpus& all, index_t i) {
  if (i < 0 || i >= static_cast<index_t>(all.size()))
    throw argument_error(std::string(what) + ": there is no sentence " + std::to_string(i) + ", expected [0," +
                         std::to_string(all.size()) + ")");
  return all[static_cast<std::size_t>(i)];
}

/// Appends `first` and the sentence as input, the sentence and `last` as labels.
inline void add_shifted(token_batch& to, std::vector<token_id>& labels, std::span<const token_id> sentence,
                        token_id first, token_id last) {
  to.sentences.push_back({to.tokens(), static_cast<index_t>(sentence.size()) + 1});
  to.ids.push_back(first);
  to.ids.insert(to.ids.end(), sentence.begin(), sentence.end());
  labels.insert(labels.end(), sentence.begin(), sentence.end());
  labels.push_back(last);
}

}  // namespace detail

/// Pairs for an encoder-decoder: sources as they are, target input = begin_id + target, labels = target + end_id.
/// The batch is overwritten, its memory kept. Throws argument_error for a number outside the corpus.
inline void fill_pairs(training_batch& batch, const corpus& sources, const corpus& targets,
                       std::span<const index_t> numbers, token_id begin_id, token_id end_id) {
  batch.clear();
  for (const index_t i : numbers) {
    batch.source.add(detail::sentence_of("fill_pairs", sources, i));
    detail::add_shifted(batch.target, batch.labels, detail::sentence_of("fill_pairs", targets, i), begin_id, end_id);
  }
}

/// Texts for a causal decoder: input = begin_id + text, labels = text + end_id. Otherwise as fill_pairs.
inline void fill_causal(training_batch& batch, const corpus& texts, std::span<const index_t> numbers, token_id begin_id,
                        token_id end_id) {
  batch.clear();
  for (const index_t i : numbers)
    detail::add_shifted(batch.source, batch.labels, detail::sentence_of("fill_causal", texts, i), begin_id, end_id);
}

/// How tokens are chosen and hidden, see fill_masked.
struct masking_options {
  token_id mask_id = 0;    ///< [MASK]
  index_t vocabulary = 0;  ///< random tokens are drawn from [lowest, vocabulary)
  token_id lowest = 0;
  std::vector<token_id> never = {};  ///< tokens that are not chosen: [CLS], [SEP], [PAD]
  double chosen = .15;
  double masked = .8, random = .1;  ///< of the chosen; the rest stays as it is
  std::uint64_t seed = 0;
};

/// Texts for a masked language model (Devlin et al. 2019, section 3.1): each token is chosen with probability `chosen`,
/// and at least one of every sentence that has one to choose; a chosen token becomes mask_id, a random token or stays,
/// and is the label of its row. Only chosen rows get logits. What happens to a token is a function of seed, epoch,
/// sentence number and place. The batch is overwritten. Throws argument_error for a number outside the corpus and an
/// option out of range.
inline void fill_masked(training_batch& batch, const corpus& texts, std::span<const index_t> numbers,
                        const masking_options& o, index_t epoch) {
  const auto share = [](double p) { return p >= 0 && p <= 1; };
  if (!share(o.chosen) || !share(o.masked) || !share(o.random) || o.masked + o.random > 1 + 1e-12)
    throw argument_error("fill_masked: chosen is " + number_text(o.chosen) + ", masked " + number_text(o.masked) +
                         ", random " + number_text(o.random) + ", expected shares in [0,1]");
  if (o.lowest < 0 || o.vocabulary <= o.lowest)
    throw argument_error("fill_masked: random tokens from [" + std::to_string(o.lowest) + "," +
                         std::to_string(o.vocabulary) + "), expected at least 1");
  batch.clear();
  const random_stream draws(o.seed, detail::masking_stream + static_cast<std::uint64_t>(epoch));
  for (const index_t i : numbers) {
    const auto& text = detail::sentence_of("fill_masked", texts, i);
    const index_t first = batch.source.tokens();
    batch.source.add(text);
    // Three draws a place: whether it is chosen, what becomes of it, by which token it is replaced.
    const auto draw = [i](std::size_t place) { return (static_cast<std::uint64_t>(i) << 32 | place) * 3; };
    const auto choose = [&](std::size_t place) {
      const std::uint64_t at = draw(place);
      const auto row = static_cast<std::size_t>(first) + place;
      batch.rows.push_back(static_cast<index_t>(row));
      batch.labels.push_back(text[place]);
      const double fate = draws.uniform(at + 1);
      if (fate < o.masked)
        batch.source.ids[row] = o.mask_id;
      else if (fate < o.masked + o.random)
        batch.source.ids[row] =
            o.lowest + static_cast<token_id>(draws.below(at + 2, static_cast<std::uint64_t>(o.vocabulary - o.lowest)));
    };
    const std::size_t chosen_before = batch.rows.size();
    std::size_t nearest = text.size();
    double lowest = 2;
    for (std::size_t place = 0; place < text.size(); ++place) {
      if (std::ranges::find(o.never, text[place]) != o.never.end()) continue;
      const double u = draws.uniform(draw(place));
      if (u < o.chosen) choose(place);
      if (u < lowest) {
        lowest = u;
        nearest = place;
      }
    }
    if (batch.rows.size() == chosen_before && nearest < text.size() && o.chosen > 0) choose(nearest);
  }
}

}  // namespace headred
