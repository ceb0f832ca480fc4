// freeze_decoder: only the encoder of a model learns.
#pragma once

#include <string>

#include <headred/nn/transformer.hpp>

namespace headred {

/// Parameters of the encoder and its embeddings collect gradients, all others stop: as Voita et al. (2019, section 6.2)
/// prune encoder heads. Embeddings that the decoder shares stay as they are. Lists of parameters must be built anew.
/// Throws argument_error for a model that is not an encoder-decoder.
template <class T, host_backend Backend>
void freeze_decoder(transformer<T, Backend>& model) {
  if (!model.config().has_cross()) throw argument_error("freeze_decoder: the model is not an encoder-decoder");
  const bool shared = model.config().shared_embeddings;
  visit_parameters(model.weights(), [&](const std::string& name, auto& p) {
    p.train(model.backend(),
            p.value.size() > 0 && (name.starts_with("encoder") || (name.starts_with("source.") && !shared)));
  });
}

}  // namespace headred
