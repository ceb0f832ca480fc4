// Which head: attention kind, layer and number within the layer.
#pragma once

#include <compare>
#include <ostream>
#include <string_view>

#include <headred/core/config.hpp>

namespace headred {

/// The three places of a Transformer where attention heads sit; distances between kinds do not exist.
enum class attention_kind { encoder_self, decoder_self, cross };

/// The name as files and messages write it: "encoder_self".
constexpr std::string_view to_string(attention_kind kind) noexcept {
  switch (kind) {
    case attention_kind::encoder_self: return "encoder_self";
    case attention_kind::decoder_self: return "decoder_self";
    case attention_kind::cross: return "cross";
  }
  return "unknown";
}

/// One head of one attention kind, numbered from 0 within its layer; ordered by layer, then head.
struct head_id {
  index_t layer = 0;
  index_t head = 0;
  friend constexpr auto operator<=>(const head_id&, const head_id&) = default;
  friend std::ostream& operator<<(std::ostream& out, const head_id& id) {
    return out << '(' << id.layer << ',' << id.head << ')';
  }
};

}  // namespace headred
