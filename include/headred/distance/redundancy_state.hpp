// An accumulator as bytes: to go on later, or to merge what several processes have seen.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <headred/distance/redundancy.hpp>

namespace headred {
namespace detail {

inline constexpr char state_magic[] = "headred.redundancy.1";

/// Little-endian words, whatever the machine.
class state_writer {
 public:
  void word(std::uint64_t value) {
    for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i) & 0xff));
  }
  void text(const std::string& value) {
    word(value.size());
    for (const char c : value) bytes_.push_back(static_cast<std::byte>(c));
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class state_reader {
 public:
  explicit state_reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t word() {
    require(8);
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i)
      value |= std::uint64_t{std::to_integer<std::uint8_t>(bytes_[at_ + static_cast<std::size_t>(i)])} << (8 * i);
    at_ += 8;
    return value;
  }
  index_t count() {
    const std::uint64_t value = word();
    if (value > static_cast<std::uint64_t>(std::numeric_limits<index_t>::max()) / 2)
      throw argument_error("redundancy state: a count of " + std::to_string(value));
    return static_cast<index_t>(value);
  }
  std::string text() {
    const std::uint64_t size = word();
    require(size);
    std::string value(static_cast<std::size_t>(size), '\0');
    if (size != 0) std::memcpy(value.data(), bytes_.data() + at_, static_cast<std::size_t>(size));
    at_ += static_cast<std::size_t>(size);
    return value;
  }
  std::size_t left() const { return bytes_.size() - at_; }

 private:
  void require(std::uint64_t size) const {
    if (size > left())
      throw argument_error("redundancy state: ends at byte " + std::to_string(bytes_.size()) + ", " +
                           std::to_string(size) + " more expected from byte " + std::to_string(at_));
  }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

/// 64-bit FNV-1a: finds torn and altered files, not attacks.
inline std::uint64_t checksum(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::byte b : bytes) hash = (hash ^ std::to_integer<std::uint8_t>(b)) * 0x100000001b3u;
  return hash;
}

template <class Sum>
inline constexpr bool is_exact = std::is_same_v<Sum, fixed_sum>;

}  // namespace detail

/// The accumulator as bytes: magic, distance with its options, kind of sum, heads of each layer, counts, sums, checksum;
/// 64-bit little-endian words. The same on every machine.
template <class Distance, class Backend, class Sum>
std::vector<std::byte> save_state(const redundancy<Distance, Backend, Sum>& from) {
  detail::state_writer out;
  out.text(detail::state_magic);
  out.text(from.settings());
  out.text(detail::is_exact<Sum> ? "fixed" : "double");
  out.word(static_cast<std::uint64_t>(from.layout().layers()));
  for (const index_t heads : from.layout().heads_per_layer()) out.word(static_cast<std::uint64_t>(heads));
  const auto state = from.snapshot();
  const index_t counts[] = {state.sentences, state.skipped, state.underdetermined};  // named: nvcc 13 needs it
  for (const index_t count : counts) out.word(static_cast<std::uint64_t>(count));
  for (const Sum& sum : state.sums) {
    if constexpr (detail::is_exact<Sum>) {
      out.word(sum.high());
      out.word(sum.low());
    } else {
      out.word(std::bit_cast<std::uint64_t>(sum));
    }
  }
  std::vector<std::byte> bytes = out.bytes();
  detail::state_writer end;
  end.word(detail::checksum(bytes));
  bytes.insert(bytes.end(), end.bytes().begin(), end.bytes().end());
  return bytes;
}

/// Puts stored bytes into an accumulator of the same distance, options, layout and kind of sum; what it held is replaced.
/// Throws argument_error for anything else, for bytes that are cut short, too long or altered; it is then as it was.
template <class Distance, class Backend, class Sum>
void load_state(redundancy<Distance, Backend, Sum>& into, std::span<const std::byte> bytes) {
  detail::state_reader in(bytes);
  if (in.text() != detail::state_magic) throw argument_error("redundancy state: not a state of headred's redundancy");
  if (const std::string stored = in.text(); stored != into.settings())
    throw argument_error("redundancy state: of " + stored + ", expected " + into.settings());
  if (in.text() != (detail::is_exact<Sum> ? "fixed" : "double"))
    throw argument_error("redundancy state: of another kind of sum");
  if (in.count() != into.layout().layers()) throw argument_error("redundancy state: of another number of layers");
  for (index_t l = 0; l < into.layout().layers(); ++l)
    if (in.count() != into.layout().heads(l))
      throw argument_error("redundancy state: layer " + std::to_string(l) + " has another number of heads");
  typename redundancy<Distance, Backend, Sum>::state state;
  state.sentences = in.count();
  state.skipped = in.count();
  state.underdetermined = in.count();
  const index_t n = into.layout().size();
  const std::size_t pairs = static_cast<std::size_t>(n * (n - 1) / 2);
  if (in.left() != pairs * (detail::is_exact<Sum> ? 16 : 8) + 8)
    throw argument_error("redundancy state: " + std::to_string(bytes.size()) + " bytes do not fit " +
                         std::to_string(n) + " heads");
  if (detail::state_reader(bytes.last(8)).word() != detail::checksum(bytes.first(bytes.size() - 8)))
    throw argument_error("redundancy state: the checksum is wrong, the bytes were altered");
  state.sums.reserve(pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    if constexpr (detail::is_exact<Sum>) {
      const std::uint64_t high = in.word(), low = in.word();
      state.sums.push_back(fixed_sum(high, low));
    } else {
      state.sums.push_back(std::bit_cast<double>(in.word()));
    }
  }
  into.restore(std::move(state));
}

}  // namespace headred
