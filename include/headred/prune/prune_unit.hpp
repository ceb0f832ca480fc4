// What a pruning plan removes as one piece.
#pragma once

#include <string_view>

namespace headred {

/// The smallest piece that a plan keeps or removes.
enum class prune_unit {
  head,      ///< one query head with its share of the output projection
  kv_group,  ///< one key/value head with all the query heads that read it
};

constexpr std::string_view to_string(prune_unit unit) noexcept {
  switch (unit) {
    case prune_unit::head: return "head";
    case prune_unit::kv_group: return "kv_group";
  }
  return "unknown";
}

}  // namespace headred
