// for_each_attention: the attention maps of sentences, kind by kind, where the model computes them.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <headred/nn/transformer.hpp>

namespace headred {

/// How a model's passes are cut, and who is told.
struct attention_pass_options {
  index_t batch_tokens = 1024;  ///< source and target tokens of one pass at most, but at least one sentence
  std::function<bool(index_t done)> progress = {};  ///< called before each pass with the sentences done; false ends it
};

namespace detail {

inline token_batch part_of_batch(const token_batch& all, index_t begin, index_t count) {
  token_batch part;
  for (index_t b = begin; b < begin + count; ++b) {
    const sequence& s = all.sentences[static_cast<std::size_t>(b)];
    part.add(std::span(all.ids).subspan(static_cast<std::size_t>(s.begin), static_cast<std::size_t>(s.length)));
    if (!all.types.empty())
      part.types.insert(part.types.end(), all.types.begin() + s.begin, all.types.begin() + s.begin + s.length);
  }
  return part;
}

}  // namespace detail

/// f(kind, sentence, layers) for every sentence and attention kind; `layers` is a std::vector of tensor_view<const T, 3>,
/// (H_l,T,S) each, in the model's own memory, valid during the call. A sentence's kinds come one after the other.
///   source : of the encoder, or of a decoder-only model; target : of the decoder of an encoder_decoder, else not read
/// Memory: the activations of `batch_tokens` tokens in all layers. Throws what the model's passes throw, argument_error for
/// another number of targets, cancelled when the progress callback says so.
template <class T, host_backend Backend, class Visitor>
void for_each_attention(transformer<T, Backend>& model, const token_batch& source, const token_batch& target,
                        Visitor&& f, const attention_pass_options& options = {}) {
  require_batch("for_each_attention", source);
  const bool two = model.config().has_cross();
  if (two) {
    require_batch("for_each_attention", target);
    if (source.size() != target.size())
      throw argument_error("for_each_attention: " + std::to_string(target.size()) + " targets for " +
                           std::to_string(source.size()) + " sources");
  }
  const auto length = [&](index_t b) {
    const auto i = static_cast<std::size_t>(b);
    return source.sentences[i].length + (two ? target.sentences[i].length : 0);
  };
  tape<T, Backend> t(model.backend(), tape_mode::inference);
  std::vector<attention_record<T>> trace;
  std::map<attention_kind, std::vector<tensor_view<const T, 3>>> maps;
  typename transformer<T, Backend>::options pass;
  pass.keep_attention = true;
  pass.trace = &trace;
  for (index_t begin = 0, count = 0; begin < source.size(); begin += count) {
    if (options.progress && !options.progress(begin)) throw cancelled();
    index_t tokens = length(begin);
    for (count = 1; begin + count < source.size() && tokens + length(begin + count) <= options.batch_tokens; ++count)
      tokens += length(begin + count);
    t.clear();
    trace.clear();
    const token_batch part = detail::part_of_batch(source, begin, count);
    model.hidden(t, part, two ? detail::part_of_batch(target, begin, count) : token_batch{}, pass);
    for (index_t b = 0; b < count; ++b) {
      for (auto& [kind, layers] : maps) layers.clear();
      for (const attention_record<T>& record : trace) maps[record.kind].push_back(record.probabilities(b));
      for (const auto& [kind, layers] : maps) f(kind, begin + b, layers);
    }
  }
}

}  // namespace headred
