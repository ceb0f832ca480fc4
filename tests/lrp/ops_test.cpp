// Relevance op by op: the worked values, explicit Jacobians, degenerate inputs, errors.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/nn/op/add.hpp>
#include <headred/nn/op/attention.hpp>
#include <headred/nn/op/layer_norm.hpp>
#include <headred/nn/op/linear.hpp>
#include <headred/nn/op/softmax.hpp>

#include "oracle/lrp.hpp"

namespace hr = headred;

namespace {

using values = std::vector<double>;

hr::tensor_view<double, 2> as(values& v, hr::index_t rows) {
  return {v.data(), {rows, static_cast<hr::index_t>(v.size()) / rows}};
}
hr::tensor_view<double, 1> line(values& v) { return {v.data(), {static_cast<hr::index_t>(v.size())}}; }

values random(std::size_t n, std::uint64_t seed, double width = 2) {
  values v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = width * (hr::random_stream(seed).uniform(i) - .5);
  return v;
}

double total(const values& v) {
  double sum = 0;
  for (const double x : v) sum += x;
  return sum;
}
double size_of(const values& v) {
  double sum = 0;
  for (const double x : v) sum += std::abs(x);
  return sum;
}

double worst(const values& found, const oracle::reals& expected, std::size_t from = 0) {
  double d = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double e = std::abs(found[i] - static_cast<double>(expected[from + i]));
    if (!(e <= d)) d = e;
  }
  return d;
}

double lost(const hr::relevance_terms& t) { return t.bias + t.eps + t.nonlinear; }

oracle::reals real(const values& v) { return {v.begin(), v.end()}; }

const hr::relevance_rule all_rules[] = {hr::relevance_rule::alpha_beta(), hr::relevance_rule::alpha_beta(2, -1, 1e-3),
                                        hr::relevance_rule::z_plus(), hr::relevance_rule::of_epsilon(1e-2)};

struct linear_case {
  hr::cpu be{{.threads = 2}};
  hr::relevance_workspace<double> memory;
  hr::index_t rows;
  values x, w, b, y, in;

  linear_case(hr::index_t r, values from, values weight, values bias)
      : rows(r), x(std::move(from)), w(std::move(weight)), b(std::move(bias)), in(x.size()) {
    const auto out = static_cast<hr::index_t>(w.size()) * rows / static_cast<hr::index_t>(x.size());
    y.resize(static_cast<std::size_t>(rows * out));
    hr::linear_forward<double>(be, as(x, rows), as(w, out), line(b), as(y, rows));
  }
  template <class Rule>
  hr::relevance_terms run(const Rule& rule, values& relevance) {
    const hr::index_t out = static_cast<hr::index_t>(y.size()) / rows;
    return hr::linear_relevance<double>(be, as(x, rows), as(w, out), line(b), as(y, rows), rule, as(relevance, rows),
                                        as(in, rows), memory);
  }
};

}  // namespace

TEST_SUITE("lrp") {
  TEST_CASE("worked values: linear") {
    linear_case c(1, {2, -1}, {1, 3, -2, .5}, {.2, -.4});
    values r{1, .5};
    c.run(hr::alpha_beta_rule{}, r);
    CHECK(c.in[0] == doctest::Approx(.7142829).epsilon(1e-7));
    CHECK(c.in[1] == doctest::Approx(.53571249).epsilon(1e-7));
    c.run(hr::epsilon_rule{}, r);
    CHECK(c.in[0] == doctest::Approx(-2.19639663).epsilon(1e-8));
    CHECK(c.in[1] == doctest::Approx(3.69638311).epsilon(1e-8));
    r = {1, -.5};
    const auto t = c.run(hr::alpha_beta_rule{}, r);
    const double f = 1.5 / (size_of(c.in) + 1e-5);
    CHECK(f * c.in[0] == doctest::Approx(.5714198).epsilon(1e-7));
    CHECK(f * c.in[1] == doctest::Approx(.9285602).epsilon(1e-7));
    CHECK(std::abs(.5 - total(c.in) - lost(t)) < 1e-14);
  }

  TEST_CASE("linear: an explicit contribution matrix, and the balance") {
    struct geometry {
      hr::index_t rows, in, out;
      double shift;  // .5: all contributions positive, so that one sign outweighs the other
    };
    for (const auto& [rows, in, out, shift] : {geometry{6, 21, 9, 0}, {43, 70, 45, 0}, {3, 40, 33, .5}, {2, 5, 1, .4}})
      for (const auto bias : {hr::bias_mode::spread, hr::bias_mode::absorbed})
        for (hr::relevance_rule rule : all_rules) {
          rule.bias = bias;
          const auto count = [](hr::index_t n) { return static_cast<std::size_t>(n); };
          values x = random(count(rows * in), 1), w = random(count(out * in), 2);
          for (double& v : x) v += 2 * shift;
          for (double& v : w) v += 2 * shift;
          linear_case c(rows, x, w, random(count(out), 3, shift > 0 ? .1 : 2));
          values relevance = random(count(rows * out), 4);
          std::fill_n(relevance.begin(), out, 0.0);  // a row that nothing reaches
          const auto t = hr::detail::with_policy(rule, [&](const auto& p) {
            if constexpr (std::is_same_v<std::decay_t<decltype(p)>, hr::identity_rule>)
              return hr::relevance_terms{};
            else
              return c.run(p, relevance);
          });
          for (hr::index_t r = 0; r < rows; ++r) {
            std::vector<oracle::reals> z;
            for (hr::index_t o = 0; o < out; ++o) {
              auto& row = z.emplace_back();
              for (hr::index_t i = 0; i < in; ++i)
                row.push_back(static_cast<long double>(as(c.w, out)(o, i)) * as(c.x, rows)(r, i) +
                              (bias == hr::bias_mode::spread ? line(c.b)(o) / static_cast<long double>(in) : 0));
              if (bias == hr::bias_mode::absorbed) row.push_back(line(c.b)(o));
            }
            const values one(c.in.begin() + r * in, c.in.begin() + (r + 1) * in);
            const values from(relevance.begin() + r * out, relevance.begin() + (r + 1) * out);
            CHECK(worst(one, oracle::contract(z, real(from), rule)) < 1e-12 * (1 + size_of(c.in)));
          }
          CHECK(std::abs(total(relevance) - total(c.in) - lost(t)) < 1e-13 * (size_of(relevance) + size_of(c.in)));
          if (out > 1)
            CHECK((t.bias != 0) == (bias == hr::bias_mode::absorbed));  // of z_plus, where a bias is positive
        }
  }

  TEST_CASE("worked values: add") {
    hr::cpu be;
    hr::relevance_workspace<double> memory;
    values a{1, -2, .5}, b{3, 1, -.5}, r{1, 1, 1}, ra(3), rb(3);
    const auto t = hr::add_relevance<double>(be, as(a, 1), as(b, 1), hr::alpha_beta_rule{}, as(r, 1), as(ra, 1),
                                             as(rb, 1), memory);
    const double f = 3 / (size_of(ra) + size_of(rb) + 1e-5);
    const double expected[] = {.15000075, .6000015, .5999925, .45000225, .5999985, .5999925};
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(f * ra[i] == doctest::Approx(expected[i]).epsilon(1e-7));
      CHECK(f * rb[i] == doctest::Approx(expected[3 + i]).epsilon(1e-7));
    }
    CHECK(std::abs(3 - total(ra) - total(rb) - lost(t)) < 1e-15);
    hr::add_relevance<double>(be, as(a, 1), as(b, 1), hr::epsilon_rule{}, as(r, 1), as(ra, 1), as(rb, 1), memory);
    CHECK(ra[1] == doctest::Approx(-2 / (-1 - 1e-5)));
    CHECK(ra[2] == doctest::Approx(.5 / 1e-5));  // the sum is 0: its sign counts as 1
  }

  TEST_CASE("layer_norm: worked values, and its true Jacobian") {
    hr::cpu be{{.threads = 2}};
    hr::relevance_workspace<double> memory;
    const auto run = [&](values& x, values& scale, values& shift, const hr::relevance_rule& rule, values& r,
                         values& in) {
      values y(x.size()), mean(1), inverse(1);
      hr::layer_norm_forward<double>(be, as(x, 1), line(scale), line(shift), 1e-6, as(y, 1), line(mean), line(inverse));
      return hr::detail::with_policy(rule, [&](const auto& p) {
        return hr::layer_norm_relevance<double>(be, as(x, 1), line(scale), line(shift), line(mean), line(inverse), p,
                                                as(r, 1), as(in, 1), memory);
      });
    };
    values x{1, 2, 4}, scale{1, 2, .5}, shift{.1, 0, -.1}, r{1, 1, 1}, in(3);
    run(x, scale, shift, hr::relevance_rule::alpha_beta(), r, in);
    const double f = 3 / (size_of(in) + 1e-5), expected[] = {.45452892, 1.50000608, 1.045455};
    for (std::size_t i = 0; i < 3; ++i) CHECK(f * in[i] == doctest::Approx(expected[i]).epsilon(1e-7));

    for (const std::size_t n : {1u, 7u, 16u, 21u, 75u})
      for (const auto bias : {hr::bias_mode::spread, hr::bias_mode::absorbed})
        for (hr::relevance_rule rule : all_rules) {
          rule.bias = bias;
          const bool spread = bias == hr::bias_mode::spread;
          x = random(n, 5);
          scale = random(n, 6);
          shift = random(n, 7);
          r = random(n, 8);
          // outputs of one sign, of almost one, of a scale of 0, and without relevance
          for (std::size_t o = 0; o < n; o += 4) scale[o] *= o % 8 == 0 ? .01 : .3;
          if (n > 3) scale[3] = r[1] = 0;
          in.assign(n, 0);
          const auto t = run(x, scale, shift, rule, r, in);
          const auto norm = [&](const oracle::reals& at) {
            oracle::real mean = 0, square = 0;
            for (const auto v : at) mean += v / static_cast<oracle::real>(n);
            for (const auto v : at) square += (v - mean) * (v - mean) / static_cast<oracle::real>(n);
            oracle::reals y;
            for (std::size_t i = 0; i < n; ++i)
              y.push_back((at[i] - mean) / std::sqrt(square + 1e-6L) * scale[i] + shift[i]);
            return y;
          };
          auto z = oracle::contributions(norm, real(x), spread ? real(shift) : oracle::reals(n));
          if (!spread)
            for (std::size_t o = 0; o < n; ++o) z[o].push_back(shift[o]);
          CHECK(worst(in, oracle::contract(z, real(r), rule)) < 1e-9 * (1 + size_of(in)));
          CHECK(std::abs(total(r) - total(in) - lost(t)) < 1e-12 * (size_of(r) + size_of(in)));
        }
  }

  TEST_CASE("attention: worked values, explicit Jacobians, grouped heads, causal, masked rows") {
    hr::cpu be{{.threads = 2}};
    struct geometry {
      hr::index_t heads, groups, size, queries, keys;
      bool causal, masked;
    };
    const geometry cases[] = {{1, 1, 2, 2, 2, false, false},
                              {2, 1, 3, 4, 4, true, false},
                              {4, 2, 2, 3, 5, false, true},
                              {2, 2, 4, 3, 5, true, true},
                              {2, 2, 5, 1, 1, false, false}};
    for (const geometry& g : cases)
      for (const bool joint : {true, false})
        for (hr::relevance_rule rule :
             {all_rules[0], all_rules[1], all_rules[2], all_rules[3], hr::relevance_rule::attn(1e-3)}) {
          const auto count = [](hr::index_t n) { return static_cast<std::size_t>(n); };
          values q = random(count(g.queries * g.heads * g.size), 1), k = random(count(g.keys * g.groups * g.size), 2),
                 v = random(k.size(), 3), mask(count(g.queries * g.keys), 1.0), y(q.size()), r = random(q.size(), 4);
          if (g.heads == 1) {
            q = {1, 0, 0, 1};
            k = {1, 1, 0, 2};
            v = {1, 2, 3, -1};
            r = q;
          }
          if (g.masked && !g.causal) {
            for (hr::index_t j = 0; j < g.keys; ++j) mask[count(g.keys + j)] = 0;  // query 1 sees nothing
            mask[2] = 0;
          }
          oracle::reals extra;
          values bias;
          if (g.masked && !g.causal) {
            mask[3] = .95;  // takes half a point off the score
            bias = random(count(g.keys * g.keys), 9);
            for (std::size_t i = 0; i < mask.size(); ++i)
              extra.push_back(bias[i] - (mask[i] > 0 ? 10 * (1 - mask[i]) : 0));
          }
          values whole_mask(count(g.keys * g.keys), 1.0);
          std::copy(mask.begin(), mask.end(), whole_mask.begin());
          values rq(q.size()), rk(k.size()), rv(v.size()), p(count(g.heads * g.queries * g.keys));
          const std::vector<hr::sequence> queries{{0, g.queries}}, keys{{0, g.keys}};
          hr::attention_inputs<double> in;
          in.shape = {g.heads, g.groups, g.size};
          in.options.causal = g.causal;
          in.queries = queries;
          in.keys = keys;
          in.q = as(q, g.queries);
          in.k = as(k, g.keys);
          in.v = as(v, g.keys);
          if (g.masked) in.mask = hr::tensor_view<const double, 2>(whole_mask.data(), {g.keys, g.keys});
          in.options.mask_penalty = 10;
          if (!bias.empty()) in.bias = hr::tensor_view<const double, 3>(bias.data(), {1, g.keys, g.keys});
          hr::attention_workspace<double> workspace;
          hr::relevance_workspace<double> memory;
          hr::attention_forward<double>(be, in, as(y, g.queries), p.data(), {}, workspace);
          const auto t = hr::detail::with_policy(rule, [&](const auto& policy) {
            return hr::attention_relevance<double>(
                be, in, p.data(), as(y, g.queries), policy,
                joint ? hr::attention_mode::joint : hr::attention_mode::constant, as(r, g.queries),
                {as(rq, g.queries), as(rk, g.keys), as(rv, g.keys)}, memory, workspace);
          });
          const oracle::attention_case naive{count(g.heads), count(g.groups), count(g.size), count(g.queries),
                                             count(g.keys),  g.causal,        real(mask),    extra};
          oracle::reals x = real(q);
          x.insert(x.end(), k.begin(), k.end());
          x.insert(x.end(), v.begin(), v.end());
          oracle::reals expected;
          if (rule.kind == hr::rule_kind::attn && joint) {
            expected = naive.attn(x, real(r), rule.epsilon);
          } else {
            auto z =
                oracle::contributions([&](const oracle::reals& at) { return naive(at); }, x, oracle::reals(q.size()));
            if (!joint)
              for (auto& row : z) std::fill_n(row.begin(), q.size() + k.size(), 0.0L);
            expected = oracle::contract(z, real(r), rule);
          }
          CAPTURE(static_cast<int>(rule.kind));
          CAPTURE(joint);
          CAPTURE(g.size);
          const double size = size_of(rq) + size_of(rk) + size_of(rv) + size_of(r);
          CHECK(worst(rv, expected, q.size() + k.size()) < 1e-10 * size);
          if (joint) {
            CHECK(worst(rq, expected) < 1e-10 * size);
            CHECK(worst(rk, expected, q.size()) < 1e-10 * size);
          }
          const double handed = total(rv) + (joint ? total(rq) + total(rk) : 0);
          CHECK(std::abs(total(r) - handed - lost(t)) < 1e-13 * size);
          CHECK((t.bias != 0) == (!bias.empty() && joint && rule.kind == hr::rule_kind::attn));
          if (g.heads == 1 && rule.kind == hr::rule_kind::alpha_beta && rule.alpha == .5) {
            const double f = 2 / (size_of(rv) + (joint ? size_of(rq) + size_of(rk) : 0) + 1e-5);
            const double of_v[2][4] = {{.26890311, .66666015, .39776312, .66666029},
                                       {.20167704, .29232965, .29832191, .16120569}};
            for (std::size_t i = 0; i < 4; ++i)
              CHECK(f * rv[i] == doctest::Approx(of_v[joint ? 1 : 0][i]).epsilon(1e-7));
            if (joint) {
              CHECK(f * rq[0] == doctest::Approx(.24999698).epsilon(1e-7));
              CHECK(f * rq[3] == doctest::Approx(.11293129).epsilon(1e-7));
              CHECK(f * rk[1] == doctest::Approx(.20766788).epsilon(1e-7));
              CHECK(f * rk[3] == doctest::Approx(.22586257).epsilon(1e-7));
            }
          }
        }
  }

  TEST_CASE("softmax: attn, with its nonlinear term") {
    hr::cpu be;
    hr::relevance_workspace<double> memory;
    values x = random(12, 1, 4), y(12), r = random(12, 2), in(12);
    hr::softmax_forward<double>(be, as(x, 3), as(y, 3));
    const auto t = hr::softmax_relevance<double>(be, as(x, 3), as(y, 3), as(r, 3), as(in, 3), memory);
    CHECK(in[0] == doctest::Approx(x[0] * (r[0] - y[0] * (r[0] + r[1] + r[2] + r[3]))));
    CHECK(t.nonlinear != 0);
    CHECK(std::abs(total(r) - total(in) - t.nonlinear) < 1e-14);
  }

  TEST_CASE("nothing and next to nothing: no NaN, and the balance") {
    for (const double z : {0.0, 1e-30, -1e-30, 1e30})
      for (const auto& rule : all_rules) {
        linear_case c(2, values(6, z), values(6, 1.0), values(2, 0.0));
        values r{1, -1, .5, 2};
        const auto t = hr::detail::with_policy(rule, [&](const auto& p) {
          if constexpr (std::is_same_v<std::decay_t<decltype(p)>, hr::identity_rule>)
            return hr::relevance_terms{};
          else
            return c.run(p, r);
        });
        for (const double v : c.in) CHECK(std::isfinite(v));
        CHECK(std::abs(total(r) - total(c.in) - lost(t)) < 1e-12);
      }
  }

  TEST_CASE("what cannot be") {
    CHECK_THROWS_WITH_AS(
        hr::relevance_rule::alpha_beta(2, 1),
        "relevance_rule: alpha is 2 and beta 1, expected alpha + beta = 1; a rule (a,b) with a - b = 1 "
        "is (a,-b) here",
        hr::argument_error);
    CHECK_THROWS_WITH_AS(hr::relevance_rule::of_epsilon(0), "relevance_rule: epsilon is 0, expected [1e-30,1]",
                         hr::argument_error);
    CHECK_THROWS_AS(hr::relevance_rule::alpha_beta(NAN, .5), hr::argument_error);
    linear_case c(1, {2, -1}, {1, 3, -2, .5}, {.2, -.4});
    values r{1, .5};
    CHECK_THROWS_WITH_AS(c.run(hr::identity_rule{}, r), "linear: cannot follow the rule identity", hr::argument_error);
    values wrong{1, 2, 3};
    CHECK_THROWS_WITH_AS(c.run(hr::epsilon_rule{}, wrong), "linear_relevance: relevance_out is (1,3), expected (1,2)",
                         hr::shape_error);
    CHECK_THROWS_WITH_AS(hr::relevance_rules<double>{hr::relevance_rule::identity()},
                         "relevance_rules: identity for all ops, expected a rule that linear can follow",
                         hr::argument_error);
  }
}
