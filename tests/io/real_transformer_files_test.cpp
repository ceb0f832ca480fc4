// Real models through the loader: ALBERT of RXNMapper, the Marian-like transliteration model, and MiniLM where it is.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/io/load_transformer.hpp>
#include <headred/io/parallel_text.hpp>
#include <headred/io/save_transformer.hpp>
#include <headred/io/vocabulary.hpp>

#include "environment.hpp"
#include "io_support.hpp"
#include "model_samples.hpp"

namespace hr = headred;
using ids = std::vector<std::int32_t>;

namespace {

template <class Weights>
hr::index_t count(Weights& weights) {
  hr::index_t n = 0;
  hr::visit_parameters(weights, [&](const std::string&, const auto& parameter) { n += parameter.value.size(); });
  return n;
}

// The folder under shared/data, or an empty path after saying so.
std::filesystem::path model_folder(const std::string& name) {
  const auto folder = headred_test::shared_dir() / "data" / name;
  if (std::filesystem::exists(folder / "model.safetensors")) return folder;
  headred_test::skip("no " + name);
  return {};
}

// Saved in headred's format and loaded again: nothing may differ.
template <class Model>
void check_round_trip(hr::cpu& be, Model& model) {
  const headred_test::temporary_folder out;
  hr::save_transformer(out.path(), model.config, model.weights);
  auto again = hr::load_transformer<float>(be, out.path());
  CHECK(again.config == model.config);
  CHECK(headred_test::bits_of(again.weights) == headred_test::bits_of(model.weights));
}

}  // namespace

TEST_SUITE("real") {
  TEST_CASE("real transformer files: ALBERT of RXNMapper") {
    const auto folder = model_folder("albert_rxnmapper");
    if (folder.empty()) return;
    hr::cpu be{{.threads = 1}};
    auto model = hr::load_transformer<float>(be, folder);
    const auto& c = model.config;
    CHECK(c.kind == hr::architecture::encoder);
    CHECK(c.width == 256);
    CHECK(c.source == hr::embedding_config{591, 128, hr::positions::learned, 512, 2, 1, true});
    CHECK(c.encoder.layers == std::vector<hr::layer_config>(12, {{8, 8, 32, {}}, {}, 512}));
    CHECK(c.encoder.weight_sets() == 1);
    CHECK(c.activation == hr::activation::gelu);
    CHECK(c.norm_epsilon == 1e-12);
    CHECK(c.output == hr::output_head::masked_lm);
    CHECK(c.tied_output);
    CHECK(c.pooler);
    CHECK(c.pad_id == 0);
    CHECK(c.begin_id == 12);  // [CLS] and [SEP] of vocab.txt
    CHECK(c.end_id == 13);
    // 877598 in the file, less the copies of the token table and of the output bias
    CHECK(count(model.weights) == 877598 - 591 * 128 - 591);
    const auto& w = model.weights;
    CHECK(w.source.tokens.value(590, 127) == 0.015494657680392265f);
    CHECK(w.source.projection.weight.value(255, 3) == 0.10215616971254349f);
    CHECK(w.encoder.at(0).self.key.weight.value(17, 200) == 0.02962315082550049f);
    CHECK(w.encoder.at(0).self.norm.scale.value(9) == 0.7282170653343201f);
    CHECK(w.encoder.at(0).norm.scale.value(9) == 0.8199493288993835f);
    CHECK(w.output.bias.value(590) == -13.313740730285645f);
    CHECK(w.pooler.weight.value(5, 6) == -0.012068599462509155f);
    check_round_trip(be, model);

    const auto vocabulary = hr::load_vocabulary(folder / "vocab.txt");
    CHECK(vocabulary.size() == 591);
    CHECK(vocabulary.unknown() == 11);
    const hr::safetensors_file golden(folder / "golden.safetensors");
    const auto input = golden.view<std::int32_t, 1>("input_ids");
    const std::string tokens = vocabulary.decode({input.data(), static_cast<std::size_t>(input.size())}, " ");
    CHECK(tokens == golden.metadata().at("tokens"));
  }

  TEST_CASE("real transformer files: the transliteration model, its vocabularies and its data") {
    const auto folder = model_folder("marian_aren_transliteration");
    if (folder.empty()) return;
    hr::cpu be{{.threads = 1}};
    auto model = hr::load_transformer<float>(be, folder);
    const auto& c = model.config;
    CHECK(c.kind == hr::architecture::encoder_decoder);
    CHECK(c.pre_norm);
    CHECK(c.final_norm);
    CHECK(c.activation == hr::activation::relu);
    CHECK(c.source.vocabulary == 51);
    CHECK(c.target.vocabulary == 43);
    CHECK(c.source.scale == std::sqrt(32.));
    CHECK(c.source.positions == hr::positions::sinusoidal_halves_from_1);
    CHECK(c.encoder.layers == std::vector<hr::layer_config>(6, {{8, 8, 4, {}}, {}, 128}));
    CHECK(c.decoder.layers == std::vector<hr::layer_config>(6, {{8, 8, 4, {}}, {8, 8, 4, {}}, 128}));
    CHECK_FALSE(c.tied_output);
    CHECK_FALSE(c.shared_embeddings);
    CHECK(c.pad_id == 0);
    CHECK(c.begin_id == 1);  // <s> and </s> of target_vocabulary.txt
    CHECK(c.end_id == 2);
    CHECK(count(model.weights) == 182731);
    const auto& w = model.weights;
    CHECK(w.source.tokens.value(50, 31) == -0.15440595149993896f);
    CHECK(w.encoder[5].self.output.bias.value(2) == 0.1450270563364029f);
    CHECK(w.encoder_norm.scale.value(31) == 1.0053139925003052f);
    CHECK(w.decoder[0].contract.weight.value(31, 127) == 0.07222920656204224f);
    CHECK(w.decoder[2].cross.norm.shift.value(11) == -0.08651331812143326f);
    CHECK(w.decoder[5].cross.value.weight.value(3, 7) == 0.09229236096143723f);
    CHECK(w.output.table.value(42, 0) == 1.2602604627609253f);
    CHECK(w.output.bias.value(42) == -2.2922019958496094f);
    check_round_trip(be, model);

    const auto source = hr::load_vocabulary(folder / "source_vocabulary.txt");
    const auto target = hr::load_vocabulary(folder / "target_vocabulary.txt");
    CHECK(source.size() == c.source.vocabulary);
    CHECK(target.size() == c.target.vocabulary);
    CHECK(source.unknown() == 50);
    const hr::safetensors_file golden(folder / "golden.safetensors");
    const auto from = golden.view<std::int32_t, 1>("source_ids");
    const auto to = golden.view<std::int32_t, 1>("target_in_ids");
    CHECK(source.encode_characters(golden.metadata().at("source")) == ids(from.data(), from.data() + from.size()));
    ids word = target.encode_characters(golden.metadata().at("target"));
    word.insert(word.begin(), c.begin_id);
    CHECK(word == ids(to.data(), to.data() + to.size()));
    CHECK(target.decode(std::span(word).subspan(1)) == "atzmon");

    const auto eval = hr::load_parallel_text(folder / "ar2en-eval.tsv");
    CHECK(eval.size() == 1431);
    CHECK(hr::load_parallel_text(folder / "ar2en-train.tsv").size() == 12877);
    CHECK(eval.front().target == "abbe");
    for (const auto& pair : eval) {  // every letter is known
      for (const auto id : source.encode_characters(pair.source)) REQUIRE(id != source.unknown());
      for (const auto id : target.encode_characters(pair.target)) REQUIRE(id != target.unknown());
    }
  }

  TEST_CASE("real transformer files: MiniLM, a BERT without a masked-LM head") {
    const char* const folder = std::getenv("HEADRED_MINILM_DIR");
    if (folder == nullptr || !std::filesystem::exists(std::filesystem::path(folder) / "model.safetensors")) {
      // not counted as skipped: the data of the other tests is there
      std::cout << "skipped: HEADRED_MINILM_DIR names no folder with a model (tests/oracle/record_minilm.py)\n";
      return;
    }
    hr::cpu be{{.threads = 1}};
    auto model = hr::load_transformer<float>(be, folder);
    CHECK(model.config.encoder.layers == std::vector<hr::layer_config>(6, {{12, 12, 32, {}}, {}, 1536}));
    CHECK(model.config.output == hr::output_head::none);
    CHECK(model.config.pooler);
    CHECK(model.config.begin_id == 101);
    CHECK(model.config.end_id == 102);
    CHECK(count(model.weights) == 22713216);
    check_round_trip(be, model);
  }
}
