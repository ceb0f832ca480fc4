// transformer: a model of any of the configured shapes, run op by op on a tape.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <headred/nn/forward_options.hpp>
#include <headred/nn/op/add.hpp>
#include <headred/nn/op/dropout.hpp>
#include <headred/nn/op/embedding.hpp>
#include <headred/nn/op/gate_columns.hpp>
#include <headred/nn/op/gate_layer.hpp>
#include <headred/nn/op/gelu.hpp>
#include <headred/nn/op/layer_norm.hpp>
#include <headred/nn/op/linear.hpp>
#include <headred/nn/op/relu.hpp>
#include <headred/nn/op/silu.hpp>
#include <headred/nn/op/sinusoidal_positions.hpp>
#include <headred/nn/token_batch.hpp>
#include <headred/nn/transformer_weights.hpp>

namespace headred {

/// A Transformer of any configured shape. Its passes record on the caller's tape and run on the tape's backend; on a tape
/// in inference mode memory is reused from layer to layer. Several threads may run passes at once, each on a tape and with
/// options of its own, as long as none changes the weights or collects gradients of them: side by side if each tape has a
/// backend of its own, else in turns.
template <class T, host_backend Backend>
class transformer {
 public:
  using options = forward_options<T, Backend>;
  using weights_type = transformer_weights<T, Backend>;

  /// A model with these weights, or with zeros. Throws argument_error for an impossible configuration.
  transformer(Backend& be, transformer_config config) : transformer(be, config, weights_type(be, config)) {}
  transformer(Backend& be, transformer_config config, weights_type weights)
      : backend_(&be), config_(std::move(config)), weights_(std::make_unique<weights_type>(std::move(weights))) {
    validate_config(config_);
    source_positions_ = sinusoids(config_.source);
    if (config_.has_cross()) target_positions_ = sinusoids(config_.target);
  }

  Backend& backend() const noexcept { return *backend_; }
  const transformer_config& config() const noexcept { return config_; }
  weights_type& weights() noexcept { return *weights_; }
  const weights_type& weights() const noexcept { return *weights_; }

  /// Begins or stops to collect gradients of all weights.
  void train(bool on = true) {
    visit_parameters(*weights_, [&](const std::string&, auto& p) { p.train(*backend_, on); });
  }

  /// Hidden states (tokens, width) of the encoder. Throws argument_error for an empty batch, a token outside the
  /// vocabulary, a sentence longer than the positions.
  slot encode(tape<T, Backend>& t, const token_batch& source, const options& o = {}) {
    if (!config_.has_encoder()) throw argument_error("encode: the model has no encoder");
    pass p{t, o, 0};
    const slot x = embed(p, "encode", source, config_.source, weights_->source, source_positions_);
    return stack(p, x, source.sentences, config_.encoder, weights_->encoder, attention_kind::encoder_self, {}, {},
                 weights_->encoder_norm);
  }

  /// Hidden states (tokens, width) of the decoder, which sees the encoder's states of the same sentence.
  slot decode(tape<T, Backend>& t, slot encoded, std::span<const sequence> source, const token_batch& target,
              const options& o = {}) {
    if (!config_.has_cross()) throw argument_error("decode: the model has no cross-attention");
    if (source.size() != target.sentences.size())
      throw argument_error("decode: " + std::to_string(target.size()) + " targets for " +
                           std::to_string(source.size()) + " sources");
    pass p{t, o, sites_apart};
    auto& e = config_.shared_embeddings ? weights_->source : weights_->target;
    const slot x = embed(p, "decode", target, config_.target, e, target_positions_);
    return stack(p, x, target.sentences, config_.decoder, weights_->decoder, attention_kind::decoder_self, encoded,
                 source, weights_->decoder_norm);
  }
  /// Hidden states (tokens, width) of a decoder-only model.
  slot decode(tape<T, Backend>& t, const token_batch& text, const options& o = {}) {
    if (config_.kind != architecture::decoder) throw argument_error("decode: the model is not decoder-only");
    pass p{t, o, 0};
    const slot x = embed(p, "decode", text, config_.source, weights_->source, source_positions_);
    return stack(p, x, text.sentences, config_.decoder, weights_->decoder, attention_kind::decoder_self, {}, {},
                 weights_->decoder_norm);
  }

  /// Hidden states of the last stack: encoder, or encoder and decoder, or decoder.
  slot hidden(tape<T, Backend>& t, const token_batch& source, const token_batch& target, const options& o = {}) {
    if (config_.kind == architecture::encoder) return encode(t, source, o);
    if (config_.kind == architecture::decoder) return decode(t, source, o);
    return decode(t, encode(t, source, o), source.sentences, target, o);
  }

  /// Logits (rows, vocabulary) of hidden states (rows, width). Throws argument_error if the model has no output head.
  slot logits(tape<T, Backend>& t, slot hidden) {
    if (config_.output == output_head::none) throw argument_error("logits: the model has no output head");
    output_weights<T, Backend>& w = weights_->output;
    if (config_.output == output_head::masked_lm) {
      hidden = linear(t, hidden, w.transform.weight, &w.transform.bias);
      hidden = activate(t, hidden);
      hidden = norm(t, hidden, w.norm);
    }
    return linear(t, hidden, output_table(), config_.output_bias ? &w.bias : nullptr);
  }

  /// The matrix (V,E) that makes logits: a token table, or the model's own.
  parameter<T, 2, Backend>& output_table() {
    if (!config_.tied_output) return weights_->output.table;
    return config_.has_cross() && !config_.shared_embeddings ? weights_->target.tokens : weights_->source.tokens;
  }

  /// The ops of a block, for passes that are arranged differently (decoding with kept keys).
  slot activate(tape<T, Backend>& t, slot x) {
    switch (config_.activation) {
      case activation::relu: return relu(t, x);
      case activation::gelu: return gelu(t, x, gelu_form::erf);
      case activation::gelu_tanh: return gelu(t, x, gelu_form::tanh);
      case activation::silu: return silu(t, x);
    }
    throw argument_error("transformer: unknown activation " + std::to_string(static_cast<int>(config_.activation)));
  }
  /// A layer norm with the model's epsilon.
  slot norm(tape<T, Backend>& t, slot x, norm_weights<T, Backend>& w) {
    return layer_norm(t, x, w.scale, w.shift, static_cast<T>(config_.norm_epsilon));
  }
  /// Both linears of a layer's feed-forward block and the activation between them, times its neurons' gates if there
  /// are any.
  slot feed_forward(tape<T, Backend>& t, slot x, layer_weights<T, Backend>& w,
                    parameter<T, 1, Backend>* gates = nullptr) {
    slot neurons = activate(t, linear(t, x, w.expand.weight, &w.expand.bias));
    if (gates != nullptr) neurons = gate_columns(t, neurons, *gates);
    return linear(t, neurons, w.contract.weight, &w.contract.bias);
  }
  /// Sinusoidal positions (P,E) of the last stack's input; empty if positions are learned.
  const tensor<T, 2, Backend>& target_positions() const noexcept {
    return config_.has_cross() ? target_positions_ : source_positions_;
  }

 private:
  // Dropout sites are numbered in order within a pass; encoder and decoder count apart.
  static constexpr std::uint64_t sites_apart = 1 << 15;
  struct pass {
    tape<T, Backend>& t;
    const options& o;
    std::uint64_t site;

    random_stream draws() { return random_stream(o.seed, o.step * (2 * sites_apart) + site++); }
  };

  tensor<T, 2, Backend> sinusoids(const embedding_config& e) const {
    sinusoid_form form = sinusoid_form::interleaved;
    switch (e.positions) {
      case positions::none:
      case positions::learned: return {};
      case positions::sinusoidal_interleaved: break;
      case positions::sinusoidal_halves: form = sinusoid_form::split; break;
      case positions::sinusoidal_halves_from_1: form = sinusoid_form::split_from_one; break;
    }
    tensor<T, 2, Backend> table(*backend_, {e.max_positions, e.width});
    sinusoidal_positions<T>(table.view(), form);
    return table;
  }

  slot dropped(pass& p, slot x) {
    if (!p.o.training || config_.dropout == 0) return x;
    return dropout(p.t, x, config_.dropout, p.draws());
  }

  static std::span<token_id> zeros(tape<T, Backend>& t, std::size_t n) {
    const std::span<token_id> ids(t.template keep<token_id>(static_cast<index_t>(n)), n);
    std::fill(ids.begin(), ids.end(), 0);
    return ids;
  }

  slot embed(pass& p, const char* what, const token_batch& batch, const embedding_config& e,
             embedding_weights<T, Backend>& w, const tensor<T, 2, Backend>& fixed_positions) {
    require_batch(what, batch);
    tape<T, Backend>& t = p.t;
    slot x = embedding<T, Backend>(t, batch.ids, w.tokens, static_cast<T>(e.scale));
    t.set_samples(x, batch.sentences);
    if (e.positions != positions::none) {
      const std::span<token_id> places = zeros(t, batch.ids.size());
      for (std::size_t b = 0; b < batch.sentences.size(); ++b) {
        const sequence& s = batch.sentences[b];
        if (s.length > e.max_positions)
          throw argument_error(std::string(what) + ": sentence " + std::to_string(b) + " has " +
                               std::to_string(s.length) + " tokens, expected at most the model's " +
                               std::to_string(e.max_positions) + " positions");
        for (index_t i = 0; i < s.length; ++i) places[static_cast<std::size_t>(s.begin + i)] = static_cast<token_id>(i);
      }
      if (e.positions == positions::learned)
        add_embedding<T, Backend>(t, x, places, w.positions);
      else
        add_embedding<T, Backend>(t, x, places, fixed_positions.view());
    }
    if (e.token_types > 0) {
      const std::span<token_id> types = zeros(t, batch.ids.size());
      std::copy(batch.types.begin(), batch.types.end(), types.begin());
      add_embedding<T, Backend>(t, x, types, w.types);
    }
    if (e.norm) x = norm(t, x, w.norm);
    x = dropped(p, x);
    if (e.width != config_.width) x = linear(t, x, w.projection.weight, &w.projection.bias);
    return x;
  }

  slot attend(pass& p, slot x, slot memory, attention_weights<T, Backend>& w, const attention_config& c,
              attention_kind kind, index_t layer, std::span<const sequence> queries, std::span<const sequence> keys) {
    tape<T, Backend>& t = p.t;
    attention_call<T, Backend> call;
    call.shape = {c.heads, c.kv_heads, c.head_size};
    call.options.causal = kind == attention_kind::decoder_self;
    if (p.o.training && config_.attention_dropout > 0) {
      call.options.dropout = config_.attention_dropout;
      call.options.draws = p.draws();
    }
    call.queries = queries;
    call.keys = keys;
    call.q = linear(t, x, w.query.weight, &w.query.bias);
    call.k = linear(t, memory, w.key.weight, &w.key.bias);
    call.v = linear(t, memory, w.value.weight, &w.value.bias);
    if (p.o.gates != nullptr && c.heads > 0) call.gates = &p.o.gates->of(kind, layer);
    call.options.mask_penalty = p.o.mask_penalty;
    bool own_way = p.o.attention != nullptr;
    if (own_way) call.fixed_mask = p.o.attention->mask(kind, layer);
    if (p.o.masks != nullptr)
      if (const auto found = p.o.masks->find({kind, layer}); found != p.o.masks->end()) {
        call.fixed_mask = found->second;
        own_way = false;
      }
    call.keep_probabilities = p.o.keep_attention;
    call.keep_probability_gradients = p.o.keep_attention_gradients;
    attention_record<T> record;
    record.kind = kind;
    record.layer = layer;
    own_way = own_way && p.o.trace == nullptr && !p.o.keep_attention && !p.o.keep_attention_gradients;
    const slot heads = own_way ? p.o.attention->attend(t, call, kind, layer) : attention(t, call, &record);
    if (p.o.trace != nullptr) p.o.trace->push_back(record);
    return dropped(p, linear(t, heads, w.output.weight, &w.output.bias));
  }

  /// x + block(norm(x)), or norm(x + block(x)).
  template <class Block>
  slot residual(tape<T, Backend>& t, slot x, norm_weights<T, Backend>& w, const Block& block) {
    if (config_.pre_norm) return add(t, x, block(norm(t, x, w)));
    return norm(t, add(t, x, block(x)), w);
  }

  slot stack(pass& p, slot x, std::span<const sequence> rows, const stack_config& c,
             std::vector<layer_weights<T, Backend>>& sets, attention_kind kind, slot memory,
             std::span<const sequence> memory_rows, norm_weights<T, Backend>& last_norm) {
    tape<T, Backend>& t = p.t;
    // Without a recording only the states between layers are kept, unless somebody wants to look at the attention.
    const bool reuse = !t.recording() && p.o.trace == nullptr;
    const slot between = reuse ? t.add(t.rows(x), config_.width) : slot{};
    const auto base = t.here();
    model_gates<T, Backend>* const gates = p.o.gates;
    const bool gates_neurons = gates != nullptr && gates->gates_neurons(stack_of(kind));
    const bool gates_layers = gates != nullptr && gates->gates_layers(stack_of(kind));
    for (std::size_t l = 0; l < c.layers.size(); ++l) {
      const layer_config& layer = c.layers[l];
      const auto number = static_cast<index_t>(l);
      const slot before = x;
      if (gates_layers && reuse && is_off(gates->layers(stack_of(kind)), number)) continue;
      auto& w = sets[static_cast<std::size_t>(c.weights_of(number))];
      x = residual(t, x, w.self.norm,
                   [&](slot y) { return attend(p, y, y, w.self, layer.self, kind, number, rows, rows); });
      if (memory.number >= 0)
        x = residual(t, x, w.cross.norm, [&](slot y) {
          return attend(p, y, memory, w.cross, layer.cross, attention_kind::cross, number, rows, memory_rows);
        });
      parameter<T, 1, Backend>* const neurons = gates_neurons ? &gates->neurons(stack_of(kind), number) : nullptr;
      x = residual(t, x, w.norm, [&](slot y) { return dropped(p, feed_forward(t, y, w, neurons)); });
      if (gates_layers) x = gate_layer(t, before, x, gates->layers(stack_of(kind)), number);
      if (reuse) {
        copy(t.input(x), t.value(between));
        t.rewind(base);
        x = between;
      }
    }
    return config_.final_norm ? norm(t, x, last_norm) : x;
  }

  static bool is_off(const parameter<T, 1, Backend>& gates, index_t layer) {
    return layer < gates.value.size() && gates.value(layer) == T(0);
  }
  static void copy(tensor_view<const T, 2> from, tensor_view<T, 2> to) {
    std::copy_n(from.data(), from.size(), to.data());
  }

  Backend* backend_;
  transformer_config config_;
  std::unique_ptr<weights_type> weights_;  // at one address: tapes point to parameters
  tensor<T, 2, Backend> source_positions_, target_positions_;
};

}  // namespace headred
