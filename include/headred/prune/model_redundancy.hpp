// model_redundancy: the redundancy matrices of a model's heads, one for each attention kind.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include <headred/distance/jensen_shannon.hpp>
#include <headred/distance/redundancy.hpp>
#include <headred/nn/for_each_attention.hpp>
#include <headred/prune/model_layout.hpp>

namespace headred {

/// A redundancy accumulator for each attention kind of a model; distances between kinds do not exist. Maps go from the
/// model's pass straight into it, without a copy. Kinds that have lost all heads are left out.
template <host_backend Backend, distance_policy Distance = jensen_shannon>
class model_redundancy {
 public:
  using accumulator = redundancy<Distance, Backend>;

  model_redundancy(Backend& be, const transformer_config& config, Distance distance = {})
      : layout_(model_layout(config)) {
    for (const attention_kind kind : layout_.kinds())
      if (layout_.heads(kind).size() > 0) kinds_.emplace(kind, accumulator(be, layout_.heads(kind), distance));
  }

  const plan_layout& layout() const noexcept { return layout_; }
  /// The kinds that have heads.
  std::vector<attention_kind> kinds() const {
    std::vector<attention_kind> all;
    for (const auto& [kind, sums] : kinds_) all.push_back(kind);
    return all;
  }
  /// Throws argument_error for a kind without heads.
  const accumulator& of(attention_kind kind) const {
    const auto found = kinds_.find(kind);
    if (found == kinds_.end())
      throw argument_error("model_redundancy: the model has no heads of kind " + std::string(to_string(kind)));
    return found->second;
  }
  /// The mean so far, (N,N), N heads of the kind. Throws argument_error before the first sentence.
  headred::matrix matrix(attention_kind kind) const { return of(kind).matrix(); }

  /// One sentence of one kind, as for_each_attention hands it out.
  template <class Layers>
  void add(attention_kind kind, const Layers& layers) {
    const auto found = kinds_.find(kind);
    if (found != kinds_.end()) found->second.add(layers);
  }
  /// All sentences, see for_each_attention. Throws shape_error for a model of another layout.
  template <class T>
  void add(transformer<T, Backend>& model, const token_batch& source, const token_batch& target = {},
           const attention_pass_options& options = {}) {
    if (model_layout(model.config()) != layout_)
      throw shape_error("model_redundancy: the model has " + to_string(model_layout(model.config())) + ", expected " +
                        to_string(layout_));
    for_each_attention(
        model, source, target, [&](attention_kind kind, index_t, const auto& layers) { add(kind, layers); }, options);
  }

 private:
  plan_layout layout_;
  std::map<attention_kind, accumulator> kinds_;
};

}  // namespace headred
