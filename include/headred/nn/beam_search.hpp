// beam_search: the best of several beginnings, kept side by side.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <headred/core/number_text.hpp>
#include <headred/nn/hypothesis.hpp>
#include <headred/nn/incremental_decoder.hpp>

namespace headred {

/// What a log-probability is divided by, n the number of tokens with the end token.
enum class length_penalty {
  none,      ///< 1
  division,  ///< n^alpha
  gnmt,      ///< ((5 + n) / 6)^alpha (Wu et al. 2016, equation 14)
};

/// How a beam search runs.
struct beam_options {
  index_t beam = 4;
  index_t max_length = 0;  ///< tokens of a hypothesis at most, the end token counted; 0: what the positions leave
  length_penalty penalty = length_penalty::none;
  double alpha = 1;
  index_t best = 1;  ///< hypotheses that are returned for each sentence, at most `beam`
};

namespace detail {

inline double penalty_of(const beam_options& o, index_t length) {
  const double n = static_cast<double>(length);
  switch (o.penalty) {
    case length_penalty::none: break;
    case length_penalty::division: return std::pow(n, o.alpha);
    case length_penalty::gnmt: return std::pow((5 + n) / 6, o.alpha);
  }
  return 1;
}

/// One token of a beginning, and the beginning that it follows (-1: none). Hypotheses share their beginnings.
struct beam_link {
  token_id token;
  index_t before;
};

/// A way to continue: row, token, log-probability of all. Rows are ranked, so equal ones go to the better row, and in it
/// to the greater logit, then to the lower token.
struct beam_candidate {
  index_t row;
  token_id token;
  double log_probability;
};

/// The `count` greatest entries of x, greatest first, the lower place first among equals; appended to `places`.
template <class T>
void greatest_places(const T* x, index_t n, index_t count, std::vector<index_t>& places) {
  const std::size_t begin = places.size();
  const auto size = [&] { return static_cast<index_t>(places.size() - begin); };
  for (index_t i = 0; i < n; ++i) {
    if (size() == count && !(x[i] > x[places.back()])) continue;
    if (x[i] != x[i]) continue;
    if (size() == count) places.pop_back();
    auto at = places.end();
    while (at != places.begin() + static_cast<std::ptrdiff_t>(begin) && x[i] > x[*(at - 1)]) --at;
    places.insert(at, i);
  }
}

/// The search of one sentence: its living rows (a range of the decoder's), and what it has found.
struct beam_state {
  index_t room;   // rows it may still have: one less for each hypothesis that ended
  index_t limit;  // tokens at most
  index_t first = 0, rows = 1;
  std::vector<hypothesis> ended, cut_off;
};

template <class T, host_backend Backend>
class beam_run {
 public:
  beam_run(incremental_decoder<T, Backend>& decoder, const beam_options& options)
      : decoder_(decoder), options_(options), end_id_(decoder.model().config().end_id) {
    const auto require = [](bool holds, const std::string& what) {
      if (!holds) throw argument_error("beam_search: " + what);
    };
    require(options.beam >= 1 && options.beam <= 1 << 16,
            "beam is " + std::to_string(options.beam) + ", expected 1 to 2^16");
    require(options.best >= 1 && options.best <= options.beam,
            "best is " + std::to_string(options.best) + ", expected 1 to the beam's " + std::to_string(options.beam));
    require(options.alpha >= 0 && options.alpha <= 100,
            "alpha is " + number_text(options.alpha) + ", expected [0,100]");
  }

  std::vector<std::vector<hypothesis>> search(const token_batch& first) {
    std::vector<beam_state> states;
    for (const sequence& s : first.sentences) {
      states.push_back({options_.beam,
                        decoding_limit("beam_search", options_.max_length, decoder_.most_tokens(), s.length),
                        static_cast<index_t>(states.size()),
                        1,
                        {},
                        {}});
      ends_.push_back(-1);
      sums_.push_back(0);
    }
    index_t length = 1;
    for (auto logits = decoder_.extend(first);; logits = decoder_.step(tokens_), ++length) {
      parents_.clear(), tokens_.clear(), next_ends_.clear(), next_sums_.clear();
      for (beam_state& s : states) advance(s, logits, length);
      ends_.swap(next_ends_);
      sums_.swap(next_sums_);
      if (parents_.empty()) break;
      decoder_.select(parents_);
    }
    std::vector<std::vector<hypothesis>> all;
    for (beam_state& s : states) all.push_back(best_of(s));
    return all;
  }

 private:
  /// Takes the best ways to continue the rows of a sentence; those that end are found, the others become its rows.
  void advance(beam_state& s, tensor_view<const T, 2> logits, index_t length) {
    if (s.rows == 0) return;
    const index_t vocabulary = logits.extent(1);
    candidates_.clear();
    for (index_t r = s.first; r < s.first + s.rows; ++r) {
      const T* const x = logits.data() + r * logits.stride(0);
      places_.clear();
      greatest_places(x, vocabulary, s.room, places_);
      const double total = log_sum(x, vocabulary, places_.empty() ? x[0] : x[places_.front()], decoder_.sentence(r));
      for (const index_t v : places_)
        candidates_.push_back(
            {r, static_cast<token_id>(v), sums_[static_cast<std::size_t>(r)] + (static_cast<double>(x[v]) - total)});
    }
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const auto& a, const auto& b) { return a.log_probability > b.log_probability; });
    if (static_cast<index_t>(candidates_.size()) > s.room) candidates_.resize(static_cast<std::size_t>(s.room));
    s.first = static_cast<index_t>(parents_.size());
    s.rows = 0;
    const double penalty = penalty_of(options_, length);
    for (const auto& c : candidates_) {
      const index_t before = ends_[static_cast<std::size_t>(c.row)];
      if (c.token == end_id_) {
        s.ended.push_back({ids_of(before), c.log_probability, c.log_probability / penalty, true});
        --s.room;
      } else if (length == s.limit) {
        auto ids = ids_of(before);
        ids.push_back(c.token);
        s.cut_off.push_back({std::move(ids), c.log_probability, c.log_probability / penalty, false});
      } else {
        parents_.push_back(c.row);
        tokens_.push_back(c.token);
        links_.push_back({c.token, before});
        next_ends_.push_back(static_cast<index_t>(links_.size()) - 1);
        next_sums_.push_back(c.log_probability);
        ++s.rows;
      }
    }
    if (settled(s)) {
      const auto drop = [&](auto& list) { list.resize(list.size() - static_cast<std::size_t>(s.rows)); };
      drop(parents_), drop(tokens_), drop(next_ends_), drop(next_sums_);
      s.rows = 0;
    }
  }

  /// Whether no living row can still become better than the hypotheses that are wanted: probabilities only fall, and the
  /// penalty is greatest at the end.
  bool settled(beam_state& s) const {
    if (s.rows == 0 || static_cast<index_t>(s.ended.size()) < options_.best) return false;
    rank(s.ended);
    const double worst = s.ended[static_cast<std::size_t>(options_.best - 1)].score;
    const double most = next_sums_[next_sums_.size() - static_cast<std::size_t>(s.rows)];
    return most / penalty_of(options_, s.limit) <= worst;
  }

  static void rank(std::vector<hypothesis>& all) {
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  }
  std::vector<hypothesis> best_of(beam_state& s) const {
    rank(s.ended);
    rank(s.cut_off);
    std::vector<hypothesis> best = std::move(s.ended);
    for (auto& h : s.cut_off) best.push_back(std::move(h));
    if (static_cast<index_t>(best.size()) > options_.best) best.resize(static_cast<std::size_t>(options_.best));
    return best;
  }
  std::vector<token_id> ids_of(index_t link) const {
    std::vector<token_id> ids;
    for (; link >= 0; link = links_[static_cast<std::size_t>(link)].before)
      ids.push_back(links_[static_cast<std::size_t>(link)].token);
    std::reverse(ids.begin(), ids.end());
    return ids;
  }

  incremental_decoder<T, Backend>& decoder_;
  const beam_options& options_;
  std::int32_t end_id_;
  std::vector<beam_link> links_;
  std::vector<index_t> ends_, next_ends_;  // of each row: its last link
  std::vector<double> sums_, next_sums_;   // of each row: its log-probability
  std::vector<beam_candidate> candidates_;
  std::vector<index_t> places_, parents_;
  std::vector<token_id> tokens_;
};

}  // namespace detail

/// For each source the best targets found, best first; hypotheses that were cut off at the maximum length come after those
/// that ended. At every step the `beam` most probable continuations of a sentence's rows are taken; each that ends leaves
/// one row less. With beam = 1 this is `greedy`; with a beam as wide as there are targets it is exhaustive. Of equal
/// continuations the one of the better row, then of the lower token is taken. Throws what incremental_decoder throws, and
/// argument_error for options out of range. Source: Sutskever et al. 2014, section 3.2.
template <class T, host_backend Backend>
std::vector<std::vector<hypothesis>> beam_search(incremental_decoder<T, Backend>& decoder, const token_batch& source,
                                                 const beam_options& options = {}) {
  detail::beam_run<T, Backend> run(decoder, options);
  decoder.begin(source, options.beam);
  token_batch first;
  for (index_t b = 0; b < source.size(); ++b) first.add({&decoder.model().config().begin_id, 1});
  return run.search(first);
}

/// The same in a decoder-only model: what follows each prompt.
template <class T, host_backend Backend>
std::vector<std::vector<hypothesis>> beam_continuation(incremental_decoder<T, Backend>& decoder,
                                                       const token_batch& prompts, const beam_options& options = {}) {
  require_batch("beam_continuation", prompts);
  detail::beam_run<T, Backend> run(decoder, options);
  decoder.begin(prompts.size(), options.beam);
  return run.search(prompts);
}

}  // namespace headred
