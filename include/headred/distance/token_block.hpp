// Some tokens' rows of all heads, read, judged, shaped for a distance and transposed: what pair_tiles works on.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include <headred/core/grow_buffer.hpp>
#include <headred/distance/read_columns.hpp>
#include <headred/distance/row_forms.hpp>
#include <headred/numeric/pair_tiles.hpp>

namespace headred::detail {

/// What a row is to a token-level distance. Zero rows come before every other rule.
enum class row_kind : unsigned char { regular, constant, zero };

/// Its kind, and the shift and scale that make (x - shift) / scale of it.
struct row_form {
  row_kind kind;
  double shift, scale;
};

/// Tokens that are taken at a time: by their number of keys alone, since it decides what is summed before it is widened.
constexpr index_t block_tokens(index_t keys) { return std::clamp<index_t>(256 / keys, 1, 8); }

/// One worker's block of tokens.
template <class Distance, class Real>
class token_block {
  static constexpr int lanes = native_lanes<Real>;
  using vec = pack<Real, lanes>;

 public:
  // All memory at once, so that no later sentence allocates, whichever worker its tasks go to.
  void reserve(index_t heads, index_t keys) {
    heads_ = heads;
    keys_ = keys;
    columns_ = slab_columns<Real>(heads);
    row_size_ = padded<double, native_lanes<double>>(keys);
    const index_t tokens = block_tokens(keys);
    slab_.get(tokens * keys * columns_);
    rows_.get((lanes + 1) * keys);
    wide_.get(tokens * heads * row_size_);
    const auto places = static_cast<std::size_t>(tokens * columns_);
    kinds_.resize(std::max(kinds_.size(), places));
    wide_is_read_.resize(std::max(wide_is_read_.size(), places));
    forms_.resize(std::max(forms_.size(), places));
    special_.resize(static_cast<std::size_t>(tokens));
  }

  /// Takes tokens first .. first + count.
  void read(const sentence_maps& maps, index_t first, index_t count) {
    point_at(maps, first, count);
    std::fill(kinds_.begin(), kinds_.begin() + count * columns_, row_kind::regular);
    std::fill(special_.begin(), special_.end(), false);
    for (index_t h = 0; h < heads_; h += lanes)
      for (index_t u = 0; u < count; ++u) {
        for (index_t next = h + lanes; next < std::min(h + 2 * lanes, heads_); ++next) maps.prefetch(next, first + u);
        read_rows(u, h);
      }
    // packs narrower than a tile leave columns that it reads all the same
    const index_t read = (heads_ + lanes - 1) / lanes * lanes, used = used_columns<Real>(heads_);
    if (read < used)
      for (index_t row = 0; row < count * keys_; ++row)
        std::fill(slab() + row * columns_ + read, slab() + row * columns_ + used, Real(0));
  }
  /// The same for `wide_row` alone.
  void point_at(const sentence_maps& maps, index_t first, index_t count) {
    maps_ = &maps;
    first_ = first;
    std::fill(wide_is_read_.begin(), wide_is_read_.begin() + count * columns_, false);
  }

  /// (count, keys, columns): what enters the sums over keys.
  Real* slab() { return slab_.get(block_tokens(keys_) * keys_ * columns_); }
  index_t columns() const { return columns_; }
  index_t keys() const { return keys_; }
  /// Whether token u of the block has a row that is not regular.
  bool special(index_t u) const { return special_[static_cast<std::size_t>(u)]; }
  row_kind kind(index_t u, index_t h) const { return kinds_[place(u, h)]; }

  /// Row of head h as given, in double, and its form: read when first asked for.
  scaled_row wide_row(index_t u, index_t h) {
    double* row = wide_.get(block_tokens(keys_) * heads_ * row_size_) + (u * heads_ + h) * row_size_;
    const row_form& form = wide_form(u, h);
    return {row, form.shift, form.scale};
  }
  const row_form& wide_form(index_t u, index_t h) {
    row_form& form = forms_[place(u, h)];
    if (!wide_is_read_[place(u, h)]) {
      wide_is_read_[place(u, h)] = true;
      double* row = wide_.get(block_tokens(keys_) * heads_ * row_size_) + (u * heads_ + h) * row_size_;
      std::fill(row + keys_, row + row_size_, 0.0);
      const double sum = maps_->read_raw_row(h, first_ + u, row);
      form = sum == 0 ? row_form{row_kind::zero, 0, 1} : Distance::prepare(row, keys_, row_size_, sum, epsilon);
    }
    return form;
  }

 private:
  static constexpr double epsilon = static_cast<double>(std::numeric_limits<Real>::epsilon());

  std::size_t place(index_t u, index_t h) const { return static_cast<std::size_t>(u * columns_ + h); }

  void read_rows(index_t u, index_t h) {
    const int count = static_cast<int>(std::min<index_t>(lanes, heads_ - h));
    const column_block<Real> block{slab() + u * keys_ * columns_ + h, columns_, keys_};
    const lane_doubles<Real> sum = read_columns<Real>(
        *maps_, count,
        [&](int l) {
          return row_place{h + l, first_ + u};
        },
        rows_.get((lanes + 1) * keys_), block.x, columns_, [&](int l) { set_special(u, h + l, row_kind::zero); });
    bool doubtful[lanes]{};
    if (Distance::template shape<Real>(block, sum, epsilon, doubtful)) {
      for (int l = 0; l < count; ++l)
        if (doubtful[l] && kind(u, h + l) == row_kind::regular && wide_form(u, h + l).kind == row_kind::constant)
          set_special(u, h + l, row_kind::constant);
    }
    if (special(u))  // they enter no sum
      for (int l = 0; l < count; ++l)
        if (kind(u, h + l) != row_kind::regular)
          for (index_t k = 0; k < keys_; ++k) block.x[k * columns_ + l] = 0;
  }

  void set_special(index_t u, index_t h, row_kind kind) {
    kinds_[place(u, h)] = kind;
    special_[static_cast<std::size_t>(u)] = true;
  }

  const sentence_maps* maps_ = nullptr;
  index_t heads_ = 0, keys_ = 0, columns_ = 0, row_size_ = 0, first_ = 0;
  grow_buffer<Real> slab_, rows_;
  grow_buffer<double> wide_;  // (tokens, heads, row_size)
  std::vector<row_kind> kinds_;
  std::vector<row_form> forms_;
  std::vector<unsigned char> wide_is_read_, special_;
};

}  // namespace headred::detail
