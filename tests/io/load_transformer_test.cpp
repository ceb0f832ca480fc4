#include <headred/io/load_transformer.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/io/save_safetensors.hpp>

#include "environment.hpp"
#include "io_support.hpp"
#include "model_samples.hpp"

namespace hr = headred;
using headred_test::file_error_text;
using headred_test::temporary_folder;
using headred_test::write_text;

namespace {

// A tensor of a file that is made up for a test.
struct made {
  std::vector<hr::index_t> shape;
  std::vector<float> values;
};
using made_file = std::map<std::string, made>;

made numbered(std::vector<hr::index_t> shape, float first) {
  made t{std::move(shape), {}};
  hr::index_t n = 1;
  for (const hr::index_t extent : t.shape) n *= extent;
  for (hr::index_t i = 0; i < n; ++i) t.values.push_back(first + static_cast<float>(i) / 64);
  return t;
}

void write(const std::filesystem::path& path, const made_file& file) {
  std::vector<hr::safetensors_entry> entries;
  for (const auto& [name, t] : file) {
    if (t.shape.size() == 1)
      entries.emplace_back(name, hr::tensor_view<const float, 1>(t.values.data(), {t.shape[0]}));
    else
      entries.emplace_back(name, hr::tensor_view<const float, 2>(t.values.data(), {t.shape[0], t.shape[1]}));
  }
  hr::save_safetensors(path, entries);
}

// BERT with one layer, as Hugging Face's BertForMaskedLM is written, its names spelt out.
made_file bert_file(const std::string& prefix = "bert.") {
  const std::vector<std::pair<std::string, std::vector<hr::index_t>>> tensors = {
      {"embeddings.word_embeddings.weight", {5, 4}},
      {"embeddings.position_embeddings.weight", {6, 4}},
      {"embeddings.token_type_embeddings.weight", {2, 4}},
      {"embeddings.LayerNorm.weight", {4}},
      {"embeddings.LayerNorm.bias", {4}},
      {"encoder.layer.0.attention.self.query.weight", {4, 4}},
      {"encoder.layer.0.attention.self.query.bias", {4}},
      {"encoder.layer.0.attention.self.key.weight", {4, 4}},
      {"encoder.layer.0.attention.self.key.bias", {4}},
      {"encoder.layer.0.attention.self.value.weight", {4, 4}},
      {"encoder.layer.0.attention.self.value.bias", {4}},
      {"encoder.layer.0.attention.output.dense.weight", {4, 4}},
      {"encoder.layer.0.attention.output.dense.bias", {4}},
      {"encoder.layer.0.attention.output.LayerNorm.weight", {4}},
      {"encoder.layer.0.attention.output.LayerNorm.bias", {4}},
      {"encoder.layer.0.intermediate.dense.weight", {3, 4}},
      {"encoder.layer.0.intermediate.dense.bias", {3}},
      {"encoder.layer.0.output.dense.weight", {4, 3}},
      {"encoder.layer.0.output.dense.bias", {4}},
      {"encoder.layer.0.output.LayerNorm.weight", {4}},
      {"encoder.layer.0.output.LayerNorm.bias", {4}},
      {"pooler.dense.weight", {4, 4}},
      {"pooler.dense.bias", {4}},
      {"cls.predictions.transform.dense.weight", {4, 4}},
      {"cls.predictions.transform.dense.bias", {4}},
      {"cls.predictions.transform.LayerNorm.weight", {4}},
      {"cls.predictions.transform.LayerNorm.bias", {4}},
      {"cls.predictions.bias", {5}},
  };
  made_file file;
  float first = 1;
  for (const auto& [name, shape] : tensors)
    file[(name.starts_with("cls.") ? "" : prefix) + name] = numbered(shape, first++);
  return file;
}
const std::string bert_config =
    R"({"model_type": "bert", "vocab_size": 5, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2,)"
    R"( "intermediate_size": 3, "max_position_embeddings": 6})";

// What loading the folder's model says; each test changes one thing of a good one.
std::string error_of(const made_file& file, const hr::load_transformer_options& options = {}) {
  const temporary_folder folder;
  write(folder / "model.safetensors", file);
  write_text(folder / "config.json", bert_config);
  headred_test::counting_backend be;
  const std::string text = file_error_text([&] { hr::load_transformer<float>(be, folder.path(), options); });
  if (text == "no file_error was thrown") return text;
  CHECK(be.total == 0);  // all is checked before memory is taken
  CHECK(text.starts_with((folder / "model.safetensors").string() + ": "));
  return text.substr((folder / "model.safetensors").string().size() + 2);
}
const std::string none = "no file_error was thrown";

}  // namespace

TEST_SUITE("io") {
  TEST_CASE("load_transformer: BERT's tensors land where their names say") {
    hr::cpu be{{.threads = 1}};
    for (const std::string prefix : {"bert.", ""}) {
      const temporary_folder folder;
      write(folder / "model.safetensors", bert_file(prefix));
      write_text(folder / "config.json", bert_config);
      write_text(folder / "vocab.txt", "[PAD]\na\n[CLS]\nb\n[SEP]\n");
      const auto model = hr::load_transformer<float>(be, folder.path());
      const auto& w = model.weights;
      CHECK(model.config == hr::load_transformer_config(folder.path()));
      CHECK(model.config.begin_id == 2);
      CHECK(model.config.end_id == 4);
      CHECK_FALSE(model.plan);
      CHECK(w.source.tokens.value(0, 1) == 1 + 1 / 64.f);
      CHECK(w.source.positions.value(5, 3) == 2 + 23 / 64.f);
      CHECK(w.source.types.value(1, 0) == 3 + 4 / 64.f);
      CHECK(w.source.norm.scale.value(3) == 4 + 3 / 64.f);
      CHECK(w.source.norm.shift.value(0) == 5);
      const auto& layer = w.encoder.at(0);
      CHECK(layer.self.query.weight.value(0, 0) == 6);
      CHECK(layer.self.query.bias.value(0) == 7);
      CHECK(layer.self.key.weight.value(0, 0) == 8);
      CHECK(layer.self.value.weight.value(0, 0) == 10);
      CHECK(layer.self.output.weight.value(0, 0) == 12);
      CHECK(layer.self.norm.scale.value(0) == 14);
      CHECK(layer.self.norm.shift.value(0) == 15);
      CHECK(layer.expand.weight.value(2, 3) == 16 + 11 / 64.f);
      CHECK(layer.contract.weight.value(3, 2) == 18 + 11 / 64.f);
      CHECK(layer.norm.scale.value(0) == 20);
      CHECK(w.pooler.bias.value(0) == 23);
      CHECK(w.output.transform.weight.value(0, 0) == 24);
      CHECK(w.output.norm.shift.value(0) == 27);
      CHECK(w.output.bias.value(4) == 28 + 4 / 64.f);
      CHECK(w.output.table.value.size() == 0);
    }
  }

  TEST_CASE("load_transformer: missing tensors, extra tensors, wrong shapes") {
    CHECK(error_of(bert_file()) == none);
    auto file = bert_file();
    file.erase("bert.encoder.layer.0.attention.self.key.bias");
    CHECK(error_of(file) == "tensor \"bert.encoder.layer.0.attention.self.key.bias\" is not in the file");
    file.erase("bert.encoder.layer.0.output.dense.bias");
    CHECK(error_of(file) == "tensor \"bert.encoder.layer.0.attention.self.key.bias\" (and 1 more) is not in the file");

    file = bert_file();
    file["classifier.weight"] = numbered({2, 4}, 0);
    CHECK(error_of(file) == "tensor \"classifier.weight\" has no place in the model");
    file["bert.encoder.layer.1.output.dense.bias"] = numbered({4}, 0);
    CHECK(error_of(file) == "tensor \"bert.encoder.layer.1.output.dense.bias\" (and 1 more) has no place in the model");
    CHECK(error_of(file, {.ignore_extra = true}) == none);
    file = bert_file();
    file["bert.embeddings.position_ids"] = numbered({1, 6}, 0);
    CHECK(error_of(file) == none);

    file = bert_file();
    file["bert.pooler.dense.weight"] = numbered({4, 5}, 0);
    CHECK(error_of(file) == "tensor \"bert.pooler.dense.weight\" has shape (4,5), expected (4,4) for pooler.weight");
    file["bert.pooler.dense.weight"] = numbered({16}, 0);
    CHECK(error_of(file) == "tensor \"bert.pooler.dense.weight\" has shape (16), expected (4,4) for pooler.weight");
    file = bert_file();
    file["cls.predictions.bias"] = numbered({5, 1}, 0);
    CHECK(error_of(file) == "tensor \"cls.predictions.bias\" has shape (5,1), expected (5) for output.bias");
    file["cls.predictions.bias"] = numbered({1, 5}, 0);
    CHECK(error_of(file) == none);
  }

  TEST_CASE("load_transformer: tied copies are accepted if they are copies") {
    auto file = bert_file();
    file["cls.predictions.decoder.weight"] = file["bert.embeddings.word_embeddings.weight"];
    file["cls.predictions.decoder.bias"] = file["cls.predictions.bias"];
    CHECK(error_of(file) == none);
    file["cls.predictions.decoder.weight"].values[19] += 1;
    CHECK(error_of(file) ==
          "tensor \"cls.predictions.decoder.weight\" differs from tensor \"bert.embeddings.word_embeddings.weight\", "
          "expected a copy: the config ties both to source.tokens");
    file["cls.predictions.decoder.weight"] = numbered({5, 3}, 0);
    CHECK(error_of(file) ==
          "tensor \"cls.predictions.decoder.weight\" has shape (5,3), expected (5,4) for source.tokens");
  }

  TEST_CASE("load_transformer: norms called gamma and beta, as in files made from TensorFlow's") {
    auto file = bert_file();
    for (const std::string norm : {"bert.embeddings.LayerNorm", "cls.predictions.transform.LayerNorm"}) {
      file[norm + ".gamma"] = file.extract(norm + ".weight").mapped();
      file[norm + ".beta"] = file.extract(norm + ".bias").mapped();
    }
    CHECK(error_of(file) == none);
  }

  TEST_CASE("load_transformer: 16-bit and 64-bit files, rounded to nearest; integers are no weights") {
    const temporary_folder folder;
    headred_test::counting_backend be;
    auto config = headred_test::small_encoder(true);
    hr::transformer_weights<double, headred_test::counting_backend> weights(be, config);
    headred_test::fill<double>(weights, headred_test::seed());
    std::vector<hr::safetensors_entry> entries;
    const std::vector<hr::bfloat16> half(config.source.vocabulary, hr::bfloat16{0x3fc0});  // 1.5
    const std::vector<std::int32_t> whole(half.size(), 7);
    hr::visit_parameters(weights, [&](const std::string& name, auto& parameter) {
      if (name != "output.bias") entries.emplace_back(name, parameter.value.view());
    });
    auto with_half = entries;
    with_half.emplace_back("output.bias", half);
    hr::save_safetensors(folder / "half", with_half);
    const auto loaded = hr::load_transformer_weights<float>(be, config, hr::safetensors_file(folder / "half"));
    CHECK(loaded.output.bias.value(10) == 1.5f);
    CHECK(loaded.pooler.weight.value(7, 7) == static_cast<float>(weights.pooler.weight.value(7, 7)));
    auto with_whole = entries;
    with_whole.emplace_back("output.bias", whole);
    hr::save_safetensors(folder / "whole", with_whole);
    CHECK(file_error_text([&] {
            hr::load_transformer_weights<float>(be, config, hr::safetensors_file(folder / "whole"));
          }) == (folder / "whole").string() + ": tensor \"output.bias\" is int32, expected a floating-point type");
  }

  TEST_CASE("load_transformer: a config of absurd size takes no memory") {
    const temporary_folder folder;
    write(folder / "model.safetensors", bert_file());
    std::string text = bert_config;
    for (const auto& [from, to] : {std::pair{"\"hidden_size\": 4", "\"hidden_size\": 1048576"},
                                   std::pair{"\"vocab_size\": 5", "\"vocab_size\": 2147483647"},
                                   std::pair{"\"num_hidden_layers\": 1", "\"num_hidden_layers\": 4096"},
                                   std::pair{"\"intermediate_size\": 3", "\"intermediate_size\": 16777216"}})
      text.replace(text.find(from), std::string(from).size(), to);
    write_text(folder / "config.json", text);
    headred_test::counting_backend be;
    CHECK(file_error_text([&] { hr::load_transformer<double>(be, folder.path()); }) ==
          (folder / "model.safetensors").string() +
              ": tensor \"bert.embeddings.word_embeddings.weight\" has shape (5,4), expected (2147483647,1048576) for "
              "source.tokens");
    CHECK(be.total == 0);
  }

  TEST_CASE("load_transformer: folders that hold no model, or part of one") {
    const temporary_folder folder;
    hr::cpu be{{.threads = 1}};
    const auto text = [&] { return file_error_text([&] { hr::load_transformer<float>(be, folder.path()); }); };
    const std::string weights = (folder / "model.safetensors").string(), config = (folder / "config.json").string();
    CHECK(text() == weights + ": does not exist");
    write_text(folder / "pytorch_model.bin", "x");
    CHECK(text() == weights + ": does not exist, and pytorch_model.bin cannot be read instead of it");
    write(folder / "model.safetensors", bert_file());
    CHECK(text() == config + ": does not exist");
    write_text(folder / "config.json", "{}");
    CHECK(text() == config + ": has neither \"format\" (headred) nor \"model_type\" (Hugging Face)");
    write_text(folder / "config.json", "[]");
    CHECK(text() == config + ": document is not an object");
    write_text(folder / "config.json", "");
    CHECK(text() == config + ": is not JSON: mistake at byte 1");
    write_text(folder / "config.json", R"({"model_type": "t5"})");
    CHECK(text() == config + ": model_type is \"t5\", expected one of bert, albert, marian, marian-like");
    write_text(folder / "config.json", bert_config);
    write_text(folder / "vocab.txt", "[PAD]\na\n[CLS]\nb\nc\n[SEP]\n");
    CHECK(text() == (folder / "vocab.txt").string() +
                        ": symbol \"[SEP]\" has number 5, expected one below the model's vocabulary of 5");
    write_text(folder / "vocab.txt", "a\nb\n");
    CHECK(hr::load_transformer<float>(be, folder.path()).config.begin_id == -1);
    const std::string whole = headred_test::read_text(folder / "model.safetensors");
    for (std::size_t length = 0; length < whole.size(); length += 7) {
      write_text(folder / "model.safetensors", whole.substr(0, length));
      CHECK(text().starts_with(weights + ": "));
    }
  }

  TEST_CASE(
      "load_transformer: Marian's shared table under any of its names, its bias of rank 2, its tables of sinusoids") {
    const std::string config =
        R"({"model_type": "marian", "vocab_size": 5, "d_model": 4, "encoder_layers": 1, "decoder_layers": 1,)"
        R"( "encoder_attention_heads": 2, "decoder_attention_heads": 1, "encoder_ffn_dim": 3, "decoder_ffn_dim": 2,)"
        R"( "activation_function": "relu", "max_position_embeddings": 6})";
    made_file file;
    float first = 1;
    for (const std::string stack : {"encoder", "decoder"}) {
      const std::string layer = "model." + stack + ".layers.0.";
      std::vector<std::string> attentions{"self_attn"};
      if (stack == "decoder") attentions.push_back("encoder_attn");
      for (const auto& attention : attentions) {
        for (const std::string part : {".q_proj", ".k_proj", ".v_proj", ".out_proj"}) {
          file[layer + attention + part + ".weight"] = numbered({4, 4}, first++);
          file[layer + attention + part + ".bias"] = numbered({4}, first++);
        }
        file[layer + attention + "_layer_norm.weight"] = numbered({4}, first++);
        file[layer + attention + "_layer_norm.bias"] = numbered({4}, first++);
      }
      const hr::index_t wide = stack == "encoder" ? 3 : 2;
      file[layer + "fc1.weight"] = numbered({wide, 4}, first++);
      file[layer + "fc1.bias"] = numbered({wide}, first++);
      file[layer + "fc2.weight"] = numbered({4, wide}, first++);
      file[layer + "fc2.bias"] = numbered({4}, first++);
      file[layer + "final_layer_norm.weight"] = numbered({4}, first++);
      file[layer + "final_layer_norm.bias"] = numbered({4}, first++);
    }
    file["final_logits_bias"] = numbered({1, 5}, first++);
    const made table = numbered({5, 4}, first);
    hr::cpu be{{.threads = 1}};
    for (const std::vector<std::string>& tables :
         {std::vector<std::string>{"model.shared.weight"},
          {"model.encoder.embed_tokens.weight"},
          {"model.decoder.embed_tokens.weight", "lm_head.weight"},
          {"model.shared.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight",
           "lm_head.weight", "model.encoder.embed_positions.weight"}}) {
      const temporary_folder folder;
      auto whole = file;
      for (const auto& name : tables) whole[name] = table;
      write(folder / "model.safetensors", whole);
      write_text(folder / "config.json", config);
      const auto model = hr::load_transformer<double>(be, folder.path());
      const auto& w = model.weights;
      CHECK(w.source.tokens.value(4, 3) == static_cast<double>(table.values[19]));
      CHECK(w.target.tokens.value.size() == 0);
      CHECK(w.output.bias.value(4) == static_cast<double>(file["final_logits_bias"].values[4]));
      const auto first_of = [&](const char* name) { return static_cast<double>(file.at(name).values[0]); };
      CHECK(w.decoder[0].cross.value.weight.value(0, 0) ==
            first_of("model.decoder.layers.0.encoder_attn.v_proj.weight"));
      CHECK(w.decoder[0].cross.norm.shift.value(0) == first_of("model.decoder.layers.0.encoder_attn_layer_norm.bias"));
      CHECK(w.decoder[0].self.key.bias.value(0) == first_of("model.decoder.layers.0.self_attn.k_proj.bias"));
      CHECK(w.encoder[0].self.output.bias.value(0) == first_of("model.encoder.layers.0.self_attn.out_proj.bias"));
      CHECK(w.encoder[0].norm.scale.value(0) == first_of("model.encoder.layers.0.final_layer_norm.weight"));
      CHECK(w.encoder_norm.scale.value.size() == 0);
    }
  }
}
