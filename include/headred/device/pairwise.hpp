// Distances of all pairs of heads whose maps lie on a device.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include <headred/backend/tensor.hpp>
#include <headred/core/as_view.hpp>
#include <headred/core/matrix.hpp>
#include <headred/core/number_text.hpp>
#include <headred/device/close_pairs.hpp>
#include <headred/device/correlation_pairs.hpp>
#include <headred/device/pair_tiles.hpp>

namespace headred::device {

/// How one sentence's maps are to be read; named like the fields of headred::sentence_options, in its order.
struct sentence_options {
  index_t length = -1;          ///< valid tokens from the first on, as queries and keys; -1: all
  index_t queries = -1;         ///< valid query rows, where they differ from `length`
  index_t keys = -1;            ///< valid key columns, likewise
  double sum_tolerance = 1e-2;  ///< what a row's sum may be off from 1
};

/// Attention maps in a device's memory: a view (L,H,T,S), or a tensor, of floats or doubles.
template <class Attention>
concept maps_on_device =
    viewable_as<Attention, 4> &&
    std::is_same_v<typename decltype(as_view(std::declval<std::remove_reference_t<Attention>&>()))::space,
                   device_space> &&
    std::is_floating_point_v<typename decltype(as_view(
        std::declval<std::remove_reference_t<Attention>&>()))::value_type>;

namespace detail {

/// The maps without their padding. Throws shape_error for more valid tokens than there are.
template <maps_on_device Attention>
auto valid_maps(Attention&& attention, const sentence_options& options) {
  const auto whole = as_view(attention);
  using value = typename decltype(whole)::value_type;
  const auto valid = [&](const char* what, index_t own, int axis) {
    const index_t n = own != -1 ? own : options.length != -1 ? options.length : whole.extent(axis);
    if (n < 0 || n > whole.extent(axis))
      throw shape_error("attention: " + std::to_string(n) + " valid " + what + " in " + shape_text(whole.shape()));
    return n;
  };
  const index_t queries = valid("queries", options.queries, 2), keys = valid("keys", options.keys, 3);
  return tensor_view<const value, 4, device_space>(whole).narrow(2, 0, queries).narrow(3, 0, keys);
}

template <class Distance>
inline constexpr bool is_correlation = std::string_view(Distance::name) == distance_correlation::name;

/// Sentences of fewer tokens have no such distance.
template <class Distance>
index_t least_tokens(const Distance& distance) {
  if constexpr (requires { distance.least_tokens(); })
    return distance.least_tokens();
  else
    return 1;
}

/// out(i,j) = out(j,i): the groups' sums, divided by the number of tokens.
struct mean_distance {
  const long long* partial;
  index_t groups, heads;
  double tokens;
  tensor_view<double, 2, device_space> out;
  HEADRED_FUNCTION void operator()(index_t at) const {
    const index_t i = at / heads, j = at % heads;
    double sum = 0;
    if (i != j)
      for (index_t g = 0; g < groups; ++g)
        sum += pair_sum::value(partial[(g * heads + (i < j ? i : j)) * heads + (i < j ? j : i)]);
    out(i, j) = sum / tokens;
  }
};

}  // namespace detail

/// Distances of all pairs of heads of one sentence, all on the device. attention: (L,H,T,S), float or double, rows sum
/// to 1 (deviations up to `sum_tolerance` are renormalised), padding cut off by narrow(); out: (LH,LH), heads in the
/// order layer * H + head, in [0,1], diagonal exactly 0, symmetric bits. Degenerate rows as on the CPU: two zero rows
/// are at 0, one at 1; a constant row is at 1/2 from another (pearson). Groups of tokens in which a pair comes out
/// close are recomputed in double; distance correlation is computed in double as a whole, with T^2 (LH) doubles of the
/// workspace. Throws data_error naming layer, head and row; shape_error; argument_error for a tolerance out of range.
/// Cost: (LH)^2/2 T S terms; of the workspace up to 512 (LH)^2 bytes, 128 (LH)^2 beyond 512 heads.
template <class Distance, class T, device_backend Backend>
void pairwise(Backend& be, tensor_view<const T, 4, device_space> attention, const Distance& distance,
              tensor_view<double, 2, device_space> out, double sum_tolerance = 1e-2) {
  constexpr bool correlation = detail::is_correlation<Distance>;
  const index_t heads = attention.extent(0) * attention.extent(1), tokens = attention.extent(2);
  const index_t least = detail::least_tokens(distance);
  const auto fail = [](const std::string& what) { throw shape_error(std::string(Distance::name) + ": " + what); };
  if (attention.size() <= 0 || tokens < least)
    fail("attention is " + shape_text(attention.shape()) + ", expected at least " + std::to_string(least) +
         " valid token" + (least > 1 ? "s" : ""));
  if (out.extent(0) != heads || out.extent(1) != heads)
    fail("out is " + shape_text(out.shape()) + ", expected " + shape_text(shape_t<2>{heads, heads}));
  const index_t rows = heads * tokens;
  if (heads > (index_t{1} << 20) || rows > (index_t{1} << 31) - 1 || attention.extent(3) > (index_t{1} << 31) - 64)
    fail("attention is " + shape_text(attention.shape()) + ", expected at most 2^20 heads, 2^31 rows and keys");

  if (correlation && heads > 46340)  // a block a pair
    fail("attention is " + shape_text(attention.shape()) + ", expected at most 46340 heads");
  if (!(sum_tolerance >= 0 && sum_tolerance < 1))
    throw argument_error("attention: sum_tolerance is " + number_text(sum_tolerance) + ", expected a number in [0,1)");

  if constexpr (correlation) {
    detail::correlation_pairs(be, attention, distance.unbiased, out, sum_tolerance);
  } else {
    using Rule = rule_of<Distance>;
    using carved = detail::carved_memory;
    const index_t groups = detail::token_groups(heads, tokens);
    carved memory(be.workspace(detail::row_bytes<T>(rows) + carved::bytes<long long>(groups * heads * heads)));
    auto m = detail::checked_rows<Rule>(be, attention, sum_tolerance, memory);
    m.partial = memory.take<long long>(groups * heads * heads);
    m.groups = groups;
    using tiles = detail::pair_tiles_kernel<T, Rule>;
    using close = detail::close_pairs_kernel<T, Rule>;
    be.launch(tiles::blocks(heads, groups), tiles{attention, m});
    be.launch(close::blocks(heads, groups), close{attention, m});
    be.for_each(heads * heads, detail::mean_distance{m.partial, groups, heads, static_cast<double>(tokens), out});
  }
}

}  // namespace headred::device

namespace headred {

/// `pairwise` for a device's backend: attention (L,H,T,S) in its memory, the result (LH,LH) on the host. `distance` is
/// jensen_shannon, bhattacharyya, cosine or pearson, as on the CPU, computed in the elements' type, or
/// distance_correlation. The rest as in device::pairwise.
template <device_backend Backend, device::maps_on_device Attention, class Distance>
matrix pairwise(Backend& be, Attention&& attention, const Distance& distance,
                const device::sentence_options& options = {}) {
  const auto maps = device::detail::valid_maps(attention, options);
  const index_t heads = maps.extent(0) * maps.extent(1);
  matrix result(heads, heads);
  tensor<double, 2, Backend> out(be, {heads, heads});
  device::pairwise(be, maps, distance, out.view(), options.sum_tolerance);
  be.download(result.data(), out.data(), out.bytes());
  return result;
}

}  // namespace headred
