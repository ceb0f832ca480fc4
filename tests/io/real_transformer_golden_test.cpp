// The models of the shared folder and MiniLM, loaded from their files, against what other programs computed with them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <type_traits>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/io/load_transformer.hpp>
#include <headred/io/npy.hpp>
#include <headred/io/parallel_text.hpp>
#include <headred/io/safetensors.hpp>
#include <headred/io/vocabulary.hpp>
#include <headred/nn/op/softmax_cross_entropy.hpp>
#include <headred/nn/transformer.hpp>
#include <nlohmann/json.hpp>

#include "environment.hpp"

namespace hr = headred;
using hr::index_t;

namespace {

template <class T>
using model_type = hr::transformer<T, hr::cpu>;

template <class T>
model_type<T> load(hr::cpu& be, const std::filesystem::path& folder, bool ignore_extra = false) {
  auto loaded = hr::load_transformer<T>(be, folder, {.ignore_extra = ignore_extra});
  return {be, std::move(loaded.config), std::move(loaded.weights)};
}

hr::token_batch batch_of(hr::cpu& be, const hr::safetensors_file& file, const std::string& name) {
  const auto ids = file.load<std::int32_t, 1>(be, name);
  hr::token_batch batch;
  batch.add({ids.data(), static_cast<std::size_t>(ids.size())});
  return batch;
}

/// How far values are beyond what is allowed: negative or 0 where all is well. In float the 2e-5; in double
/// the golden's own rounding to float (2^-24 relative) and 1e-12.
template <class T, class Expected>
double beyond(const T* values, const Expected* golden, index_t n,
              double absolute = std::is_same_v<T, float> ? 2e-5 : 1e-12) {
  double worst = -1;
  for (index_t i = 0; i < n; ++i) {
    const double expected = static_cast<double>(golden[i]);
    double allowed = absolute;
    if (std::is_same_v<T, double> && std::is_same_v<Expected, float>) allowed += 0x1p-24 * std::abs(expected);
    const double difference = std::abs(static_cast<double>(values[i]) - expected);
    worst = std::max(worst, std::isnan(difference) ? INFINITY : difference - allowed);
  }
  return worst;
}

/// `golden` : (layers, heads, T, S) of the only sentence against the records of one kind.
template <class T, class Golden>
void check_attention(const std::vector<hr::attention_record<T>>& trace, hr::attention_kind kind, const Golden& golden,
                     double absolute = std::is_same_v<T, float> ? 2e-5 : 1e-12) {
  index_t layers = 0;
  for (const auto& record : trace) {
    if (record.kind != kind) continue;
    CAPTURE(record.layer);
    const auto maps = record.probabilities(0);
    REQUIRE(record.layer == layers);
    REQUIRE(maps.shape() == hr::shape_t<3>{golden.extent(1), golden.extent(2), golden.extent(3)});
    CHECK(beyond(maps.data(), golden.data() + record.layer * maps.size(), maps.size(), absolute) <= 0);
    ++layers;
  }
  CHECK(layers == golden.extent(0));
}

template <class T>
void check_albert(hr::cpu& be, const std::filesystem::path& folder) {
  model_type<T> model = load<T>(be, folder);
  CHECK(model.config().encoder.layers.size() == 12);
  CHECK(model.config().encoder.weight_sets() == 1);
  const hr::safetensors_file golden(folder / "golden.safetensors");
  const hr::token_batch batch = batch_of(be, golden, "input_ids");
  for (const auto mode : {hr::tape_mode::recording, hr::tape_mode::inference}) {
    std::vector<hr::attention_record<T>> trace;
    typename model_type<T>::options options;
    options.keep_attention = true;
    options.trace = &trace;
    hr::tape<T, hr::cpu> tape(be, mode);
    const auto logits = tape.input(model.logits(tape, model.encode(tape, batch, options)));
    const auto expected = golden.load<float, 2>(be, "logits");
    REQUIRE(logits.shape() == expected.shape());
    CHECK(beyond(logits.data(), expected.data(), logits.size()) <= 0);
    check_attention(trace, hr::attention_kind::encoder_self, golden.load<float, 4>(be, "attention"));
  }
}

template <class T>
void check_marian(hr::cpu& be, const std::filesystem::path& folder) {
  model_type<T> model = load<T>(be, folder);
  CHECK(model.config().encoder.layers.size() == 6);
  CHECK(model.config().decoder.layers.size() == 6);
  CHECK(model.config().begin_id == 1);
  CHECK(model.config().end_id == 2);
  const hr::safetensors_file golden(folder / "golden.safetensors");
  const hr::token_batch source = batch_of(be, golden, "source_ids"), target = batch_of(be, golden, "target_in_ids");
  std::vector<hr::attention_record<T>> trace;
  typename model_type<T>::options options;
  options.trace = &trace;
  hr::tape<T, hr::cpu> tape(be);
  const hr::slot encoded = model.encode(tape, source, options);
  const auto states = golden.load<float, 2>(be, "encoder_output");
  CHECK(beyond(tape.input(encoded).data(), states.data(), states.size()) <= 0);
  const auto logits = tape.input(model.logits(tape, model.decode(tape, encoded, source.sentences, target, options)));
  const auto expected = golden.load<float, 2>(be, "logits");
  REQUIRE(logits.shape() == expected.shape());
  CHECK(beyond(logits.data(), expected.data(), logits.size()) <= 0);
  check_attention(trace, hr::attention_kind::encoder_self, golden.load<float, 4>(be, "encoder_attention"));
  check_attention(trace, hr::attention_kind::decoder_self, golden.load<float, 4>(be, "decoder_attention"));
  check_attention(trace, hr::attention_kind::cross, golden.load<float, 4>(be, "cross_attention"));

  // greedy decoding by whole passes: nothing of the decoder with kept keys is involved
  const hr::vocabulary letters = hr::load_vocabulary(folder / "target_vocabulary.txt");
  const hr::token_batch word = [&] {
    hr::token_batch b;
    b.add(hr::load_vocabulary(folder / "source_vocabulary.txt")
              .encode_characters("\u0622\u062a\u0632\u0645\u0648\u0646"));
    return b;
  }();
  CHECK(word.ids == source.ids);
  std::vector<hr::token_id> ids{model.config().begin_id};
  while (ids.size() < 20 && ids.back() != model.config().end_id) {
    tape.clear(hr::tape_mode::inference);
    hr::token_batch prefix;
    prefix.add(ids);
    const auto rows = tape.input(model.logits(tape, model.hidden(tape, word, prefix)));
    const T* const last = rows.data() + (rows.extent(0) - 1) * rows.extent(1);
    ids.push_back(static_cast<hr::token_id>(std::max_element(last, last + rows.extent(1)) - last));
  }
  REQUIRE(ids.back() == model.config().end_id);
  CHECK(letters.decode(std::vector<hr::token_id>(ids.begin() + 1, ids.end() - 1)) == "atzmon");
}

}  // namespace

TEST_SUITE("real") {
  TEST_CASE("real transformer: ALBERT's attention and logits") {
    const auto folder = headred_test::shared_dir() / "data/albert_rxnmapper";
    if (!std::filesystem::exists(folder)) return headred_test::skip("no albert_rxnmapper");
    hr::cpu be{{.threads = 2}};
    check_albert<float>(be, folder);
    check_albert<double>(be, folder);
  }

  TEST_CASE("real transformer: Marian's attention, logits and golden word") {
    const auto folder = headred_test::shared_dir() / "data/marian_aren_transliteration";
    if (!std::filesystem::exists(folder)) return headred_test::skip("no marian_aren_transliteration");
    hr::cpu be{{.threads = 2}};
    check_marian<float>(be, folder);
    check_marian<double>(be, folder);
  }

  TEST_CASE("real transformer: gradients of Marian's head gates for 20 words") {
    const auto folder = headred_test::shared_dir() / "data/marian_aren_transliteration";
    const auto oracle = headred_test::shared_dir() / "oracles/marian_aren_transliteration";
    if (!std::filesystem::exists(folder) || !std::filesystem::exists(oracle))
      return headred_test::skip("no marian_aren_transliteration");
    hr::cpu be{{.threads = 2}};
    model_type<double> model = load<double>(be, folder);
    model.train();
    const auto words = hr::load_parallel_text(folder / "ar2en-eval.tsv");
    const hr::vocabulary from = hr::load_vocabulary(folder / "source_vocabulary.txt");
    const hr::vocabulary to = hr::load_vocabulary(folder / "target_vocabulary.txt");
    const auto expected = hr::load_npy<double, 4>(be, oracle / "gate_gradients.npy");
    // lines of the words: "rows" of gate_gradients.json
    std::ifstream in(oracle / "gate_gradients.json");
    const auto document = nlohmann::json::parse(in);
    const auto rows = document["rows"].get<std::vector<std::size_t>>();
    const auto losses = document["loss"].get<std::vector<double>>();
    REQUIRE(expected.shape() == hr::shape_t<4>{static_cast<index_t>(rows.size()), 3, 6, 8});
    hr::tape<double, hr::cpu> tape(be);
    for (std::size_t w = 0; w < rows.size(); ++w) {
      CAPTURE(w);
      const hr::text_pair& word = words.at(rows[w]);
      std::vector<hr::token_id> answer = to.encode_characters(word.target), begun = answer;
      answer.push_back(model.config().end_id);
      begun.insert(begun.begin(), model.config().begin_id);
      hr::token_batch source, target;
      source.add(from.encode_characters(word.source));
      target.add(begun);
      hr::model_gates<double, hr::cpu> gates(be, model.config());
      gates.train();
      model_type<double>::options options;
      options.gates = &gates;
      tape.clear();
      const hr::slot logits = model.logits(tape, model.hidden(tape, source, target, options));
      const auto loss = hr::softmax_cross_entropy(tape, logits, answer, 0, 1 / static_cast<double>(answer.size()));
      CHECK(std::abs(tape.value(loss.total)(0, 0) - losses[w]) < 1e-12);
      tape.gradient(loss.total)(0, 0) = 1;
      tape.backward();
      double worst = 0;
      index_t kind = 0;
      for (const auto name :
           {hr::attention_kind::encoder_self, hr::attention_kind::decoder_self, hr::attention_kind::cross}) {
        for (index_t layer = 0; layer < 6; ++layer)
          for (index_t h = 0; h < 8; ++h)
            worst = std::max(
                worst, std::abs(gates.of(name, layer).gradient(h) - expected(static_cast<index_t>(w), kind, layer, h)));
        ++kind;
      }
      CHECK(worst < 1e-10);
    }
  }

  TEST_CASE("real transformer: BERT as PyTorch computes it") {
    const char* const name = std::getenv("HEADRED_MINILM_DIR");
    if (name == nullptr || !std::filesystem::exists(std::filesystem::path(name) / "minilm.safetensors"))
      return headred_test::leave_out("HEADRED_MINILM_DIR names no folder made by record_minilm.py");
    const std::filesystem::path folder = name;
    hr::cpu be{{.threads = 2}};
    const hr::safetensors_file recorded(folder / "minilm.safetensors");
    const auto check = [&]<class T>(T, const std::string& type, double attention, double hidden) {
      model_type<T> model = load<T>(be, folder, true);
      for (const std::string s : {"0", "1", "2"}) {
        CAPTURE(s);
        CAPTURE(type);
        std::vector<hr::attention_record<T>> trace;
        typename model_type<T>::options options;
        options.trace = &trace;
        hr::tape<T, hr::cpu> tape(be);
        const auto states = tape.input(model.encode(tape, batch_of(be, recorded, "input_ids." + s), options));
        const auto expected = recorded.load<T, 2>(be, "hidden." + s + "." + type);
        REQUIRE(states.shape() == expected.shape());
        CHECK(beyond(states.data(), expected.data(), states.size(), hidden) <= 0);
        check_attention(trace, hr::attention_kind::encoder_self, recorded.load<T, 4>(be, "attention." + s + "." + type),
                        attention);
      }
    };
    check(float{}, "f32", 2e-5, 2e-5);
    check(double{}, "f64", 1e-12, 1e-12);
  }
}
