// masked_tokens: what a masked language model makes of tokens that it cannot see.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <headred/nn/hypothesis.hpp>
#include <headred/nn/metrics/nll.hpp>

namespace headred {

/// What a masked language model said at one hidden token.
struct masked_prediction {
  double nats = 0;    ///< -ln p(the true token)
  token_id best = 0;  ///< the most probable token, the lowest of equals
};

/// What the model expects in some rows of a batch, `rows` numbering tokens of the whole batch; `answers` are the true
/// tokens there. The batch is as the model is to see it: with mask tokens. Logits are made of those rows alone. The tape
/// is cleared and must not record. Throws argument_error for a model that is no encoder or has no output head, a row
/// outside the batch, answers of another number or outside the vocabulary, and what `encode` throws.
template <class T, host_backend Backend>
std::vector<masked_prediction> predict_masked(transformer<T, Backend>& model, tape<T, Backend>& t,
                                              const token_batch& batch, std::span<const index_t> rows,
                                              std::span<const token_id> answers,
                                              const forward_options<T, Backend>& options = {}) {
  if (model.config().kind != architecture::encoder)
    throw argument_error("predict_masked: the model is not encoder-only");
  if (rows.size() != answers.size())
    throw argument_error("predict_masked: " + std::to_string(answers.size()) + " answers for " +
                         std::to_string(rows.size()) + " rows");
  for (const index_t r : rows)
    if (r < 0 || r >= batch.tokens())
      throw argument_error("predict_masked: row " + std::to_string(r) + ", expected [0," +
                           std::to_string(batch.tokens()) + ")");
  detail::require_ids("predict_masked", answers, model.config().source.vocabulary);
  t.clear(tape_mode::inference);
  const slot states = model.encode(t, batch, options);
  const index_t width = t.cols(states);
  const slot chosen = t.add(static_cast<index_t>(rows.size()), width);
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::copy_n(t.input(states).data() + rows[i] * width, width,
                t.value(chosen).data() + static_cast<index_t>(i) * width);
  const slot logits = model.logits(t, chosen);
  std::vector<sequence> each;
  for (std::size_t i = 0; i < rows.size(); ++i) each.push_back({static_cast<index_t>(i), 1});
  const auto nats = detail::sentence_losses(t, logits, answers, each);
  std::vector<masked_prediction> all;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto row = t.input(logits)[static_cast<index_t>(i)];
    all.push_back({nats[i], static_cast<token_id>(detail::first_greatest(row.data(), row.extent(0)))});
  }
  return all;
}

}  // namespace headred
