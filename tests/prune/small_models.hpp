// Small models of every kind, for tests of pruning: random weights, logits as plain numbers.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/core/random.hpp>
#include <headred/nn/transformer.hpp>

namespace headred_test {

struct named_config {
  std::string name;
  headred::transformer_config config;
};

// Encoder, ALBERT-like (shared layers, factorised embedding), decoder with grouped heads, encoder-decoder pre- and
// post-norm; heads and head sizes differ from layer to layer.
inline std::vector<named_config> small_models() {
  using headred::index_t;
  using headred::positions;
  const auto block = [](index_t heads, index_t kv_heads, index_t size) {
    return headred::attention_config{heads, kv_heads, size, {}};
  };
  std::vector<named_config> all;
  headred::transformer_config c;
  c.width = 12;
  c.norm_epsilon = 1e-6;
  c.source = {17, 12, positions::learned, 24, 2, 1, true};
  c.encoder.layers = {{block(4, 4, 3), {}, 20}, {block(3, 3, 5), {}, 11}, {block(6, 6, 2), {}, 8}};
  c.output = headred::output_head::masked_lm;
  all.push_back({"encoder", c});

  c.source.width = 7;
  c.encoder.layers.assign(4, {block(4, 4, 3), {}, 20});
  c.encoder.weights = {0, 0, 1, 0};
  c.pooler = true;
  all.push_back({"shared", c});

  headred::transformer_config d;
  d.kind = headred::architecture::decoder;
  d.width = 10;
  d.pre_norm = d.final_norm = true;
  d.source = {13, 10, positions::sinusoidal_interleaved, 30, 0, 2, false};
  d.decoder.layers = {{block(6, 2, 3), {}, 16}, {block(8, 2, 2), {}, 9}, {block(4, 4, 1), {}, 5}};
  d.output = headred::output_head::projection;
  all.push_back({"decoder", d});

  headred::transformer_config m;
  m.kind = headred::architecture::encoder_decoder;
  m.width = 8;
  m.activation = headred::activation::relu;
  m.pre_norm = m.final_norm = true;
  m.source = {11, 8, positions::sinusoidal_halves_from_1, 24, 0, 3, false};
  m.target = {9, 8, positions::learned, 24, 0, 1, true};
  m.encoder.layers = {{block(4, 4, 2), {}, 12}, {block(2, 2, 4), {}, 12}};
  m.decoder.layers = {{block(4, 4, 2), block(6, 3, 2), 12}, {block(3, 3, 3), block(4, 1, 2), 7}};
  m.output = headred::output_head::projection;
  m.tied_output = false;
  all.push_back({"encoder-decoder", m});

  m.pre_norm = m.final_norm = false;
  m.source = m.target = {11, 8, positions::sinusoidal_halves, 24, 0, 1, false};
  m.shared_embeddings = m.tied_output = true;
  all.push_back({"encoder-decoder, post-norm", m});
  return all;
}

// Weights like a trained model's: matrices uniform with variance 1/columns, scales near 1, all else small.
template <class Weights>
void fill_like_trained(Weights& weights, std::uint64_t seed) {
  std::uint64_t stream = 0;
  headred::visit_parameters(weights, [&](const std::string& name, auto& p) {
    const headred::random_stream random(seed, stream++);
    const auto& shape = p.value.shape();
    const double range =
        shape.size() == 2 ? std::sqrt(3. / static_cast<double>(std::max<headred::index_t>(1, shape.back()))) : 0.2;
    for (headred::index_t i = 0; i < p.value.size(); ++i) {
      const double x = (2 * random.uniform(static_cast<std::uint64_t>(i)) - 1) * range;
      p.value.data()[i] =
          static_cast<std::remove_cvref_t<decltype(p.value.data()[0])>>(name.ends_with(".scale") ? 1 + x : x);
    }
  });
}

template <class T>
headred::transformer<T, headred::cpu> small_model(headred::cpu& be, const headred::transformer_config& config,
                                                  std::uint64_t seed) {
  headred::transformer_weights<T, headred::cpu> weights(be, config);
  fill_like_trained(weights, seed);
  return headred::transformer<T, headred::cpu>(be, config, std::move(weights));
}

// Sentences of 1 to 9 tokens.
inline headred::token_batch small_batch(headred::index_t sentences, headred::index_t vocabulary, std::uint64_t seed) {
  headred::token_batch batch;
  for (headred::index_t b = 0; b < sentences; ++b) {
    const headred::random_stream random(seed, static_cast<std::uint64_t>(b));
    std::vector<headred::token_id> ids(1 + random.below(0, 9));
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<headred::token_id>(random.below(i + 1, static_cast<std::uint64_t>(vocabulary)));
    batch.add(ids);
  }
  return batch;
}

template <class T>
std::vector<T> logits_of(headred::transformer<T, headred::cpu>& model, const headred::token_batch& source,
                         const headred::token_batch& target, headred::model_gates<T, headred::cpu>* gates = nullptr) {
  headred::tape<T, headred::cpu> t(model.backend(), headred::tape_mode::inference);
  typename headred::transformer<T, headred::cpu>::options options;
  options.gates = gates;
  const auto view = t.input(model.logits(t, model.hidden(t, source, target, options)));
  return {view.data(), view.data() + view.size()};
}

// Largest difference, relative to the largest logit.
template <class T>
double difference(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return INFINITY;
  double most = 0, scale = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    scale = std::max(scale, std::abs(static_cast<double>(b[i])));
    if (!(most < INFINITY) || std::isnan(static_cast<double>(a[i]))) return INFINITY;
  }
  return most / scale;
}

}  // namespace headred_test
