// As many columns of a slab as a pack has lanes: sums over keys and changes of all of them at once.
#pragma once

#include <array>

#include <headred/numeric/vector_math.hpp>

namespace headred::detail {

/// One double for each lane of a pack of T.
template <class T, int Lanes = native_lanes<T>>
struct lane_doubles {
  static constexpr int wide = native_lanes<double>, parts = Lanes / wide;
  using doubles = pack<double, wide>;
  using vec = pack<T, Lanes>;
  doubles part[parts]{};

  HEADRED_INLINE void add(const vec& x) {
    T lane[Lanes];
    store(lane, x);
    for (int p = 0; p < parts; ++p) part[p] += load_converted<doubles>(lane + p * wide);
  }
  HEADRED_INLINE vec narrow() const {
    T lane[Lanes];
    for (int p = 0; p < parts; ++p) store_converted(lane + p * wide, part[p]);
    return load<vec>(lane);
  }
  HEADRED_INLINE void store_to(double* to) const {
    for (int p = 0; p < parts; ++p) store(to + p * wide, part[p]);
  }
  HEADRED_INLINE static lane_doubles load_from(const double* from) {
    lane_doubles y;
    for (int p = 0; p < parts; ++p) y.part[p] = load<doubles>(from + p * wide);
    return y;
  }
  HEADRED_INLINE double operator[](int lane) const { return part[lane / wide][lane % wide]; }
  HEADRED_INLINE void set(int lane, double value) { part[lane / wide][lane % wide] = value; }
  /// f of each part (and of those of others).
  template <class F, class... Others>
  HEADRED_INLINE lane_doubles map(const F& f, const Others&... others) const {
    lane_doubles y;
    for (int p = 0; p < parts; ++p) y.part[p] = f(part[p], others.part[p]...);
    return y;
  }
  HEADRED_INLINE lane_doubles root() const {
    return map([](const doubles& x) { return sqrt_of<wide>(x); });
  }
  /// 1 / x, 0 where x is not a normal number above 0.
  HEADRED_INLINE lane_doubles reciprocal() const {
    return map([](const doubles& x) {
      const doubles zero{}, one = broadcast<doubles>(1.), tiny = broadcast<doubles>(0x1p-1022);
      return select_less(x, tiny, zero, one / select_less(x, tiny, one, x));
    });
  }
};

/// x: (keys, Lanes) within a slab of rows `stride` apart.
template <class T, int Lanes = native_lanes<T>>
struct column_block {
  using vec = pack<T, Lanes>;
  using values = lane_doubles<T, Lanes>;
  T* x;
  index_t stride, keys;

  /// Keys that are summed in T before the sum is widened.
  static constexpr index_t chunk = 16;

  /// Sums over keys: f(x, sums) adds what an entry contributes to each of Count.
  template <int Count, class F>
  HEADRED_INLINE std::array<values, Count> sums(const F& f) const {
    return sums_at<Count>([&](index_t, const vec& at, vec* sum) { f(at, sum); });
  }
  /// The same with f(k, x, sums).
  template <int Count, class F>
  HEADRED_INLINE std::array<values, Count> sums_at(const F& f) const {
    std::array<values, Count> total;
    for (index_t begin = 0; begin < keys; begin += chunk) {
      const index_t end = begin + chunk < keys ? begin + chunk : keys;
      vec sum[Count]{};
      for (index_t k = begin; k < end; ++k) f(k, load<vec>(x + k * stride), sum);
      for (int i = 0; i < Count; ++i) total[static_cast<std::size_t>(i)].add(sum[i]);
    }
    return total;
  }
  /// Every x becomes f(x).
  template <class F>
  HEADRED_INLINE void apply(const F& f) const {
    apply_at([&](index_t, const vec& at) { return f(at); });
  }
  /// The same with f(k, x).
  template <class F>
  HEADRED_INLINE void apply_at(const F& f) const {
    for (index_t k = 0; k < keys; ++k) store(x + k * stride, f(k, load<vec>(x + k * stride)));
  }
};

}  // namespace headred::detail
