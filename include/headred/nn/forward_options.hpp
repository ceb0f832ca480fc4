// forward_options: what a pass through a model is given besides tokens, and what it hands out.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include <headred/core/random.hpp>
#include <headred/nn/model_gates.hpp>
#include <headred/nn/op/attention.hpp>

namespace headred {

/// Attention masks by kind and layer; a layer without an entry is not masked. The views must outlive the recording.
template <class T, backend Backend>
using model_masks = std::map<std::pair<attention_kind, index_t>, attention_mask_view<T, typename Backend::space>>;

/// Another way to compute a model's attentions; see fixed_masks.
template <class T, backend Backend>
class attention_path {
 public:
  virtual ~attention_path() = default;
  /// The mask of a layer, or an empty one: for attention that is computed as usual.
  virtual attention_mask_view<T, typename Backend::space> mask(attention_kind kind, index_t layer) const = 0;
  /// What `attention` gives for the call, in which that mask stands.
  virtual slot attend(tape<T, Backend>& t, const attention_call<T, Backend>& call, attention_kind kind,
                      index_t layer) = 0;
};

/// A pass without options is plain evaluation.
template <class T, backend Backend>
struct forward_options {
  model_gates<T, Backend>* gates = nullptr;
  const model_masks<T, Backend>* masks = nullptr;
  attention_path<T, Backend>* attention = nullptr;  ///< of layers that `masks` has none for: fixed_masks
  /// What a mask of (almost) 0 takes off a score.
  T mask_penalty = attention_options<T>().mask_penalty;
  bool training = false;        ///< dropout acts
  std::uint64_t seed = 0;       ///< of the dropout
  std::uint64_t step = 0;       ///< of the dropout: another one draws anew
  bool keep_attention = false;  ///< probabilities are kept for `trace` on tapes that do not record, too
  bool keep_attention_gradients = false;
  std::vector<attention_record<T>>* trace = nullptr;  ///< receives where each attention left its activations
};

}  // namespace headred
