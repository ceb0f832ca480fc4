// Attention by lists against attention under the dense mask, and against the oracle.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/nn/op/sparse_attention.hpp>
#include <headred/nn/start_relevance.hpp>
#include <headred/sparsity/patterns.hpp>

#include "environment.hpp"
#include "oracle/attention.hpp"
#include "sparsity/serial_backend.hpp"

namespace hr = headred;
namespace oracle = headred_test::oracle;
using hr::index_t;

namespace {

std::size_t at(index_t n) { return static_cast<std::size_t>(n); }

struct settings {
  hr::attention_shape shape;
  std::vector<index_t> queries, keys;  // lengths
  bool causal = false, gates = false;
  index_t mask_heads = 1, rows = 0, cols = 0;  // of the mask; 0: what the sentences need
  double width = 2;                            // of the operands
  double dropout = 0;
};

template <class T>
struct results {
  std::vector<T> out, context, probabilities, dq, dk, dv, dgates;
  bool operator==(const results& other) const {
    const auto same = [](const std::vector<T>& a, const std::vector<T>& b) {
      return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
    };
    return same(out, other.out) && same(context, other.context) && same(probabilities, other.probabilities) &&
           same(dq, other.dq) && same(dk, other.dk) && same(dv, other.dv) && same(dgates, other.dgates);
  }
};

/// A random problem; sentences lie a row apart. `see(h, i, j)` makes the mask.
template <class T>
struct problem {
  settings how;
  std::vector<hr::sequence> queries, keys;
  index_t query_rows = 1, key_rows = 1, width, kv_width;
  std::vector<T> q, k, v, gates, dout, mask;
  hr::sparse_mask lists;
  hr::attention_inputs<T> in;

  template <class See>
  problem(const settings& s, std::uint64_t seed, const See& see) : how(s) {
    for (std::size_t b = 0; b < s.queries.size(); ++b) {
      queries.push_back({query_rows, s.queries[b]});
      keys.push_back({key_rows, s.keys[b]});
      query_rows += s.queries[b] + 1;
      key_rows += s.keys[b] + 1;
      how.rows = std::max({how.rows, s.queries[b], s.causal ? s.keys[b] : 0});
      how.cols = std::max(how.cols, s.keys[b]);
    }
    width = s.shape.heads * s.shape.head_size;
    kv_width = s.shape.kv_heads * s.shape.head_size;
    const hr::random_stream draws(headred_test::seed(), seed);
    std::uint64_t n = 0;
    const auto fill = [&](std::vector<T>& to, index_t count, double wide) {
      for (index_t i = 0; i < count; ++i)
        to.push_back(static_cast<T>(static_cast<float>(wide * (draws.uniform(n++) - .5))));
    };
    fill(q, query_rows * width, s.width);
    fill(k, key_rows * kv_width, s.width);
    fill(v, key_rows * kv_width, s.width);
    fill(dout, query_rows * width, s.width);
    if (s.gates) fill(gates, s.shape.heads, 2);
    for (index_t h = 0; h < s.mask_heads; ++h)
      for (index_t i = 0; i < how.rows; ++i)
        for (index_t j = 0; j < how.cols; ++j) mask.push_back(T(see(h, i, j)));
    hr::cpu be{{.threads = 1}};
    lists.assign(be, mask_view());
    in.shape = s.shape;
    in.options.causal = s.causal;
    in.options.dropout = s.dropout;
    in.options.draws = hr::random_stream(5, 6);
    in.queries = queries;
    in.keys = keys;
    in.q = {q.data(), {query_rows, width}};
    in.k = {k.data(), {key_rows, kv_width}};
    in.v = {v.data(), {key_rows, kv_width}};
    if (s.gates) in.gates = hr::tensor_view<const T, 1>(gates.data(), {s.shape.heads});
  }
  problem(const problem&) = delete;

  hr::tensor_view<const T, 3> mask_view() const { return {mask.data(), {how.mask_heads, how.rows, how.cols}}; }
  hr::tensor_view<T, 2> like_q(std::vector<T>& x, T value) const {
    x.assign(at(query_rows * width), value);
    return {x.data(), {query_rows, width}};
  }
  hr::tensor_view<T, 2> like_k(std::vector<T>& x, T value) const {
    x.assign(at(key_rows * kv_width), value);
    return {x.data(), {key_rows, kv_width}};
  }

  results<T> dense() const {
    hr::cpu be{{.threads = 1}};
    results<T> r;
    hr::attention_workspace<T> memory;
    auto input = in;
    input.mask = mask_view();
    r.probabilities.assign(at(hr::attention_probability_count(how.shape, queries, keys)) + 1, T(8));
    const auto out = like_q(r.out, T(9)), context = like_q(r.context, T(9));
    hr::attention_forward(be, input, out, r.probabilities.data(), context, memory);
    hr::attention_gradients<T> d;
    d.q = like_q(r.dq, T(.5));
    d.k = like_k(r.dk, T(.25));
    d.v = like_k(r.dv, T(-.5));
    r.dgates.assign(at(how.shape.heads), T(1));
    if (how.gates) d.gates = {r.dgates.data(), {how.shape.heads}};
    hr::attention_gradient(be, input, r.probabilities.data(), context, {dout.data(), {query_rows, width}}, d, memory);
    return r;
  }
  template <class Backend>
  results<T> sparse(Backend& be, hr::sparse_attention_workspace<T>& memory) const {
    results<T> r;
    r.probabilities.assign(at(hr::sparse_probability_count(in, lists)) + 1, T(8));
    const auto out = like_q(r.out, T(9)), context = like_q(r.context, T(9));
    hr::sparse_attention_forward(be, in, lists, out, r.probabilities.data(), context, memory);
    hr::sparse_attention_gradients<T> d;
    d.q = like_q(r.dq, T(.5));
    d.k = like_k(r.dk, T(.25));
    d.v = like_k(r.dv, T(-.5));
    r.dgates.assign(at(how.shape.heads), T(1));
    if (how.gates) d.gates = {r.dgates.data(), {how.shape.heads}};
    hr::sparse_attention_gradient(be, in, lists, r.probabilities.data(), context, {dout.data(), {query_rows, width}}, d,
                                  memory);
    return r;
  }
  results<T> sparse() const {
    hr::cpu be{{.threads = 2}};
    hr::sparse_attention_workspace<T> memory;
    return sparse(be, memory);
  }

  /// f(place among the kept ones, place among all probabilities of the dense pass, whether the sentence sees it).
  template <class F>
  void for_each_one(const F& f) const {
    index_t place = 0, dense = 0;
    for (std::size_t b = 0; b < queries.size(); ++b) {
      const index_t rows = queries[b].length, cols = keys[b].length;
      for (index_t h = 0; h < how.shape.heads; ++h)
        for (index_t i = 0; i < rows && cols > 0; ++i) {
          const index_t row = how.causal ? i + cols - rows : i;
          if (row < 0) continue;
          for (const std::int32_t j : lists.keys(how.mask_heads == 1 ? 0 : h, row))
            f(place++, dense + (h * rows + i) * cols + j, j < cols && (!how.causal || j <= row));
        }
      dense += how.shape.heads * rows * cols;
    }
  }

  oracle::attention_problem in_long_double() const {
    oracle::attention_problem p;
    p.heads = how.shape.heads;
    p.kv_heads = how.shape.kv_heads;
    p.head_size = how.shape.head_size;
    p.causal = how.causal;
    p.scale = 1 / std::sqrt(static_cast<long double>(how.shape.head_size));
    p.queries = queries;
    p.keys = keys;
    const auto widen = [](const std::vector<T>& x, index_t rows, index_t cols) {
      oracle::array a(rows, cols);
      a.values.assign(x.begin(), x.end());
      return a;
    };
    p.q = widen(q, query_rows, width);
    p.k = widen(k, key_rows, kv_width);
    p.v = widen(v, key_rows, kv_width);
    p.mask = oracle::array(how.shape.heads, how.rows, how.cols);
    for (std::size_t i = 0; i < p.mask.values.size(); ++i) p.mask.values[i] = mask[i % mask.size()];
    p.gates.assign(gates.begin(), gates.end());
    return p;
  }
};

template <class A, class B>
double difference(const std::vector<A>& a, const std::vector<B>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    const double d = std::abs(x - y) / std::max(1., std::abs(y));
    if (!(d <= worst)) worst = std::isnan(x) && std::isnan(y) ? worst : std::isnan(d) ? 1e300 : d;
  }
  return worst;
}

/// Greatest difference between the two ways, in all results.
template <class T>
double difference(const problem<T>& p) {
  const results<T> d = p.dense(), s = p.sparse();
  double worst = std::max({difference(s.out, d.out), difference(s.context, d.context), difference(s.dq, d.dq),
                           difference(s.dk, d.dk), difference(s.dv, d.dv), difference(s.dgates, d.dgates)});
  std::vector<T> spread(d.probabilities.size(), T(0));
  spread.back() = T(8);
  index_t count = 0;
  p.for_each_one([&](index_t place, index_t dense, bool seen) {
    if (seen)
      spread[at(dense)] = s.probabilities[at(place)];
    else
      CHECK(s.probabilities[at(place)] == T(0));
    ++count;
  });
  CHECK(count == static_cast<index_t>(s.probabilities.size()) - 1);
  CHECK(s.probabilities.back() == T(8));  // nothing beyond is written
  return std::max(worst, difference(spread, d.probabilities));
}

/// The mask of a pattern, for every head alike.
template <class Pattern>
std::vector<double> drawn(const Pattern& pattern, index_t heads, index_t rows, index_t cols) {
  hr::cpu be{{.threads = 1}};
  std::vector<double> m(at(heads * rows * cols));
  hr::pattern_mask(be, pattern, hr::tensor_view<double, 3>(m.data(), {heads, rows, cols}));
  return m;
}

template <class F>
std::string thrown(const F& f) {
  try {
    f();
  } catch (const hr::error& e) {
    return e.what();
  }
  return "nothing";
}

/// Rounding of sums as long as a head or a row of keys, and of the softmax between.
template <class T>
double rounding(index_t size) {
  return static_cast<double>(std::numeric_limits<T>::epsilon()) * (16 + static_cast<double>(size) / 4);
}

const std::vector<index_t> ragged{37, 1, 16, 0, 50}, other{20, 5, 33, 4, 50};

}  // namespace

TEST_SUITE("sparsity") {
  TEST_CASE("sparse mask: lists of rows and columns") {
    hr::cpu be{{.threads = 2}};
    const std::vector<float> m{0, 1, 0, 1, 0, 0, 0, 0, 1, 1, 0, 1};  // (3,4)
    const hr::sparse_mask lists(be, hr::tensor_view<const float, 2>(m.data(), {3, 4}));
    const auto list = [](std::span<const std::int32_t> l) { return std::vector<std::int32_t>(l.begin(), l.end()); };
    CHECK(lists.heads() == 1);
    CHECK(lists.rows() == 3);
    CHECK(lists.cols() == 4);
    CHECK(lists.ones() == 5);
    CHECK(lists.longest_row() == 3);
    CHECK(lists.density() == 5. / 12);
    CHECK(list(lists.keys(0, 0)) == std::vector<std::int32_t>{1, 3});
    CHECK(lists.keys(0, 1).empty());
    CHECK(list(lists.keys(0, 2)) == std::vector<std::int32_t>{0, 1, 3});
    CHECK(list(lists.seen_by(0, 1).rows) == std::vector<std::int32_t>{0, 2});
    CHECK(list(lists.seen_by(0, 1).places) == std::vector<std::int32_t>{0, 3});
    CHECK(lists.seen_by(0, 2).rows.empty());
    // two heads, read with other strides: (h, i, j) lies at i + 2 j + 6 h, of the same memory
    const hr::sparse_mask two(be, hr::tensor_view<const float, 3>(m.data(), {2, 2, 3}, {6, 1, 2}));
    CHECK(two.heads() == 2);
    CHECK(list(two.keys(0, 0)).empty());
    CHECK(list(two.keys(0, 1)) == std::vector<std::int32_t>{0, 1});
    CHECK(list(two.keys(1, 0)) == std::vector<std::int32_t>{1});
    CHECK(list(two.keys(1, 1)) == std::vector<std::int32_t>{1, 2});
    CHECK(list(two.seen_by(1, 1).rows) == std::vector<std::int32_t>{0, 1});
    CHECK(list(two.seen_by(1, 1).places) == std::vector<std::int32_t>{0, 1});
    CHECK(list(two.seen_by(1, 2).places) == std::vector<std::int32_t>{2});
    // heads in one memory are kept once
    CHECK(hr::sparse_mask(be, hr::tensor_view<const float, 3>(m.data(), {5, 3, 4}, {0, 4, 1})).heads() == 1);
    CHECK(hr::sparse_mask(be, hr::tensor_view<const float, 2>(m.data(), {0, 4})).density() == 0);
    CHECK(hr::sparse_mask(be, hr::tensor_view<const float, 2>(m.data(), {3, 0})).ones() == 0);
    CHECK(hr::sparse_mask().rows() == 0);
  }

  TEST_CASE("sparse mask: entries between 0 and 1, and NaN, are named; the lists are then empty") {
    hr::cpu be{{.threads = 2}};
    std::vector<double> m(2 * 3 * 4, 1);
    const hr::tensor_view<const double, 3> view(m.data(), {2, 3, 4});
    hr::sparse_mask lists(be, view);
    CHECK(lists.ones() == 24);
    m[12 + 4 + 2] = .5;
    m[12 + 8] = .25;
    CHECK(thrown([&] { lists.assign(be, view); }) == "sparse_mask: entry (1,1,2) is 0.5, expected 0 or 1");
    CHECK(lists.ones() == 0);
    CHECK(lists.rows() == 0);
    m[3] = std::numeric_limits<double>::quiet_NaN();
    CHECK(thrown([&] { lists.assign(be, view); }).starts_with("sparse_mask: entry (0,0,3) is"));
    m[0] = -1;
    CHECK(thrown([&] { lists.assign(be, view); }) == "sparse_mask: entry (0,0,0) is -1, expected 0 or 1");
    const hr::tensor_view<const double, 3> huge(m.data(), {1, index_t{1} << 31, 0});
    CHECK(thrown([&] { lists.assign(be, huge); }) ==
          "sparse_mask: the mask is (1,2147483648,0), expected extents below 2^31");
  }

  TEST_CASE_TEMPLATE("sparse attention: equal to dense under every pattern, ragged, causal, cross", T, float, double) {
    const auto check = [&](const auto& pattern) {
      for (const bool causal : {false, true})
        for (const bool cross : {false, true}) {
          settings s{.shape = {2, 2, 8}, .queries = ragged, .keys = cross ? other : ragged, .causal = causal};
          s.mask_heads = 2;
          const auto m = drawn(pattern, 2, 64, 64);
          const problem<T> p(s, 1, [&](index_t h, index_t i, index_t j) { return m[at((h * 64 + i) * 64 + j)] != 0; });
          CHECK(difference(p) < rounding<T>(50));
        }
    };
    check(hr::strided_pattern{});
    check(hr::strided_pattern{.diagonal = false});
    check(hr::fixed_pattern{});
    check(hr::longformer_pattern{});
    check(hr::longformer_pattern{.window = 9, .global = 0});
    check(hr::logsparse_pattern{});
    check(hr::star_pattern{});
    check(hr::bigbird_pattern{.seed = 3});
  }

  TEST_CASE_TEMPLATE("sparse attention: equal to dense under random masks, any head size and density", T, float,
                     double) {
    const hr::random_stream draws(headred_test::seed(), 77);
    std::uint64_t n = 0;
    for (const index_t size : {1, 3, 16, 17, 32, 64, 80, 130})
      for (const double density : {0., .02, .1, .5, 1.}) {
        settings s{.shape = {4, 2, size}, .queries = {33, 7, 0, 1, 5}, .keys = {40, 7, 3, 2, 0}};
        s.gates = n % 2 == 0;
        s.causal = n % 3 == 0;
        s.mask_heads = n % 4 == 0 ? 4 : 1;
        s.rows = 41;  // the mask may be larger than the sentences
        s.cols = 47;
        const auto see = [&](index_t, index_t, index_t) { return draws.uniform(n++) < density; };
        CHECK(difference(problem<T>(s, n, see)) < rounding<T>(std::max<index_t>(size, 40)));
      }
  }

  TEST_CASE("sparse attention: against the oracle, with its gradients") {
    const hr::random_stream draws(headred_test::seed(), 5);
    for (const bool causal : {false, true}) {
      settings s{.shape = {2, 1, 5}, .queries = {9, 1, 6}, .keys = {7, 3, 8}, .causal = causal, .gates = true};
      std::uint64_t n = 0;
      const problem<double> p(
          s, 3, [&](index_t, index_t i, index_t j) { return i != 4 && (j == i || draws.uniform(n++) < .4); });
      const auto found = p.sparse();
      auto reference = p.in_long_double();
      const auto values = oracle::attend(reference);
      oracle::array dout(p.query_rows, p.width);
      dout.values.assign(p.dout.begin(), p.dout.end());
      const auto d = oracle::attend_back(reference, dout);
      const auto grown = [](std::vector<long double> x, long double by) {
        for (auto& e : x) e += by;
        return x;
      };
      CHECK(difference(found.out, values.out.values) < 1e-14);
      CHECK(difference(found.context, values.context.values) < 1e-14);
      CHECK(difference(found.dq, grown(d.q.values, .5)) < 1e-14);
      CHECK(difference(found.dk, grown(d.k.values, .25)) < 1e-14);
      CHECK(difference(found.dv, grown(d.v.values, -.5)) < 1e-14);
      CHECK(difference(found.dgates, grown(d.gates, 1)) < 1e-14);
    }
  }

  TEST_CASE("sparse attention: a query that sees nothing has output and gradient 0; a lone token without its place") {
    settings s{.shape = {1, 1, 3}, .queries = {1, 6}, .keys = {1, 6}};
    const problem<float> p(s, 1, [](index_t, index_t i, index_t j) { return i != j && i != 2 && j != 4; });
    const auto r = p.sparse();
    const auto row = [&](const std::vector<float>& m, index_t i) {
      return std::vector<float>(m.begin() + i * 3, m.begin() + i * 3 + 3);
    };
    const std::vector<float> none{0, 0, 0}, start_q{.5, .5, .5}, start_k{.25, .25, .25}, start_v{-.5, -.5, -.5};
    for (const index_t i : {1, 5}) {  // the lone token, and token 2 of the other sentence
      CHECK(row(r.out, i) == none);
      CHECK(row(r.dq, i) == start_q);
    }
    for (const index_t j : {1, 7}) {  // nobody sees them
      CHECK(row(r.dk, j) == start_k);
      CHECK(row(r.dv, j) == start_v);
    }
    CHECK(row(r.out, 3) != none);
    CHECK(difference(p) < 1e-6);
  }

  TEST_CASE("sparse attention: scores beyond the type's range and NaN, as in dense attention") {
    settings s{.shape = {1, 1, 4}, .queries = {5}, .keys = {5}};
    problem<float> p(s, 1, [](index_t, index_t i, index_t j) { return j <= i; });
    for (index_t c = 0; c < 4; ++c) {
      p.q[at(4 * 2 + c)] = 1e30f;   // query 1
      p.k[at(4 * 1 + c)] = -1e30f;  // key 0
      p.k[at(4 * 2 + c)] = -1e30f;
    }
    p.q[4 * 4] = std::numeric_limits<float>::quiet_NaN();  // query 3
    const auto d = p.dense(), r = p.sparse();
    CHECK(difference(r.out, d.out) < 1e-6);
    for (index_t i = 0; i < 5; ++i)
      for (index_t c = 0; c < 4; ++c) CHECK(std::isnan(r.out[at(4 * (i + 1) + c)]) == (i == 3));
  }

  TEST_CASE("sparse attention: the same bits for any number of threads, any backend, any company in the batch") {
    settings s{.shape = {3, 3, 20}, .queries = {150, 30, 9}, .keys = {150, 30, 9}, .gates = true};
    const auto see = [](index_t, index_t i, index_t j) { return (i * 7 + j * j) % 9 == 0 || i == j; };
    const problem<float> p(s, 1, see);
    hr::sparse_attention_workspace<float> memory;
    hr::cpu one{{.threads = 1}}, two{{.threads = 2}}, three{{.threads = 3}};
    headred_test::serial_backend serial;
    const auto expected = p.sparse(one, memory);
    CHECK(expected == p.sparse(two, memory));
    CHECK(expected == p.sparse(three, memory));
    CHECK(expected == p.sparse(serial, memory));
    // the first sentence alone: its rows come first
    problem<float> alone({.shape = {3, 3, 20}, .queries = {150}, .keys = {150}, .gates = true}, 1, see);
    const auto copy = [](std::vector<float>& to, const std::vector<float>& from) {
      std::copy_n(from.begin(), to.size(), to.begin());
    };
    copy(alone.q, p.q);
    copy(alone.k, p.k);
    copy(alone.v, p.v);
    copy(alone.gates, p.gates);
    const auto single = alone.sparse(two, memory);
    CHECK(std::memcmp(single.out.data() + 60, expected.out.data() + 60, 150 * 60 * sizeof(float)) == 0);
    // whatever is kept
    std::vector<float> out;
    const auto view = p.like_q(out, 9.f);
    hr::sparse_attention_forward(two, p.in, p.lists, view, nullptr, {}, memory);
    CHECK(std::memcmp(out.data(), expected.out.data(), out.size() * sizeof(float)) == 0);
    // a steady state holds what it held
    const auto bytes = memory.bytes();
    p.sparse(two, memory);
    CHECK(memory.bytes() == bytes);
  }

  TEST_CASE("sparse attention: dropout is drawn by the place among the ones, and gone back") {
    settings s{.shape = {2, 2, 4}, .queries = {12, 3}, .keys = {12, 3}, .dropout = .4};
    const auto see = [](index_t, index_t i, index_t j) { return (i + 2 * j) % 3 != 0; };
    const problem<double> p(s, 1, see);
    const auto found = p.sparse();
    auto reference = p.in_long_double();
    const hr::dropout_mask drop(s.dropout, p.in.options.draws);
    std::vector<long double> survival(p.dense().probabilities.size(), 1);
    p.for_each_one([&](index_t place, index_t dense, bool seen) {
      if (!seen) return;
      survival[at(dense)] = drop.keeps(static_cast<std::uint64_t>(place)) ? static_cast<long double>(drop.factor()) : 0;
    });
    reference.survival = [&](index_t i) { return survival[at(i)]; };
    const auto values = oracle::attend(reference);
    oracle::array dout(p.query_rows, p.width);
    dout.values.assign(p.dout.begin(), p.dout.end());
    auto d = oracle::attend_back(reference, dout);
    for (auto& x : d.q.values) x += .5L;
    for (auto& x : d.k.values) x += .25L;
    for (auto& x : d.v.values) x -= .5L;
    CHECK(difference(found.out, values.out.values) < 1e-14);
    CHECK(difference(found.dq, d.q.values) < 1e-14);
    CHECK(difference(found.dk, d.k.values) < 1e-14);
    CHECK(difference(found.dv, d.v.values) < 1e-14);
    problem<double> kept(settings{.shape = {2, 2, 4}, .queries = {12, 3}, .keys = {12, 3}}, 1, see);
    CHECK(difference(found.out, kept.sparse().out) > .01);
  }

  TEST_CASE("sparse attention: what does not fit is named") {
    settings s{.shape = {2, 2, 4}, .queries = {5}, .keys = {6}, .gates = true};
    problem<float> p(s, 1, [](index_t, index_t, index_t) { return true; });
    hr::cpu be{{.threads = 1}};
    hr::sparse_attention_workspace<float> memory;
    std::vector<float> storage(200), other_storage(200);
    const hr::tensor_view<float, 2> out(storage.data(), {p.query_rows, p.width});
    const hr::tensor_view<float, 2> context(other_storage.data(), {p.query_rows, p.width});
    const auto forward = [&](const hr::attention_inputs<float>& in, const hr::sparse_mask& lists) {
      return thrown([&] { hr::sparse_attention_forward(be, in, lists, out, nullptr, {}, memory); });
    };
    CHECK(forward(p.in, p.lists) == "nothing");
    auto in = p.in;
    in.mask = p.mask_view();
    CHECK(forward(in, p.lists) == "sparse_attention_forward: there is a dense mask, expected the lists alone");
    in = p.in;
    in.bias = p.mask_view();
    CHECK(forward(in, p.lists) == "sparse_attention_forward: there is a bias, expected the lists alone");
    CHECK(forward(p.in, hr::sparse_mask()) ==
          "sparse_attention_forward: the mask is (0,0,0), expected (2,5,6) at least, or 1 for the heads");
    const hr::sparse_mask small(be, hr::tensor_view<const float, 2>(p.mask.data(), {5, 5}));
    CHECK(forward(p.in, small) ==
          "sparse_attention_forward: the mask is (1,5,5), expected (2,5,6) at least, or 1 for the heads");
    in = p.in;
    in.options.causal = true;  // queries then read the mask's last rows
    CHECK(forward(in, p.lists) ==
          "sparse_attention_forward: the mask is (1,5,6), expected (2,6,6) at least, or 1 for the heads");
    const auto text = [&](const hr::tensor_view<float, 2>& kept, const float* probabilities, index_t gates) {
      return thrown([&] {
        hr::sparse_attention_forward(be, p.in, p.lists, out, nullptr, kept, memory);
        hr::sparse_attention_gradients<float> d;
        d.gates = {storage.data(), {gates}};
        hr::sparse_attention_gradient(be, p.in, p.lists, probabilities, kept, out, d, memory);
      });
    };
    CHECK(text(out, nullptr, 2) ==
          "sparse_attention_forward: context is out, expected its own memory where there are gates");
    CHECK(text(context, nullptr, 2) ==
          "sparse_attention_gradient: there are no probabilities, expected those of sparse_attention_forward");
    CHECK(text(context, nullptr, 3) == "sparse_attention_gradient: dgates is (3), expected (2)");
    CHECK(text({}, storage.data(), 2) == "sparse_attention_gradient: context is (0,0), expected (7,8)");
  }

  TEST_CASE("sparse attention: relevance equal to dense, by every rule") {
    settings s{.shape = {2, 1, 6}, .queries = {9, 1, 14}, .keys = {9, 1, 12}};
    for (const bool causal : {false, true}) {
      s.causal = causal;
      const problem<double> p(s, 4, [](index_t, index_t i, index_t j) { return i != 3 && (i * 5 + j * j) % 4 != 1; });
      hr::cpu be{{.threads = 2}};
      hr::attention_workspace<double> dense_memory;
      hr::sparse_attention_workspace<double> sparse_memory;
      hr::relevance_workspace<double> memory;
      const auto dense = p.dense(), sparse = p.sparse();
      auto in = p.in;
      in.mask = p.mask_view();
      const hr::tensor_view<const double, 2> context(dense.context.data(), {p.query_rows, p.width});
      const hr::tensor_view<const double, 2> start(p.dout.data(), {p.query_rows, p.width});
      const auto check = [&](const auto& rule) {
        for (const auto mode : {hr::attention_mode::joint, hr::attention_mode::constant}) {
          std::vector<double> q, k, v, q_too, k_too, v_too;
          const bool joint = mode == hr::attention_mode::joint;
          const hr::attention_relevance_in<double> to{p.like_q(q, 3.), p.like_k(k, 3.), p.like_k(v, 3.)};
          const hr::attention_relevance_in<double> too{p.like_q(q_too, 3.), p.like_k(k_too, 3.), p.like_k(v_too, 3.)};
          const auto lost = hr::attention_relevance<double>(be, in, dense.probabilities.data(), context, rule, mode,
                                                            start, to, memory, dense_memory);
          const auto lost_too = hr::sparse_attention_relevance<double>(
              be, p.in, p.lists, sparse.probabilities.data(), context, rule, mode, start, too, memory, sparse_memory);
          CHECK(difference(q_too, q) < 1e-12);
          CHECK(difference(k_too, k) < 1e-12);
          CHECK(difference(v_too, v) < 1e-12);
          CHECK((q[20] == 3) == !joint);
          CHECK(lost_too.bias == doctest::Approx(lost.bias).epsilon(1e-12));
          CHECK(lost_too.eps == doctest::Approx(lost.eps).epsilon(1e-12));
          CHECK(lost_too.nonlinear == doctest::Approx(lost.nonlinear).epsilon(1e-12));
        }
      };
      check(hr::epsilon_rule{});
      check(hr::alpha_beta_rule{});
      check(hr::attn_rule{});
    }
  }

  TEST_CASE("sparse attention: where lists pay") {
    hr::cpu be{{.threads = 1}};
    const auto pays = [&](const auto& pattern, index_t tokens, index_t size) {
      const auto m = drawn(pattern, 1, tokens, tokens);
      const std::vector<hr::sequence> sentence{{0, tokens}};
      const hr::tensor_view<const double, 2> x(nullptr, {tokens, 12 * size});
      hr::attention_inputs<double> in{{12, 12, size}, {}, sentence, sentence, x, x, x};
      const hr::tensor_view<const double, 2> view(m.data(), {tokens, tokens});
      return hr::sparse_attention_pays(in, hr::sparse_mask(be, view));
    };
    CHECK(pays(hr::logsparse_pattern{}, 512, 64));
    CHECK(pays(hr::logsparse_pattern{}, 128, 64));
    CHECK(pays(hr::strided_pattern{}, 128, 64));
    CHECK(pays(hr::star_pattern{}, 128, 8));
    CHECK(!pays(hr::strided_pattern{}, 128, 8));
    CHECK(!pays(hr::strided_pattern{}, 32, 64));
    CHECK(!pays(hr::longformer_pattern{.window = 512}, 512, 64));
  }

  TEST_CASE("sparse attention on a tape: as attention under the dense mask, both ways back") {
    constexpr index_t rows = 44, longest = 40, heads = 2, size = 16, width = heads * size;
    hr::cpu be{{.threads = 2}};
    const std::vector<hr::sequence> sentences{{0, 4}, {4, longest}};
    hr::sparse_attention_workspace<double> sparse_memory;
    hr::parameter<double, 1, hr::cpu> gates(be, {heads});
    gates.train(be);
    gates.value.data()[0] = .5;
    gates.value.data()[1] = -2;
    const hr::random_stream draws(9);
    enum class way { dense, listed, by_density };
    for (const index_t window : {index_t{1}, longest}) {
      const auto m = drawn(hr::longformer_pattern{.window = window, .global = 0}, 1, longest, longest);
      const hr::tensor_view<const double, 2> view(m.data(), {longest, longest});
      const hr::sparse_mask lists(be, view);
      std::vector<double> found[3];
      for (const way w : {way::dense, way::listed, way::by_density}) {
        auto& to = found[static_cast<int>(w)];
        std::fill_n(gates.gradient.data(), heads, 0.);
        hr::tape<double, hr::cpu> t(be);
        const hr::slot all = t.add(rows, 3 * width);
        for (index_t i = 0; i < rows * 3 * width; ++i)
          t.value(all).data()[i] = draws.uniform(static_cast<std::uint64_t>(i)) - .5;
        hr::attention_call<double, hr::cpu> call;
        call.shape = {heads, heads, size};
        call.queries = call.keys = sentences;
        call.q = {all, 0};
        call.k = {all, width};
        call.v = {all, 2 * width};
        call.gates = &gates;
        if (w != way::listed) call.fixed_mask = view;
        const hr::slot y =
            w == way::dense ? hr::attention(t, call) : hr::sparse_attention(t, call, lists, sparse_memory);
        const auto take = [&](const hr::tensor_view<double, 2>& x) {
          to.insert(to.end(), x.data(), x.data() + x.size());
        };
        take(t.value(y));
        std::fill_n(t.gradient(y).data(), rows * width, .5);
        t.backward();
        take(t.gradient(all));
        to.insert(to.end(), gates.gradient.data(), gates.gradient.data() + heads);
        std::fill_n(t.relevance(y).data(), rows * width, 1.);
        hr::relevance_ledger ledger;
        t.sweep(hr::relevance_rules<double>{}, &ledger);
        take(t.relevance(all));
        REQUIRE(ledger.entries.size() == 2);  // gates, attention
        CHECK(ledger.worst_residual() < 1e-12);
        for (const auto& entry : ledger.entries) to.push_back(entry.out);
      }
      CHECK(difference(found[1], found[0]) < 1e-12);
      CHECK(found[1] != found[0]);
      CHECK(found[2] == (window == 1 ? found[1] : found[0]));
    }
    hr::tape<double, hr::cpu> t(be);
    hr::attention_call<double, hr::cpu> call;
    hr::parameter<double, 3, hr::cpu> learned(be, {1, 7, 7});
    call.mask = &learned;
    CHECK(thrown([&] { hr::sparse_attention(t, call, hr::sparse_mask(), sparse_memory); }) ==
          "sparse_attention: there is a mask that learns, expected the ways back of q, k, v and gates alone");
  }
}
