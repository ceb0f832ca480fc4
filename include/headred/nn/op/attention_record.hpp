// What an attention left on a tape, for hooks: importance, relevance, redundancy read it without a copy.
#pragma once

#include <span>
#include <string>

#include <headred/core/head.hpp>
#include <headred/nn/op/attention_inputs.hpp>
#include <headred/nn/tape.hpp>

namespace headred {

/// Attention probabilities, (heads, T_b, S_b) sentence after sentence, and dLoss/dprobabilities where it is kept. All
/// of it lies in a tape's memory.
template <class T>
struct kept_probabilities {
  const T* values = nullptr;
  const T* gradients = nullptr;
  std::span<const sequence> queries = {};
  std::span<const sequence> keys = {};
  std::span<const index_t> offsets = {};  ///< one more than sentences
};

/// Where one attention's activations lie; valid until the tape is cleared. `kind` and `layer` are the caller's.
template <class T>
struct attention_record {
  attention_kind kind = attention_kind::encoder_self;
  index_t layer = 0;
  attention_shape shape = {};
  slot out = {};      ///< (Rq, heads head_size), the heads' outputs times the gates
  slot context = {};  ///< before the gates; `out` itself where there are none or nothing is kept
  kept_probabilities<T> kept = {};

  index_t sentences() const noexcept { return static_cast<index_t>(kept.queries.size()); }
  bool has_probabilities() const noexcept { return !kept.offsets.empty(); }
  bool has_probability_gradients() const noexcept { return kept.gradients != nullptr; }

  /// Probabilities (after the softmax, before dropout) of sentence b, (heads, T_b, S_b).
  /// Throws argument_error if they were not kept or there is no such sentence.
  tensor_view<const T, 3> probabilities(index_t b) const {
    return of_sentence("probabilities", kept.values, has_probabilities(), b);
  }
  /// dLoss/dprobabilities of sentence b, after the tape went backward; 0 before, and for keys a causal query cannot see.
  tensor_view<const T, 3> probability_gradients(index_t b) const {
    return of_sentence("probability_gradients", kept.gradients, has_probability_gradients(), b);
  }

 private:
  tensor_view<const T, 3> of_sentence(const char* what, const T* from, bool is_kept, index_t b) const {
    if (!is_kept) throw argument_error(std::string("attention_record: the ") + what + " were not kept");
    if (b < 0 || b >= sentences())
      throw argument_error(std::string("attention_record: ") + what + " of sentence " + std::to_string(b) + " of " +
                           std::to_string(sentences()));
    const auto n = static_cast<std::size_t>(b);
    return {from + kept.offsets[n], {shape.heads, kept.queries[n].length, kept.keys[n].length}};
  }
};

}  // namespace headred
