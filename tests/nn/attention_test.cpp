#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/nn/op/attention.hpp>

#include "environment.hpp"
#include "oracle/attention.hpp"

namespace hr = headred;
namespace oracle = headred_test::oracle;
using hr::index_t;

namespace {

enum class masking { none, hard, soft, shared };

struct settings {
  hr::attention_shape shape;
  std::vector<index_t> queries, keys;  // lengths
  bool causal = false, gates = false, bias = false, fused = false;
  masking mask = masking::none;
  double dropout = 0;
  index_t padded = 0;  // rows that each sentence takes, 0: its own
  double scale = 0;
};

std::vector<hr::sequence> place(const std::vector<index_t>& lengths, index_t padded) {
  std::vector<hr::sequence> all = hr::pack_sequences(lengths);
  if (padded > 0)
    for (std::size_t b = 0; b < all.size(); ++b) all[b].begin = static_cast<index_t>(b) * padded;
  return all;
}

std::size_t count(index_t n) { return static_cast<std::size_t>(n); }

/// A random problem in the library's words and in the oracle's. Values are floats, so that both see the same numbers.
template <class T>
struct problem {
  settings how;
  std::vector<hr::sequence> queries, keys;
  index_t query_rows, key_rows, width, kv_width, most_rows, most_cols;
  std::vector<T> q, k, v, bias, mask, gates, dout;
  hr::attention_inputs<T> in;
  // results
  std::vector<T> out, context, probabilities, dq, dk, dv, dgates, dmask, dbias, dprobabilities;

  explicit problem(const settings& s, std::uint64_t seed = 1) : how(s) {
    queries = place(s.queries, s.padded);
    keys = place(s.keys, s.padded);
    const index_t sentences = static_cast<index_t>(s.queries.size());
    query_rows = s.padded > 0 ? s.padded * sentences : hr::rows_of(queries);
    key_rows = s.padded > 0 ? s.padded * sentences : hr::rows_of(keys);
    width = s.shape.heads * s.shape.head_size;
    kv_width = s.shape.kv_heads * s.shape.head_size;
    most_rows = most_cols = 1;
    for (std::size_t b = 0; b < queries.size(); ++b) {
      most_rows = std::max({most_rows, queries[b].length, s.causal ? keys[b].length : 0});
      most_cols = std::max(most_cols, keys[b].length);
    }
    const hr::random_stream draws(headred_test::seed(), seed);
    std::uint64_t stream = 0;
    // By position in the sentence, so that padded and packed layouts hold the same sentences.
    const auto fill = [&](std::vector<T>& to, const std::vector<hr::sequence>& rows, index_t n, index_t cols) {
      to.assign(count(n * cols), T(7));
      ++stream;
      std::uint64_t i = stream << 32;
      for (const auto& r : rows)
        for (index_t at = r.begin * cols; at < (r.begin + r.length) * cols; ++at)
          to[count(at)] = static_cast<T>(static_cast<float>(2 * draws.uniform(i++) - 1));
    };
    fill(q, queries, query_rows, width);
    fill(k, keys, key_rows, kv_width);
    fill(v, keys, key_rows, kv_width);
    fill(dout, queries, query_rows, width);
    if (s.bias) fill(bias, {{0, s.shape.heads}}, s.shape.heads, most_rows * most_cols);
    if (s.gates) fill(gates, {{0, 1}}, 1, s.shape.heads);
    if (s.mask != masking::none) {
      const index_t heads = s.mask == masking::shared ? 1 : s.shape.heads;
      fill(mask, {{0, heads}}, heads, most_rows * most_cols);
      for (T& m : mask) {
        m = s.mask == masking::hard ? T(m > T(-.3)) : std::max(T(0), m);
        // near 1, where the penalty leaves more than one key alive
        if (m > 0 && m < 1) m = static_cast<T>(static_cast<float>(1 - m * T(2e-4)));
      }
      for (index_t j = 0; j < most_cols; ++j)
        mask[count(most_rows / 2 * most_cols + j)] = 0;  // a row that sees nothing
    }
    bind();
  }
  problem(const problem&) = delete;

  void bind() {
    in.shape = how.shape;
    in.options.causal = how.causal;
    in.options.dropout = how.dropout;
    in.options.draws = hr::random_stream(5, 6);
    in.options.scale = static_cast<T>(how.scale);
    in.queries = queries;
    in.keys = keys;
    if (how.fused) {
      // one matrix (rows, [q k v]), as a fused projection makes it
      const index_t row = width + 2 * kv_width;
      fused.assign(count(query_rows * row), T(0));
      for (index_t r = 0; r < query_rows; ++r) {
        std::copy_n(q.data() + r * width, width, fused.data() + r * row);
        std::copy_n(k.data() + r * kv_width, kv_width, fused.data() + r * row + width);
        std::copy_n(v.data() + r * kv_width, kv_width, fused.data() + r * row + width + kv_width);
      }
      const hr::tensor_view<const T, 2> all(fused.data(), {query_rows, row});
      in.q = all.narrow(1, 0, width);
      in.k = all.narrow(1, width, kv_width);
      in.v = all.narrow(1, width + kv_width, kv_width);
    } else {
      in.q = {q.data(), {query_rows, width}};
      in.k = {k.data(), {key_rows, kv_width}};
      in.v = {v.data(), {key_rows, kv_width}};
    }
    if (!bias.empty()) in.bias = {bias.data(), {how.shape.heads, most_rows, most_cols}};
    if (how.mask == masking::shared)
      in.mask = hr::tensor_view<const T, 2>(mask.data(), {most_rows, most_cols});
    else if (!mask.empty())
      in.mask = hr::tensor_view<const T, 3>(mask.data(), {how.shape.heads, most_rows, most_cols});
    if (!gates.empty()) in.gates = hr::tensor_view<const T, 1>(gates.data(), {how.shape.heads});
  }

  hr::tensor_view<T, 2> like_q(std::vector<T>& x, T value = T(0)) const {
    x.assign(count(query_rows * width) + 1, value);
    return {x.data(), {query_rows, width}};
  }
  hr::tensor_view<T, 2> like_k(std::vector<T>& x) const {
    x.assign(count(key_rows * kv_width) + 1, T(0));
    return {x.data(), {key_rows, kv_width}};
  }

  void infer(hr::cpu& be) { hr::attention_forward(be, in, like_q(out, T(9)), nullptr, {}, workspace); }
  void forward(hr::cpu& be) {
    probabilities.assign(count(hr::attention_probability_count(how.shape, queries, keys)) + 1, T(8));
    const auto to = like_q(out, T(9)), kept = like_q(context, T(9));
    hr::attention_forward(be, in, to, probabilities.data(), kept, workspace);
  }
  void backward(hr::cpu& be) {
    hr::attention_gradients<T> d;
    d.q = like_q(dq);
    d.k = like_k(dk);
    d.v = like_k(dv);
    dgates.assign(count(how.shape.heads), T(0));
    if (!gates.empty()) d.gates = {dgates.data(), {how.shape.heads}};
    dbias.assign(bias.size(), T(0));
    if (!bias.empty()) d.bias = {dbias.data(), in.bias.shape()};
    dmask.assign(mask.size(), T(0));
    if (!mask.empty()) d.mask = {dmask.data(), in.mask.values.shape()};
    dprobabilities.assign(probabilities.size(), T(0));
    d.probabilities = dprobabilities.data();
    const hr::tensor_view<const T, 2> kept(context.data(), {query_rows, width}), from(dout.data(), {query_rows, width});
    hr::attention_gradient(be, in, probabilities.data(), kept, from, d, workspace);
  }

  oracle::attention_problem in_long_double() const {
    oracle::attention_problem p;
    p.heads = how.shape.heads;
    p.kv_heads = how.shape.kv_heads;
    p.head_size = how.shape.head_size;
    p.causal = how.causal;
    p.scale = how.scale != 0 ? static_cast<long double>(how.scale)
                             : 1 / std::sqrt(static_cast<long double>(how.shape.head_size));
    p.queries = queries;
    p.keys = keys;
    p.q = widened(q, query_rows, width);
    p.k = widened(k, key_rows, kv_width);
    p.v = widened(v, key_rows, kv_width);
    if (!bias.empty()) p.bias = widened(bias, how.shape.heads, most_rows, most_cols);
    if (!mask.empty()) {
      p.mask = oracle::array(how.shape.heads, most_rows, most_cols);
      for (std::size_t i = 0; i < p.mask.values.size(); ++i) p.mask.values[i] = mask[i % mask.size()];
    }
    p.gates.assign(gates.begin(), gates.end());
    if (how.dropout > 0) {
      const hr::dropout_mask drop(how.dropout, in.options.draws);
      p.survival = [drop](index_t i) -> long double {
        return drop.keeps(static_cast<std::uint64_t>(i)) ? static_cast<long double>(drop.factor()) : 0;
      };
    }
    return p;
  }
  oracle::array gradient_of_out() const { return widened(dout, query_rows, width); }

  hr::attention_workspace<T> workspace;

 private:
  std::vector<T> fused;

  static oracle::array widened(const std::vector<T>& x, index_t a, index_t b, index_t c = 1) {
    oracle::array r(a, b, c);
    for (std::size_t i = 0; i < r.values.size(); ++i) r.values[i] = x[i];
    return r;
  }
};

/// The greatest difference, relative to the greatest value (1 at least).
template <class T>
double deviation(const std::vector<T>& x, const std::vector<long double>& expected) {
  REQUIRE(x.size() >= expected.size());
  long double scale = 1, worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const long double d = std::fabs(static_cast<long double>(x[i]) - expected[i]);
    scale = std::max(scale, std::fabs(expected[i]));
    worst = d <= worst ? worst : d;  // NaN is worst
    if (std::isnan(worst)) break;
  }
  return static_cast<double>(worst / scale);
}

/// Only rows of sentences are compared with the oracle; the others must be 0.
template <class T>
void check_against_oracle(const settings& s, std::uint64_t seed) {
  CAPTURE(s.shape.heads);
  CAPTURE(s.shape.kv_heads);
  CAPTURE(s.shape.head_size);
  CAPTURE(s.causal);
  CAPTURE(static_cast<int>(s.mask));
  CAPTURE(sizeof(T));
  const double tolerance = sizeof(T) == 4 ? 3e-6 : 4e-15;
  hr::cpu be({.threads = 2});
  problem<T> p(s, seed);
  const auto reference = p.in_long_double();
  const auto expected = oracle::attend(reference);
  p.infer(be);
  CHECK(deviation(p.out, expected.out.values) < tolerance);
  const auto inferred = p.out;
  p.forward(be);
  CHECK(p.out == inferred);
  CHECK(deviation(p.out, expected.out.values) < tolerance);
  CHECK(deviation(p.context, expected.context.values) < tolerance);
  CHECK(deviation(p.probabilities, expected.probabilities) < tolerance);
  CHECK(p.probabilities.back() == 8);  // nothing is written behind the last
  const auto d = oracle::attend_back(reference, p.gradient_of_out());
  p.backward(be);
  CHECK(deviation(p.dq, d.q.values) < tolerance);
  CHECK(deviation(p.dk, d.k.values) < 2 * tolerance);
  CHECK(deviation(p.dv, d.v.values) < 2 * tolerance);
  CHECK(deviation(p.dprobabilities, [&] {
          // what a causal query cannot see has no gradient
          auto visible = d.probabilities;
          std::size_t at = 0;
          for (std::size_t b = 0; b < p.queries.size(); ++b)
            for (index_t h = 0; h < s.shape.heads; ++h)
              for (index_t i = 0; i < p.queries[b].length; ++i)
                for (index_t j = 0; j < p.keys[b].length; ++j, ++at)
                  if (s.causal && j > i + p.keys[b].length - p.queries[b].length) visible[at] = 0;
          return visible;
        }()) < 2 * tolerance);
  if (s.gates) CHECK(deviation(p.dgates, d.gates) < 4 * tolerance);
  if (s.bias) CHECK(deviation(p.dbias, d.bias.values) < 2 * tolerance);
  if (s.mask != masking::none) {
    std::vector<long double> sums(p.dmask.size(), 0.0L);
    for (std::size_t i = 0; i < d.mask.values.size(); ++i) sums[i % sums.size()] += d.mask.values[i];
    CHECK(deviation(p.dmask, sums) < 4 * tolerance);
  }
}

void check_both(const settings& s, std::uint64_t seed) {
  check_against_oracle<float>(s, seed);
  check_against_oracle<double>(s, seed);
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

const std::vector<index_t> mixed{7, 1, 33, 0, 70, 16, 2, 64, 3};

}  // namespace

TEST_SUITE("nn") {
  TEST_CASE("attention: two queries by hand") {
    // q = I, k = ((1,1),(0,2)), v = ((1,2),(3,-1)), scale 1: scores ((1,0),(1,2))
    hr::cpu be({.threads = 1});
    const double q[] = {1, 0, 0, 1}, k[] = {1, 1, 0, 2}, v[] = {1, 2, 3, -1};
    const hr::sequence both[] = {{0, 2}};
    hr::attention_inputs<double> in{.shape = {1, 1, 2}, .queries = both, .keys = both};
    in.options.scale = 1;
    in.q = {q, {2, 2}};
    in.k = {k, {2, 2}};
    in.v = {v, {2, 2}};
    double out[4], a[4];
    hr::attention_workspace<double> workspace;
    hr::attention_forward(be, in, hr::tensor_view<double, 2>(out, {2, 2}), a, {}, workspace);
    const double p = 1 / (1 + std::exp(-1.0));
    CHECK(a[0] == doctest::Approx(p).epsilon(1e-15));
    CHECK(a[1] == doctest::Approx(1 - p).epsilon(1e-15));
    CHECK(a[2] == doctest::Approx(1 - p).epsilon(1e-15));
    CHECK(out[0] == doctest::Approx(p + 3 * (1 - p)).epsilon(1e-15));
    CHECK(out[1] == doctest::Approx(2 * p - (1 - p)).epsilon(1e-15));
  }

  TEST_CASE("attention: values and gradients of self attention") {
    std::uint64_t seed = 10;
    for (const index_t size : {1, 3, 4, 16, 64})
      for (const bool causal : {false, true})
        check_both({.shape = {3, 3, size}, .queries = mixed, .keys = mixed, .causal = causal}, ++seed);
  }

  TEST_CASE("attention: cross attention, sentences without queries or keys, kept keys") {
    check_both({.shape = {2, 2, 5}, .queries = {3, 40, 0, 6, 1}, .keys = {9, 17, 4, 0, 70}}, 30);
    check_both({.shape = {2, 2, 8}, .queries = {1, 4, 2, 33}, .keys = {20, 9, 2, 70}, .causal = true}, 31);
    check_both({.shape = {2, 1, 8}, .queries = {9, 4}, .keys = {3, 4}, .causal = true}, 32);  // rows that see nothing
  }

  TEST_CASE("attention: groups of heads share keys and values") {
    for (const hr::attention_shape shape : {hr::attention_shape{8, 2, 16}, {4, 1, 16}, {6, 3, 16}})
      check_both({.shape = shape, .queries = mixed, .keys = mixed, .causal = shape.heads == 4, .gates = true}, 40);
  }

  TEST_CASE("attention: gates, bias, masks, dropout, and all of them") {
    std::uint64_t seed = 50;
    for (const auto mask : {masking::none, masking::hard, masking::soft, masking::shared})
      for (const double dropout : {0.0, 0.3})
        for (const bool more : {false, true})
          check_both({.shape = {4, 2, 4},
                      .queries = mixed,
                      .keys = mixed,
                      .causal = more && dropout > 0,
                      .gates = more,
                      .bias = more,
                      .mask = mask,
                      .dropout = dropout},
                     ++seed);
    check_both(
        {.shape = {4, 2, 4}, .queries = {2, 1}, .keys = {9, 30}, .causal = true, .bias = true, .mask = masking::soft},
        ++seed);
    check_both({.shape = {3, 3, 4}, .queries = {5, 40}, .keys = {9, 30}, .bias = true, .mask = masking::hard}, ++seed);
  }

  TEST_CASE("attention: slices of one fused matrix, other scales") {
    check_both({.shape = {4, 2, 16}, .queries = mixed, .keys = mixed, .fused = true, .scale = 0.9}, 80);
    check_both({.shape = {4, 4, 3}, .queries = mixed, .keys = mixed, .causal = true, .fused = true}, 81);
  }

  TEST_CASE("attention: long sentences are cut into blocks of queries") {
    check_both({.shape = {2, 2, 64}, .queries = {330}, .keys = {330}, .causal = true}, 90);
    check_both({.shape = {2, 1, 32}, .queries = {300, 5}, .keys = {290, 600}}, 91);
  }

  TEST_CASE("attention: no heads, no sentences, no rows") {
    check_both({.shape = {0, 0, 0}, .queries = {3, 4}, .keys = {3, 4}}, 100);
    check_both({.shape = {0, 0, 8}, .queries = {3, 4}, .keys = {3, 4}, .gates = true}, 101);
    check_both({.shape = {2, 2, 4}, .queries = {}, .keys = {}}, 102);
    check_both({.shape = {2, 2, 4}, .queries = {0, 0}, .keys = {0, 0}}, 103);
  }

  TEST_CASE_TEMPLATE("attention: padded sentences give the bits of packed ones, and rows between them are 0", T, float,
                     double) {
    hr::cpu be({.threads = 2});
    for (const bool causal : {false, true}) {
      settings s{.shape = {4, 2, 16},
                 .queries = mixed,
                 .keys = mixed,
                 .causal = causal,
                 .gates = true,
                 .bias = true,
                 .mask = masking::soft,
                 .dropout = 0.2};
      problem<T> packed(s, 110);
      s.padded = 75;
      problem<T> padded(s, 110);
      for (auto* p : {&packed, &padded}) {
        p->forward(be);
        p->backward(be);
      }
      CHECK(same_bits(packed.probabilities, padded.probabilities));
      CHECK(same_bits(packed.dgates, padded.dgates));
      CHECK(same_bits(packed.dmask, padded.dmask));
      CHECK(same_bits(packed.dbias, padded.dbias));
      const auto check_rows = [&](const std::vector<T>& a, const std::vector<T>& b, index_t cols) {
        for (std::size_t n = 0; n < packed.queries.size(); ++n) {
          const hr::sequence from = packed.queries[n], to = padded.queries[n];
          CHECK(std::memcmp(a.data() + from.begin * cols, b.data() + to.begin * cols,
                            count(from.length * cols) * sizeof(T)) == 0);
          for (index_t i = (to.begin + to.length) * cols; i < (to.begin + 75) * cols; ++i) REQUIRE(b[count(i)] == 0);
        }
      };
      check_rows(packed.out, padded.out, packed.width);
      check_rows(packed.context, padded.context, packed.width);
      check_rows(packed.dq, padded.dq, packed.width);
      check_rows(packed.dk, padded.dk, packed.kv_width);
      check_rows(packed.dv, padded.dv, packed.kv_width);
    }
  }

  TEST_CASE_TEMPLATE("attention: a batch gives the bits of its sentences one by one", T, float, double) {
    hr::cpu be({.threads = 2});
    const settings s{.shape = {4, 2, 12},
                     .queries = mixed,
                     .keys = mixed,
                     .causal = true,
                     .gates = true,
                     .bias = true,
                     .mask = masking::shared};
    problem<T> p(s, 120);
    p.forward(be);
    p.backward(be);
    const auto out = p.out, probabilities = p.probabilities, dq = p.dq, dk = p.dk, dgates = p.dgates, dmask = p.dmask,
               dbias = p.dbias;
    // The same operands, sentence after sentence, gradients added to.
    std::vector<T> one(p.out.size(), T(9)), kept(probabilities.size(), T(8)), context(p.out.size());
    for (auto* x : {&p.dq, &p.dk, &p.dv, &p.dgates, &p.dmask, &p.dbias}) std::fill(x->begin(), x->end(), T(0));
    for (std::size_t b = 0; b < p.queries.size(); ++b) {
      p.in.queries = std::span<const hr::sequence>(p.queries).subspan(b, 1);
      p.in.keys = std::span<const hr::sequence>(p.keys).subspan(b, 1);
      T* const a = hr::attention_probabilities(kept.data(), s.shape, p.queries, p.keys, static_cast<index_t>(b)).data();
      std::vector<T> all(p.out.size());
      const hr::tensor_view<T, 2> to(all.data(), {p.query_rows, p.width}), c(context.data(), {p.query_rows, p.width});
      hr::attention_forward(be, p.in, to, a, c, p.workspace);
      std::copy_n(all.data() + p.queries[b].begin * p.width, p.queries[b].length * p.width,
                  one.data() + p.queries[b].begin * p.width);
      hr::attention_gradients<T> d;
      d.q = {p.dq.data(), {p.query_rows, p.width}};
      d.k = {p.dk.data(), {p.key_rows, p.kv_width}};
      d.gates = {p.dgates.data(), {4}};
      d.mask = {p.dmask.data(), p.in.mask.values.shape()};
      d.bias = {p.dbias.data(), p.in.bias.shape()};
      hr::attention_gradient(be, p.in, a, hr::tensor_view<const T, 2>(c),
                             hr::tensor_view<const T, 2>(p.dout.data(), {p.query_rows, p.width}), d, p.workspace);
    }
    CHECK(same_bits(one, out));
    CHECK(same_bits(kept, probabilities));
    CHECK(same_bits(p.dq, dq));
    CHECK(same_bits(p.dk, dk));
    CHECK(same_bits(p.dgates, dgates));
    CHECK(same_bits(p.dmask, dmask));
    CHECK(same_bits(p.dbias, dbias));
  }

  TEST_CASE_TEMPLATE("attention: the number of threads changes no bit, a second call allocates nothing", T, float,
                     double) {
    const settings s{.shape = {6, 3, 16},
                     .queries = {70, 3, 300, 1, 1, 1, 40, 64},
                     .keys = {70, 3, 300, 20, 1, 7, 40, 64},
                     .causal = true,
                     .gates = true,
                     .bias = true,
                     .mask = masking::soft,
                     .dropout = 0.1};
    std::vector<std::vector<T>> first;
    for (const int threads : {1, 2, 3}) {
      hr::cpu be({.threads = threads});
      problem<T> p(s, 130);
      p.forward(be);
      p.backward(be);
      const std::size_t bytes = p.workspace.bytes();
      p.forward(be);
      p.backward(be);
      CHECK(p.workspace.bytes() == bytes);
      const std::vector<std::vector<T>> all{p.out, p.context, p.probabilities, p.dq,    p.dk,
                                            p.dv,  p.dgates,  p.dmask,         p.dbias, p.dprobabilities};
      if (first.empty()) first = all;
      for (std::size_t i = 0; i < all.size(); ++i) CHECK(same_bits(all[i], first[i]));
    }
  }

  TEST_CASE("attention: gradients are four-point differences of the loss") {
    hr::cpu be({.threads = 1});
    for (const double dropout : {0.0, 0.4}) {
      // no hard zeros in this mask: where a mask reaches 0, the value jumps
      problem<double> p({.shape = {4, 2, 3},
                         .queries = {3, 5, 1},
                         .keys = {4, 5, 9},
                         .causal = dropout > 0,
                         .gates = true,
                         .bias = true,
                         .dropout = dropout},
                        140);
      p.mask.resize(count(4 * p.most_rows * p.most_cols));
      for (std::size_t i = 0; i < p.mask.size(); ++i) p.mask[i] = 1 - 0x1p-13 * static_cast<double>(i % 11);
      p.how.mask = masking::soft;
      p.bind();
      const auto loss = [&] {
        p.infer(be);
        double sum = 0;
        for (std::size_t i = 0; i < p.dout.size(); ++i) sum += p.out[i] * p.dout[i];
        return sum;
      };
      p.forward(be);
      p.backward(be);
      const auto check = [&](std::vector<double>& x, const std::vector<double>& gradient, double h) {
        double worst = 0, scale = 1;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double at = x[i];
          const auto moved = [&](double by) {
            x[i] = at + by;
            const double l = loss();
            x[i] = at;
            return l;
          };
          const double slope = (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h);
          worst = std::max(worst, std::abs(slope - gradient[i]));
          scale = std::max(scale, std::abs(slope));
        }
        CHECK(worst / scale < 2e-10);
      };
      check(p.q, p.dq, 1e-3);
      check(p.k, p.dk, 1e-3);
      check(p.v, p.dv, 1e-3);
      check(p.gates, p.dgates, 1e-3);
      check(p.mask, p.dmask, 0x1p-23);  // exact in the mask
      check(p.bias, p.dbias, 1e-3);
    }
  }

  TEST_CASE_TEMPLATE("attention: a query that sees nothing has no output and no gradient", T, float, double) {
    hr::cpu be({.threads = 1});
    problem<T> p({.shape = {2, 2, 4}, .queries = {3, 1}, .keys = {3, 1}, .mask = masking::hard}, 150);
    std::fill(p.mask.begin(), p.mask.end(), T(0));
    p.forward(be);
    p.backward(be);
    for (const auto* x : {&p.out, &p.context, &p.dq, &p.dk, &p.dv, &p.dmask})
      for (std::size_t i = 0; i + 1 < x->size(); ++i) REQUIRE((*x)[i] == 0);
    for (std::size_t i = 0; i + 1 < p.probabilities.size(); ++i) REQUIRE(p.probabilities[i] == 0);
  }

  TEST_CASE_TEMPLATE("attention: the lowest valid score stays valid, excluded keys do not count, NaN stays NaN", T,
                     float, double) {
    hr::cpu be({.threads = 1});
    const T lowest = std::numeric_limits<T>::lowest();
    for (const index_t queries : {1, 5}) {  // both ways to compute scores
      problem<T> p({.shape = {1, 1, 1}, .queries = {queries}, .keys = {3}, .mask = masking::shared, .scale = 1}, 160);
      const auto set = [&](T q, std::vector<T> k, std::vector<T> m) {
        std::fill(p.q.begin(), p.q.end(), q);
        p.k = k;
        p.v = {1, 2, 4};
        for (std::size_t i = 0; i < p.mask.size(); ++i) p.mask[i] = m[i % 3];
        p.bind();
        p.forward(be);
      };
      set(1, {lowest, 0, 5}, {1, 0, 0});
      CHECK(p.out[0] == 1);
      CHECK(p.probabilities[1] == 0);
      set(1, {lowest, lowest, 5}, {1, T(0.5), 0});  // the penalty cannot push it out of the type
      CHECK(p.out[0] == doctest::Approx(1.5));
      set(1, {lowest, -lowest, 0}, {1, 1, 1});
      CHECK(p.out[0] == 2);
      set(1, {lowest, -lowest, 0}, {1, 0, 1});
      CHECK(p.out[0] == 4);
      const T nan = std::numeric_limits<T>::quiet_NaN();
      set(1, {nan, 1, 1}, {0, 1, 1});
      CHECK(p.out[0] == 3);
      set(1, {nan, 1, 1}, {1, 1, 1});
      CHECK(std::isnan(p.out[0]));
      set(nan, {1, 1, 1}, {1, 1, 1});
      CHECK(std::isnan(p.out[0]));
    }
  }

  TEST_CASE("attention: inputs that do not fit are refused with their shapes") {
    hr::cpu be({.threads = 1});
    const settings s{
        .shape = {4, 2, 3}, .queries = {5, 2}, .keys = {6, 2}, .gates = true, .bias = true, .mask = masking::soft};
    const auto refused = [&](const char* text, const auto& change) {
      problem<float> p(s, 170);
      p.forward(be);
      change(p);
      std::string message;
      try {
        p.infer(be);
        p.backward(be);
      } catch (const hr::error& e) {
        message = e.what();
      }
      CHECK(message == text);
    };
    using problem_type = problem<float>;
    refused("attention_forward: q is (7,12), expected (7,9)", [](problem_type& p) { p.in.shape = {3, 3, 3}; });
    refused("attention_forward: k is (8,6), expected (8,12)", [](problem_type& p) { p.in.shape.kv_heads = 4; });
    refused("attention_forward: v is (7,6), expected (8,6)", [](problem_type& p) { p.in.v = p.in.v.narrow(0, 0, 7); });
    refused("attention_forward: the entries of a row of q are 7 apart, expected 1", [](problem_type& p) {
      p.in.q = hr::tensor_view<const float, 2>(p.q.data(), {12, 7}).transposed();
    });
    refused("attention_forward: 4 heads share 3 key/value heads, expected a divisor",
            [](problem_type& p) { p.in.shape.kv_heads = 3; });
    refused("attention_forward: 4 heads share 0 key/value heads, expected a divisor",
            [](problem_type& p) { p.in.shape.kv_heads = 0; });
    refused("attention_forward: head_size is 0, expected [1,2^24]", [](problem_type& p) { p.in.shape.head_size = 0; });
    refused("attention_forward: dropout is 1, expected [0,1)", [](problem_type& p) { p.in.options.dropout = 1; });
    refused("attention_forward: scale and mask_penalty must be finite",
            [](problem_type& p) { p.in.options.scale = std::numeric_limits<float>::infinity(); });
    refused("attention_forward: queries of 1 sentences, keys of 2",
            [](problem_type& p) { p.in.queries = p.in.queries.first(1); });
    refused("attention_forward: the queries of sentence 1 are rows 5 and 3 on, expected within [0,7)",
            [](problem_type& p) { p.queries[1].length = 3; });
    refused("attention_forward: the keys of sentence 0 are rows -1 and 6 on, expected within [0,8)",
            [](problem_type& p) { p.keys[0].begin = -1; });
    refused(
        "attention_forward: the queries of sentence 1 begin at row 4, expected at 5 or later, after the sentence "
        "before",
        [](problem_type& p) { p.queries[1].begin = 4; });
    refused(
        "attention_gradient: the keys of sentence 1 begin at row 5, expected at 6 or later, after the sentence before",
        [](problem_type& p) { p.keys[1].begin = 5; });
    refused("attention_forward: mask is (4,4,6), expected (4,5,6) at least, or 1 for the heads",
            [](problem_type& p) { p.in.mask = p.in.mask.values.narrow(1, 0, 4); });
    refused("attention_forward: bias is (2,5,6), expected (4,5,6) at least, or 1 for the heads",
            [](problem_type& p) { p.in.bias = p.in.bias.narrow(0, 0, 2); });
    refused("attention_forward: gates is (3), expected (4)",
            [](problem_type& p) { p.in.gates = p.in.gates.values.narrow(0, 0, 3); });
    problem<float> p(s, 171);
    const auto out = p.like_q(p.out);
    CHECK_THROWS_WITH_AS(hr::attention_forward(be, p.in, out, nullptr, out, p.workspace),
                         "attention_forward: context is out, expected its own memory where there are gates",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(
        hr::attention_gradient(be, p.in, nullptr, out, out, hr::attention_gradients<float>{}, p.workspace),
        "attention_gradient: there are no probabilities, expected those of attention_forward", hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::attention_probabilities(p.out.data(), s.shape, p.queries, p.keys, 2),
                         "attention_probabilities: sentence 2 of 2", hr::argument_error);
  }

  TEST_CASE("attention: decoding with kept keys gives what the whole pass gives") {
    hr::cpu be({.threads = 2});
    const std::vector<index_t> lengths{9, 1, 30};
    problem<double> whole(
        {.shape = {4, 2, 4}, .queries = lengths, .keys = lengths, .causal = true, .bias = true, .mask = masking::soft},
        180);
    whole.infer(be);
    std::vector<hr::sequence> last = whole.queries;
    for (auto& s : last) s = {s.begin + s.length - 1, 1};
    std::vector<double> out(whole.out.size());
    auto step = whole.in;
    step.queries = last;
    hr::attention_forward(be, step, hr::tensor_view<double, 2>(out.data(), {whole.query_rows, whole.width}), nullptr,
                          {}, whole.workspace);
    for (const auto& s : last)
      for (index_t c = 0; c < whole.width; ++c)
        CHECK(out[count(s.begin * whole.width + c)] ==
              doctest::Approx(whole.out[count(s.begin * whole.width + c)]).epsilon(1e-14));
  }

  TEST_CASE("attention on a tape: the gradients of the op, hooks without a copy") {
    hr::cpu be({.threads = 2});
    const settings s{.shape = {4, 2, 8},
                     .queries = {5, 9, 0, 3},
                     .keys = {5, 9, 0, 3},
                     .gates = true,
                     .bias = true,
                     .mask = masking::soft,
                     .dropout = 0.25};
    problem<double> p(s, 190);
    p.forward(be);
    p.backward(be);
    hr::parameter<double, 1, hr::cpu> gates(be, {4});
    hr::parameter<double, 3, hr::cpu> mask(be, {4, 9, 9}), bias(be, {4, 9, 9});
    std::copy(p.gates.begin(), p.gates.end(), gates.value.data());
    std::copy(p.mask.begin(), p.mask.end(), mask.value.data());
    std::copy(p.bias.begin(), p.bias.end(), bias.value.data());
    gates.train(be);
    mask.train(be);
    bias.train(be);
    hr::tape<double, hr::cpu> t(be);
    const index_t row = p.width + 2 * p.kv_width;
    std::size_t bytes = 0;
    for (int pass = 0; pass < 2; ++pass) {
      t.clear();
      const hr::slot fused = t.add(p.query_rows, row);
      for (index_t r = 0; r < p.query_rows; ++r) {
        std::copy_n(p.q.data() + r * p.width, p.width, &t.value(fused)(r, 0));
        std::copy_n(p.k.data() + r * p.kv_width, p.kv_width, &t.value(fused)(r, p.width));
        std::copy_n(p.v.data() + r * p.kv_width, p.kv_width, &t.value(fused)(r, p.width + p.kv_width));
      }
      hr::attention_record<double> record{.kind = hr::attention_kind::cross, .layer = 5};
      hr::slot out;
      {
        const auto lost = p.queries;  // sentences are copied by the recording
        hr::attention_call<double, hr::cpu> call{
            .shape = s.shape, .options = p.in.options, .queries = lost, .keys = lost};
        call.q = {fused, 0};
        call.k = {fused, p.width};
        call.v = {fused, p.width + p.kv_width};
        call.gates = &gates;
        call.mask = &mask;
        call.bias = &bias;
        call.keep_probability_gradients = true;
        out = hr::attention(t, call, &record);
      }
      CHECK(out == record.out);
      CHECK((record.kind == hr::attention_kind::cross));
      CHECK(record.layer == 5);
      CHECK(std::memcmp(t.value(out).data(), p.out.data(), count(p.query_rows * p.width) * 8) == 0);
      CHECK(std::memcmp(t.value(record.context).data(), p.context.data(), count(p.query_rows * p.width) * 8) == 0);
      CHECK(record.probability_gradients(1)(0, 0, 0) == 0);
      std::copy_n(p.dout.data(), p.query_rows * p.width, t.gradient(out).data());
      t.backward();
      REQUIRE(record.sentences() == 4);
      for (index_t b = 0; b < 4; ++b) {
        const auto a = record.probabilities(b), da = record.probability_gradients(b);
        CHECK(a.shape() == hr::shape_t<3>{4, s.queries[count(b)], s.keys[count(b)]});
        const auto expected = hr::attention_probabilities(p.probabilities.data(), s.shape, p.queries, p.keys, b);
        CHECK(std::memcmp(a.data(), expected.data(), count(a.size()) * 8) == 0);
        const auto gradient = hr::attention_probabilities(p.dprobabilities.data(), s.shape, p.queries, p.keys, b);
        CHECK(std::memcmp(da.data(), gradient.data(), count(a.size()) * 8) == 0);
      }
      const auto d = t.gradient(fused);
      for (index_t r = 0; r < p.query_rows; ++r) {
        CHECK(std::memcmp(&d(r, 0), p.dq.data() + r * p.width, count(p.width) * 8) == 0);
        CHECK(std::memcmp(&d(r, p.width), p.dk.data() + r * p.kv_width, count(p.kv_width) * 8) == 0);
        CHECK(std::memcmp(&d(r, p.width + p.kv_width), p.dv.data() + r * p.kv_width, count(p.kv_width) * 8) == 0);
      }
      for (index_t h = 0; h < 4; ++h)
        CHECK(gates.gradient(h) == doctest::Approx((pass + 1) * p.dgates[count(h)]).epsilon(1e-14));
      CHECK(mask.gradient(1, 2, 1) == doctest::Approx((pass + 1) * p.dmask[count((9 + 2) * 9 + 1)]).epsilon(1e-14));
      CHECK(bias.gradient(1, 2, 1) == doctest::Approx((pass + 1) * p.dbias[count((9 + 2) * 9 + 1)]).epsilon(1e-14));
      CHECK_THROWS_WITH_AS(record.probabilities(4), "attention_record: probabilities of sentence 4 of 4",
                           hr::argument_error);
      if (pass == 0) bytes = t.bytes();
    }
    CHECK(t.bytes() == bytes);

    hr::tape<double, hr::cpu> light(be, hr::tape_mode::inference);
    hr::attention_call<double, hr::cpu> call{
        .shape = s.shape, .options = p.in.options, .queries = p.queries, .keys = p.keys};
    call.q = light.add(p.query_rows, p.width);
    call.k = light.add(p.key_rows, p.kv_width);
    call.v = light.add(p.key_rows, p.kv_width);
    std::copy_n(p.q.data(), p.query_rows * p.width, light.value(call.q.source).data());
    std::copy_n(p.k.data(), p.key_rows * p.kv_width, light.value(call.k.source).data());
    std::copy_n(p.v.data(), p.key_rows * p.kv_width, light.value(call.v.source).data());
    call.gates = &gates;
    call.fixed_mask = p.in.mask;
    call.fixed_bias = p.in.bias;
    hr::attention_record<double> record;
    const hr::slot out = hr::attention(light, call, &record);
    CHECK(std::memcmp(light.value(out).data(), p.out.data(), count(p.query_rows * p.width) * 8) == 0);
    CHECK_FALSE(record.has_probabilities());
    CHECK_THROWS_WITH_AS(record.probabilities(0), "attention_record: the probabilities were not kept",
                         hr::argument_error);
    call.q.first = 1;
    CHECK_THROWS_WITH_AS(hr::attention(light, call), "attention: q is (17,32), expected 32 columns from 1 on",
                         hr::shape_error);
    call.q = call.k;
    CHECK_THROWS_WITH_AS(hr::attention(light, call), "attention: q is (17,16), expected 32 columns", hr::shape_error);
  }
}
