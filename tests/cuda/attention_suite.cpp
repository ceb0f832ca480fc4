// Attention and its gradient on the device, against naive ones in long double.
#include <algorithm>
#include <limits>
#include <string>

#include <headred/device/attention_gradient.hpp>
#include <headred/device/attention_relevance.hpp>
#include <headred/device/sparse_attention.hpp>
#if defined(HEADRED_CUDA_EMULATE)
#include <headred/sparsity/sparse_mask.hpp>
#endif

#include "../oracle/attention.hpp"
#include "device.hpp"
#include "relevance_support.hpp"

using namespace headred_test;

namespace {

namespace device = headred::device;
namespace oracle = headred_test::oracle;  // of attention; ::oracle is that of relevance
using hr::index_t;

enum class masking { none, hard, soft, shared };

struct settings {
  index_t heads, kv_heads, size;
  std::vector<index_t> queries, keys;  // lengths
  bool causal = false, gates = false, bias = false;
  bool fused = false;  // q, k and v are columns of one matrix, as a fused projection makes it
  masking mask = masking::none;
  index_t gap = 0;  // rows between sentences
};

/// A problem in the oracle's words, its values floats, and what the device makes of it.
template <class T>
struct problem {
  settings how;
  oracle::attention_problem p;
  index_t query_rows = 0, key_rows = 0, most_rows = 1, most_cols = 1;
  oracle::array dout;

  explicit problem(const settings& s, std::uint64_t stream) : how(s) {
    p.heads = s.heads;
    p.kv_heads = s.kv_heads;
    p.head_size = s.size;
    p.causal = s.causal;
    p.scale = 1 / std::sqrt(static_cast<long double>(s.size));
    for (std::size_t b = 0; b < s.queries.size(); ++b) {
      p.queries.push_back({query_rows, s.queries[b]});
      p.keys.push_back({key_rows, s.keys[b]});
      query_rows += s.queries[b] + s.gap;
      key_rows += s.keys[b] + s.gap;
      most_rows = std::max({most_rows, s.queries[b], s.causal ? s.keys[b] : 0});
      most_cols = std::max(most_cols, s.keys[b]);
    }
    const auto fill = [&](oracle::array& to, index_t a, index_t b, index_t c = 1) {
      to = oracle::array(a, b, c);
      const auto values = numbers<float>(a * b * c, stream++);
      std::copy(values.begin(), values.end(), to.values.begin());
    };
    fill(p.q, query_rows, s.heads * s.size);
    fill(p.k, key_rows, s.kv_heads * s.size);
    fill(p.v, key_rows, s.kv_heads * s.size);
    fill(dout, query_rows, s.heads * s.size);
    if (s.bias) fill(p.bias, s.heads, most_rows, most_cols);
    if (s.gates)
      for (const float g : numbers<float>(s.heads, stream++)) p.gates.push_back(g);
    if (s.mask == masking::none) return;
    fill(p.mask, s.heads, most_rows, most_cols);
    for (long double& m : p.mask.values) {
      m = s.mask == masking::hard ? (m > -.3L ? 1 : 0) : m < 0 ? 0 : m;
      if (m > 0 && m < 1) m = static_cast<float>(1 - m * 2e-4L);  // the penalty leaves more than one key alive
    }
    for (index_t h = 0; h < s.heads; ++h)
      for (index_t i = 0; i < most_rows; ++i)
        for (index_t j = 0; j < most_cols; ++j)
          if (i == most_rows / 2)
            p.mask(h, i, j) = 0;  // a row that sees nothing
          else if (s.mask == masking::shared)
            p.mask(h, i, j) = p.mask(0, i, j);
  }

  /// Rows of sentences as they are, NaN between them: nobody may read there.
  std::vector<T> rows(const oracle::array& x, const std::vector<hr::sequence>& at) const {
    std::vector<T> all(x.values.size(), std::numeric_limits<T>::quiet_NaN());
    for (const auto& s : at)
      for (index_t i = s.begin * x.n1; i < (s.begin + s.length) * x.n1; ++i)
        all[static_cast<std::size_t>(i)] = static_cast<T>(x.values[static_cast<std::size_t>(i)]);
    return all;
  }
  static std::vector<T> narrowed(const std::vector<long double>& x) { return {x.begin(), x.end()}; }

  struct results {
    std::vector<T> inferred, out, context, probabilities, dq, dk, dv, dgates, dmask, dbias, dprobabilities;
    bool operator==(const results&) const = default;
  };

  results run(hr::cuda& be) const {
    const index_t width = how.heads * how.size, kv_width = how.kv_heads * how.size,
                  mask_heads = how.mask == masking::shared ? 1 : how.heads;
    auto q = put<T, 2>(be, rows(p.q, p.queries), {query_rows, width}),
         k = put<T, 2>(be, rows(p.k, p.keys), {key_rows, kv_width}),
         v = put<T, 2>(be, rows(p.v, p.keys), {key_rows, kv_width}),
         from = put<T, 2>(be, rows(dout, p.queries), {query_rows, width});
    device::attention_operands<T> in{how.heads, how.kv_heads, how.size};
    in.causal = how.causal;
    in.q = q.view();
    in.k = k.view();
    in.v = v.view();
    hr::tensor<T, 2, hr::cuda> projection;
    if (how.fused) {
      const auto a = rows(p.q, p.queries), b = rows(p.k, p.keys), c = rows(p.v, p.keys);
      std::vector<T> all;
      for (index_t r = 0; r < query_rows; ++r) {
        all.insert(all.end(), a.begin() + r * width, a.begin() + (r + 1) * width);
        for (const auto* x : {&b, &c})
          all.insert(all.end(), x->begin() + r * kv_width, x->begin() + (r + 1) * kv_width);
      }
      projection = put<T, 2>(be, all, {query_rows, width + 2 * kv_width});
      in.q = projection.view().narrow(1, 0, width);
      in.k = projection.view().narrow(1, width, kv_width);
      in.v = projection.view().narrow(1, width + kv_width, kv_width);
    }
    hr::tensor<T, 3, hr::cuda> bias, mask, dbias, dmask;
    hr::tensor<T, 1, hr::cuda> gates, dgates;
    device::attention_gradients<T> d;
    if (how.bias) {
      bias = put<T, 3>(be, narrowed(p.bias.values), {how.heads, most_rows, most_cols});
      dbias = put<T, 3>(be, std::vector<T>(p.bias.values.size(), 0), bias.shape());
      in.bias = bias.view();
      d.bias = dbias.view();
    }
    if (how.mask != masking::none) {
      auto values = narrowed(p.mask.values);
      values.resize(static_cast<std::size_t>(mask_heads * most_rows * most_cols));
      mask = put<T, 3>(be, values, {mask_heads, most_rows, most_cols});
      dmask = put<T, 3>(be, std::vector<T>(values.size(), 0), mask.shape());
      in.mask = mask.view();
      d.mask = dmask.view();
    }
    if (how.gates) {
      gates = put<T, 1>(be, narrowed(p.gates), {how.heads});
      dgates = put<T, 1>(be, std::vector<T>(p.gates.size(), 0), {how.heads});
      in.gates = gates.view();
      d.gates = dgates.view();
    }
    device::attention_batch batch(be, p.queries, p.keys);
    const index_t count = batch.probability_count(how.heads);
    hr::tensor<T, 2, hr::cuda> out(be, {query_rows, width}), context(be, {query_rows, width});
    auto probabilities = put<T, 1>(be, std::vector<T>(static_cast<std::size_t>(count) + 1, 8), {count + 1}),
         dprobabilities = put<T, 1>(be, std::vector<T>(static_cast<std::size_t>(count) + 1, 8), {count + 1});
    results r;
    device::attention_forward(be, batch, in, out.view());
    r.inferred = get(be, out);
    device::attention_forward(be, batch, in, out.view(), probabilities.data(), context.view());
    r.out = get(be, out);
    r.context = get(be, context);
    r.probabilities = get(be, probabilities);
    auto dq = put<T, 2>(be, std::vector<T>(p.q.values.size(), 0), q.shape()),
         dk = put<T, 2>(be, std::vector<T>(p.k.values.size(), 0), k.shape()),
         dv = put<T, 2>(be, std::vector<T>(p.v.values.size(), 0), v.shape());
    d.q = dq.view();
    d.k = dk.view();
    d.v = dv.view();
    d.probabilities = dprobabilities.data();
    device::attention_gradient(be, batch, in, probabilities.data(), context.view(), from.view(), d);
    r.dq = get(be, dq);
    r.dk = get(be, dk);
    r.dv = get(be, dv);
    r.dgates = get(be, dgates);
    r.dmask = get(be, dmask);
    r.dbias = get(be, dbias);
    r.dprobabilities = get(be, dprobabilities);
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

template <class T>
void check(const settings& s, std::uint64_t stream) {
  CAPTURE(s.heads);
  CAPTURE(s.size);
  CAPTURE(stream);
  // as for the op on the cpu
  const double tolerance = sizeof(T) == 4 ? 3e-6 : 4e-15;
  hr::cuda be;
  const problem<T> problem(s, stream);
  const auto found = in_every_order([&] { return problem.run(be); });
  const auto expected = oracle::attend(problem.p);
  CHECK(found.inferred == found.out);
  CHECK(deviation(found.out, expected.out.values) < tolerance);
  CHECK(deviation(found.context, expected.context.values) < tolerance);
  CHECK(deviation(found.probabilities, expected.probabilities) < tolerance);
  CHECK(found.probabilities.back() == 8);  // nothing is written behind the last
  const auto d = oracle::attend_back(problem.p, problem.dout);
  CHECK(deviation(found.dq, d.q.values) < tolerance);
  CHECK(deviation(found.dk, d.k.values) < 2 * tolerance);
  CHECK(deviation(found.dv, d.v.values) < 2 * tolerance);
  CHECK(found.dprobabilities.back() == 8);
  auto visible = d.probabilities;  // what a causal query cannot see has no gradient
  std::size_t at = 0;
  for (std::size_t b = 0; b < s.queries.size(); ++b)
    for (index_t row = 0; row < s.heads * s.queries[b]; ++row)
      for (index_t j = 0; j < s.keys[b]; ++j, ++at)
        if (s.causal && j > row % s.queries[b] + s.keys[b] - s.queries[b]) visible[at] = 0;
  CHECK(deviation(found.dprobabilities, visible) < 2 * tolerance);
  if (s.gates) CHECK(deviation(found.dgates, d.gates) < 4 * tolerance);
  if (s.bias) CHECK(deviation(found.dbias, d.bias.values) < 2 * tolerance);
  if (s.mask == masking::none) return;
  std::vector<long double> sums(found.dmask.size(), 0.0L);
  for (std::size_t i = 0; i < d.mask.values.size(); ++i) sums[i % sums.size()] += d.mask.values[i];
  CHECK(deviation(found.dmask, sums) < 4 * tolerance);
}

/// The ones of a problem's mask, as sparse_mask has them.
struct listed_ones {
  index_t head_count, row_count, col_count;
  std::vector<std::vector<std::int32_t>> seen, by, places;  // (head, row), (head, key)

  explicit listed_ones(const oracle::array& mask) : head_count(mask.n0), row_count(mask.n1), col_count(mask.n2) {
    by.resize(static_cast<std::size_t>(head_count * col_count));
    places.resize(by.size());
    index_t ones = 0;
    for (index_t h = 0; h < head_count; ++h) {
      const index_t first = ones;
      for (index_t i = 0; i < row_count; ++i) {
        auto& row = seen.emplace_back();
        for (index_t j = 0; j < col_count; ++j) {
          if (mask(h, i, j) == 0) continue;
          row.push_back(static_cast<std::int32_t>(j));
          const auto at = static_cast<std::size_t>(h * col_count + j);
          by[at].push_back(static_cast<std::int32_t>(i));
          places[at].push_back(static_cast<std::int32_t>(ones++ - first));
        }
      }
    }
  }
  index_t heads() const { return head_count; }
  index_t rows() const { return row_count; }
  index_t cols() const { return col_count; }
  const std::vector<std::int32_t>& keys(index_t h, index_t i) const {
    return seen[static_cast<std::size_t>(h * row_count + i)];
  }
  struct column {
    const std::vector<std::int32_t>&rows, &places;
  };
  column seen_by(index_t h, index_t j) const {
    const auto at = static_cast<std::size_t>(h * col_count + j);
    return {by[at], places[at]};
  }
};

/// Sparse attention and its gradient under the mask of a problem, against the dense oracle.
template <class T>
void check_sparse(settings s, std::uint64_t stream) {
  CAPTURE(s.heads);
  CAPTURE(s.size);
  s.mask = masking::hard;
  const problem<T> dense(s, stream);
  const auto& p = dense.p;
  hr::cuda be;
  const index_t width = s.heads * s.size, kv_width = s.kv_heads * s.size;
  const listed_ones lists(p.mask);
  index_t count = 0;
  const auto run = [&](const auto& mask) {
    auto q = put<T, 2>(be, dense.rows(p.q, p.queries), {dense.query_rows, width}),
         k = put<T, 2>(be, dense.rows(p.k, p.keys), {dense.key_rows, kv_width}),
         v = put<T, 2>(be, dense.rows(p.v, p.keys), {dense.key_rows, kv_width}),
         from = put<T, 2>(be, dense.rows(dense.dout, p.queries), {dense.query_rows, width});
    device::attention_operands<T> in{s.heads, s.kv_heads, s.size, s.causal};
    in.q = q.view();
    in.k = k.view();
    in.v = v.view();
    hr::tensor<T, 1, hr::cuda> gates, dgates;
    device::sparse_attention_gradients<T> d;
    if (s.gates) {
      gates = put<T, 1>(be, problem<T>::narrowed(p.gates), {s.heads});
      dgates = put<T, 1>(be, std::vector<T>(p.gates.size(), 0), {s.heads});
      in.gates = gates.view();
      d.gates = dgates.view();
    }
    const device::attention_batch batch(be, p.queries, p.keys);
    const device::sparse_attention_batch<hr::cuda> sparse(be, batch, mask, s.heads, s.causal);
    count = sparse.probability_count();
    hr::tensor<T, 2, hr::cuda> out(be, q.shape()), context(be, q.shape());
    auto kept = put<T, 1>(be, std::vector<T>(static_cast<std::size_t>(count) + 1, 8), {count + 1});
    const auto zeros = [&](const auto& like) {
      return put<T, 2>(be, std::vector<T>(static_cast<std::size_t>(like.size()), 0), like.shape());
    };
    auto dq = zeros(q), dk = zeros(k), dv = zeros(v);
    typename problem<T>::results r;
    device::sparse_attention_forward(be, sparse, in, out.view());
    r.inferred = get(be, out);
    device::sparse_attention_forward(be, sparse, in, out.view(), kept.data(), context.view());
    d.q = dq.view();
    d.k = dk.view();
    d.v = dv.view();
    device::sparse_attention_gradient(be, sparse, in, kept.data(), context.view(), from.view(), d);
    r.out = get(be, out);
    r.context = get(be, context);
    r.probabilities = get(be, kept);
    r.dq = get(be, dq);
    r.dk = get(be, dk);
    r.dv = get(be, dv);
    r.dgates = get(be, dgates);
    return r;
  };
  const auto found = in_every_order([&] { return run(lists); });
#if defined(HEADRED_CUDA_EMULATE)
  const auto values = problem<T>::narrowed(p.mask.values);
  hr::cpu host;
  CHECK(run(hr::sparse_mask(host, hr::tensor_view<const T, 3>(values.data(), {p.mask.n0, p.mask.n1, p.mask.n2}))) ==
        found);
#endif
  const double tolerance = sizeof(T) == 4 ? 3e-6 : 4e-15;
  const auto expected = oracle::attend(p);
  const auto d = oracle::attend_back(p, dense.dout);
  CHECK(found.inferred == found.out);
  CHECK(deviation(found.out, expected.out.values) < tolerance);
  CHECK(deviation(found.context, expected.context.values) < tolerance);
  CHECK(deviation(found.dq, d.q.values) < tolerance);
  CHECK(deviation(found.dk, d.k.values) < 2 * tolerance);
  CHECK(deviation(found.dv, d.v.values) < 2 * tolerance);
  if (s.gates) CHECK(deviation(found.dgates, d.gates) < 4 * tolerance);
  std::vector<long double> kept;  // ones beyond a sentence keep the room that they have
  std::size_t at = 0;
  for (std::size_t b = 0; b < p.queries.size(); ++b)
    for (index_t h = 0; h < s.heads; ++h)
      for (index_t i = 0; i < p.queries[b].length; ++i, at += static_cast<std::size_t>(p.keys[b].length)) {
        const index_t row = oracle::position(p, i, p.queries[b].length, p.keys[b].length);
        if (row < 0 || p.keys[b].length == 0) continue;
        for (const std::int32_t j : lists.keys(h, row))
          kept.push_back(j < p.keys[b].length && (!s.causal || j <= row)
                             ? expected.probabilities[at + static_cast<std::size_t>(j)]
                             : 8);
      }
  CHECK(static_cast<index_t>(kept.size()) == count);
  CHECK(deviation(found.probabilities, kept) < tolerance);
  CHECK(found.probabilities.back() == 8);
}

}  // namespace

TEST_SUITE("cuda") {
  namespace oracle = headred_test::oracle;

  TEST_CASE_TEMPLATE("attention and its gradient", T, float, double) {
    const std::vector<index_t> mixed{7, 1, 33, 0, 16, 2};
    check<T>({.heads = 2, .kv_heads = 2, .size = 5, .queries = mixed, .keys = mixed}, 200);
    check<T>({.heads = 2,
              .kv_heads = 1,
              .size = 33,
              .queries = mixed,
              .keys = mixed,
              .causal = true,
              .fused = true,
              .gap = 1},
             210);
    // sentences without queries or keys, rows that see nothing, kept keys
    check<T>({.heads = 1, .kv_heads = 1, .size = 3, .queries = {3, 0, 6, 1}, .keys = {9, 4, 0, 40}}, 220);
    check<T>({.heads = 2, .kv_heads = 1, .size = 4, .queries = {9, 4, 2}, .keys = {3, 4, 35}, .causal = true}, 230);
    check<T>({.heads = 1, .kv_heads = 1, .size = 130, .queries = {3}, .keys = {3}, .gates = true}, 240);
  }

  TEST_CASE_TEMPLATE("attention with gates, a bias and masks", T, float, double) {
    const std::vector<index_t> lengths{5, 18, 34};
    std::uint64_t stream = 300;
    for (const auto mask : {masking::hard, masking::soft, masking::shared})
      check<T>({.heads = 4,
                .kv_heads = 2,
                .size = 4,
                .queries = lengths,
                .keys = lengths,
                .causal = mask == masking::soft,
                .gates = true,
                .bias = mask != masking::hard,
                .mask = mask,
                .gap = 2},
               stream += 20);
  }

  TEST_CASE("attention of scores as low as the type goes, and of numbers that are none") {
    hr::cuda be;
    const float low = std::numeric_limits<float>::lowest();
    const std::vector<hr::sequence> all{{0, 2}};
    const auto run = [&](std::vector<float> queries, std::vector<float> keys, float bias) {
      auto q = put<float, 2>(be, queries, {2, 1}), k = put<float, 2>(be, keys, {2, 1}),
           v = put<float, 2>(be, {1, 3}, {2, 1}), out = put<float, 2>(be, {9, 9}, {2, 1});
      auto b = put<float, 3>(be, std::vector<float>(4, bias), {1, 2, 2});
      device::attention_operands<float> in{1, 1, 1};
      in.q = q.view();
      in.k = k.view();
      in.v = v.view();
      in.bias = b.view();
      device::attention_forward(be, device::attention_batch(be, all, all), in, out.view());
      return get(be, out);
    };
    CHECK(run({1, 2}, {0, 0}, low) == std::vector<float>{2, 2});
    CHECK(run({1e30f, 0}, {-1e30f, -1e30f}, low) == std::vector<float>{2, 2});
    const auto broken = run({std::nanf(""), 1}, {1, 1}, 0);
    CHECK(std::isnan(broken[0]));
    CHECK(broken[1] == 2);
  }

  TEST_CASE("attention refuses what does not fit") {
    hr::cuda be;
    using sentences = std::vector<hr::sequence>;
    const sentences one{{0, 3}}, two{{0, 3}, {2, 1}}, shared{{0, 3}, {0, 3}}, apart{{0, 2}, {2, 1}};
    const auto refuse = [&](const sentences& queries, const sentences& keys, const auto& change, bool gradient) {
      auto x = put<float, 2>(be, std::vector<float>(12, 0), {3, 4});
      device::attention_operands<float> in{2, 2, 2};
      in.q = in.k = in.v = x.view();
      change(in);
      const device::attention_batch batch(be, queries, keys);
      device::attention_forward(be, batch, in, x.view());
      if (!gradient) return;
      device::attention_gradients<float> d;
      d.k = x.view();
      device::attention_gradient(be, batch, in, nullptr, {}, x.view(), d);
    };
    const auto nothing = [](auto&) {};
    CHECK_THROWS_WITH_AS(refuse(one, apart, nothing, false), "attention_batch: queries of 1 sentences, keys of 2",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(
        refuse(two, apart, nothing, false),
        "attention_batch: the queries of sentence 1 begin at row 2, expected at 3 or later, after the sentence before",
        hr::argument_error);
    CHECK_THROWS_WITH_AS(refuse({{-1, 3}}, one, nothing, false),
                         "attention_batch: the queries of sentence 0 are rows -1 and 3 on, expected within [0,2^31)",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(refuse({{0, 4}}, one, nothing, false),
                         "attention_forward: q and k have 3 and 3 rows, the batch takes 4 and 3", hr::shape_error);
    CHECK_THROWS_WITH_AS(refuse(
                             one, one, [](auto& in) { in.heads = 3; }, false),
                         "attention_forward: 3 heads share 2 key/value heads, expected a divisor", hr::argument_error);
    CHECK_THROWS_WITH_AS(refuse(
                             one, one, [](auto& in) { in.head_size = 4; }, false),
                         "attention_forward: q is (3,4), expected (3,8)", hr::shape_error);
    CHECK_THROWS_WITH_AS(
        refuse(
            one, one,
            [](auto& in) {
              in.mask = in.q.data() == nullptr
                            ? in.mask
                            : hr::tensor_view<const float, 3, hr::device_space>(in.q.data(), {2, 2, 3});
            },
            false),
        "attention_forward: mask is (2,2,3), expected (2,3,3) at least, or 1 for the heads", hr::shape_error);
    CHECK_THROWS_WITH_AS(refuse(apart, shared, nothing, true),
                         "attention_gradient: sentences share keys, expected them apart where gradients are wanted",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(refuse(one, one, nothing, true),
                         "attention_gradient: there are no probabilities, expected those of attention_forward",
                         hr::argument_error);
  }

  TEST_CASE_TEMPLATE("sparse attention and its gradient", T, float, double) {
    const std::vector<index_t> mixed{7, 1, 33, 0, 16, 2};
    check_sparse<T>({.heads = 2, .kv_heads = 2, .size = 5, .queries = mixed, .keys = mixed, .gates = true}, 240);
    check_sparse<T>({.heads = 2,
                     .kv_heads = 1,
                     .size = 33,
                     .queries = {3, 6, 0, 5},
                     .keys = {9, 2, 4, 0},
                     .causal = true,
                     .gap = 1},
                    260);
    check_sparse<T>({.heads = 1, .kv_heads = 1, .size = 130, .queries = {2}, .keys = {70}}, 280);
    hr::cuda be;
    hr::tensor<T, 2, hr::cuda> x(be, {2, 4}), y(be, {2, 2});
    hr::tensor<T, 3, hr::cuda> bias(be, {1, 2, 2});
    device::attention_operands<T> in{2, 2, 2};
    in.q = in.k = in.v = std::as_const(x).view();
    const std::vector<hr::sequence> all{{0, 2}};
    const device::attention_batch<hr::cuda> batch(be, all, all);
    oracle::array small(1, 1, 2), ones(1, 2, 2);
    std::fill(ones.values.begin(), ones.values.end(), 1.L);
    CHECK_THROWS_WITH_AS(device::sparse_attention_batch<hr::cuda>(be, batch, listed_ones(small), 2, false),
                         "sparse_attention_batch: the mask is (1,1,2), expected (2,2,2) at least, or 1 for the heads",
                         hr::shape_error);
    const device::sparse_attention_batch<hr::cuda> sparse(be, batch, listed_ones(ones), 2, false);
    CHECK(sparse.probability_count() == 8);
    CHECK_THROWS_WITH_AS(device::sparse_attention_forward(be, sparse, in, y.view()),
                         "sparse_attention_forward: out is (2,2), expected (2,4)", hr::shape_error);
    CHECK_THROWS_WITH_AS(device::sparse_attention_gradient(be, sparse, in, nullptr, {}, x.view(),
                                                           device::sparse_attention_gradients<T>{}),
                         "sparse_attention_gradient: there are no probabilities, expected those of "
                         "sparse_attention_forward",
                         hr::argument_error);
    auto causal = in, biased = in;
    causal.causal = true;
    biased.bias = bias.view();
    CHECK_THROWS_WITH_AS(device::sparse_attention_forward(be, sparse, causal, x.view()),
                         "sparse_attention_forward: 2 causal heads, the batch was made for 2 that are not causal",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(device::sparse_attention_forward(be, sparse, biased, x.view()),
                         "sparse_attention_forward: there is a bias, expected the lists alone", hr::argument_error);
  }

  TEST_CASE_TEMPLATE("dots of heads", T, float, double) {
    hr::cuda be;
    const std::vector<hr::sequence> rows{{1, 40}, {5, 0}, {42, 3}};
    const auto a = numbers<T>(45 * 6, 401), b = numbers<T>(45 * 6, 402);
    const auto found = in_every_order([&] {
      auto x = put<T, 2>(be, a, {45, 6}), y = put<T, 2>(be, b, {45, 6});
      hr::tensor<T, 2, hr::cuda> sums(be, {3, 2});
      device::head_dots(be, device::attention_batch(be, rows, rows), x.view(), y.view(), sums.view());
      return get(be, sums);
    });
    for (std::size_t s = 0; s < 3; ++s)
      for (index_t h = 0; h < 2; ++h) {
        long double sum = 0;
        for (index_t r = rows[s].begin; r < rows[s].begin + rows[s].length; ++r)
          for (index_t c = 3 * h; c < 3 * h + 3; ++c)
            sum += static_cast<long double>(a[static_cast<std::size_t>(6 * r + c)]) *
                   static_cast<long double>(b[static_cast<std::size_t>(6 * r + c)]);
        CHECK(std::fabs(static_cast<double>(static_cast<long double>(found[2 * s + static_cast<std::size_t>(h)]) -
                                            sum)) <= 20 * static_cast<double>(std::numeric_limits<T>::epsilon()));
      }
    hr::tensor<T, 2, hr::cuda> x(be, {45, 6}), sums(be, {2, 2});
    CHECK_THROWS_WITH_AS(
        device::head_dots(be, device::attention_batch(be, rows, rows), x.view(), x.view(), sums.view()),
        "head_dots: sums is (2,2), expected (3,2)", hr::shape_error);
  }

  TEST_CASE_TEMPLATE("relevance of attention", T, float, double) {
    hr::cuda be;
    struct geometry {
      index_t heads, groups, size;
      std::vector<index_t> queries, keys;
      bool causal, masked;
    };
    const geometry cases[] = {{1, 1, 2, {2}, {2}, false, false},
                              {2, 1, 3, {4, 2}, {4, 3}, true, false},
                              {4, 2, 2, {3, 0, 2}, {5, 2, 5}, false, true},
                              {2, 2, 4, {3}, {5}, true, true},
                              {2, 2, 5, {1}, {1}, false, false},
                              {1, 1, 3, {17}, {34}, false, true}};
    for (const geometry& g : cases) {
      std::vector<std::vector<::oracle::reals>> jacobians(g.queries.size());  // the same for every rule
      for (const bool joint : {true, false})
        for (const hr::relevance_rule& rule : {all_rules[0], all_rules[1], all_rules[2], all_rules[3],
                                               hr::relevance_rule::of_epsilon(), hr::relevance_rule::attn(1e-3)}) {
          std::vector<hr::sequence> queries, keys;
          index_t query_rows = 0, key_rows = 1;  // the rows between sentences are NaN
          for (std::size_t b = 0; b < g.queries.size(); ++b) {
            queries.push_back({query_rows, g.queries[b]});
            keys.push_back({key_rows, g.keys[b]});
            query_rows += g.queries[b] + 1;
            key_rows += g.keys[b] + 1;
          }
          const index_t width = g.heads * g.size, kv_width = g.groups * g.size;
          const auto made = [&](const std::vector<hr::sequence>& at, index_t rows, index_t cols, std::uint64_t stream) {
            auto all = numbers<T>(rows * cols, stream);
            std::vector<T> padded(all.size(), std::numeric_limits<T>::quiet_NaN());
            for (const auto& s : at)
              std::copy_n(all.begin() + s.begin * cols, s.length * cols, padded.begin() + s.begin * cols);
            return padded;
          };
          auto q = made(queries, query_rows, width, 341), k = made(keys, key_rows, kv_width, 342),
               v = made(keys, key_rows, kv_width, 343), r = made(queries, query_rows, width, 344);
          if (g.heads == 1 && g.size == 2) {
            std::copy_n(std::vector<T>{1, 0, 0, 1}.begin(), 4, q.begin());
            std::copy_n(std::vector<T>{1, 1, 0, 2}.begin(), 4, k.begin() + 2);
            std::copy_n(std::vector<T>{1, 2, 3, -1}.begin(), 4, v.begin() + 2);
            r = q;
          }
          const index_t most = 34;
          std::vector<T> mask(most * most, 1), bias;
          if (g.masked && !g.causal) {
            for (index_t j = 0; j < most; ++j) mask[static_cast<std::size_t>(most + j)] = 0;  // query 1 sees nothing
            mask[2] = 0;
            mask[3] = T(.95);  // takes half a point off the score
            bias = numbers<T>(most * most, 345);
          }
          const auto found = in_every_order([&] {
            auto qs = put<T, 2>(be, q, {query_rows, width}), rs = put<T, 2>(be, r, {query_rows, width}),
                 ks = put<T, 2>(be, k, {key_rows, kv_width}), vs = put<T, 2>(be, v, {key_rows, kv_width});
            auto masks = put<T, 3>(be, mask, {1, most, most});
            hr::tensor<T, 3, hr::cuda> biases;
            device::attention_operands<T> in{g.heads, g.groups, g.size, g.causal};
            in.q = qs.view();
            in.k = ks.view();
            in.v = vs.view();
            in.mask_penalty = 10;
            if (g.masked) in.mask = masks.view();
            if (!bias.empty()) {
              biases = put<T, 3>(be, bias, {1, most, most});
              in.bias = biases.view();
            }
            const device::attention_batch<hr::cuda> batch(be, queries, keys);
            hr::tensor<T, 1, hr::cuda> p(be, {batch.probability_count(g.heads)});
            hr::tensor<T, 2, hr::cuda> y(be, qs.shape()), to_q(be, qs.shape()), to_k(be, ks.shape()),
                to_v(be, ks.shape());
            hr::tensor<double, 1, hr::cuda> terms(be, {3});
            device::attention_forward<T>(be, batch, in, y.view(), p.data());
            device::attention_relevance_in<T> to{{}, {}, to_v.view()};
            if (joint) {
              to.q = to_q.view();
              to.k = to_k.view();
            }
            with_rule(rule, [&](const auto& policy) {
              device::attention_relevance<T>(be, batch, in, p.data(), y.view(), policy, rs.view(), to, terms.view());
            });
            outcome<T> all{get(be, to_v), {}, get(be, terms)};
            if (!joint) return all;
            all.other = get(be, to_q);
            const auto more = get(be, to_k);
            all.other.insert(all.other.end(), more.begin(), more.end());
            return all;
          });
          ::oracle::reals of_q(q.size()), of_k(k.size()), of_v(k.size());
          double given = 0, size = size_of(found.in) + size_of(found.other);
          for (std::size_t b = 0; b < queries.size(); ++b) {
            const auto cut = [&](const std::vector<T>& m, const hr::sequence& s, index_t cols) {
              return ::oracle::reals(m.begin() + s.begin * cols, m.begin() + (s.begin + s.length) * cols);
            };
            const auto count = [](index_t n) { return static_cast<std::size_t>(n); };
            ::oracle::attention_case naive{count(g.heads),
                                           count(g.groups),
                                           count(g.size),
                                           count(g.queries[b]),
                                           count(g.keys[b]),
                                           g.causal,
                                           {},
                                           {}};
            for (index_t i = 0; g.masked && !g.causal && i < g.queries[b]; ++i)
              for (index_t j = 0; j < g.keys[b]; ++j) {
                const auto at = count(i * most + j);
                naive.mask.push_back(mask[at]);
                naive.extra.push_back(static_cast<::oracle::real>(bias[at]) -
                                      (mask[at] > 0 ? 10 * (1 - static_cast<::oracle::real>(mask[at])) : 0));
              }
            ::oracle::reals x = cut(q, queries[b], width);
            for (const auto& more : {cut(k, keys[b], kv_width), cut(v, keys[b], kv_width)})
              x.insert(x.end(), more.begin(), more.end());
            const auto from = cut(r, queries[b], width);
            given += total(from);
            size += size_of(from);
            ::oracle::reals expected;
            if (rule.kind == hr::rule_kind::attn && joint) {
              expected = naive.attn(x, from, static_cast<::oracle::real>(rule.epsilon));
            } else {
              if (jacobians[b].empty())
                jacobians[b] = ::oracle::contributions([&](const ::oracle::reals& at) { return naive(at); }, x,
                                                       ::oracle::reals(from.size()));
              auto z = jacobians[b];
              const std::size_t scores = from.size() + count(g.keys[b] * kv_width);
              if (!joint)
                for (auto& row : z) std::fill_n(row.begin(), scores, 0.0L);
              expected = ::oracle::contract(z, from, rule);
              if (z.empty()) expected.resize(x.size());
            }
            const auto paste = [&](::oracle::reals& to, const hr::sequence& s, index_t cols, std::size_t first) {
              std::copy_n(expected.begin() + static_cast<index_t>(first), s.length * cols, to.begin() + s.begin * cols);
            };
            const std::size_t keys_size = count(g.keys[b] * kv_width);
            paste(of_q, queries[b], width, 0);
            paste(of_k, keys[b], kv_width, from.size());
            paste(of_v, keys[b], kv_width, from.size() + keys_size);
          }
          CAPTURE(static_cast<int>(rule.kind));
          CAPTURE(joint);
          CAPTURE(g.size);
          const double most_off = std::max(digits<T>(100), 1e-11) * size;
          CHECK(worst(found.in, of_v) < most_off);
          if (joint) {
            of_q.insert(of_q.end(), of_k.begin(), of_k.end());
            CHECK(worst(found.other, of_q) < most_off);
          }
          CHECK(std::fabs(given - total(found.in) - total(found.other) - found.lost()) < digits<T>(20) * size);
          CHECK((found.terms[0] != 0) == (!bias.empty() && joint && rule.kind == hr::rule_kind::attn));
          if (g.heads == 1 && g.size == 2 && rule.kind == hr::rule_kind::alpha_beta && rule.alpha == .5) {
            const double f = 2 / (size_of(found.in) + size_of(found.other) + 1e-5);
            const auto is = [&](T value, double expected) {
              CHECK(f * static_cast<double>(value) == doctest::Approx(expected).epsilon(1e-6));
            };
            const double worked[2][4] = {{.26890311, .66666015, .39776312, .66666029},
                                         {.20167704, .29232965, .29832191, .16120569}};
            for (std::size_t i = 0; i < 4; ++i) is(found.in[2 + i], worked[joint ? 1 : 0][i]);
            if (joint) {  // q has four entries and a row between sentences, k begins with such a row
              is(found.other[0], .24999698);
              is(found.other[3], .11293129);
              is(found.other[8], .24999698);
              is(found.other[9], .20766788);
              is(found.other[11], .22586257);
            }
          }
        }
    }
    hr::tensor<T, 2, hr::cuda> x(be, {2, 2});
    device::attention_operands<T> in{1, 1, 2};
    in.q = in.k = in.v = std::as_const(x).view();
    const std::vector<hr::sequence> all{{0, 2}}, twice{{0, 1}, {1, 1}}, shared{{0, 2}, {0, 2}};
    const device::attention_batch<hr::cuda> batch(be, all, all), same_keys(be, twice, shared);
    hr::tensor<T, 1, hr::cuda> p(be, {4});
    const auto run = [&](const auto& sentences, const auto& rule, const T* probabilities,
                         const device::attention_relevance_in<T>& to) {
      device::attention_relevance<T>(be, sentences, in, probabilities, x.view(), rule, x.view(), to);
    };
    const device::attention_relevance_in<T> every{x.view(), x.view(), x.view()}, values{{}, {}, x.view()};
    CHECK_THROWS_WITH_AS(run(batch, hr::identity_rule{}, p.data(), values),
                         "attention: cannot follow the rule identity", hr::argument_error);
    CHECK_THROWS_WITH_AS(run(batch, hr::attn_rule{}, nullptr, every),
                         "attention_relevance: there are no probabilities, expected those of attention_forward",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(run(same_keys, hr::attn_rule{}, p.data(), every),
                         "attention_relevance: sentences share keys, expected them apart", hr::argument_error);
    CHECK_THROWS_WITH_AS(run(batch, hr::attn_rule{}, p.data(), {x.view(), {}, x.view()}),
                         "attention_relevance: relevance of k is (0,0), expected (2,2)", hr::shape_error);
  }
}
