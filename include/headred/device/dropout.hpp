// dropout on the device: the elements that the CPU drops, the others grow so that the expectation stays.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>

#include <headred/core/number_text.hpp>
#include <headred/core/random.hpp>
#include <headred/device/block_context.hpp>
#include <headred/device/entries.hpp>

namespace headred::device {
namespace detail {

/// Eight elements of a matrix share a Philox block: elements 64 c to 64 c + 63 own the blocks 8 c to 8 c + 7, block k
/// of them the elements 2 k and 2 k + 1 of each 16, as dropout_mask of the CPU lays them out.
template <class T>
struct dropped_entries {
  random_stream stream;
  std::uint32_t threshold;
  T factor;
  tensor_view<const T, 2, device_space> x;
  tensor_view<T, 2, device_space> y;
  bool add;

  HEADRED_FUNCTION void operator()(index_t number) const {
    const auto n = static_cast<std::uint64_t>(number), seed = stream.seed(), of = stream.stream();
    const auto words = philox({static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32),
                               static_cast<std::uint32_t>(of), static_cast<std::uint32_t>(of >> 32)},
                              {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    for (int sixteen = 0; sixteen < 4; ++sixteen)
      for (int one = 0; one < 2; ++one) {
        // selected without an index, so that the words stay in registers
        const std::uint32_t word = sixteen < 2 ? (one == 0 ? words[0] : words[1]) : (one == 0 ? words[2] : words[3]);
        const index_t at = number / 8 * 64 + 16 * sixteen + number % 8 * 2 + one;
        if (at >= x.size()) return;  // those that follow lie behind
        const auto [r, c] = matrix_place::of(at, x.extent(1));
        const bool kept = (sixteen % 2 == 0 ? word & 0xffffu : word >> 16) >= threshold;
        const T value = kept ? x(r, c) * factor : T(0);
        y(r, c) = add ? y(r, c) + value : value;
      }
  }
};

template <class T, class Backend>
void issue_dropout(const char* op, Backend& be, const tensor_view<const T, 2, device_space>& x, double probability,
                   random_stream stream, const tensor_view<T, 2, device_space>& y, bool add) {
  if (!(probability >= 0 && probability < 1))
    throw argument_error(std::string(op) + ": the probability is " + number_text(probability) + ", expected [0,1)");
  const auto threshold = static_cast<std::uint32_t>(std::min(65535L, std::lround(probability * 65536)));
  const double factor = 65536. / (65536 - static_cast<double>(threshold));
  be.for_each((x.size() + 63) / 64 * 8, dropped_entries<T>{stream, threshold, static_cast<T>(factor), x, y, add});
}

}  // namespace detail

/// y_i = x_i / (1 - p) where element i = r D + d of the (R,D) matrix is kept, 0 elsewhere: the same elements, with the
/// same bits, as on the CPU; p is rounded to a multiple of 2^-16.
/// x, y : (R,D) on the device, y may be x. Throws shape_error, and argument_error for p outside [0,1).
template <class T, device_backend Backend>
void dropout_forward(Backend& be, std::type_identity_t<tensor_view<const T, 2, device_space>> x, double probability,
                     random_stream stream, tensor_view<T, 2, device_space> y) {
  detail::require_shape("dropout_forward", "y", y, x.shape());
  detail::issue_dropout<T>("dropout_forward", be, x, probability, stream, y, false);
}

/// dx_i += dy_i / (1 - p) where element i was kept, with the probability and stream of dropout_forward; an empty dx is
/// not wanted, and nothing is checked then. Throws what dropout_forward throws.
template <class T, device_backend Backend>
void dropout_gradient(Backend& be, double probability, random_stream stream,
                      std::type_identity_t<tensor_view<const T, 2, device_space>> dy,
                      tensor_view<T, 2, device_space> dx) {
  if (dx.data() == nullptr) return;
  detail::require_shape("dropout_gradient", "dx", dx, dy.shape());
  detail::issue_dropout<T>("dropout_gradient", be, dy, probability, stream, dx, true);
}

}  // namespace headred::device
