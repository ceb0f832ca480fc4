// All pairs of heads on one sentence, for any distance policy on any host backend.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <headred/backend/task_runner.hpp>
#include <headred/core/as_view.hpp>
#include <headred/core/grow_buffer.hpp>
#include <headred/core/matrix.hpp>
#include <headred/core/number_text.hpp>
#include <headred/core/status.hpp>
#include <headred/distance/policy.hpp>
#include <headred/distance/sentence_maps.hpp>

namespace headred {
namespace detail {

/// A policy that brings an engine for all pairs at once.
template <class D>
concept pairs_policy = distance_policy<D> && requires { typename D::template workspace<float>; };

/// A policy that compares two maps.
template <class D>
concept map_policy = distance_policy<D> && requires(const D& d, tensor_view<const double, 2> a) {
  { d(a, a) } -> std::convertible_to<double>;
};

struct map_workspace {
  grow_buffer<double> maps;  // (N,T,S), rows divided by their sums
};

template <class D, class Real>
struct workspace_of {
  using type = map_workspace;
};
template <pairs_policy D, class Real>
struct workspace_of<D, Real> {
  using type = typename D::template workspace<Real>;
};

/// Sentences with fewer tokens say nothing under this policy.
template <class D>
index_t least_tokens(const D& distance) {
  if constexpr (requires { distance.least_tokens(); }) {
    return distance.least_tokens();
  } else {
    return 1;
  }
}

template <class Real, class D, class Runner>
status all_pairs(const D& distance, Runner& tasks, const sentence_maps& maps,
                 typename workspace_of<D, Real>::type& work, tensor_view<double, 2> out) {
  if constexpr (pairs_policy<D>) {
    return distance.template pairs<Real>(tasks, maps, work, out);
  } else {
    static_assert(map_policy<D>, "a distance policy needs double operator()(tensor_view<const double, 2>, same) const");
    const index_t heads = maps.heads(), tokens = maps.queries(), keys = maps.keys(), size = tokens * keys;
    double* copy = work.maps.get(heads * size);
    tasks.run(heads, [&](index_t h, int) {
      for (index_t t = 0; t < tokens; ++t) {
        double* row = copy + h * size + t * keys;
        if (!maps.read_row(h, t, row)) std::fill(row, row + keys, 0.0);
      }
    });
    tasks.run(heads, [&](index_t i, int) {
      out(i, i) = 0;
      const tensor_view<const double, 2> a(copy + i * size, {tokens, keys});
      for (index_t j = i + 1; j < heads; ++j) {
        const double d = distance(a, tensor_view<const double, 2>(copy + j * size, {tokens, keys}));
        if (!(d >= 0 && d <= 1))
          throw argument_error(std::string(D::name) + ": the distance of heads " + std::to_string(i) + " and " +
                               std::to_string(j) + " is " + number_text(d) + ", expected a number in [0,1]");
        out(i, j) = out(j, i) = d;
      }
    });
    return status::converged;
  }
}

template <class View>
constexpr void require_host_memory() {
  static_assert(std::same_as<typename std::remove_const_t<View>::space, host_space>,
                "attention lies in a device's memory: copy it to the host before a host backend reads it");
}

/// The type computed in: the caller's, or what the elements ask for.
template <class Asked, class T>
using precision_of = std::conditional_t<std::is_void_v<Asked>, default_precision<T>, Asked>;

}  // namespace detail

/// Distances of all pairs of heads on one sentence.
/// attention: (L,H,T,S) viewable, rows sum to 1 (deviations up to 1e-2 are renormalised); result (LH,LH), heads in the
/// order layer * H + head, in [0,1], diagonal exactly 0. `Precision` (float, double) overrides the type computed in,
/// which otherwise follows the elements'. Throws data_error naming layer, head and row; shape_error for no valid token.
template <class Precision = void, host_backend Backend, viewable_as<4> Attention, distance_policy Distance>
matrix pairwise(Backend& be, Attention&& attention, const Distance& distance, const sentence_options& options = {}) {
  const auto view = as_view(attention);
  detail::require_host_memory<decltype(view)>();
  using value = typename decltype(view)::value_type;
  using real = detail::precision_of<Precision, value>;
  const index_t least = detail::least_tokens(distance);
  if (view.extent(2) <= 0 || view.extent(3) <= 0)  // before anything is allocated for each layer or head
    throw shape_error(std::string(Distance::name) + ": attention " + shape_text(view.shape()) +
                      " has 0 valid queries, expected at least " + std::to_string(least));
  const head_layout layout(view.extent(0), view.extent(1));
  detail::sentence_maps maps;
  maps.assign(layout, tensor_view<const value, 4>(view), options);
  if (maps.empty() || maps.queries() < least)
    throw shape_error(std::string(Distance::name) + ": attention " + shape_text(view.shape()) + " has " +
                      std::to_string(maps.queries()) + " valid queries, expected at least " + std::to_string(least));
  matrix out(layout.size(), layout.size());
  typename detail::workspace_of<Distance, real>::type work;
  task_runner<Backend> tasks(be);
  detail::all_pairs<real>(distance, tasks, maps, work, out.view());
  return out;
}

/// Distance of two maps a, b : (T,S) viewables of one element type; the same bits as their entry in `pairwise`.
/// Throws shape_error where the shapes differ, data_error (layer 0 is a, layer 1 is b) for rows that are no attention.
template <class Precision = void, host_backend Backend, viewable_as<2> A, viewable_as<2> B, distance_policy Distance>
double distance(Backend& be, A&& a, B&& b, const Distance& policy) {
  const auto x = as_view(a);
  const auto y = as_view(b);
  detail::require_host_memory<decltype(x)>();
  detail::require_host_memory<decltype(y)>();
  using value = typename decltype(x)::value_type;
  static_assert(std::same_as<value, typename decltype(y)::value_type>,
                "distance: a and b have different element types");
  using real = detail::precision_of<Precision, value>;
  if (x.shape() != y.shape())
    throw shape_error(std::string(Distance::name) + ": b is " + shape_text(y.shape()) + ", expected " +
                      shape_text(x.shape()));
  const tensor_view<const value, 3> layers[] = {
      {x.data(), {1, x.extent(0), x.extent(1)}, {0, x.stride(0), x.stride(1)}},
      {y.data(), {1, y.extent(0), y.extent(1)}, {0, y.stride(0), y.stride(1)}}};
  const head_layout layout(2, 1);
  detail::sentence_maps maps;
  maps.assign(layout, std::span(layers), {});
  const index_t least = detail::least_tokens(policy);
  if (maps.empty() || maps.queries() < least)
    throw shape_error(std::string(Distance::name) + ": a is " + shape_text(x.shape()) + ", expected at least " +
                      std::to_string(least) + " rows and 1 column");
  matrix out(2, 2);
  typename detail::workspace_of<Distance, real>::type work;
  task_runner<Backend> tasks(be);
  detail::all_pairs<real>(policy, tasks, maps, work, out.view());
  return out(0, 1);
}

/// Checks attention maps (L,H,T,S) before they are used: every row finite, >= 0, and of sum 1 within 1e-2 or all zero.
/// Throws data_error naming layer, head, row and key of the lowest offending head. Cost: one read of the input.
template <host_backend Backend, viewable_as<4> Attention>
void validate_attention(Backend& be, Attention&& attention, const sentence_options& options = {}) {
  const auto view = as_view(attention);
  detail::require_host_memory<decltype(view)>();
  using value = typename decltype(view)::value_type;
  if (view.extent(2) <= 0 || view.extent(3) <= 0)
    throw shape_error("attention: " + shape_text(view.shape()) + " holds no valid token");
  const head_layout layout(view.extent(0), view.extent(1));
  detail::sentence_maps maps;
  maps.assign(layout, tensor_view<const value, 4>(view), options);
  if (maps.empty()) throw shape_error("attention: " + shape_text(view.shape()) + " holds no valid token");
  task_runner<Backend> tasks(be);
  tasks.run(maps.heads(), [&](index_t h, int) {
    std::vector<double> row(static_cast<std::size_t>(maps.keys()));
    for (index_t t = 0; t < maps.queries(); ++t) maps.read_row(h, t, row.data());
  });
}

}  // namespace headred
