// The attention maps of all heads on one sentence: any element type, any strides, padding cut off, checked as read.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <headred/core/float16.hpp>
#include <headred/core/head_layout.hpp>
#include <headred/core/number_text.hpp>
#include <headred/core/view.hpp>
#include <headred/simd/pack.hpp>

namespace headred {

/// How one sentence's maps are to be read.
struct sentence_options {
  index_t length = -1;                         ///< valid tokens from the first on, as queries and keys; -1: all
  index_t queries = -1;                        ///< valid query rows, where they differ from `length` (cross-attention)
  index_t keys = -1;                           ///< valid key columns, likewise
  std::span<const std::uint8_t> query_mask{};  ///< nonzero: this query is valid (any positions); empty: see above
  std::span<const std::uint8_t> key_mask{};    ///< nonzero: this key is valid
  double scale = 1;                            ///< value = element * scale, for attention stored as integers
  double sum_tolerance = 1e-2;                 ///< what a row's sum may be off from 1; coarse integers need more
};

/// Element types that attention may be stored in; widened on read.
template <class T>
concept attention_element = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, float16> ||
                            std::same_as<T, bfloat16> || (std::integral<T> && !std::same_as<T, bool> && sizeof(T) <= 4);

/// The type computed in unless the caller names one: float for elements of up to 32 bits that a float holds, else double.
template <class T>
using default_precision =
    std::conditional_t<std::same_as<T, double> || (std::integral<T> && sizeof(T) > 2), double, float>;

namespace detail {

/// keys elements from `from`, `step` elements apart (or at the positions `at`), scaled and brought to Real.
template <class Real>
using row_reader = void (*)(const void* from, index_t step, const index_t* at, index_t keys, double scale, Real* row);

template <class T, class Real>
void read_elements(const void* from, index_t step, const index_t* at, index_t keys, double scale, Real* row) {
  const T* x = static_cast<const T*>(from);
  const auto value_of = [scale](T element) {
    double wide = 0;
    if constexpr (std::same_as<T, float16> || std::same_as<T, bfloat16>) {
      wide = static_cast<double>(static_cast<float>(element)) * scale;
    } else {
      wide = static_cast<double>(element) * scale;
    }
    if constexpr (sizeof(Real) == 8) {
      return wide;
    } else {
      const float value = static_cast<float>(wide);
      // what is not 0 stays so, and keeps its sign: rows are judged by that
      constexpr float least = std::numeric_limits<float>::min();
      return value == 0 && wide != 0 ? (wide < 0 ? -least : least) : value;
    }
  };
  if (at != nullptr) {
    for (index_t k = 0; k < keys; ++k) row[k] = value_of(x[at[k] * step]);
  } else if (step == 1) {
    if constexpr (std::same_as<T, Real>) {
      if (scale == 1) {
        std::copy(x, x + keys, row);
        return;
      }
    }
    for (index_t k = 0; k < keys; ++k) row[k] = value_of(x[k]);
  } else {
    for (index_t k = 0; k < keys; ++k) row[k] = value_of(x[k * step]);
  }
}

template <class V>
inline constexpr bool is_layer_view = false;
template <class T>
inline constexpr bool is_layer_view<tensor_view<T, 3>> = true;

/// std::vector, std::array or std::span of tensor_view (H,T,S) on the host.
template <class Range>
concept layer_range = std::ranges::sized_range<const std::remove_cvref_t<Range>> &&
                      is_layer_view<std::remove_cv_t<std::ranges::range_value_t<const std::remove_cvref_t<Range>>>>;

/// One sentence's maps with the element type erased, so that the engines are compiled once for all of them.
class sentence_maps {
 public:
  /// (L,H,T,S), layers of equal head counts; throws shape_error where it does not fit the layout or the options.
  template <class T>
  void assign(const head_layout& layout, const tensor_view<const T, 4>& attention, const sentence_options& options) {
    begin<T>(layout, attention.extent(0), options);
    for (index_t l = 0; l < attention.extent(0); ++l) add_layer(l, attention[l]);
    end(options);
  }
  /// A range of layers, (H_l,T,S) each.
  template <layer_range Layers>
  void assign(const head_layout& layout, const Layers& layers, const sentence_options& options) {
    using value = typename std::ranges::range_value_t<Layers>::value_type;
    begin<value>(layout, static_cast<index_t>(std::ranges::size(layers)), options);
    index_t l = 0;
    for (const auto& layer : layers) add_layer(l++, tensor_view<const value, 3>(layer));
    end(options);
  }

  /// After the N heads come the same N again, with their queries in the order given: row t of head N + h is row order[t]
  /// of head h (chance_corrected compares against such heads).
  void append_permuted(std::span<const index_t> order) {
    permuted_.assign(order.begin(), order.end());
    single_heads_ = static_cast<index_t>(heads_.size());
    for (index_t h = 0; h < single_heads_; ++h) heads_.push_back(heads_[static_cast<std::size_t>(h)]);
  }

  index_t heads() const { return static_cast<index_t>(heads_.size()); }
  index_t queries() const { return queries_; }  ///< valid query rows
  index_t keys() const { return keys_; }        ///< valid key columns
  bool empty() const { return queries_ <= 0 || keys_ <= 0; }

  /// Row t of head h into `row[0..keys)` as it was given; returns its sum, 0 for a row of zeros (nothing attended).
  /// Throws data_error for entries that are not finite or negative and for a sum off from 1 by more than the tolerance.
  double read_raw_row(index_t h, index_t t, double* row) const {
    read_(row_begin(h, t), heads_[static_cast<std::size_t>(h)].step, positions(), keys_, scale_, row);
    const auto [sum, least] = sum_and_least(row, keys_);
    if (!(std::abs(sum - 1) <= tolerance_) || least < 0) {
      if (sum == 0 && least >= 0) return 0;
      fail(h, t, row, sum);
    }
    return sum;
  }
  /// Row t of head h in Real, unchecked: in place where it is stored so, else in `row`. What is not 0 does not become 0.
  template <class Real>
  const Real* row_in(index_t h, index_t t, Real* row) const {
    const map& m = heads_[static_cast<std::size_t>(h)];
    const unsigned char* from = row_begin(h, t);
    if (plain_ == (sizeof(Real) == 8 ? element::wide : element::narrow) && m.step == 1 && scale_ == 1 &&
        key_at_.empty())
      return reinterpret_cast<const Real*>(from);
    if constexpr (sizeof(Real) == 8) {
      read_(from, m.step, positions(), keys_, scale_, row);
    } else {
      read_narrow_(from, m.step, positions(), keys_, scale_, row);
    }
    return row;
  }
  /// Asks for row t of head h, which will be read soon: rows of one token lie far from each other.
  void prefetch([[maybe_unused]] index_t h, [[maybe_unused]] index_t t) const {
#if defined(__GNUC__) || defined(__clang__)
    const unsigned char* from = row_begin(h, t);
    const index_t bytes = heads_[static_cast<std::size_t>(h)].step == 1 ? keys_ * element_bytes_ : 0;
    for (index_t i = 0; i < bytes && i < 4096; i += 64) __builtin_prefetch(from + i);
#endif
  }
  /// For a row whose sum in Real is not near 1: what read_raw_row says and throws of it.
  double checked_sum(index_t h, index_t t) const {
    const map& m = heads_[static_cast<std::size_t>(h)];
    const unsigned char* from = row_begin(h, t);
    constexpr index_t piece = 64;
    double part[piece], sum = 0, least = 0;
    for (index_t k = 0; k < keys_; k += piece) {
      const index_t count = std::min(piece, keys_ - k);
      if (key_at_.empty()) {
        read_(from + k * m.step * element_bytes_, m.step, nullptr, count, scale_, part);
      } else {
        read_(from, m.step, positions() + k, count, scale_, part);
      }
      const auto [more, smallest] = sum_and_least(part, count);
      sum += more;
      least = std::min(least, smallest);
    }
    if (!(std::abs(sum - 1) <= tolerance_) || least < 0) {
      if (sum == 0 && least >= 0) return 0;
      std::vector<double> row(static_cast<std::size_t>(keys_));
      read_(from, m.step, positions(), keys_, scale_, row.data());
      fail(h, t, row.data(), sum);
    }
    return sum;
  }
  /// What a row's sum may be off from 1.
  double tolerance() const { return tolerance_; }
  /// The row divided by its sum; false for a row of zeros.
  bool read_row(index_t h, index_t t, double* row) const {
    const double sum = read_raw_row(h, t, row);
    if (sum == 0) return false;
    const double unit = 1 / sum;
    for (index_t k = 0; k < keys_; ++k) row[k] *= unit;
    return true;
  }
  /// p - q and p + q for rows t of heads i and j divided by their sums, without the rounding of either quotient in the
  /// difference; both padded with zeros to whole packs.
  void read_pair(index_t i, index_t j, index_t t, double* difference, double* total) const {
    constexpr int lanes = native_lanes<double>;
    const index_t size = padded<double, lanes>(keys_);
    double a = read_raw_row(i, t, total), b = read_raw_row(j, t, difference);
    double change = 0;  // b - a, from what the entries differ by
    for (index_t k = 0; k < keys_; ++k) change += difference[k] - total[k];
    if (a == 0 || b == 0) {  // a row of zeros stays what it is under any scale
      a = a == 0 ? 1 : a;
      b = b == 0 ? 1 : b;
      change = b - a;
    }
    const double twice = a + b, unit = 1 / (2 * (a * b));
    for (index_t k = 0; k < keys_; ++k) {
      const double u = total[k] - difference[k], v = total[k] + difference[k];
      difference[k] = (u * twice + v * change) * unit;
      total[k] = (v * twice + u * change) * unit;
    }
    std::fill(difference + keys_, difference + size, 0.0);
    std::fill(total + keys_, total + size, 0.0);
  }

 private:
  struct map {
    const unsigned char* data;
    index_t row_bytes;  // from one query to the next
    index_t step;       // from one key to the next, in elements
  };

  template <class T>
  void begin(const head_layout& layout, index_t layers, const sentence_options& options) {
    static_assert(attention_element<T>, "attention is stored as float, double, float16, bfloat16 or an integer");
    if (layers != layout.layers())
      throw shape_error("attention: " + std::to_string(layers) + " layers, expected " +
                        std::to_string(layout.layers()));
    if (!(options.scale > 0) || !std::isfinite(options.scale))
      throw argument_error("attention: scale is " + std::to_string(options.scale) + ", expected a positive number");
    layout_ = &layout;
    if (!(options.sum_tolerance >= 0 && options.sum_tolerance < 1))
      throw argument_error("attention: sum_tolerance is " + std::to_string(options.sum_tolerance) +
                           ", expected a number in [0,1)");
    scale_ = options.scale;
    tolerance_ = options.sum_tolerance;
    read_ = &read_elements<T, double>;
    read_narrow_ = &read_elements<T, float>;
    element_bytes_ = static_cast<index_t>(sizeof(T));
    plain_ = std::same_as<T, double> ? element::wide : std::same_as<T, float> ? element::narrow : element::other;
    heads_.clear();
    rows_ = cols_ = -1;
  }

  template <class T>
  void add_layer(index_t l, const tensor_view<const T, 3>& maps) {
    if (maps.extent(0) != layout_->heads(l))
      throw shape_error("attention: layer " + std::to_string(l) + " is " + shape_text(maps.shape()) + ", expected " +
                        std::to_string(layout_->heads(l)) + " heads");
    if (maps.extent(0) == 0) return;
    if (rows_ < 0) {
      rows_ = maps.extent(1);
      cols_ = maps.extent(2);
    }
    if (maps.extent(1) != rows_ || maps.extent(2) != cols_)
      throw shape_error("attention: layer " + std::to_string(l) + " is " + shape_text(maps.shape()) +
                        ", the layers before it have " + std::to_string(rows_) + " queries and " +
                        std::to_string(cols_) + " keys");
    for (index_t h = 0; h < maps.extent(0); ++h)
      heads_.push_back({reinterpret_cast<const unsigned char*>(maps.data() + h * maps.stride(0)),
                        maps.stride(1) * static_cast<index_t>(sizeof(T)), maps.stride(2)});
  }

  void end(const sentence_options& options) {
    query_at_.clear();
    key_at_.clear();
    queries_ = choose("queries", rows_, options.queries, options.length, options.query_mask, query_at_);
    keys_ = choose("keys", cols_, options.keys, options.length, options.key_mask, key_at_);
    single_heads_ = static_cast<index_t>(heads_.size());
    // Scratch memory is a few times this; what cannot be addressed is refused before anything is computed.
    constexpr double most = 0x1p56;
    const double n = static_cast<double>(heads()), size = static_cast<double>(queries_) * static_cast<double>(keys_);
    if (n * size > most || n * n > most || size * 64 > most ||
        static_cast<double>(queries_) * static_cast<double>(queries_) > most)
      throw shape_error("attention: " + std::to_string(heads()) + " heads of " + std::to_string(queries_) +
                        " queries and " + std::to_string(keys_) + " keys are more than memory can hold");
  }

  const unsigned char* row_begin(index_t h, index_t t) const {
    const map& m = heads_[static_cast<std::size_t>(h)];
    if (h >= single_heads_) t = permuted_[static_cast<std::size_t>(t)];
    return m.data + (query_at_.empty() ? t : query_at_[static_cast<std::size_t>(t)]) * m.row_bytes;
  }
  const index_t* positions() const { return key_at_.empty() ? nullptr : key_at_.data(); }

  struct row_statistics {
    double sum, least;
  };
  /// In an order that depends on the number of keys alone.
  static row_statistics sum_and_least(const double* row, index_t keys) {
    constexpr int lanes = native_lanes<double>, packs = 8 / lanes;
    using vec = pack<double, lanes>;
    vec sum[packs]{}, least[packs]{};
    index_t k = 0;
    for (; k + 8 <= keys; k += 8)
      for (int i = 0; i < packs; ++i) {
        const vec x = load<vec>(row + k + i * lanes);
        sum[i] += x;
        least[i] = select_less(x, least[i], x, least[i]);
      }
    row_statistics all{0, 0};
    for (int i = 0; i < packs; ++i)
      for (int l = 0; l < lanes; ++l) {
        all.sum += sum[i][l];
        all.least = std::min(all.least, least[i][l]);
      }
    for (; k < keys; ++k) {
      all.sum += row[k];
      all.least = std::min(all.least, row[k]);
    }
    return all;
  }

  [[noreturn]] void fail(index_t h, index_t t, const double* row, double sum) const {
    const head_id id = layout_->id(h < single_heads_ ? h : h - single_heads_);
    std::string what = "the row sums to " + std::to_string(sum) + ", expected 1 within " + number_text(tolerance_) +
                       " (or a row of zeros)";
    for (index_t k = 0; k < keys_; ++k)
      if (!std::isfinite(row[k]) || row[k] < 0) {
        what = "key " + std::to_string(k) + " is " + number_text(row[k], 6) + ", expected a number >= 0";
        break;
      }
    throw data_error("attention: " + what, {id.layer, id.head, t});
  }

  static index_t choose(const char* name, index_t available, index_t count, index_t length,
                        std::span<const std::uint8_t> mask, std::vector<index_t>& positions) {
    available = std::max<index_t>(available, 0);
    if (!mask.empty()) {
      if (static_cast<index_t>(mask.size()) != available)
        throw shape_error("attention: the mask of the " + std::string(name) + " has " + std::to_string(mask.size()) +
                          " entries, expected " + std::to_string(available));
      for (index_t i = 0; i < available; ++i)
        if (mask[static_cast<std::size_t>(i)] != 0) positions.push_back(i);
      return static_cast<index_t>(positions.size());
    }
    if (count == -1) count = length;
    if (count == -1) return available;
    if (count < 0 || count > available)
      throw shape_error("attention: " + std::to_string(count) + " valid " + name + ", expected 0 to " +
                        std::to_string(available));
    return count;
  }

  const head_layout* layout_ = nullptr;
  std::vector<map> heads_;
  std::vector<index_t> query_at_, key_at_;  // valid positions, where a mask gave them
  row_reader<double> read_ = nullptr;
  row_reader<float> read_narrow_ = nullptr;
  index_t element_bytes_ = 0;
  enum class element { wide, narrow, other } plain_ = element::other;
  index_t rows_ = -1, cols_ = -1;
  std::vector<index_t> permuted_;
  index_t single_heads_ = 0;  // heads from here on are permuted ones
  index_t queries_ = 0, keys_ = 0;
  double scale_ = 1, tolerance_ = 1e-2;
};

}  // namespace detail
}  // namespace headred
