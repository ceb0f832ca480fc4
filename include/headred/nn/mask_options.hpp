// mask_options: how attention masks are learned.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <headred/core/head.hpp>
#include <headred/sparsity/gumbel_sigmoid_rule.hpp>

namespace headred {

/// What a mask (H,N,N) is made of.
enum class mask_form {
  structured,    ///< a number for each offset: M[h,i,j] = v[h,|i-j|]
  unstructured,  ///< a number for each pair: M[h,i,j] = v[h,min(i,j),max(i,j)]
};

/// What lambda multiplies, summed over all entries of all masks.
enum class mask_price {
  sampled,   ///< the entries of the step: SparseBERT's paper
  expected,  ///< their P(M > 1/2): of straight-through masks the mean of the former, without its noise (ours)
};

/// Which masks a model gets, and how they are trained.
struct mask_options {
  gumbel_sigmoid entry = {};  ///< its temperature is the first one if the temperature is learned
  mask_form form = mask_form::structured;
  index_t length = 0;     ///< N, the longest sentence; 0: as many as the model has positions
  bool by_layer = false;  ///< a mask for each layer; false: all layers of a kind share one (SparseBERT's code)
  bool by_head = true;    ///< a mask for each head; false: one for all
  bool diagonal = true;   ///< false: M[h,i,i] = 0
  double lambda = 0;      ///< price of an open entry, in nats a token; at least 0
  mask_price price = mask_price::sampled;
  std::vector<attention_kind> kinds = {};                ///< whose attention is masked; empty: all kinds of the model
  double initial = 0;                                    ///< mean of the first a; 0: half of the entries are open
  double spread = 1e-3;                                  ///< their deviation
  std::uint64_t seed = 0;                                ///< of the noise and of the first a
  std::optional<annealed_temperature> temperature = {};  ///< instead of the entry's; by the step
  bool learn_temperature = false;                        ///< by gradient descent on its logarithm, one for all masks
};

}  // namespace headred
