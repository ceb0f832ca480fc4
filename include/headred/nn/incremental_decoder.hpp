// incremental_decoder: a model's decoder fed token by token, with kept keys and values.
#pragma once

#include <deque>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <headred/core/grow_buffer.hpp>
#include <headred/nn/decoding_cache.hpp>
#include <headred/nn/transformer.hpp>

namespace headred {

/// Decodes a batch of rows, each the beginning of a target (or, in a decoder-only model, of a text). Logits are those of
/// `transformer::decode` on all that a row has read, to rounding. One use at a time; the model must outlive it. Several
/// may decode with one model at once: side by side if each has a backend of its own, else in turns. Gates and masks of
/// `options` act; dropout does not.
/// Small models run block by block of rows, each block on one thread; the cut depends on the model and on the number of
/// rows alone. Memory is kept from batch to batch: a step like one before allocates nothing.
template <class T, host_backend Backend>
class incremental_decoder {
 public:
  using options_type = forward_options<T, Backend>;

  /// Throws argument_error for a model without a decoder or without an output head.
  explicit incremental_decoder(transformer<T, Backend>& model, const options_type& options = {})
      : incremental_decoder(model, options, model.backend()) {}
  /// The same on another backend of this type than the model's, which must outlive it.
  incremental_decoder(transformer<T, Backend>& model, const options_type& options, Backend& be)
      : model_(&model), backend_(&be), options_(options), cache_(be), encoder_(be, tape_mode::inference) {
    if (!model.config().has_decoder()) throw argument_error("incremental_decoder: the model has no decoder");
    if (model.config().output == output_head::none)
      throw argument_error("incremental_decoder: the model has no output head");
    options_.training = false;
    options_.trace = nullptr;
    options_.keep_attention = options_.keep_attention_gradients = false;
  }

  transformer<T, Backend>& model() const noexcept { return *model_; }
  index_t rows() const noexcept { return cache_.rows(); }
  /// Tokens that row r has read, and the sentence it belongs to.
  index_t length(index_t r) const { return cache_.length(r); }
  index_t sentence(index_t r) const { return cache_.sentence(r); }
  /// Tokens that a row can read at most: the model's positions.
  index_t most_tokens() const {
    const embedding_config& e = embedding();
    return e.positions == positions::none ? std::numeric_limits<std::int32_t>::max() : e.max_positions;
  }

  /// Encodes the sources of a new batch: one row for each, up to `rows_each` of them later. Throws argument_error for a
  /// decoder-only model, and what `encode` throws.
  void begin(const token_batch& source, index_t rows_each = 1) {
    const transformer_config& c = model_->config();
    if (!c.has_cross()) throw argument_error("incremental_decoder: a decoder-only model has no source");
    require_rows_each(source.size(), rows_each);
    encoder_.clear();
    const auto encoded = encoder_.input(model_->encode(encoder_, source, options_));
    cache_.begin(c.decoder, source.size(), source.size() * rows_each, source.sentences);
    for (std::size_t l = 0; l < c.decoder.layers.size(); ++l) {
      auto& w = weights(l).cross;
      auto& kept = cache_.cross(static_cast<index_t>(l));
      project(encoded, w.key, kept.keys.view());
      project(encoded, w.value, kept.values.view());
    }
  }
  /// A new batch of a decoder-only model. Throws argument_error for one with an encoder or a count below 1.
  void begin(index_t sentences, index_t rows_each = 1) {
    if (model_->config().has_cross())
      throw argument_error("incremental_decoder: the model needs a source for each sentence");
    require_rows_each(sentences, rows_each);
    cache_.begin(model_->config().decoder, sentences, sentences * rows_each, {});
  }

  /// Feeds one or more tokens to each row; returns the logits (rows, vocabulary) after the last of each, valid until the
  /// next call. Throws argument_error for another number of rows, a row without a token, a token outside the vocabulary,
  /// a row longer than the positions; nothing has been fed then.
  tensor_view<const T, 2> extend(const token_batch& tokens) {
    if (tokens.size() != rows() || rows() == 0)
      throw argument_error("incremental_decoder: tokens for " + std::to_string(tokens.size()) + " rows, expected " +
                           std::to_string(rows()));
    require_batch("incremental_decoder", tokens);
    index_t longest = 0;
    for (index_t r = 0; r < rows(); ++r) {
      const index_t length = cache_.length(r) + tokens.sentences[static_cast<std::size_t>(r)].length;
      if (length > most_tokens())
        throw argument_error("incremental_decoder: row " + std::to_string(r) + " would have " + std::to_string(length) +
                             " tokens, expected at most the model's " + std::to_string(most_tokens()) + " positions");
      longest = std::max(longest, length);
    }
    detail::require_ids("incremental_decoder", tokens.ids, embedding().vocabulary);
    cache_.reserve(longest);
    const index_t vocabulary = model_->config().output_embedding().vocabulary;
    const tensor_view<T, 2> logits(logits_.get(rows() * vocabulary), {rows(), vocabulary});
    const index_t blocks = block_count(tokens.tokens());
    if constexpr (task_backend<Backend>) {
      reserve_lanes(static_cast<std::size_t>(blocks == 1 ? 1 : static_cast<int>(backend_->workers())));
      if (blocks > 1) {
        backend_->run(blocks, [&](index_t b, int worker) {
          const index_t first = b * rows() / blocks, end = (b + 1) * rows() / blocks;
          run(lanes_[static_cast<std::size_t>(worker)], tokens, first, end, logits.narrow(0, first, end - first));
        });
      } else {
        run(lanes_[0], tokens, 0, rows(), logits);
      }
    } else {
      reserve_lanes(1);
      run(lanes_[0], tokens, 0, rows(), logits);
    }
    for (index_t r = 0; r < rows(); ++r) cache_.advance(r, tokens.sentences[static_cast<std::size_t>(r)].length);
    return logits;
  }
  /// One token for each row.
  tensor_view<const T, 2> step(std::span<const token_id> tokens) {
    step_.clear();
    for (const token_id& token : tokens) step_.add({&token, 1});
    return extend(step_);
  }

  /// The new row i continues row parents[i]; rows that are nobody's parent are dropped. Throws argument_error for a parent
  /// that is not there, or for more rows than `begin` said.
  void select(std::span<const index_t> parents) { cache_.select(parents); }

 private:
  // What a thread works with: one block of rows at a time.
  struct lane {
    explicit lane(Backend& be) : memory(be, tape_mode::inference) {}
    tape<T, Backend> memory;
    attention_workspace<T> workspace;
    std::vector<token_id> ids, places, types;
    std::vector<sequence> queries, self_keys, cross_keys;
  };

  const embedding_config& embedding() const { return model_->config().output_embedding(); }
  layer_weights<T, Backend>& weights(std::size_t layer) const {
    const auto set = model_->config().decoder.weights_of(static_cast<index_t>(layer));
    return model_->weights().decoder[static_cast<std::size_t>(set)];
  }
  void require_rows_each(index_t sentences, index_t rows_each) const {
    constexpr index_t most = std::numeric_limits<std::int32_t>::max();
    if (sentences < 1 || rows_each < 1 || rows_each > most / sentences)
      throw argument_error("incremental_decoder: " + std::to_string(sentences) + " sentences with " +
                           std::to_string(rows_each) + " rows each, expected at least 1 of both, below 2^31 in all");
  }
  void project(tensor_view<const T, 2> x, linear_weights<T, Backend>& w, tensor_view<T, 2> y) {
    linear_forward<T>(*backend_, x, std::as_const(w.weight.value).view(), std::as_const(w.bias.value).view(),
                      y.narrow(0, 0, x.extent(0)));
  }
  void reserve_lanes(std::size_t n) {
    while (lanes_.size() < n) lanes_.emplace_back(*backend_);
  }

  /// Where every op is small, waking threads for each costs more than it saves: whole steps of blocks of rows run at
  /// once then, as long as a block is no longer than a few rows.
  index_t block_count(index_t tokens) const {
    constexpr index_t small = index_t{1} << 17, rows_at_once = 32;
    const transformer_config& c = model_->config();
    for (const layer_config& layer : c.decoder.layers)
      if (layer.feed_forward * c.width > small || layer.self.heads * layer.self.head_size * c.width > small) return 1;
    if (c.output_embedding().vocabulary * c.width > 4 * small || tokens > 4 * rows()) return 1;
    return (rows() + rows_at_once - 1) / rows_at_once;
  }

  void run(lane& w, const token_batch& tokens, index_t first, index_t end, tensor_view<T, 2> logits) {
    const transformer_config& c = model_->config();
    tape<T, Backend>& t = w.memory;
    t.clear();
    bool single = true;
    w.ids.clear(), w.places.clear(), w.queries.clear(), w.self_keys.clear(), w.cross_keys.clear();
    for (index_t r = first; r < end; ++r) {
      const sequence s = tokens.sentences[static_cast<std::size_t>(r)];
      w.queries.push_back({static_cast<index_t>(w.ids.size()), s.length});
      w.self_keys.push_back(cache_.self_rows(r, s.length));
      if (c.has_cross()) w.cross_keys.push_back(cache_.cross_rows(r));
      for (index_t i = 0; i < s.length; ++i) {
        w.ids.push_back(tokens.ids[static_cast<std::size_t>(s.begin + i)]);
        w.places.push_back(static_cast<token_id>(cache_.length(r) + i));
      }
      single = single && s.length == 1;
    }
    slot x = embed(w);
    const slot between = t.add(t.rows(x), c.width);
    const auto base = t.here();
    for (std::size_t l = 0; l < c.decoder.layers.size(); ++l) {
      const layer_config& layer = c.decoder.layers[l];
      layer_weights<T, Backend>& weight = weights(l);
      const auto number = static_cast<index_t>(l);
      const slot before = x;
      x = residual(t, x, weight.self.norm, [&](slot y) {
        keep(w, y, weight.self, number);
        return attend(w, y, weight.self, layer.self, attention_kind::decoder_self, number, w.self_keys);
      });
      if (c.has_cross())
        x = residual(t, x, weight.cross.norm, [&](slot y) {
          return attend(w, y, weight.cross, layer.cross, attention_kind::cross, number, w.cross_keys);
        });
      constexpr model_stack stack = model_stack::decoder;
      auto* const gates = options_.gates;
      auto* const neurons = gates != nullptr && gates->gates_neurons(stack) ? &gates->neurons(stack, number) : nullptr;
      x = residual(t, x, weight.norm, [&](slot y) { return model_->feed_forward(t, y, weight, neurons); });
      if (gates != nullptr && gates->gates_layers(stack)) x = gate_layer(t, before, x, gates->layers(stack), number);
      std::copy_n(t.input(x).data(), t.input(x).size(), t.value(between).data());
      t.rewind(base);
      x = between;
    }
    if (!single) x = last_of_each(w, x);
    if (c.final_norm) x = model_->norm(t, x, model_->weights().decoder_norm);
    auto& table = model_->output_table().value;
    const tensor_view<const T, 1> bias =
        c.output_bias ? std::as_const(model_->weights().output.bias.value).view() : tensor_view<const T, 1>{};
    linear_forward<T>(t.backend(), t.input(x), std::as_const(table).view(), bias, logits);
  }

  slot embed(lane& w) {
    const transformer_config& c = model_->config();
    const embedding_config& e = c.has_cross() ? c.target : c.source;
    auto& from = c.has_cross() && !c.shared_embeddings ? model_->weights().target : model_->weights().source;
    tape<T, Backend>& t = w.memory;
    const slot x = headred::embedding<T, Backend>(t, w.ids, from.tokens, static_cast<T>(e.scale));
    if (e.positions == positions::learned)
      add_embedding<T, Backend>(t, x, w.places, from.positions);
    else if (e.positions != positions::none)
      add_embedding<T, Backend>(t, x, w.places, model_->target_positions().view());
    if (e.token_types > 0) {
      w.types.assign(w.ids.size(), 0);
      add_embedding<T, Backend>(t, x, w.types, from.types);
    }
    return e.norm ? model_->norm(t, x, from.norm) : x;
  }

  template <class Block>
  slot residual(tape<T, Backend>& t, slot x, norm_weights<T, Backend>& w, const Block& block) {
    if (model_->config().pre_norm) return add(t, x, block(model_->norm(t, x, w)));
    return model_->norm(t, add(t, x, block(x)), w);
  }

  /// Puts the keys and values of the new tokens behind those of their rows.
  void keep(lane& w, slot x, attention_weights<T, Backend>& weight, index_t layer) {
    tape<T, Backend>& t = w.memory;
    auto& kept = cache_.self(layer);
    const auto append = [&](linear_weights<T, Backend>& by, tensor<T, 2, Backend>& to) {
      const auto made = t.input(linear(t, x, by.weight, &by.bias));
      const index_t width = made.extent(1);
      for (std::size_t r = 0; r < w.queries.size(); ++r) {
        const sequence from = w.queries[r], all = w.self_keys[r];
        std::copy_n(made.data() + from.begin * width, from.length * width,
                    to.data() + (all.begin + all.length - from.length) * width);
      }
    };
    append(weight.key, kept.keys);
    append(weight.value, kept.values);
  }

  slot attend(lane& w, slot x, attention_weights<T, Backend>& weight, const attention_config& c, attention_kind kind,
              index_t layer, std::span<const sequence> keys) {
    tape<T, Backend>& t = w.memory;
    auto& kept = kind == attention_kind::cross ? cache_.cross(layer) : cache_.self(layer);
    attention_inputs<T> in;
    in.shape = {c.heads, c.kv_heads, c.head_size};
    in.options.causal = kind == attention_kind::decoder_self;
    in.options.mask_penalty = options_.mask_penalty;
    in.queries = w.queries;
    in.keys = keys;
    in.q = t.input(linear(t, x, weight.query.weight, &weight.query.bias));
    in.k = kept.keys.view();
    in.v = kept.values.view();
    if (options_.gates != nullptr && c.heads > 0)
      in.gates = std::as_const(options_.gates->of(kind, layer).value).view();
    if (options_.attention != nullptr) in.mask = options_.attention->mask(kind, layer);
    if (options_.masks != nullptr)
      if (const auto found = options_.masks->find({kind, layer}); found != options_.masks->end())
        in.mask = found->second;
    const slot out = t.add(in.q.extent(0), in.q.extent(1));
    if (in.options.causal || in.mask.values.data() == nullptr) {
      attention_forward<T>(t.backend(), in, t.value(out), nullptr, {}, w.workspace);
    } else {
      attend_from_place(w, in, t.value(out));
    }
    return linear(t, out, weight.output.weight, &weight.output.bias);
  }

  /// The rows of a cross-attention mask are places in the target, which differ from row to row.
  void attend_from_place(lane& w, const attention_inputs<T>& all, tensor_view<T, 2> out) {
    for (std::size_t r = 0; r < all.queries.size(); ++r) {
      const sequence rows = all.queries[r], own{0, rows.length};
      const index_t place = w.places[static_cast<std::size_t>(rows.begin)], end = all.mask.values.extent(1);
      attention_inputs<T> in = all;
      in.queries = {&own, 1};
      in.keys = all.keys.subspan(r, 1);
      in.q = all.q.narrow(0, rows.begin, rows.length);
      in.mask = all.mask.values.narrow(1, std::min(place, end), std::max<index_t>(0, end - place));
      attention_forward<T>(w.memory.backend(), in, out.narrow(0, rows.begin, rows.length), nullptr, {}, w.workspace);
    }
  }

  slot last_of_each(lane& w, slot x) {
    tape<T, Backend>& t = w.memory;
    const slot last = t.add(static_cast<index_t>(w.queries.size()), t.cols(x));
    for (std::size_t r = 0; r < w.queries.size(); ++r)
      std::copy_n(t.input(x).data() + (w.queries[r].begin + w.queries[r].length - 1) * t.cols(x), t.cols(x),
                  t.value(last).data() + static_cast<index_t>(r) * t.cols(x));
    return last;
  }

  transformer<T, Backend>* model_;
  Backend* backend_;
  options_type options_;
  decoding_cache<T, Backend> cache_;
  tape<T, Backend> encoder_;
  std::deque<lane> lanes_;  // one for each worker
  grow_buffer<T> logits_;
  token_batch step_;
};

}  // namespace headred
