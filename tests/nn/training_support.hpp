// What the tests of training share: small models with seeded weights, small corpora, parameters of a user's own.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/core/random.hpp>
#include <headred/nn/batches.hpp>
#include <headred/nn/training_step.hpp>

namespace training_test {

namespace hr = headred;

/// A user's own struct: visited like any model.
template <class T, hr::backend Backend = hr::cpu>
struct few_parameters {
  hr::parameter<T, 2, Backend> matrix;
  hr::parameter<T, 1, Backend> bias, gates;

  explicit few_parameters(Backend& be, hr::index_t rows = 3, hr::index_t cols = 7)
      : matrix(be, {rows, cols}), bias(be, {cols}), gates(be, {2}) {
    matrix.train(be);
    bias.train(be);
    gates.train(be);
  }
};
template <class T, hr::backend Backend, class Visitor>
void visit_parameters(few_parameters<T, Backend>& w, Visitor&& f) {
  f("layer.weight", w.matrix);
  f("layer.bias", w.bias);
  f("gates", w.gates);
}

/// Small numbers around 0, another sequence for each seed.
template <class Parameters>
void fill_values(Parameters& w, std::uint64_t seed, double width = 1) {
  const hr::random_stream draws(seed);
  std::uint64_t k = 0;
  visit_parameters(w, [&](const std::string& name, auto& p) {
    using value = std::remove_cvref_t<decltype(*p.value.data())>;
    for (hr::index_t i = 0; i < p.value.size(); ++i) {
      const double u = width * (draws.uniform(k++) - .5);
      p.value.data()[i] = static_cast<value>(name.ends_with(".scale") ? 1 + u : u);
    }
  });
}

inline hr::layer_config layer(hr::index_t heads, hr::index_t kv_heads, hr::index_t head_size, hr::index_t neurons) {
  return {{heads, kv_heads, head_size, {}}, {heads, kv_heads, head_size, {}}, neurons};
}

inline hr::transformer_config small_config(hr::architecture kind = hr::architecture::encoder_decoder,
                                           bool pre_norm = true) {
  hr::transformer_config c;
  c.kind = kind;
  c.width = 8;
  c.activation = hr::activation::gelu;
  c.pre_norm = c.final_norm = pre_norm;
  c.source = {11, 8, hr::positions::learned, 12, 0, 1.5, false};
  if (c.has_cross()) c.target = {13, 8, hr::positions::sinusoidal_interleaved, 12, 0, 1, false};
  if (c.has_encoder()) c.encoder.layers = {layer(2, 2, 4, 12), layer(2, 1, 3, 8)};
  if (c.has_decoder()) c.decoder.layers = {layer(2, 2, 4, 12), layer(4, 2, 2, 8)};
  c.output = hr::output_head::projection;
  return c;
}

template <class T>
hr::transformer<T, hr::cpu> seeded_model(hr::cpu& be, const hr::transformer_config& c, std::uint64_t seed = 1) {
  hr::transformer<T, hr::cpu> model(be, c);
  fill_values(model.weights(), seed);
  model.train();
  return model;
}

/// `count` sentences of 2 to 6 tokens from [3, vocabulary).
inline hr::corpus small_corpus(hr::index_t count, hr::index_t vocabulary, std::uint64_t seed) {
  const hr::random_stream draws(seed);
  hr::corpus all;
  std::uint64_t k = 0;
  for (hr::index_t s = 0; s < count; ++s) {
    std::vector<hr::token_id> sentence;
    const std::uint64_t length = 2 + draws.below(k++, 5);
    for (std::uint64_t i = 0; i < length; ++i)
      sentence.push_back(3 + static_cast<hr::token_id>(draws.below(k++, static_cast<std::uint64_t>(vocabulary - 3))));
    all.push_back(sentence);
  }
  return all;
}

/// A batch for small_config: `count` pairs of sentences, at most 7 positions.
inline hr::training_batch small_batch(hr::index_t count, std::uint64_t seed) {
  std::vector<hr::index_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), hr::index_t{0});
  hr::training_batch batch;
  hr::fill_pairs(batch, small_corpus(count, 11, seed), small_corpus(count, 13, seed + 1), all, 1, 2);
  return batch;
}

/// All values of all parameters, one after the other.
template <class Parameters>
auto all_values(Parameters& w) {
  using value = std::remove_cvref_t<decltype(*w.source.tokens.value.data())>;
  std::vector<value> all;
  visit_parameters(
      w, [&](const std::string&, auto& p) { all.insert(all.end(), p.value.data(), p.value.data() + p.value.size()); });
  return all;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace training_test
