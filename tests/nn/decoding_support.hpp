// Small decoders with random weights, and batches of random tokens.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/core/random.hpp>
#include <headred/nn/incremental_decoder.hpp>

namespace decoding_test {

namespace hr = headred;
using hr::index_t;
template <class T>
using model_type = hr::transformer<T, hr::cpu>;
template <class T>
using decoder_type = hr::incremental_decoder<T, hr::cpu>;

/// Pre-norm, no two layers alike: grouped heads, a block without heads.
inline hr::transformer_config uneven() {
  hr::transformer_config c;
  c.kind = hr::architecture::encoder_decoder;
  c.width = 12;
  c.activation = hr::activation::relu;
  c.pre_norm = c.final_norm = true;
  c.source = {9, 12, hr::positions::sinusoidal_halves_from_1, 40, 0, 2, false};
  c.target = {7, 12, hr::positions::sinusoidal_interleaved, 80, 0, 1.5, false};
  c.encoder.layers = {{{3, 3, 4, {}}, {}, 10}};
  c.decoder.layers = {
      {{4, 2, 3, {}}, {6, 3, 2, {}}, 17}, {{0, 0, 3, {}}, {1, 1, 5, {}}, 8}, {{2, 1, 4, {}}, {0, 0, 2, {}}, 5}};
  c.output = hr::output_head::projection;
  c.tied_output = false;
  return c;
}

/// Post-norm, shared tables, two layers with one set of weights, learned positions, tied output.
inline hr::transformer_config shared() {
  hr::transformer_config c;
  c.kind = hr::architecture::encoder_decoder;
  c.width = 8;
  c.source = c.target = {11, 8, hr::positions::learned, 80, 0, 1, true};
  c.shared_embeddings = true;
  c.encoder.layers.assign(2, {{2, 2, 4, {}}, {}, 16});
  c.decoder.layers.assign(3, {{2, 2, 4, {}}, {2, 2, 4, {}}, 16});
  c.decoder.weights = {0, 0, 1};
  c.output = hr::output_head::projection;
  return c;
}

/// Decoder-only with token types.
inline hr::transformer_config causal() {
  hr::transformer_config c;
  c.kind = hr::architecture::decoder;
  c.width = 10;
  c.activation = hr::activation::gelu_tanh;
  c.pre_norm = c.final_norm = true;
  c.source = {6, 10, hr::positions::learned, 80, 2, 1, false};
  c.decoder.layers = {{{5, 1, 2, {}}, {}, 20}, {{2, 2, 5, {}}, {}, 0}};
  c.output = hr::output_head::projection;
  c.output_bias = false;
  return c;
}

/// Uniform weights of the given width around 0; norms scale around 1.
template <class T>
model_type<T> random_model(hr::cpu& be, const hr::transformer_config& c, std::uint64_t seed, double width = 1.2) {
  model_type<T> model(be, c);
  std::uint64_t stream = 0;
  hr::visit_parameters(model.weights(), [&](const std::string& name, auto& p) {
    const hr::random_stream draws(seed, stream++);
    const bool scale = name.ends_with(".scale");
    for (index_t i = 0; i < p.value.size(); ++i)
      p.value.data()[i] = static_cast<T>((scale ? 1 : 0) + width * (draws.uniform(static_cast<std::uint64_t>(i)) - .5));
  });
  return model;
}

inline std::vector<hr::token_id> random_tokens(index_t n, index_t vocabulary, std::uint64_t seed) {
  const hr::random_stream draws(seed, 99);
  std::vector<hr::token_id> ids;
  for (index_t i = 0; i < n; ++i)
    ids.push_back(
        static_cast<hr::token_id>(draws.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(vocabulary))));
  return ids;
}

inline hr::token_batch random_batch(const std::vector<index_t>& lengths, index_t vocabulary, std::uint64_t seed) {
  hr::token_batch batch;
  for (std::size_t b = 0; b < lengths.size(); ++b) batch.add(random_tokens(lengths[b], vocabulary, seed * 1000 + b));
  return batch;
}

/// The logits after the last token of `target`, by a whole pass of one sentence.
template <class T>
std::vector<T> whole_pass(model_type<T>& model, const std::vector<hr::token_id>& source,
                          const std::vector<hr::token_id>& target, const typename model_type<T>::options& o = {}) {
  hr::tape<T, hr::cpu> tape(model.backend(), hr::tape_mode::inference);
  hr::token_batch s, t;
  s.add(source);
  t.add(target);
  const auto rows = tape.input(
      model.logits(tape, model.config().has_cross() ? model.hidden(tape, s, t, o) : model.decode(tape, t, o)));
  const T* const last = rows.data() + (rows.extent(0) - 1) * rows.extent(1);
  return {last, last + rows.extent(1)};
}

}  // namespace decoding_test
