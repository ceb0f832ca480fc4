// nll: negative log-likelihood of given texts, per token, per character, and as perplexity.
#pragma once

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <headred/nn/op/softmax_cross_entropy.hpp>
#include <headred/nn/transformer.hpp>

namespace headred {

/// A sum over sentences. Ratios are NaN where nothing was counted.
struct nll_sum {
  double nats = 0;
  index_t tokens = 0;      ///< that were predicted, end tokens included
  index_t characters = 0;  ///< as the caller counts them

  /// Nats a token.
  double per_token() const { return nats / counted(tokens); }
  double per_character() const { return nats / counted(characters); }
  /// e^per_token, in [1,infinity).
  double perplexity() const { return std::exp(per_token()); }
  nll_sum& operator+=(const nll_sum& other) {
    nats += other.nats;
    tokens += other.tokens;
    characters += other.characters;
    return *this;
  }

 private:
  static double counted(index_t n) {
    return n == 0 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(n);
  }
};

namespace detail {

/// -ln p(answers_r) of each row of logits that counts (an answer of -1 does not), summed by sentence in double.
template <class T, host_backend Backend>
std::vector<double> sentence_losses(tape<T, Backend>& t, slot logits, std::span<const std::int32_t> answers,
                                    std::span<const sequence> sentences) {
  const index_t rows = t.rows(logits);
  const slot losses = t.add(rows, 1), sums = t.add(rows, 1);
  softmax_cross_entropy_forward<T>(t.backend(), t.input(logits), answers, 0, {t.value(losses).data(), {rows}},
                                   {t.value(sums).data(), {rows}});
  std::vector<double> all;
  for (const sequence& s : sentences) {
    double nats = 0;
    for (index_t i = 0; i < s.length; ++i) nats += static_cast<double>(t.input(losses)(s.begin + i, 0));
    all.push_back(nats);
  }
  return all;
}

}  // namespace detail

/// -ln p(target, end token | source) of each sentence, in nats, the model being shown the true beginning (teacher
/// forcing). Targets come without begin and end tokens and may be empty. The tape must not record; it is cleared.
/// Throws argument_error for a model without cross-attention or output head, and what `hidden` throws.
template <class T, host_backend Backend>
std::vector<double> target_nll(transformer<T, Backend>& model, tape<T, Backend>& t, const token_batch& source,
                               const token_batch& target, const forward_options<T, Backend>& options = {}) {
  const transformer_config& c = model.config();
  if (!c.has_cross()) throw argument_error("target_nll: the model has no cross-attention, expected an encoder-decoder");
  token_batch begun;
  std::vector<std::int32_t> answers;
  std::vector<token_id> row;
  for (const sequence& s : target.sentences) {
    const auto begin = target.ids.begin() + s.begin;
    row.assign(1, c.begin_id);
    row.insert(row.end(), begin, begin + s.length);
    begun.add(row);
    answers.insert(answers.end(), begin, begin + s.length);
    answers.push_back(c.end_id);
  }
  t.clear(tape_mode::inference);
  const slot logits = model.logits(t, model.hidden(t, source, begun, options));
  return detail::sentence_losses(t, logits, answers, begun.sentences);
}

/// -ln p(token 1, 2, ... | tokens before) of each text of a decoder-only model, in nats; token 0 is given.
template <class T, host_backend Backend>
std::vector<double> text_nll(transformer<T, Backend>& model, tape<T, Backend>& t, const token_batch& text,
                             const forward_options<T, Backend>& options = {}) {
  t.clear(tape_mode::inference);
  const slot logits = model.logits(t, model.decode(t, text, options));
  std::vector<std::int32_t> answers(text.ids.size(), -1);
  for (const sequence& s : text.sentences)
    for (index_t i = 0; i + 1 < s.length; ++i)
      answers[static_cast<std::size_t>(s.begin + i)] = text.ids[static_cast<std::size_t>(s.begin + i + 1)];
  return detail::sentence_losses(t, logits, answers, text.sentences);
}

}  // namespace headred
