// key_targets: for each query, the keys that a role looks at.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <headred/core/config.hpp>

namespace headred {

/// Lists of keys, one for each query from 0 on; a query whose list is empty is not asked.
class key_targets {
 public:
  index_t queries() const noexcept { return static_cast<index_t>(first_.size()) - 1; }
  /// The keys of a query; valid until the next change.
  std::span<const index_t> of(index_t query) const {
    const auto begin = static_cast<std::size_t>(first_[static_cast<std::size_t>(query)]);
    const auto end = static_cast<std::size_t>(first_[static_cast<std::size_t>(query) + 1]);
    return std::span(keys_).subspan(begin, end - begin);
  }
  /// A key of the query being written; different keys, in any order.
  void add(index_t key) { keys_.push_back(key); }
  /// Ends the list of the query being written.
  void end_query() { first_.push_back(static_cast<index_t>(keys_.size())); }
  /// Forgets the lists and keeps their memory.
  void clear() {
    first_.assign(1, 0);
    keys_.clear();
  }

 private:
  std::vector<index_t> first_{0};
  std::vector<index_t> keys_;
};

}  // namespace headred
