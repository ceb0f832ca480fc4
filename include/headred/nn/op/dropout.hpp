// dropout: elements are set to zero at random, the others grow so that the expectation stays.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>

#include <headred/core/number_text.hpp>
#include <headred/nn/op/checked_matrix.hpp>
#include <headred/nn/op/row_loops.hpp>
#include <headred/nn/relevance_sweep.hpp>
#include <headred/numeric/vector_math.hpp>
#include <headred/simd/philox_blocks.hpp>

namespace headred {

/// Which elements dropout keeps: a pure function of the stream and the element's number. Each element owns 16 bits of
/// the stream's Philox blocks, so the probability is rounded to a multiple of 2^-16 (at most 1 - 2^-16), and `factor`
/// is 1 / (1 - p) of the rounded p: the expectation is exact.
class dropout_mask {
 public:
  /// Throws argument_error for a probability outside [0,1).
  dropout_mask(double probability, random_stream stream) : stream_(stream), threshold_(checked(probability)) {}

  /// Whether element i is kept. Elements 64 c to 64 c + 63 share the blocks 8 c to 8 c + 7 of the stream.
  bool keeps(std::uint64_t i) const {
    const auto e = static_cast<unsigned>(i % chunk);
    const std::uint64_t block = i / chunk * 8 + e % 16 / 2;
    const std::uint64_t seed = stream_.seed(), stream = stream_.stream();
    const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
    const auto words =
        philox({low(block), low(block >> 32), low(stream), low(stream >> 32)}, {low(seed), low(seed >> 32)});
    return half(words[e % 2 + e / 32 * 2], e) >= threshold_;
  }
  /// Whether all elements are kept.
  bool keeps_all() const { return threshold_ == 0; }
  /// What kept elements are multiplied by.
  double factor() const { return 65536. / (65536 - threshold_); }

  /// y_i = x_i factor where element first + i is kept, 0 elsewhere, for i in [0,n); y may be x. With Add, y_i += that.
  /// Cheapest where first and n are multiples of 64.
  template <bool Add = false, class T>
  void apply(const T* x, T* y, index_t n, std::uint64_t first) const {
    if (n <= 0) return;
    const T scale = static_cast<T>(factor());
    const std::uint64_t end = first + static_cast<std::uint64_t>(n);
    for (std::uint64_t c = first / chunk; c * chunk < end; ++c) {
      std::uint32_t draws[chunk / 2];
      detail::philox_chunk(stream_, c, draws);
      const std::uint64_t begin = std::max(first, c * chunk), stop = std::min(end, (c + 1) * chunk);
      const T* const from = x + static_cast<index_t>(begin - first);
      T* const to = y + static_cast<index_t>(begin - first);
      if (stop - begin == chunk)
        apply_chunk<Add>(from, to, scale, draws);
      else
        apply_part<Add>(from, to, scale, draws, static_cast<unsigned>(begin % chunk),
                        static_cast<unsigned>(stop - begin));
    }
  }

 private:
  static constexpr std::uint64_t chunk = 64;

  static std::int32_t half(std::uint32_t word, unsigned e) {
    return static_cast<std::int32_t>(e / 16 % 2 == 0 ? word & 0xffffu : word >> 16);
  }

  static std::int32_t checked(double probability) {
    if (!(probability >= 0 && probability < 1))
      throw argument_error("dropout: the probability is " + number_text(probability) + ", expected [0,1)");
    return std::min(65535, static_cast<std::int32_t>(std::lround(probability * 65536)));
  }

  template <bool Add, class T>
  void apply_part(const T* x, T* y, T scale, const std::uint32_t* draws, unsigned begin, unsigned n) const {
    for (unsigned i = 0; i < n; ++i) {
      const unsigned e = begin + i;
      const T kept = half(draws[e / 32 * 16 + e % 16], e) >= threshold_ ? x[i] * scale : T(0);
      y[i] = Add ? y[i] + kept : kept;
    }
  }

  template <bool Add, class T>
  HEADRED_INLINE void apply_chunk(const T* x, T* y, T scale, const std::uint32_t* draws) const {
#if defined(__GNUC__) || defined(__clang__)
    constexpr int lanes = std::min(16, native_lanes<T>);
    using reals = detail::pack<T, lanes>;
    using ints = detail::pack<std::int32_t, lanes>;
    using wide = detail::pack<detail::integer_of<T>, lanes>;
    const std::int32_t least = threshold_;
    for (int part = 0; part < 2; ++part)
      for (int i = 0; i < 16; i += lanes) {
        const auto words = detail::load<detail::pack<std::uint32_t, lanes>>(draws + 16 * part + i);
        for (int upper = 0; upper < 2; ++upper) {
          const int at = 32 * part + 16 * upper + i;
          const ints draw = detail::bits_as<ints>(upper == 0 ? words & 0xffffu : words >> 16);
          const wide kept = __builtin_convertvector(draw >= least, wide);
          reals to = detail::bits_as<reals>(detail::bits_as<wide>(detail::load<reals>(x + at) * scale) & kept);
          if constexpr (Add) to += detail::load<reals>(y + at);
          detail::store(y + at, to);
        }
      }
#else
    apply_part<Add>(x, y, scale, draws, 0, chunk);
#endif
  }

  random_stream stream_;
  std::int32_t threshold_;
};

/// Whether dropout with this probability keeps element i. Throws argument_error for a probability outside [0,1).
inline bool dropout_keeps(random_stream stream, std::uint64_t i, double probability) {
  return dropout_mask(probability, stream).keeps(i);
}

namespace detail {

template <bool Add, class T, host_backend Backend>
void apply_dropout(Backend& be, const dropout_mask& mask, const tensor_view<const T, 2>& x,
                   const tensor_view<T, 2>& y) {
  const index_t rows = x.extent(0), cols = x.extent(1);
  const bool dense = x.stride(0) == cols && y.stride(0) == cols;
  for_row_blocks(be, rows, cols, [&](index_t begin, index_t end) {
    const auto first = [cols](index_t r) { return static_cast<std::uint64_t>(r * cols); };
    if (dense) {
      mask.apply<Add>(x.data() + begin * cols, y.data() + begin * cols, (end - begin) * cols, first(begin));
      return;
    }
    for (index_t r = begin; r < end; ++r)
      mask.apply<Add>(x.data() + r * x.stride(0), y.data() + r * y.stride(0), cols, first(r));
  });
}

}  // namespace detail

/// y_i = x_i / (1 - p) where element i = r D + d of the (R,D) matrix is kept, 0 elsewhere; p = 0 copies.
/// x, y : (R,D), y may be x. p is rounded as dropout_mask says. Throws shape_error, and argument_error for p outside
/// [0,1).
template <class T, host_backend Backend>
void dropout_forward(Backend& be, std::type_identity_t<tensor_view<const T, 2>> x, double probability,
                     random_stream stream, tensor_view<T, 2> y) {
  const dropout_mask mask(probability, stream);
  const index_t rows = x.extent(0), cols = x.extent(1);
  detail::require_matrix("dropout_forward", "x", x, rows, cols);
  detail::require_matrix("dropout_forward", "y", y, rows, cols);
  if (mask.keeps_all())
    return detail::map_rows<T>(
        be, y, [](const auto& p) { return p; }, x);
  detail::apply_dropout<false, T>(be, mask, x, y);
}

/// dx_i += dy_i / (1 - p) where element i was kept, with the probability and stream of dropout_forward; an empty dx is
/// not wanted. Throws what dropout_forward throws.
template <class T, host_backend Backend>
void dropout_gradient(Backend& be, double probability, random_stream stream,
                      std::type_identity_t<tensor_view<const T, 2>> dy, tensor_view<T, 2> dx) {
  const dropout_mask mask(probability, stream);
  if (dx.data() == nullptr) return;
  const index_t rows = dy.extent(0), cols = dy.extent(1);
  detail::require_matrix("dropout_gradient", "dy", dy, rows, cols);
  detail::require_matrix("dropout_gradient", "dx", dx, rows, cols);
  if (mask.keeps_all())
    return detail::map_rows<T>(
        be, dx, [](const auto& d, const auto& g) { return d + g; }, tensor_view<const T, 2>(dx), dy);
  detail::apply_dropout<true, T>(be, mask, dy, dx);
}

namespace detail {

template <class T, backend Backend>
struct dropout_node {
  static constexpr const char* name = "dropout";
  static constexpr bool relevance_by_sweep = true;
  slot x, y;
  double probability;
  random_stream stream;
  void gradient(tape<T, Backend>& t) const {
    if (t.has_gradient(y)) dropout_gradient<T>(t.backend(), probability, stream, t.gradient(y), t.gradient(x));
  }
  void relevance(tape<T, Backend>& t, relevance_sweep<T, Backend>& s) const {
    pass_relevance(t, s, relevance_op::dropout, x, y);
  }
};

}  // namespace detail

/// dropout of an activation; with probability 0 the activation itself.
template <class T, host_backend Backend>
slot dropout(tape<T, Backend>& t, slot x, double probability, random_stream stream) {
  if (dropout_mask(probability, stream).keeps_all()) return x;
  const slot y = t.add_like(x, t.cols(x));
  dropout_forward<T>(t.backend(), t.input(x), probability, stream, t.value(y));
  t.record(detail::dropout_node<T, Backend>{x, y, probability, stream});
  return y;
}

}  // namespace headred
