// greedy: the most probable token, one after the other.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <headred/nn/hypothesis.hpp>
#include <headred/nn/incremental_decoder.hpp>

namespace headred {

/// How greedy decoding runs.
struct greedy_options {
  index_t max_length = 0;  ///< tokens of a hypothesis at most, the end token counted; 0: what the positions leave
};

namespace detail {

/// Follows the rows of a decoder, which have been fed `first`, to their ends; finished rows leave the batch.
template <class T, host_backend Backend>
std::vector<hypothesis> follow_greedily(incremental_decoder<T, Backend>& decoder, const token_batch& first,
                                        const greedy_options& options) {
  const std::int32_t end_id = decoder.model().config().end_id;
  std::vector<hypothesis> found(first.sentences.size());
  std::vector<index_t> limits, alive;
  for (const sequence& s : first.sentences)
    limits.push_back(decoding_limit("greedy", options.max_length, decoder.most_tokens(), s.length));
  std::vector<token_id> next;
  for (auto logits = decoder.extend(first);; logits = decoder.step(next)) {
    alive.clear();
    next.clear();
    for (index_t r = 0; r < decoder.rows(); ++r) {
      const auto sentence = static_cast<std::size_t>(decoder.sentence(r));
      hypothesis& h = found[sentence];
      const T* const x = logits.data() + r * logits.stride(0);
      const index_t best = first_greatest(x, logits.extent(1));
      h.log_probability += static_cast<double>(x[best]) - log_sum(x, logits.extent(1), x[best], decoder.sentence(r));
      h.score = h.log_probability;
      h.ended = best == end_id;
      if (!h.ended) h.ids.push_back(static_cast<token_id>(best));
      if (h.ended || static_cast<index_t>(h.ids.size()) >= limits[sentence]) continue;
      alive.push_back(r);
      next.push_back(static_cast<token_id>(best));
    }
    if (alive.empty()) return found;
    if (static_cast<index_t>(alive.size()) < decoder.rows()) decoder.select(alive);
  }
}

}  // namespace detail

/// The target of each source that follows the most probable token at every step, the lowest of equally probable ones.
/// It ends with the configuration's end token, or at the maximum length. Throws what incremental_decoder throws, and
/// argument_error for a negative max_length.
template <class T, host_backend Backend>
std::vector<hypothesis> greedy(incremental_decoder<T, Backend>& decoder, const token_batch& source,
                               const greedy_options& options = {}) {
  decoder.begin(source);
  token_batch first;
  for (index_t b = 0; b < source.size(); ++b) first.add({&decoder.model().config().begin_id, 1});
  return detail::follow_greedily(decoder, first, options);
}

/// The same in a decoder-only model: what follows each prompt.
template <class T, host_backend Backend>
std::vector<hypothesis> greedy_continuation(incremental_decoder<T, Backend>& decoder, const token_batch& prompts,
                                            const greedy_options& options = {}) {
  require_batch("greedy_continuation", prompts);
  decoder.begin(prompts.size());
  return detail::follow_greedily(decoder, prompts, options);
}

}  // namespace headred
