// Whole models: every parameter and gate against 4-point differences, and the same bits for any number of threads.
#include <map>
#include <thread>

#include "nn/training_support.hpp"

using namespace training_test;

namespace {

using model_type = hr::transformer<double, hr::cpu>;

struct sample {
  std::string name;
  hr::transformer_config config;
  bool gates = false;
  bool masks = false;
};

// Masks of one layer of each kind: some keys excluded, some made a little less likely.
class some_masks {
 public:
  explicit some_masks(const hr::transformer_config& c) {
    for (const hr::attention_kind kind : hr::attention_kinds(c)) {
      const auto blocks = hr::attention_blocks(c, kind);
      const hr::index_t layer = static_cast<hr::index_t>(blocks.size()) - 1;
      const hr::index_t heads = blocks.back()->heads;
      constexpr hr::index_t size = 12;
      auto& values = values_[kind];
      for (hr::index_t i = 0; i < heads * size * size; ++i) {
        const auto n = static_cast<std::uint64_t>(i);
        const double u = hr::random_stream(77).uniform(n);
        values.push_back(i % size != 0 && u < .2 ? 0 : 1 - 1e-4 * u);
      }
      views[{kind, layer}] = hr::tensor_view<const double, 3>(values.data(), {heads, size, size});
    }
  }
  hr::model_masks<double, hr::cpu> views;

 private:
  std::map<hr::attention_kind, std::vector<double>> values_;
};

hr::training_batch batch_for(const hr::transformer_config& c) {
  hr::training_batch batch;
  const std::vector<hr::index_t> all{0, 1, 2};
  const auto sources = small_corpus(3, c.source.vocabulary, 5);
  if (c.kind == hr::architecture::encoder_decoder) {
    hr::fill_pairs(batch, sources, small_corpus(3, c.target.vocabulary, 6), all, 1, 2);
  } else if (c.kind == hr::architecture::decoder) {
    hr::fill_causal(batch, sources, all, 1, 2);
  } else {
    hr::fill_masked(batch, sources, all, {.mask_id = 3, .vocabulary = c.source.vocabulary, .chosen = .5}, 0);
  }
  if (c.source.token_types > 0)
    for (std::size_t i = 0; i < batch.source.ids.size(); ++i) batch.source.types.push_back(i % 3 == 0 ? 1 : 0);
  return batch;
}

double loss_of(model_type& model, hr::tape<double, hr::cpu>& t, const hr::training_batch& batch,
               const hr::forward_options<double, hr::cpu>& o, bool backward) {
  t.clear(backward ? hr::tape_mode::recording : hr::tape_mode::inference);
  hr::slot x = model.hidden(t, batch.source, batch.target, o);
  if (!batch.rows.empty()) x = hr::select_rows(t, x, batch.rows);
  const auto loss =
      hr::softmax_cross_entropy(t, model.logits(t, x), batch.labels, .1, 1 / static_cast<double>(batch.tokens()));
  if (backward) {
    *t.gradient(loss.total).data() = 1;
    t.backward();
  }
  return *t.value(loss.total).data();
}

std::vector<sample> samples() {
  using hr::architecture;
  std::vector<sample> all;
  for (const bool pre : {true, false}) {
    const std::string norms = pre ? "pre-norm " : "post-norm ";
    auto c = small_config(architecture::encoder_decoder, pre);
    c.tied_output = false;
    all.push_back({norms + "encoder-decoder, grouped heads, own output", c});
    c.tied_output = true;
    c.dropout = .2;
    c.attention_dropout = .3;
    c.activation = hr::activation::gelu_tanh;
    all.push_back({norms + "encoder-decoder, tied, dropout, gates and masks", c, true, true});
    c.dropout = c.attention_dropout = 0;
    c.shared_embeddings = true;
    c.target = c.source;
    c.decoder.layers[0].self = {0, 0, 4, {}};  // has lost its heads
    all.push_back({norms + "encoder-decoder, one embedding, a layer without heads", c, true});
    auto d = small_config(architecture::decoder, pre);
    d.output_bias = false;
    all.push_back({norms + "decoder", d, true, true});
  }
  auto bert = small_config(architecture::encoder, false);
  bert.output = hr::output_head::masked_lm;
  bert.source.token_types = 2;
  bert.source.norm = true;
  bert.dropout = .1;
  all.push_back({"BERT", bert, true, true});
  bert.source.width = 5;  // ALBERT
  bert.encoder.layers = {layer(2, 2, 4, 12), layer(2, 2, 4, 12), layer(2, 1, 3, 8), layer(2, 2, 4, 12)};
  bert.encoder.weights = {0, 0, 1, 0};
  bert.pooler = true;
  all.push_back({"ALBERT: factorised embedding, shared layers", bert, true, false});
  return all;
}

}  // namespace

TEST_SUITE("nn") {
  TEST_CASE("transformer: gradients of all parameters and gates") {
    for (const sample& s : samples()) {
      CAPTURE(s.name);
      hr::cpu be{{.threads = 1}};
      auto model = seeded_model<double>(be, s.config, 3);
      hr::model_gates<double, hr::cpu> gates(be, s.config);
      const some_masks masks(s.config);
      const auto batch = batch_for(s.config);
      hr::forward_options<double, hr::cpu> o;
      o.training = true;
      o.seed = 8;
      o.step = 2;
      gates.train();
      hr::parameter_list<double, hr::cpu> list(model.weights());
      if (s.gates) {
        list.add_gates(gates, s.config);
        o.gates = &gates;
        std::uint64_t k = 0;
        for (const auto& p : list)
          if (p.name.starts_with("gates"))
            for (hr::index_t i = 0; i < p.size; ++i) p.value[i] = .5 + hr::random_stream(4).uniform(k++);
      }
      if (s.masks) o.masks = &masks.views;
      hr::tape<double, hr::cpu> t(be);
      const double loss = loss_of(model, t, batch, o, true);
      CHECK(loss == doctest::Approx(loss_of(model, t, batch, o, false)).epsilon(1e-14));
      double worst = 0;
      std::string where;
      hr::index_t moving = 0;
      std::uint64_t draw = 0;
      for (const auto& p : list) {
        const bool every = p.name.starts_with("gates");
        for (hr::index_t n = 0; n < (every ? p.size : 4); ++n) {
          const auto i =
              every ? n
                    : static_cast<hr::index_t>(hr::random_stream(6).below(draw++, static_cast<std::uint64_t>(p.size)));
          const double at = p.value[i], h = 1e-3;
          const auto value = [&](double x) {
            p.value[i] = x;
            return loss_of(model, t, batch, o, false);
          };
          const double slope =
              (value(at - 2 * h) - 8 * value(at - h) + 8 * value(at + h) - value(at + 2 * h)) / (12 * h);
          p.value[i] = at;
          const double d = std::abs(slope - p.gradient[i]) / std::max(1e-3, std::abs(p.gradient[i]));
          if (std::abs(slope) > 1e-9) ++moving;
          if (!(d <= worst)) {
            worst = d;
            where = p.name + "[" + std::to_string(i) + "]: " + hr::number_text(p.gradient[i]) + ", expected " +
                    hr::number_text(slope);
          }
        }
      }
      CHECK_MESSAGE(worst < 1e-6, where);
      CHECK(moving > 3 * list.size());
    }
  }

  TEST_CASE("transformer: losses and gradients have the same bits for any number of threads") {
    for (const sample& s : samples()) {
      CAPTURE(s.name);
      std::vector<double> first;
      for (const int threads : {1, 2, 3}) {
        hr::cpu be{{.threads = threads}};
        auto model = seeded_model<double>(be, s.config, 3);
        hr::model_gates<double, hr::cpu> gates(be, s.config);
        const some_masks masks(s.config);
        gates.train();
        hr::parameter_list<double, hr::cpu> list(model.weights());
        list.add_gates(gates, s.config);
        hr::forward_options<double, hr::cpu> o;
        o.training = true;
        o.gates = &gates;
        if (s.masks) o.masks = &masks.views;
        hr::tape<double, hr::cpu> t(be);
        std::vector<double> found{loss_of(model, t, batch_for(s.config), o, true)};
        for (const auto& p : list) found.insert(found.end(), p.gradient, p.gradient + p.size);
        if (threads == 1) first = found;
        CHECK(same_bits(first, found));
      }
    }
  }

  TEST_CASE("transformer: one model, read by many threads at once") {
    for (const sample& s : samples()) {
      CAPTURE(s.name);
      hr::cpu shared{{.threads = 2}};
      auto model = seeded_model<double>(shared, s.config, 3);
      hr::model_gates<double, hr::cpu> gates(shared, s.config);
      const some_masks masks(s.config);
      // Each reader has a batch of its own size: scratch memory that two of them used would not fit.
      const auto pass = [&](hr::cpu& be, std::size_t reader) {
        hr::training_batch batch = batch_for(s.config);
        for (std::size_t i = 0; i < reader; ++i) {
          const std::vector<hr::token_id> more(i + 2, static_cast<hr::token_id>(4 + i % 2));
          for (hr::token_batch* const b : {&batch.source, &batch.target}) {
            b->add(more);
            if (!b->types.empty()) b->types.resize(b->ids.size(), 1);
          }
        }
        hr::forward_options<double, hr::cpu> o;
        o.gates = &gates;
        if (s.masks) o.masks = &masks.views;
        hr::tape<double, hr::cpu> t(be, reader % 2 == 0 ? hr::tape_mode::inference : hr::tape_mode::recording);
        const auto states = t.input(model.hidden(t, batch.source, batch.target, o));
        return std::vector<double>(states.data(), states.data() + states.size());
      };
      constexpr std::size_t readers = 6;
      std::vector<std::vector<double>> expected, found(readers);
      for (std::size_t r = 0; r < readers; ++r) expected.push_back(pass(shared, r));
      std::vector<std::thread> threads;
      for (std::size_t r = 0; r < readers; ++r)
        threads.emplace_back([&, r] {
          hr::cpu own{{.threads = 1}};
          for (int again = 0; again < 20; ++again) found[r] = pass(r % 3 == 0 ? shared : own, r);
        });
      for (std::thread& t : threads) t.join();
      for (std::size_t r = 0; r < readers; ++r) CHECK(same_bits(expected[r], found[r]));
    }
  }
}
