// The token-level distances as rules that the pair kernels follow.
#pragma once

#include <cmath>
#include <string_view>
#include <type_traits>

#include <headred/core/config.hpp>

namespace headred::device {

/// What a row is divided by: its sum, its length, or its length after its mean was taken away.
enum class row_scale { sum, length, centred_length };

// Each rule:
//   scale, one_constant   the rows' scale; the distance where exactly one of two rows is constant
//   shape(x)              an entry of a row brought to its scale
//   weight(x)             what is tabulated for an entry, where `tabulated`
//   term(p, q, wp, wq)    what is summed over keys
//   finish(sum)           sum -> distance;  close(sum, keys): whether the sum has lost too many digits
//   stable_term(difference, total, product), stable_finish(sum): the form that cannot cancel, in double
//   stable_if_close       that form is for close rows only: lengths, unlike sums, may differ by orders of magnitude

/// Square root of the Jensen-Shannon divergence in bits.
struct jensen_shannon {
  static constexpr const char* name = "jensen_shannon";
  static constexpr row_scale scale = row_scale::sum;
  static constexpr double one_constant = 1;
  static constexpr bool tabulated = true, stable_if_close = false;

  template <class T>
  HEADRED_FUNCTION static T shape(T x) {
    return x;
  }
  /// x (log2 x + 4). The 4 of all three logarithms cancel and make their rounding smaller: most entries lie between
  /// 1/512 and 1 (numeric/pair_tiles.hpp).
  template <class T>
  HEADRED_FUNCTION static T weight(T x) {
    return x > T(0) ? x * std::log2(T(16) * x) : T(0);
  }
  /// Twice the divergence: p log2 p + q log2 q - s log2 (s/2), s = p + q.
  template <class T>
  HEADRED_FUNCTION static T term(T p, T q, T wp, T wq) {
    const T s = p + q;
    return (wp + wq) - (s > T(0) ? s * std::log2(T(8) * s) : T(0));
  }
  template <class T>
  HEADRED_FUNCTION static T finish(T sum) {
    const T bits = sum * T(.5);
    return std::sqrt(bits < T(0) ? T(0) : bits < T(1) ? bits : T(1));
  }
  /// In float an error of 1.8e-7 |log2 x + 4| is 2e-6 of the distance at the root of half of this
  /// (distance/jensen_shannon.hpp).
  template <class T>
  HEADRED_FUNCTION static bool close(T sum, index_t keys) {
    if constexpr (std::is_same_v<T, double>) {
      return sum < 8e-3;
    } else {
      const T bits = std::log2(static_cast<T>(keys)) - T(4), most = bits < T(4) ? T(4) : bits;
      return sum < T(2 * .045 * .045) * (most * most);
    }
  }
  /// m f(t), t = |p-q|/(p+q), f(t) = (1+t) log1p(t) + (1-t) log1p(-t).
  HEADRED_FUNCTION static double stable_term(double difference, double total, double) {
    if (!(total > 0)) return 0;
    const double ratio = std::fabs(difference) / total, t = ratio < 1 ? ratio : 1;
    double f = 0;
    if (t < .25) {  // sum_k t^2k / (k (2k-1)), to 1e-17
      const double u = t * t;
      for (int k = 13; k >= 1; --k) f = f * u + 1. / (k * (2 * k - 1));
      f *= u;
    } else {
      f = (1 + t) * std::log1p(t) + (t < 1 ? (1 - t) * std::log1p(-t) : 0.);
    }
    return .5 * total * f;
  }
  HEADRED_FUNCTION static double stable_finish(double sum) {
    const double d = std::sqrt(.5 / 0.69314718055994530942 * sum);
    return d < 1 ? d : 1;
  }
};

/// sqrt(1 - sum sqrt(p q)), the Hellinger metric.
struct bhattacharyya {
  static constexpr const char* name = "bhattacharyya";
  static constexpr row_scale scale = row_scale::sum;
  static constexpr double one_constant = 1;
  static constexpr bool tabulated = false, stable_if_close = false;

  template <class T>
  HEADRED_FUNCTION static T shape(T x) {
    return std::sqrt(x);
  }
  template <class T>
  HEADRED_FUNCTION static T term(T p, T q, T, T) {
    return p * q;
  }
  template <class T>
  HEADRED_FUNCTION static T finish(T sum) {
    const T rest = T(1) - sum;
    return std::sqrt(rest < T(0) ? T(0) : rest);
  }
  template <class T>
  HEADRED_FUNCTION static bool close(T sum, index_t) {
    return sum > T(1 - 1e-2);
  }
  /// (sqrt p - sqrt q)^2.
  HEADRED_FUNCTION static double stable_term(double difference, double total, double product) {
    return total > 0 ? difference * (difference / (total + 2 * std::sqrt(product))) : 0;
  }
  HEADRED_FUNCTION static double stable_finish(double sum) {
    const double d = std::sqrt(.5 * sum);
    return d < 1 ? d : 1;
  }
};

namespace detail {

/// slope (1 - p.q) for unit vectors.
template <int Halves>
struct product_rule {
  static constexpr double slope = Halves / 2.;
  static constexpr bool tabulated = false, stable_if_close = true;
  template <class T>
  HEADRED_FUNCTION static T shape(T x) {
    return x;
  }
  template <class T>
  HEADRED_FUNCTION static T term(T p, T q, T, T) {
    return p * q;
  }
  template <class T>
  HEADRED_FUNCTION static T finish(T sum) {
    const T d = T(slope) * (T(1) - sum);
    return d < T(0) ? T(0) : d < T(1) ? d : T(1);
  }
  template <class T>
  HEADRED_FUNCTION static bool close(T sum, index_t) {
    return T(1) - sum < T(1e-3 / slope);
  }
  HEADRED_FUNCTION static double stable_term(double difference, double, double) { return difference * difference; }
  HEADRED_FUNCTION static double stable_finish(double sum) {
    const double d = .5 * slope * sum;
    return d < 1 ? d : 1;
  }
};

}  // namespace detail

/// 1 - p.q / (|p| |q|).
struct cosine : detail::product_rule<2> {
  static constexpr const char* name = "cosine";
  static constexpr row_scale scale = row_scale::length;
  static constexpr double one_constant = 1;
};

/// (1 - r) / 2.
struct pearson : detail::product_rule<1> {
  static constexpr const char* name = "pearson";
  static constexpr row_scale scale = row_scale::centred_length;
  static constexpr double one_constant = .5;
};

namespace detail {

template <class D>
concept pair_rule = requires {
  D::scale;
  D::tabulated;
  D::stable_if_close;
};

template <class Distance>
constexpr auto rule_named_like() {
  constexpr std::string_view name = Distance::name;
  if constexpr (pair_rule<Distance>) {
    return Distance{};
  } else if constexpr (name == jensen_shannon::name) {
    return jensen_shannon{};
  } else if constexpr (name == bhattacharyya::name) {
    return bhattacharyya{};
  } else if constexpr (name == cosine::name) {
    return cosine{};
  } else {
    static_assert(
        name == pearson::name,
        "on a device there are jensen_shannon, bhattacharyya, cosine, pearson and distance_correlation: other "
        "distances take a host backend and host memory");
    return pearson{};
  }
}

}  // namespace detail

/// The rule by which a device computes a distance: headred::jensen_shannon, bhattacharyya, cosine and pearson have one
/// of their name here, a rule is its own.
template <class Distance>
using rule_of = decltype(detail::rule_named_like<Distance>());

}  // namespace headred::device
