// end_token: whether the token that ends a sentence counts.
#pragma once

namespace headred {

/// How the last valid token of a sentence ("</s>", "[SEP]") is used.
enum class end_token {
  excluded,           ///< as query and as key
  excluded_as_key,    ///< it may ask, but cannot be the favourite
  excluded_as_query,  ///< the other way round
  included,           ///< an ordinary token; also for maps without an end token
};

/// Whether it asks, and whether it may be chosen.
constexpr bool end_asks(end_token end) { return end == end_token::excluded_as_key || end == end_token::included; }
/// Whether the end token may be chosen as a key.
constexpr bool end_is_candidate(end_token end) {
  return end == end_token::excluded_as_query || end == end_token::included;
}

}  // namespace headred
