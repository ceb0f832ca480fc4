// Small models for the tests of readers and writers.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <headred/nn/transformer_weights.hpp>

namespace headred_test {

// An encoder-decoder whose layers differ in every number; pruned: a layer has lost all heads, another keeps 2 of them.
inline headred::transformer_config uneven_config() {
  using headred::positions;
  headred::transformer_config c;
  c.kind = headred::architecture::encoder_decoder;
  c.width = 6;
  c.activation = headred::activation::relu;
  c.pre_norm = c.final_norm = true;
  c.norm_epsilon = 1e-6;
  c.source = {7, 6, positions::sinusoidal_halves_from_1, 9, 0, 0.1, false};
  c.target = {5, 6, positions::learned, 8, 0, 1, true};
  c.encoder.layers = {{{3, 3, 2, {}}, {}, 4}, {{0, 0, 2, {}}, {}, 0}, {{2, 2, 5, {0, 3}}, {}, 3}};
  c.decoder.layers = {{{4, 2, 1, {}}, {2, 2, 3, {1, 7}}, 2}};
  c.output = headred::output_head::projection;
  c.tied_output = false;
  c.dropout = 0.1;
  c.pad_id = -1;
  return c;
}

// BERT's or ALBERT's geometry in small: masked-LM head, pooler, factorised and shared where asked for.
inline headred::transformer_config small_encoder(bool albert) {
  headred::transformer_config c;
  c.width = 8;
  c.norm_epsilon = 1e-12;
  c.source = {11, albert ? 3 : 8, headred::positions::learned, 6, 2, 1, true};
  c.encoder.layers.assign(3, {{2, 2, 4, {}}, {}, 10});
  if (albert) c.encoder.weights = {0, 0, 0};
  c.output = headred::output_head::masked_lm;
  c.pooler = true;
  c.begin_id = c.end_id = -1;
  return c;
}

// Arbitrary finite values: every bit of the fraction in use.
template <class T, class Weights>
void fill(Weights& weights, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  headred::visit_parameters(weights, [&](const std::string&, auto& parameter) {
    for (headred::index_t i = 0; i < parameter.value.size(); ++i)
      parameter.value.data()[i] = static_cast<T>(normal(random));
  });
}

// All parameters as one text of names, shapes and bytes.
template <class Weights>
std::string bits_of(Weights& weights) {
  std::string bits;
  headred::visit_parameters(weights, [&](const std::string& name, auto& parameter) {
    bits += name;
    for (const headred::index_t extent : parameter.value.shape()) bits += ' ' + std::to_string(extent);
    bits.append(reinterpret_cast<const char*>(parameter.value.data()), parameter.value.bytes());
  });
  return bits;
}

}  // namespace headred_test
