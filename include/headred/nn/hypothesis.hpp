// hypothesis: what a decoder found for a sentence.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <headred/nn/op/softmax_cross_entropy.hpp>
#include <headred/nn/token_batch.hpp>

namespace headred {

/// Tokens after the begin token (or the prompt), without the end token.
struct hypothesis {
  std::vector<token_id> ids;
  double log_probability = 0;  ///< of ids, and of the end token if it came, in nats
  double score = 0;            ///< what search ranks by: log_probability over its length penalty
  bool ended = false;          ///< by the end token; otherwise cut off at the maximum length
  friend bool operator==(const hypothesis&, const hypothesis&) = default;
};

namespace detail {

/// ln sum_v e^x_v of a row of logits whose greatest entry is `most`; x_v minus it is the logarithm of v's probability.
/// Throws argument_error where that is not a number, as after a division by 0 in the model.
template <class T>
double log_sum(const T* x, index_t n, T most, index_t sentence) {
  const double sum = static_cast<double>(most) +
                     std::log(blocked_sum(x, n, -std::numeric_limits<T>::infinity(),
                                          [most](const auto& v) { return exp_of<native_lanes<T>>(v - most); }));
  if (!std::isfinite(sum))
    throw argument_error("decoding: the model's logits for sentence " + std::to_string(sentence) +
                         " have no softmax: its weights are not finite or too large");
  return sum;
}

/// The place of the greatest entry, the first of several; 0 where there is none.
template <class T>
index_t first_greatest(const T* x, index_t n) {
  const T most = greatest(x, n);
  for (index_t i = 0; i < n; ++i)
    if (x[i] == most) return i;
  return 0;
}

/// The number of tokens that decoding may add: `asked`, or what the positions leave for it. `begun` : tokens read first.
inline index_t decoding_limit(const char* what, index_t asked, index_t most_tokens, index_t begun) {
  if (asked < 0)
    throw argument_error(std::string(what) + ": max_length is " + std::to_string(asked) + ", expected at least 0");
  // the last token that is found need not be read
  const index_t room = most_tokens - begun + 1;
  return asked == 0 || asked > room ? room : asked;
}

}  // namespace detail
}  // namespace headred
