// The stacks of layers that a Transformer has.
#pragma once

#include <string_view>

#include <headred/core/head.hpp>

namespace headred {

/// A stack of layers, each with attention and a feed-forward block; a decoder-only model has a decoder.
enum class model_stack { encoder, decoder };

/// The name as files and messages write it: "encoder".
constexpr std::string_view to_string(model_stack stack) noexcept {
  switch (stack) {
    case model_stack::encoder: return "encoder";
    case model_stack::decoder: return "decoder";
  }
  return "unknown";
}

/// The stack whose layers have attention of that kind.
constexpr model_stack stack_of(attention_kind kind) noexcept {
  return kind == attention_kind::encoder_self ? model_stack::encoder : model_stack::decoder;
}

}  // namespace headred
