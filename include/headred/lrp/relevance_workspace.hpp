// Scratch memory of relevance, kept from op to op and sweep to sweep.
#pragma once

#include <array>
#include <vector>

#include <headred/core/grow_buffer.hpp>

namespace headred {

/// The caller's: calls on shapes that were seen before allocate nothing. One call at a time may use it.
template <class T>
class relevance_workspace {
 public:
  /// n values for an op's own use.
  T* values(index_t n) { return values_.get(n); }
  /// What an op hands to its input number i, before it is rescaled and added.
  T* input(std::size_t i, index_t n) { return inputs_[i].get(n); }
  T* factors(index_t n) { return factors_.get(n); }
  double* terms(index_t n) { return terms_.get(n); }
  double* sums(index_t n) { return sums_.get(n); }
  /// Numbers of the rows that an op works on.
  index_t* rows(index_t n) { return rows_.get(n); }
  /// n values for each worker.
  void reserve(int workers, index_t n) {
    if (workers_.size() < static_cast<std::size_t>(workers)) workers_.resize(static_cast<std::size_t>(workers));
    for (auto& buffer : workers_) buffer.get(n);
  }
  T* scratch(int worker) { return workers_[static_cast<std::size_t>(worker)].get(0); }

  /// Bytes held.
  std::size_t bytes() const noexcept {
    std::size_t n = values_.bytes() + factors_.bytes() + terms_.bytes() + sums_.bytes() + rows_.bytes();
    for (const auto& buffer : inputs_) n += buffer.bytes();
    for (const auto& buffer : workers_) n += buffer.bytes();
    return n;
  }

 private:
  grow_buffer<T> values_, factors_;
  std::array<grow_buffer<T>, 3> inputs_;
  grow_buffer<double> terms_, sums_;
  grow_buffer<index_t> rows_;
  std::vector<grow_buffer<T>> workers_;
};

}  // namespace headred
