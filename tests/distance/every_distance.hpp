// The seven distances as one list, with how each is computed by the library and by the oracle.
#pragma once

#include <Eigen/Core>
#include <string>
#include <type_traits>

#include <headred/backend/cpu.hpp>
#include <headred/distance.hpp>

#include "oracle/attention_samples.hpp"
#include "oracle/distances.hpp"

namespace headred_test {

// f(policy) for each of the seven.
template <class F>
void for_every_distance(const F& f) {
  f(headred::cosine{});
  f(headred::pearson{});
  f(headred::jensen_shannon{});
  f(headred::bhattacharyya{});
  f(headred::distance_correlation{});
  f(headred::procrustes{});
  f(headred::canonical_correlation{});
}

template <class Distance>
std::string name_of(const Distance&) {
  return std::string(Distance::name);
}

// A head of a sample as the oracle takes it, from the values that the library reads.
template <class T>
oracle::wide_matrix wide_map(const attention_sample& sample, const T* values, index_t head) {
  oracle::wide_matrix m(sample.queries, sample.keys);
  for (index_t t = 0; t < sample.queries; ++t)
    for (index_t k = 0; k < sample.keys; ++k)
      m(t, k) = static_cast<long double>(values[(head * sample.queries + t) * sample.keys + k]);
  return m;
}

inline bool same_bits(const headred::matrix& a, const headred::matrix& b) { return a == b; }

}  // namespace headred_test
