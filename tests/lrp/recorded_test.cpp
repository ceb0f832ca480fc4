// Relevance of a small encoder as LXT and Zennit find it (tests/oracle/record_relevance.py); values in f32.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/io/safetensors_file.hpp>
#include <headred/nn/start_relevance.hpp>
#include <headred/nn/transformer.hpp>

namespace hr = headred;

namespace {

template <class T>
struct recorded_encoder {
  hr::safetensors_file file{std::filesystem::path(__FILE__).parent_path() / "data/relevance.safetensors"};
  hr::cpu be{{.threads = 1}};
  hr::transformer<T, hr::cpu> model{be, config()};
  hr::tape<T, hr::cpu> t{be};
  std::vector<hr::attention_record<T>> trace;
  hr::slot logits;
  hr::index_t last = 0;

  static hr::transformer_config config() {
    hr::transformer_config c;
    c.width = 16;
    c.norm_epsilon = 1e-5;
    c.activation = hr::activation::relu;
    c.source = {11, 16, hr::positions::learned, 12, 0, 1, false};
    c.encoder.layers.assign(2, {{4, 4, 4, {}}, {}, 24});
    c.output = hr::output_head::projection;
    c.tied_output = false;
    return c;
  }

  recorded_encoder() {
    hr::visit_parameters(model.weights(), [&](const std::string& name, auto& p) {
      constexpr int rank = std::remove_cvref_t<decltype(p)>::view_type::rank;
      const auto from = file.load<double, rank>(be, name);
      REQUIRE(from.size() == p.value.size());
      std::transform(from.data(), from.data() + from.size(), p.value.data(),
                     [](double x) { return static_cast<T>(x); });
    });
    const auto ids = file.view<std::int32_t, 1>("ids");
    hr::token_batch batch;
    batch.add({ids.data(), static_cast<std::size_t>(ids.size())});
    last = ids.size() - 1;
    hr::forward_options<T, hr::cpu> o;
    o.trace = &trace;
    logits = model.logits(t, model.hidden(t, batch, {}, o));
  }

  /// Greatest difference from the recorded relevance, relative to its greatest entry.
  double sweep(const hr::relevance_rules<T>& rules, const std::string& method) {
    const hr::relevance_start start[] = {{last, -1}};
    hr::start_relevance<T>(t, logits, start);
    t.sweep(rules);
    double worst = 0;
    for (const auto& record : trace) {
      const auto expected = file.view<double, 2>(method + "." + std::to_string(record.layer));
      const auto found = t.relevance(record.context);
      REQUIRE(found.size() == expected.size());
      double most = 0, off = 0;
      for (hr::index_t i = 0; i < found.size(); ++i) {
        most = std::max(most, std::abs(expected.data()[i]));
        const double d = std::abs(static_cast<double>(found.data()[i]) - expected.data()[i]);
        if (!(d <= off)) off = d;
      }
      if (!(off <= worst * most)) worst = off / most;
    }
    return worst;
  }
};

hr::relevance_rule absorbed(hr::relevance_rule rule) {
  rule.bias = hr::bias_mode::absorbed;
  return rule;
}

}  // namespace

TEST_SUITE("lrp") {
  TEST_CASE("recorded: AttnLRP as in LXT, epsilon as in Zennit") {
    auto constant = absorbed(hr::relevance_rule::of_epsilon(1e-9));
    constant.attention = hr::attention_mode::constant;
    recorded_encoder<double> encoder;
    const auto logits = encoder.file.view<double, 2>("logits");
    for (hr::index_t i = 0; i < logits.size(); ++i)
      CHECK(encoder.t.input(encoder.logits).data()[i] == doctest::Approx(logits.data()[i]).epsilon(1e-12));
    CHECK(encoder.sweep(absorbed(hr::relevance_rule::attn(1e-9)), "attnlrp") < 1e-6);
    CHECK(encoder.sweep(constant, "epsilon") < 1e-6);
  }

  TEST_CASE("recorded: f32 follows f64 by every rule") {
    recorded_encoder<double> fine;
    recorded_encoder<float> coarse;
    auto large = absorbed(hr::relevance_rule::attn(1e-2));
    for (const auto& rule : {hr::relevance_rule::alpha_beta(), absorbed(hr::relevance_rule::alpha_beta()),
                             hr::relevance_rule::z_plus(), hr::relevance_rule::of_epsilon(1e-2), large}) {
      CAPTURE(static_cast<int>(rule.kind));
      const hr::relevance_start start[] = {{fine.last, -1}};
      hr::relevance_ledger ledger;
      hr::start_relevance<double>(fine.t, fine.logits, start);
      fine.t.sweep(rule);
      hr::start_relevance<float>(coarse.t, coarse.logits, start);
      coarse.t.sweep(rule, &ledger);
      CHECK(ledger.worst_residual() < 1e-5);
      for (std::size_t l = 0; l < fine.trace.size(); ++l) {
        const auto expected = fine.t.relevance(fine.trace[l].context);
        const auto found = coarse.t.relevance(coarse.trace[l].context);
        double most = 0, off = 0;
        for (hr::index_t i = 0; i < found.size(); ++i) {
          most = std::max(most, std::abs(expected.data()[i]));
          const double d = std::abs(static_cast<double>(found.data()[i]) - expected.data()[i]);
          if (!(d <= off)) off = d;
        }
        CHECK(off < 1e-4 * most);
      }
    }
  }
}
