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

/// A pass without options is plain evaluation.
template <class T, backend Backend>
struct forward_options {
  model_gates<T, Backend>* gates = nullptr;
  const model_masks<T, Backend>* masks = nullptr;
  bool training = false;        ///< dropout acts
  std::uint64_t seed = 0;       ///< of the dropout
  std::uint64_t step = 0;       ///< of the dropout: another one draws anew
  bool keep_attention = false;  ///< probabilities are kept for `trace` on tapes that do not record, too
  bool keep_attention_gradients = false;
  std::vector<attention_record<T>>* trace = nullptr;  ///< receives where each attention left its activations
};

}  // namespace headred
