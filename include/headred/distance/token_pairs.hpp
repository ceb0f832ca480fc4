// The engine of the token-level distances: mean over query rows of a distance between two rows, for all pairs of heads.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include <headred/core/grow_buffer.hpp>
#include <headred/core/status.hpp>
#include <headred/distance/policy.hpp>
#include <headred/distance/row_forms.hpp>
#include <headred/distance/sentence_maps.hpp>
#include <headred/numeric/pair_tiles.hpp>
#include <headred/numeric/transpose.hpp>

namespace headred::detail {

/// What a row is to a token-level distance. Zero rows come before every other rule.
enum class row_kind : unsigned char { regular, constant, zero };

/// Its kind, and the shift and scale that make (x - shift) / scale of it.
struct row_form {
  row_kind kind;
  double shift, scale;
};

/// Reused from sentence to sentence.
template <class Real>
struct token_workspace {
  struct worker {
    grow_buffer<double> rows;   // (N, padded keys): rows of one token as given
    grow_buffer<Real> entries;  // (N, padded keys): what of them enters the sums over keys
    grow_buffer<Real> slab;     // (keys, columns): the same transposed
    grow_buffer<Real> table;    // (chunks, columns)
    grow_buffer<Real> values;   // (columns, columns)
    grow_buffer<Real> line;     // (columns)
    std::vector<row_form> forms;

    // All of it at once, so that no later sentence allocates, whichever worker its tasks go to.
    template <class Op>
    void reserve(index_t heads, index_t keys) {
      const index_t columns = slab_columns<Real>(heads), row_size = padded<Real, native_lanes<Real>>(keys);
      rows.get(heads * row_size);
      entries.get(heads * row_size);
      slab.get(keys * columns);
      if (Op::tabulated) table.get((keys + Op::chunk - 1) / Op::chunk * columns);
      values.get(columns * columns);
      line.get(columns);
      forms.reserve(static_cast<std::size_t>(heads));
    }
  };
  std::vector<worker> workers;
  grow_buffer<double> sums;  // (groups, columns, columns)
};

/// Tokens are summed in this many groups, whatever the number of threads, and the groups in order.
inline index_t token_groups(index_t queries, index_t heads) {
  return std::clamp<index_t>(queries / 4, 1, heads <= 256 ? 16 : 4);
}

/// Terms of a Jensen-Shannon table: sums of x log2 x over chunks of keys.
template <class Op, class Real>
void fill_table(const Real* slab, index_t keys, index_t columns, Real* table) {
  constexpr int lanes = native_lanes<Real>;
  using vec = pack<Real, lanes>;
  for (index_t begin = 0; begin < keys; begin += Op::chunk)
    for (index_t h = 0; h < columns; h += lanes) {
      vec sum{};
      for (index_t k = begin; k < std::min(keys, begin + Op::chunk); ++k) {
        const vec x = load<vec>(slab + k * columns + h);
        sum += x * log2_of<lanes>(x);
      }
      store(table + begin / Op::chunk * columns + h, sum);
    }
}

/// Prepares the rows of one token: own.rows as given, own.forms, own.slab. Returns whether a row is not regular.
template <class Distance, class Real>
bool prepare_token(const sentence_maps& maps, index_t token, typename token_workspace<Real>::worker& own) {
  constexpr int wide = native_lanes<double>, lanes = native_lanes<Real>;
  using doubles = pack<double, wide>;
  using vec = pack<Real, lanes>;
  const index_t heads = maps.heads(), keys = maps.keys();
  const index_t columns = slab_columns<Real>(heads), row_size = padded<Real, lanes>(keys);
  double* rows = own.rows.get(heads * row_size);
  Real* entries = own.entries.get(heads * row_size);
  own.forms.resize(static_cast<std::size_t>(heads));
  bool special = false;
  for (index_t h = 0; h < heads; ++h) {
    double* row = rows + h * row_size;
    Real* entry = entries + h * row_size;
    std::fill(row + keys, row + row_size, 0.0);
    const double sum = maps.read_raw_row(h, token, row);
    row_form& form = own.forms[static_cast<std::size_t>(h)];
    form = sum == 0
               ? row_form{row_kind::zero, 0, 1}
               : Distance::prepare(row, keys, row_size, sum, static_cast<double>(std::numeric_limits<Real>::epsilon()));
    special = special || form.kind != row_kind::regular;
    const double unit = 1 / form.scale;
    for (index_t k = 0; k < row_size; k += wide)
      store_converted(entry + k, (load<doubles>(row + k) - form.shift) * unit);
    if constexpr (Distance::transforms_entries)
      for (index_t k = 0; k < row_size; k += lanes)
        store(entry + k, Distance::template entry<lanes>(load<vec>(entry + k)));
  }
  transpose(entries, row_size, heads, keys, own.slab.get(keys * columns), columns);
  return special;
}

/// One token: all row distances of it are added to `sums`, or put there if it is the first.
template <class Distance, class Real>
void add_token(const sentence_maps& maps, index_t token, typename token_workspace<Real>::worker& own, double* sums,
               bool first) {
  using terms = typename Distance::terms;
  constexpr int wide = native_lanes<double>, lanes = native_lanes<Real>;
  using doubles = pack<double, wide>;
  using vec = pack<Real, lanes>;
  const index_t heads = maps.heads(), keys = maps.keys();
  const index_t columns = slab_columns<Real>(heads), row_size = padded<Real, lanes>(keys);
  const bool special = prepare_token<Distance, Real>(maps, token, own);
  const Real* slab = own.slab.get(keys * columns);
  const double* rows = own.rows.get(heads * row_size);
  Real* table = nullptr;
  if constexpr (terms::tabulated) {
    table = own.table.get((keys + terms::chunk - 1) / terms::chunk * columns);
    fill_table<terms>(slab, keys, columns, table);
  }
  Real* values = own.values.get(columns * columns);
  pair_tiles<terms, Real>(slab, table, keys, columns, values);

  const auto scaled = [&](index_t h) {
    const row_form& form = own.forms[static_cast<std::size_t>(h)];
    return scaled_row{rows + h * row_size, form.shift, form.scale};
  };
  // how far a sum is beyond the limit of what counts as close
  constexpr Real limit = static_cast<Real>(Distance::close_limit);
  const auto excess = [&](const auto& x) { return Distance::close_above ? x - limit : limit - x; };
  Real* line = own.line.get(columns);
  for (index_t i = 0; i + 1 < heads; ++i) {
    const Real* value = values + i * columns;
    vec nearest = broadcast<vec>(Real(-1));
    for (index_t j = (i + 1) / lanes * lanes; j < heads; j += lanes) {
      vec x = load<vec>(value + j);
      if (j <= i)
        for (int l = 0; l <= i - j; ++l) x[l] = Real(.5);  // not pairs of this row
      store(line + j, Distance::template finish<lanes>(x));
      const vec beyond = excess(x);
      nearest = select_less(nearest, beyond, beyond, nearest);
    }
    bool close = false;
    for (int l = 0; l < lanes; ++l) close = close || nearest[l] > 0;
    if (close)
      for (index_t j = i + 1; j < heads; ++j)
        if (excess(value[j]) > 0) line[j] = static_cast<Real>(Distance::stable(scaled(i), scaled(j), keys));
    if (special) {
      const row_kind a = own.forms[static_cast<std::size_t>(i)].kind;
      for (index_t j = i + 1; j < heads; ++j) {
        const row_kind b = own.forms[static_cast<std::size_t>(j)].kind;
        if (a == row_kind::regular && b == row_kind::regular) continue;
        if (a == b) {
          line[j] = 0;
        } else {
          line[j] = a == row_kind::zero || b == row_kind::zero ? Real(1) : static_cast<Real>(Distance::one_constant);
        }
      }
    }
    double* sum = sums + i * columns;  // whole packs: what is added at j <= i is never read
    for (index_t j = (i + 1) / lanes * lanes; j < heads; j += wide) {
      const doubles d = load_converted<doubles>(line + j);
      store(sum + j, first ? d : load<doubles>(sum + j) + d);
    }
  }
}

/// out (N,N): the mean over the sentence's query rows; computed in Real, close pairs in double.
/// Cost: N^2/2 T S terms of the distance, in memory O(groups N^2 + workers N S).
template <class Distance, class Real, class Runner>
void token_pairs(Runner& tasks, const sentence_maps& maps, token_workspace<Real>& work, tensor_view<double, 2> out) {
  const index_t heads = maps.heads(), queries = maps.queries(), columns = slab_columns<Real>(heads);
  const index_t groups = token_groups(queries, heads);
  work.workers.resize(std::max(work.workers.size(), static_cast<std::size_t>(tasks.workers())));
  for (auto& own : work.workers) own.template reserve<typename Distance::terms>(heads, maps.keys());
  double* sums = work.sums.get(groups * columns * columns);
  tasks.run(groups, [&](index_t g, int worker) {
    double* own = sums + g * columns * columns;
    const index_t begin = queries * g / groups, end = queries * (g + 1) / groups;
    for (index_t t = begin; t < end; ++t)
      add_token<Distance, Real>(maps, t, work.workers[static_cast<std::size_t>(worker)], own, t == begin);
  });
  const double count = static_cast<double>(queries);
  tasks.run(heads, [&](index_t i, int) {
    double* total = sums + i * columns;
    for (index_t g = 1; g < groups; ++g) {
      const double* more = sums + (g * columns + i) * columns;
      for (index_t j = i + 1; j < heads; ++j) total[j] += more[j];
    }
    out(i, i) = 0;
    for (index_t j = i + 1; j < heads; ++j) out(i, j) = out(j, i) = std::min(1.0, total[j] / count);
  });
}

/// Base of the token-level distances. Derived says, as static members, what it needs of the engine:
///   prepare               shift and scale of a row, and what kind of row it is
///   entry                 what of an entry enters the sum, with transforms_entries
///   terms                 the sum over keys
///   finish                sum -> distance
///   close_limit, close_above, stable   which sums are too near to identity, and the form that serves there
///   one_constant          distance of a constant row to one that is not
template <class Derived>
struct token_distance {
  static constexpr distance_level level = distance_level::token;
  static constexpr bool transforms_entries = false;
  template <class Real>
  using workspace = token_workspace<Real>;

  template <class Real, class Runner>
  status pairs(Runner& tasks, const sentence_maps& maps, workspace<Real>& work, tensor_view<double, 2> out) const {
    token_pairs<Derived, Real>(tasks, maps, work, out);
    return status::converged;
  }

  friend bool operator==(const token_distance&, const token_distance&) = default;
};

}  // namespace headred::detail
