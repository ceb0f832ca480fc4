// Attention and its gradient on the device, against naive ones in long double.
#include <algorithm>
#include <limits>
#include <string>

#include <headred/device/attention_gradient.hpp>

#include "../oracle/attention.hpp"
#include "device.hpp"

using namespace headred_test;

namespace {

namespace device = headred::device;
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

}  // namespace

TEST_SUITE("cuda") {
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
}
