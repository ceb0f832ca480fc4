// fingerprint: tells contents apart by 64 bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace headred::detail {

/// A 64-bit fingerprint of bytes, to tell saves apart; no defence against anyone who wants two to agree.
class fingerprint {
 public:
  void add(std::span<const std::byte> bytes) {
    mix(bytes.size());
    for (std::size_t i = 0; i < bytes.size(); i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i, std::min<std::size_t>(8, bytes.size() - i));
      mix(word);
    }
  }
  std::string text() const {
    constexpr char digits[] = "0123456789abcdef";
    std::string hex;
    for (int shift = 60; shift >= 0; shift -= 4) hex += digits[(state_ >> shift) & 15u];
    return hex;
  }

 private:
  void mix(std::uint64_t word) {
    state_ = (state_ ^ word) * 0x9E3779B97F4A7C15u;
    state_ ^= state_ >> 32;
  }
  std::uint64_t state_ = 0x243F6A8885A308D3u;
};

}  // namespace headred::detail
