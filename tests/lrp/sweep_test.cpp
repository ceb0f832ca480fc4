// Sweeps over whole models: the ledger of every op, rescaling over depth, other starts, threads, memory, errors.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <headred/nn/op/softmax_cross_entropy.hpp>
#include <headred/nn/start_relevance.hpp>

#include "nn/training_support.hpp"

using namespace training_test;

namespace {

using tape_type = hr::tape<double, hr::cpu>;

struct pass_result {
  hr::slot logits, hidden;
  std::vector<hr::attention_record<double>> trace;
};

hr::token_batch tokens(hr::index_t count, hr::index_t vocabulary, std::uint64_t seed) {
  hr::token_batch batch;
  for (const auto& sentence : small_corpus(count, vocabulary, seed)) batch.add(sentence);
  return batch;
}

template <class Model>
pass_result forward(Model& model, tape_type& t, const hr::token_batch& source, const hr::token_batch& target,
                    hr::forward_options<double, hr::cpu> o = {}) {
  pass_result r;
  o.trace = &r.trace;
  t.clear(hr::tape_mode::recording);
  r.hidden = model.hidden(t, source, target, o);
  r.logits = model.logits(t, r.hidden);
  return r;
}

/// One start at the last position of each sentence.
std::vector<hr::relevance_start> last_of(const hr::token_batch& batch) {
  std::vector<hr::relevance_start> starts;
  for (const hr::sequence& s : batch.sentences) starts.push_back({s.begin + s.length - 1});
  return starts;
}

double size_of(hr::tensor_view<const double, 2> m) {
  double sum = 0;
  for (hr::index_t r = 0; r < m.extent(0); ++r)
    for (hr::index_t c = 0; c < m.extent(1); ++c) sum += std::abs(m(r, c));
  return sum;
}

std::vector<hr::relevance_rule> rules() {
  auto constant = hr::relevance_rule::alpha_beta();
  constant.attention = hr::attention_mode::constant;
  auto absorbed = hr::relevance_rule::alpha_beta();
  absorbed.bias = hr::bias_mode::absorbed;
  auto plain = hr::relevance_rule::alpha_beta();
  plain.rescale = false;
  return {hr::relevance_rule::alpha_beta(),
          constant,
          absorbed,
          plain,
          hr::relevance_rule::of_epsilon(1e-2),
          hr::relevance_rule::z_plus(),
          hr::relevance_rule::attn(1e-2)};
}

}  // namespace

TEST_SUITE("lrp") {
  TEST_CASE("sweep: every op of every model balances, by every rule") {
    using hr::architecture;
    for (const auto kind : {architecture::encoder, architecture::encoder_decoder, architecture::decoder})
      for (const bool pre_norm : {true, false}) {
        const auto c = small_config(kind, pre_norm);
        hr::cpu be{{.threads = 2}};
        auto model = seeded_model<double>(be, c, 3);
        hr::model_gates<double, hr::cpu> gates(be, c);
        const auto source = tokens(3, c.source.vocabulary, 5);
        const auto target = c.has_cross() ? tokens(3, c.target.vocabulary, 6) : hr::token_batch{};
        tape_type t(be);
        hr::forward_options<double, hr::cpu> o;
        if (pre_norm) o.gates = &gates;
        const auto pass = forward(model, t, source, target, o);
        const auto starts = last_of(c.has_cross() ? target : source);
        for (const auto& rule : rules()) {
          CAPTURE(static_cast<int>(kind));
          CAPTURE(static_cast<int>(rule.kind));
          hr::relevance_ledger ledger;
          hr::start_relevance<double>(t, pass.logits, starts);
          t.sweep(rule, &ledger);
          CHECK(static_cast<int>(ledger.entries.size()) >= 10);
          CHECK(ledger.worst_residual() < 1e-12);
          CHECK(ledger.entries[0].out == 3);
          for (const auto& record : pass.trace) {
            const auto heads = t.relevance(record.context);
            CHECK(heads.extent(1) == record.shape.heads * record.shape.head_size);
            CHECK(std::isfinite(size_of(heads)));
            CHECK(size_of(heads) > 0);
          }
        }
      }
  }

  TEST_CASE("sweep: a batch of sentences is its sentences, one by one") {
    const auto c = small_config(hr::architecture::encoder_decoder, true);
    hr::cpu be{{.threads = 1}};
    auto model = seeded_model<double>(be, c, 3);
    const auto source = tokens(3, c.source.vocabulary, 5), target = tokens(3, c.target.vocabulary, 6);
    tape_type t(be), single(be);
    const auto all = forward(model, t, source, target);
    hr::start_relevance<double>(t, all.logits, last_of(target));
    t.sweep(hr::relevance_rule::alpha_beta());
    for (std::size_t b = 0; b < 3; ++b) {
      hr::token_batch s, g;
      const auto part = [b](const hr::token_batch& from, hr::token_batch& to) {
        to.add({from.ids.data() + from.sentences[b].begin, static_cast<std::size_t>(from.sentences[b].length)});
      };
      part(source, s);
      part(target, g);
      const auto one = forward(model, single, s, g);
      hr::start_relevance<double>(single, one.logits, last_of(g));
      single.sweep(hr::relevance_rule::alpha_beta());
      for (std::size_t n = 0; n < all.trace.size(); ++n) {
        const bool encoder = all.trace[n].kind == hr::attention_kind::encoder_self;
        const auto rows = (encoder ? source : target).sentences[b];
        const auto whole = t.relevance(all.trace[n].context), alone = single.relevance(one.trace[n].context);
        double worst = 0;
        for (hr::index_t r = 0; r < rows.length; ++r)
          for (hr::index_t k = 0; k < whole.extent(1); ++k)
            worst = std::max(worst, std::abs(whole(rows.begin + r, k) - alone(r, k)));
        CHECK(worst < 1e-13);
      }
    }
  }

  TEST_CASE("sweep: gradients keep their bits, and so does relevance for any number of threads") {
    const auto c = small_config(hr::architecture::encoder_decoder, false);
    std::vector<double> first, first_relevance;
    for (const int threads : {1, 2, 3}) {
      hr::cpu be{{.threads = threads}};
      auto model = seeded_model<double>(be, c, 3);
      const auto source = tokens(3, c.source.vocabulary, 5), target = tokens(3, c.target.vocabulary, 6);
      tape_type t(be);
      std::vector<double> found, relevance;
      for (const bool sweep : {false, true}) {
        const auto pass = forward(model, t, source, target);
        if (sweep) {
          hr::start_relevance<double>(t, pass.logits, last_of(target), hr::start_value::value);
          t.sweep(hr::relevance_rule::alpha_beta());
          const auto r = t.relevance(pass.trace[0].context);
          relevance.assign(r.data(), r.data() + r.size());
          CHECK(t.relevance_bytes() > 0);
        } else {
          CHECK(t.relevance_bytes() == 0);
        }
        t.gradient(pass.logits)(0, 1) = 1;
        t.backward();
        const auto g = t.gradient(pass.trace[0].context);
        const std::vector<double> now(g.data(), g.data() + g.size());
        if (found.empty()) found = now;
        CHECK(found == now);
      }
      if (first.empty()) {
        first = found;
        first_relevance = relevance;
      }
      CHECK(first == found);
      CHECK(first_relevance == relevance);
    }
  }

  TEST_CASE("24 layers: sum|R| is constant with rescaling, and its drift is reported without") {
    hr::cpu be;
    constexpr hr::index_t width = 16;
    enum class weights_of { both_signs, one_sign };
    for (const auto signs : {weights_of::both_signs, weights_of::one_sign}) {
      std::vector<hr::parameter<double, 2, hr::cpu>> weights;
      for (std::uint64_t l = 0; l < 24; ++l) {
        auto& w = weights.emplace_back(be, hr::shape_t<2>{width, width});
        for (std::uint64_t i = 0; i < width * width; ++i)
          w.value.data()[i] = signs == weights_of::one_sign ? .1 * hr::random_stream(l + 1).uniform(i)
                                                            : hr::random_stream(l + 1).uniform(i) - .45;
      }
      for (const bool mixed : {false, true})
        for (const bool rescale : {true, false}) {
          tape_type t(be);
          const hr::slot x = t.add(3, width);
          for (std::uint64_t i = 0; i < 3 * width; ++i) t.value(x).data()[i] = hr::random_stream(9).uniform(i);
          hr::slot y = x;
          for (auto& w : weights) y = relu(t, linear(t, y, w, nullptr));
          auto rule = hr::relevance_rule::alpha_beta();
          rule.rescale = rescale;
          for (hr::index_t i = 0; i < 3 * width; ++i)
            t.relevance(y).data()[i] = mixed && i % 3 == 0 ? -.7 : 1 + .01 * static_cast<double>(i);
          const double start = size_of(t.relevance(y));
          hr::relevance_ledger ledger;
          t.sweep(rule, &ledger);
          CHECK(ledger.entries.size() == 48);
          CHECK(ledger.worst_residual() < 1e-12);
          const double end = size_of(t.relevance(x));
          double rescaled = 0, lost = 0;
          for (const auto& e : ledger.entries) {
            rescaled += e.rescale;
            lost += e.lost.eps;
          }
          if (rescale) CHECK(std::abs(end - start) < 1e-4 * start);
          if (!rescale) CHECK(end < (signs == weights_of::one_sign ? 1e-6 : 1) * start);
          CHECK((rescaled != 0) == rescale);
          CHECK(lost != 0);
          // All the way: sum R at the start is what arrives and what the ops reported.
          CHECK(std::abs(ledger.entries.front().out - ledger.entries.back().in - lost - rescaled) < 1e-11 * start);
          if (!mixed) CHECK(ledger.entries.back().in == doctest::Approx(end).epsilon(1e-14));
          // shares are never negative, so that relevance of both signs mixes until one is left
          if (rescale) CHECK(std::abs(ledger.entries.back().in) == doctest::Approx(end).epsilon(1e-3));
        }
    }
  }

  TEST_CASE("sweep: other rules for some ops, one's own among them") {
    const auto c = small_config(hr::architecture::encoder, false);
    hr::cpu be;
    auto model = seeded_model<double>(be, c, 3);
    const auto source = tokens(2, c.source.vocabulary, 5);
    tape_type t(be);
    const auto pass = forward(model, t, source, {});
    hr::relevance_ledger ledger;
    hr::relevance_rules<double> mine(hr::relevance_rule::alpha_beta());
    int called = 0;
    mine.set(hr::relevance_op::layer_norm, hr::relevance_rule::identity());
    mine.set_own(hr::relevance_op::activation, [&](const hr::relevance_operands<double>& op) {
      ++called;
      double sum = 0;
      for (hr::index_t r = 0; r < op.x.extent(0); ++r)
        for (hr::index_t i = 0; i < op.x.extent(1); ++i) {
          op.relevance_in(r, i) = op.x(r, i) > 0 ? op.relevance_out(r, i) : 0;
          if (!(op.x(r, i) > 0)) sum += op.relevance_out(r, i);
        }
      return hr::relevance_terms{.nonlinear = sum};
    });
    hr::start_relevance<double>(t, pass.logits, last_of(source));
    t.sweep(mine, &ledger);
    CHECK(called == 2);
    CHECK(ledger.worst_residual() < 1e-12);
    for (const auto& e : ledger.entries)
      if (e.op == hr::relevance_op::layer_norm) CHECK(e.absolute_in == e.absolute_out);

    // One linear alone: without rescaling its entry has none.
    auto bare = hr::relevance_rule::alpha_beta();
    bare.rescale = false;
    hr::relevance_rules<double> some(hr::relevance_rule::alpha_beta());
    some.set_for(model.output_table(), bare);
    hr::start_relevance<double>(t, pass.logits, last_of(source));
    t.sweep(some, &ledger);
    CHECK(ledger.entries[0].op == hr::relevance_op::linear);
    CHECK(ledger.entries[0].output == pass.logits.number);
    CHECK(ledger.entries[0].rescale == 0);
    CHECK(ledger.entries[1].rescale != 0);
  }

  TEST_CASE("sweep and start: errors, steady memory") {
    const auto c = small_config(hr::architecture::encoder, true);
    hr::cpu be;
    auto model = seeded_model<double>(be, c, 3);
    const auto source = tokens(2, c.source.vocabulary, 5);
    tape_type t(be);
    const auto pass = forward(model, t, source, {});
    const auto start = [&](hr::index_t row, hr::index_t column) {
      const hr::relevance_start s[] = {{row, column}};
      hr::start_relevance<double>(t, pass.logits, s);
    };
    CHECK_THROWS_AS(start(-1, 0), hr::argument_error);
    CHECK_THROWS_AS(start(0, c.source.vocabulary), hr::argument_error);
    start(0, 2);
    CHECK(t.relevance(pass.logits)(0, 2) == 1);
    t.sweep(hr::relevance_rule::alpha_beta());
    start(0, 2);
    t.sweep(hr::relevance_rule::alpha_beta());
    const std::size_t held = t.relevance_bytes();
    start(1, -1);
    t.sweep(hr::relevance_rule::alpha_beta());
    CHECK(t.relevance_bytes() == held);

    const std::vector<hr::token_id> targets(static_cast<std::size_t>(t.rows(pass.logits)), 1);
    const auto loss = hr::softmax_cross_entropy(t, pass.logits, targets, 0, 1.);
    t.relevance(loss.total);
    CHECK_THROWS_WITH_AS(t.sweep(hr::relevance_rule::alpha_beta()),
                         "sweep: softmax_cross_entropy has no relevance, expected a start at the logits",
                         hr::argument_error);
    t.clear(hr::tape_mode::inference);
    CHECK_THROWS_WITH_AS(t.sweep(hr::relevance_rule::alpha_beta()),
                         "tape: sweep on a tape in inference mode, expected tape_mode::recording", hr::argument_error);
  }

  TEST_CASE("sweep: a layer without heads") {
    auto c = small_config(hr::architecture::encoder, true);
    c.encoder.layers[0].self = {0, 0, 4, {}};
    hr::cpu be;
    auto model = seeded_model<double>(be, c, 3);
    const auto source = tokens(2, c.source.vocabulary, 5);
    tape_type t(be);
    const auto pass = forward(model, t, source, {});
    for (const auto& rule : rules()) {
      CAPTURE(static_cast<int>(rule.kind));
      hr::relevance_ledger ledger;
      hr::start_relevance<double>(t, pass.logits, last_of(source));
      t.sweep(rule, &ledger);
      CHECK(ledger.worst_residual() < 1e-12);
      CHECK(size_of(t.relevance(pass.trace[1].context)) > 0);
    }
  }

  TEST_CASE("sweep: queries, keys and values as columns of one activation") {
    hr::cpu be;
    constexpr hr::index_t tokens = 5, width = 4;
    const std::vector<hr::sequence> all{{0, 2}, {2, 3}};
    for (const auto& rule : rules()) {
      CAPTURE(static_cast<int>(rule.kind));
      std::vector<double> found[2];
      for (const bool fused : {false, true}) {
        tape_type t(be);
        hr::slot parts[3];
        const hr::slot whole = t.add(tokens, fused ? 3 * width : 0);
        if (fused) t.set_samples(whole, all);
        for (hr::index_t n = 0; n < 3; ++n) {
          if (!fused) parts[n] = t.add(tokens, width);
          if (!fused) t.set_samples(parts[n], all);
          for (hr::index_t r = 0; r < tokens; ++r)
            for (hr::index_t k = 0; k < width; ++k) {
              const double value =
                  hr::random_stream(4).uniform(static_cast<std::uint64_t>((n * tokens + r) * width + k)) - .5;
              if (fused)
                t.value(whole)(r, n * width + k) = value;
              else
                t.value(parts[n])(r, k) = value;
            }
        }
        hr::attention_call<double, hr::cpu> call;
        call.shape = {2, 2, 2};
        call.queries = call.keys = all;
        call.q = fused ? hr::slot_columns(whole, 0) : hr::slot_columns(parts[0]);
        call.k = fused ? hr::slot_columns(whole, width) : hr::slot_columns(parts[1]);
        call.v = fused ? hr::slot_columns(whole, 2 * width) : hr::slot_columns(parts[2]);
        const hr::slot y = attention(t, call);
        for (hr::index_t i = 0; i < tokens * width; ++i) t.relevance(y).data()[i] = 1 - .1 * static_cast<double>(i);
        hr::relevance_ledger ledger;
        t.sweep(rule, &ledger);
        CHECK(ledger.worst_residual() < 1e-12);
        const bool constant = rule.attention == hr::attention_mode::constant;
        for (hr::index_t n = constant ? 2 : 0; n < 3; ++n)
          for (hr::index_t r = 0; r < tokens; ++r)
            for (hr::index_t k = 0; k < width; ++k)
              found[fused].push_back(fused ? t.relevance(whole)(r, n * width + k) : t.relevance(parts[n])(r, k));
      }
      CHECK(found[0] == found[1]);
    }
  }

  TEST_CASE("sweep: memory grows with the activations, not with their square") {
    hr::cpu be{{.threads = 1}};
    constexpr hr::index_t heads = 2, size = 16, width = heads * size;
    for (const auto& rule : rules()) {
      CAPTURE(static_cast<int>(rule.kind));
      double held[2] = {};
      for (const hr::index_t n : {128, 256}) {
        tape_type t(be);
        const std::vector<hr::sequence> all{{0, n}};
        hr::parameter<double, 2, hr::cpu> weight(be, {width, width});
        std::fill_n(weight.value.data(), weight.value.size(), .1);
        const hr::slot x = t.add(n, width);
        t.set_samples(x, all);
        for (hr::index_t i = 0; i < n * width; ++i)
          t.value(x).data()[i] = hr::random_stream(4).uniform(static_cast<std::uint64_t>(i)) - .5;
        hr::attention_call<double, hr::cpu> call;
        call.shape = {heads, heads, size};
        call.queries = call.keys = all;
        call.q = call.k = hr::slot_columns(linear(t, x, weight, nullptr));
        call.v = hr::slot_columns(x);
        const hr::slot y = attention(t, call);
        for (hr::index_t i = 0; i < n * width; ++i) t.relevance(y).data()[i] = 1;
        const std::size_t before = t.workspace().bytes();
        t.sweep(rule);
        held[n / 256] = static_cast<double>(t.relevance_bytes() + t.workspace().bytes() - before);
        // The tape takes memory by the megabyte; what an op hands on and its scratch memory come on top.
        CHECK(held[n / 256] < 1048576 + 16 * 8. * static_cast<double>(n * width));
      }
      // Eight of the size of an activation: rows of keys twice as long are their square nowhere.
      CHECK(held[1] - held[0] < 8 * 8. * static_cast<double>(128 * width));
    }
  }
}
