// Relevance through gates: of columns and layers against explicit contributions, of whole models against pruned ones.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <headred/nn/start_relevance.hpp>
#include <headred/prune/gated_plan.hpp>

#include "nn/training_support.hpp"
#include "oracle/lrp.hpp"

using namespace training_test;

namespace {

/// A NaN is greater than all.
template <class T>
T greater_of(T a, T b) {
  return std::isnan(a) || b <= a ? a : b;
}

using values = std::vector<double>;
using tape_type = hr::tape<double, hr::cpu>;
using gates_type = hr::model_gates<double, hr::cpu>;

values random(std::size_t n, std::uint64_t seed) {
  values v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = 2 * hr::random_stream(seed).uniform(i) - 1;
  return v;
}
hr::tensor_view<double, 2> as(values& v, hr::index_t rows) {
  return {v.data(), {rows, static_cast<hr::index_t>(v.size()) / rows}};
}
double total(const values& v) {
  double sum = 0;
  for (const double x : v) sum += x;
  return sum;
}

std::vector<hr::relevance_rule> rules(hr::bias_mode bias) {
  auto constant = hr::relevance_rule::alpha_beta();
  constant.attention = hr::attention_mode::constant;
  auto plain = hr::relevance_rule::alpha_beta(2, -1);
  plain.rescale = false;
  std::vector<hr::relevance_rule> all{hr::relevance_rule::alpha_beta(),
                                      constant,
                                      plain,
                                      hr::relevance_rule::z_plus(),
                                      hr::relevance_rule::of_epsilon(1e-2),
                                      hr::relevance_rule::attn(1e-2)};
  for (auto& rule : all) rule.bias = bias;
  return all;
}

/// A model whose gates are partly closed, its batch, and a recording under these gates.
struct gated_model {
  hr::cpu be;
  hr::transformer_config config;
  hr::transformer<double, hr::cpu> model;
  gates_type gates;
  hr::token_batch source, target;
  std::vector<hr::relevance_start> starts;

  gated_model(hr::architecture kind, bool pre_norm, int threads = 1)
      : be{{.threads = threads}},
        config(small_config(kind, pre_norm)),
        model(seeded_model<double>(be, config, 3)),
        gates(be, config, {stacks(), stacks()}) {
    for (const auto& s : small_corpus(3, config.source.vocabulary, 5)) source.add(s);
    if (config.has_cross())
      for (const auto& s : small_corpus(3, config.target.vocabulary, 6)) target.add(s);
    for (const hr::sequence& s : (config.has_cross() ? target : source).sentences)
      starts.push_back({s.begin + s.length - 1});
  }
  std::vector<hr::model_stack> stacks() const {
    std::vector<hr::model_stack> all;
    for (const auto stack : {hr::model_stack::encoder, hr::model_stack::decoder})
      if (hr::find_stack(config, stack) != nullptr) all.push_back(stack);
    return all;
  }
  /// Of each block's heads every second is closed, of its neurons every third; the others get `open`.
  void close(double open, double layer) {
    for (const auto kind : hr::attention_kinds(config))
      for (hr::index_t l = 0; l < 2; ++l) {
        auto& g = gates.of(kind, l).value;
        for (hr::index_t h = 0; h < g.size(); ++h) g.data()[h] = h % 2 == l ? 0 : open;
      }
    for (const auto stack : stacks()) {
      for (hr::index_t l = 0; l < 2; ++l) {
        auto& g = gates.neurons(stack, l).value;
        for (hr::index_t n = 0; n < g.size(); ++n) g.data()[n] = n % 3 == l ? 0 : open;
      }
      gates.layers(stack).value.data()[1] = layer;
    }
  }
  /// Without these, inputs that are closed have no share of a bias.
  void clear_biases_behind_gates() {
    hr::visit_parameters(model.weights(), [](std::string_view name, auto& p) {
      if (name.ends_with("output.bias") || name.ends_with("contract.bias"))
        std::fill_n(p.value.data(), p.value.size(), 0.);
    });
  }
};

struct recording {
  tape_type t;
  std::vector<hr::attention_record<double>> trace;
  hr::slot logits;

  template <class Model>
  recording(gated_model& of, Model& model, gates_type* gates) : t(of.be) {
    hr::forward_options<double, hr::cpu> o;
    o.trace = &trace;
    o.gates = gates;
    logits = model.logits(t, model.hidden(t, of.source, of.target, o));
  }
  hr::relevance_ledger sweep(const hr::relevance_rule& rule, const std::vector<hr::relevance_start>& starts) {
    hr::relevance_ledger ledger;
    hr::start_relevance<double>(t, logits, starts);
    t.sweep(rule, &ledger);
    return ledger;
  }
};

double worst(hr::tensor_view<const double, 2> a, hr::index_t from_a, hr::tensor_view<const double, 2> b,
             hr::index_t from_b, hr::index_t cols) {
  double d = a.extent(0) == b.extent(0) ? 0 : 1;
  for (hr::index_t r = 0; d < 1 && r < a.extent(0); ++r)
    for (hr::index_t c = 0; c < cols; ++c) {
      const double e = std::abs(a(r, from_a + c) - b(r, from_b + c));
      if (!(e <= d)) d = e;
    }
  return d;
}

/// Relevance at the embedded source, and at the outputs of all heads that are open.
double worst_difference(gated_model& of, recording& gated, recording& pruned) {
  double d = worst(gated.t.relevance({0}), 0, pruned.t.relevance({0}), 0, gated.t.cols({0}));
  auto left = pruned.trace.begin();
  for (const auto& record : gated.trace) {
    const auto stack = hr::stack_of(record.kind);
    if (of.gates.layers(stack).value(record.layer) == 0) continue;
    const auto& own = of.gates.of(record.kind, record.layer).value;
    const hr::index_t size = record.shape.head_size;
    hr::index_t place = 0;
    for (hr::index_t h = 0; h < own.size(); ++h) {
      const auto here = gated.t.relevance(record.context);
      if (own(h) != 0) {
        d = greater_of(d, worst(here, h * size, pruned.t.relevance(left->context), place++ * size, size));
      } else {
        for (hr::index_t r = 0; r < here.extent(0); ++r)
          for (hr::index_t c = h * size; c < (h + 1) * size; ++c) d = greater_of(d, std::abs(here(r, c)));
      }
    }
    ++left;
  }
  return left == pruned.trace.end() ? d : 1;
}

}  // namespace

TEST_SUITE("lrp") {
  TEST_CASE("gates of columns: a diagonal map, whatever the gates' size, and nothing where they are 0") {
    for (const int threads : {1, 3}) {
      hr::cpu be{{.threads = threads}};
      hr::relevance_workspace<double> memory;
      for (const std::size_t width : {1u, 5u}) {
        values gates = random(40, 1);
        for (std::size_t g = 0; g < gates.size(); g += 3) gates[g] = 0;
        gates[7] = 30;
        constexpr std::size_t rows = 70;
        const std::size_t cols = gates.size() * width;
        const values x = random(rows * cols, 2);
        values out = random(rows * cols, 3), in(rows * cols, 7);
        const auto t = hr::gate_columns_relevance<double>(be, hr::tensor_view<const double, 1>(gates.data(), {40}),
                                                          as(out, rows), as(in, rows), memory);
        long double apart = 0;
        double lost = 0;
        for (std::size_t i = 0; i < in.size(); ++i) {
          const double gate = gates[i % cols / width];
          const auto expected = oracle::contract({{static_cast<long double>(gate) * x[i]}}, {out[i]},
                                                 hr::relevance_rule::of_epsilon(1e-30));
          apart = greater_of(apart, std::abs(in[i] - expected[0]));
          if (gate == 0) lost += out[i];
        }
        CHECK(apart < 1e-15);
        CHECK(t.bias == 0);
        CHECK(t.nonlinear == 0);
        CHECK(std::abs(t.eps - lost) < 1e-12);
        CHECK(std::abs(total(out) - total(in) - t.eps) < 1e-11);
      }
    }
  }

  TEST_CASE("gates of layers: two contributions, (1 - gate) x and gate f") {
    hr::cpu be;
    hr::relevance_workspace<double> memory;
    constexpr std::size_t n = 63;
    values x = random(n, 1), f = random(n, 2), out = random(n, 3), to_x(n), to_f(n);
    x[4] = f[5] = x[6] = f[6] = 0;
    for (const double gate : {0., .3, .9, 1.})
      for (const auto& rule : rules(hr::bias_mode::spread)) {
        CAPTURE(gate);
        CAPTURE(static_cast<int>(rule.kind));
        const auto t = hr::detail::with_policy(rule, [&](const auto& policy) {
          return hr::gate_layer_relevance<double>(be, as(x, 3), as(f, 3), gate, policy, as(out, 3), as(to_x, 3),
                                                  as(to_f, 3), memory);
        });
        const bool whole = gate == 0 || gate == 1;
        long double apart = 0;
        for (std::size_t i = 0; i < n; ++i) {
          const oracle::reals expected = whole ? oracle::reals{gate == 0 ? out[i] : 0, gate == 1 ? out[i] : 0}
                                               : oracle::contract({{(1 - gate) * x[i], gate * f[i]}}, {out[i]}, rule);
          apart = greater_of(greater_of(apart, std::abs(to_x[i] - expected[0])), std::abs(to_f[i] - expected[1]));
        }
        CHECK(apart < (whole ? 1e-300 : 1e-12));
        CHECK(std::abs(total(out) - total(to_x) - total(to_f) - t.eps - t.bias - t.nonlinear) < 1e-12);
        CHECK((t.eps == 0) == whole);
      }
  }

  TEST_CASE("gates of heads, neurons and layers: every op balances, and rules that rescale keep sum|R|") {
    using hr::architecture;
    for (const auto kind : {architecture::encoder, architecture::encoder_decoder, architecture::decoder})
      for (const bool pre_norm : {true, false}) {
        CAPTURE(static_cast<int>(kind));
        gated_model of(kind, pre_norm, 2);
        of.close(.7, .4);
        recording gated(of, of.model, &of.gates);
        for (const auto bias : {hr::bias_mode::spread, hr::bias_mode::absorbed})
          for (const auto& rule : rules(bias)) {
            CAPTURE(static_cast<int>(rule.kind));
            const auto ledger = gated.sweep(rule, of.starts);
            CHECK(ledger.worst_residual() < 1e-12);
            int entries = 0, shares = 0;
            for (const auto& e : ledger.entries) {
              if (e.op != hr::relevance_op::gate) continue;
              ++entries;
              // what reaches a closed gate is its share of a bias
              shares += e.lost.eps != 0 ? 1 : 0;
              CHECK(e.lost.bias == 0);
              if (rule.rescale) CHECK(std::abs(e.absolute_in - e.absolute_out) <= 1e-13 * e.absolute_out);
              if (!rule.rescale) CHECK(e.rescale == 0);
              if (bias == hr::bias_mode::absorbed) CHECK(e.absolute_in == e.absolute_out);
            }
            CHECK(entries == (kind == architecture::encoder_decoder ? 12 : 5));
            CHECK((shares > 0) == (bias == hr::bias_mode::spread));
          }
      }
  }

  TEST_CASE("relevance of the gated model is that of the pruned one, by every rule") {
    using hr::architecture;
    for (const auto kind : {architecture::encoder, architecture::encoder_decoder, architecture::decoder})
      for (const bool pre_norm : {true, false})
        for (const double open : {1., .7})
          for (const double layer : {1., 0.})
            for (const auto bias : {hr::bias_mode::spread, hr::bias_mode::absorbed}) {
              CAPTURE(static_cast<int>(kind));
              CAPTURE(pre_norm);
              CAPTURE(open);
              CAPTURE(layer);
              gated_model of(kind, pre_norm);
              of.close(open, layer);
              if (bias == hr::bias_mode::spread) of.clear_biases_behind_gates();
              const auto plan = hr::gated_plan(of.be, of.config, of.gates);
              auto small = hr::apply(plan, of.model, {}, &of.gates);
              recording gated(of, of.model, &of.gates), pruned(of, small, nullptr);
              for (const auto& rule : rules(bias)) {
                CAPTURE(static_cast<int>(rule.kind));
                CHECK(gated.sweep(rule, of.starts).worst_residual() < 1e-12);
                CHECK(pruned.sweep(rule, of.starts).worst_residual() < 1e-12);
                double size = 0;
                const auto at_source = pruned.t.relevance({0});
                for (hr::index_t i = 0; i < at_source.size(); ++i) size += std::abs(at_source.data()[i]);
                CHECK(size > 0);
                CHECK(worst_difference(of, gated, pruned) < 1e-11 * (1 + size));
              }
            }
  }

  TEST_CASE("gates that are all open change nothing, and a batch is its sentences") {
    gated_model of(hr::architecture::encoder_decoder, true);
    recording bare(of, of.model, nullptr), open(of, of.model, &of.gates);
    for (const auto& rule : rules(hr::bias_mode::spread)) {
      bare.sweep(rule, of.starts);
      open.sweep(rule, of.starts);
      const auto a = bare.t.relevance({0}), b = open.t.relevance({0});
      CHECK(std::equal(a.data(), a.data() + a.size(), b.data()));
    }
    // of two samples, one of which loses all that it has: no NaN, and the other keeps its bits
    tape_type t(of.be);
    hr::parameter<double, 1, hr::cpu> gates(of.be, {3});
    gates.value.data()[2] = .5;
    const hr::slot x = t.add(4, 3);
    const std::vector<hr::sequence> samples{{0, 2}, {2, 2}};
    t.set_samples(x, samples);
    std::fill_n(t.value(x).data(), 12, 1.);
    const hr::slot y = gate_columns(t, x, gates);
    t.relevance(y)(0, 0) = 3;
    t.relevance(y)(2, 2) = t.relevance(y)(3, 2) = .1;
    hr::relevance_ledger ledger;
    t.sweep(hr::relevance_rule::alpha_beta(), &ledger);
    CHECK(t.relevance(x)(0, 0) == 0);
    CHECK(t.relevance(x)(2, 2) == .1);
    CHECK(ledger.entries[0].lost.eps == 3);
    CHECK(ledger.entries[0].rescale == 0);
  }

  TEST_CASE("gates: errors") {
    hr::cpu be;
    hr::relevance_workspace<double> memory;
    values r(6), to(6);
    CHECK_THROWS_WITH_AS(hr::gate_columns_relevance<double>(be, hr::tensor_view<const double, 1>(r.data(), {4}),
                                                            as(r, 1), as(to, 1), memory),
                         "gate_columns_relevance: 4 gates for 6 columns, expected a divisor", hr::shape_error);
    CHECK_THROWS_AS(hr::gate_layer_relevance<double>(be, as(r, 1), as(r, 1), .5, hr::identity_rule{}, as(r, 1),
                                                     as(to, 1), as(to, 1), memory),
                    hr::argument_error);
    CHECK_THROWS_AS(hr::gate_layer_relevance<double>(be, as(r, 1), as(r, 2), .5, hr::z_plus_rule{}, as(r, 1), as(to, 1),
                                                     as(to, 1), memory),
                    hr::shape_error);
  }
}
