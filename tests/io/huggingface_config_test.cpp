#include <headred/io/huggingface_config.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "io_support.hpp"

namespace hr = headred;
using headred_test::file_error_text;
using names = std::vector<std::string>;

namespace {

hr::huggingface_model parse(const std::string& text, const names& tensors = {}) {
  return hr::parse_huggingface_config(text, "config.json", tensors);
}

// The keys of a small model of each type; `more` comes before the closing brace.
std::string bert(const std::string& more = "") {
  return R"({"model_type": "bert", "vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 3,)"
         R"( "num_attention_heads": 4, "intermediate_size": 40)" +
         more + "}";
}
std::string albert(const std::string& more = "") {
  return R"({"model_type": "albert", "vocab_size": 50, "hidden_size": 24, "embedding_size": 8, "num_hidden_layers": 3,)"
         R"( "num_attention_heads": 4, "intermediate_size": 40)" +
         more + "}";
}
std::string marian(const std::string& more = "", const std::string& activation = "relu") {
  return R"({"model_type": "marian", "vocab_size": 50, "d_model": 24, "encoder_layers": 2, "decoder_layers": 3,)"
         R"( "encoder_attention_heads": 4, "decoder_attention_heads": 3, "encoder_ffn_dim": 40, "decoder_ffn_dim": 44,)"
         R"( "activation_function": ")" +
         activation + "\"" + more + "}";
}

std::string error_of(const std::string& text, const names& tensors = {}) {
  const std::string message = file_error_text([&] { parse(text, tensors); });
  CHECK(message.starts_with("config.json: "));
  return message.substr(std::string("config.json: ").size());
}

}  // namespace

TEST_SUITE("io") {
  TEST_CASE("Hugging Face config: BERT, with the values that its class takes for granted") {
    const auto model = parse(bert());
    const auto& c = model.config;
    CHECK(model.type == "bert");
    CHECK(c.kind == hr::architecture::encoder);
    CHECK(c.width == 24);
    CHECK(c.activation == hr::activation::gelu);
    CHECK_FALSE(c.pre_norm);
    CHECK_FALSE(c.final_norm);
    CHECK(c.norm_epsilon == 1e-12);
    CHECK(c.source == hr::embedding_config{50, 24, hr::positions::learned, 512, 2, 1, true});
    CHECK(c.encoder.layers == std::vector<hr::layer_config>(3, {{4, 4, 6, {}}, {}, 40}));
    CHECK(c.encoder.weights.empty());
    CHECK(c.dropout == 0.1);
    CHECK(c.attention_dropout == 0.1);
    CHECK(c.output == hr::output_head::none);
    CHECK(c.pooler);
    CHECK(c.pad_id == 0);
    CHECK(c.begin_id == -1);
    CHECK(model.begin == "[CLS]");
    CHECK(model.end == "[SEP]");
    const auto other = parse(bert(R"(, "hidden_act": "gelu_new", "layer_norm_eps": 1e-7, "type_vocab_size": 1,)"
                                  R"( "max_position_embeddings": 77, "pad_token_id": 3, "cls_token_id": 1,)"
                                  R"( "sep_token_id": 49, "hidden_dropout_prob": 0, "pruned_heads": {}, "x": [{}])"))
                           .config;
    CHECK(other.activation == hr::activation::gelu_tanh);
    CHECK(other.norm_epsilon == 1e-7);
    CHECK(other.source.token_types == 1);
    CHECK(other.source.max_positions == 77);
    CHECK(other.dropout == 0);
    CHECK(other.pad_id == 3);
    CHECK(other.begin_id == 1);
    CHECK(other.end_id == 49);
  }

  TEST_CASE("Hugging Face config: the tensors decide about pooler and masked-LM head, else the architectures") {
    const std::string masked = bert(R"(, "architectures": ["BertForMaskedLM"])");
    CHECK(parse(masked).config.output == hr::output_head::masked_lm);
    CHECK_FALSE(parse(masked).config.pooler);
    CHECK(parse(masked, {"bert.pooler.dense.weight"}).config.pooler);
    CHECK_FALSE(parse(bert(), {"embeddings.LayerNorm.bias"}).config.pooler);
    CHECK(parse(bert(), {"cls.predictions.bias"}).config.output == hr::output_head::masked_lm);
    CHECK(parse(bert(), {"cls.seq_relationship.bias"}).config.output == hr::output_head::none);
    CHECK(parse(albert(), {"predictions.bias"}).config.output == hr::output_head::masked_lm);
    CHECK_FALSE(parse(bert(R"(, "tie_word_embeddings": false)")).config.tied_output);
  }

  TEST_CASE("Hugging Face config: heads that prune_heads removed from BERT stay removed and keep their numbers") {
    const auto c = parse(bert(R"(, "pruned_heads": {"0": [2, 0], "2": [0, 1, 2, 3]})")).config;
    CHECK(c.encoder.layers[0].self == hr::attention_config{2, 2, 6, {1, 3}});
    CHECK(c.encoder.layers[1].self == hr::attention_config{4, 4, 6, {}});
    CHECK(c.encoder.layers[2].self == hr::attention_config{0, 0, 6, {}});
    CHECK(error_of(bert(R"(, "pruned_heads": {"0": [4]})")) ==
          "pruned_heads.0[0] is 4, expected a whole number from 0 to 3");
    CHECK(error_of(bert(R"(, "pruned_heads": {"3": [0]})")) == "pruned_heads has the unknown key \"3\"");
    CHECK(error_of(albert(R"(, "pruned_heads": {"0": [0]})")) ==
          "pruned_heads is not empty, which is not supported where layers share their weights");
  }

  TEST_CASE("Hugging Face config: ALBERT shares one set of layer weights and factorises its embedding") {
    const auto c = parse(albert(R"(, "bos_token_id": 0, "eos_token_ids": 0)")).config;
    CHECK(c.width == 24);
    CHECK(c.source.width == 8);
    CHECK(c.encoder.layers.size() == 3);
    CHECK(c.encoder.weights == std::vector<hr::index_t>{0, 0, 0});
    CHECK(c.activation == hr::activation::gelu_tanh);
    CHECK(c.dropout == 0);
    CHECK(c.begin_id == -1);  // bos and eos of old files mean nothing
    CHECK(error_of(albert(R"(, "num_hidden_groups": 2)")) ==
          "num_hidden_groups is 2, expected 1: all layers share one set of weights");
    CHECK(error_of(albert(R"(, "inner_group_num": 0)")) ==
          "inner_group_num is 0, expected 1: all layers share one set of weights");
    std::string same = albert();
    same.replace(same.find("\"embedding_size\": 8"), 19, "\"embedding_size\": 24");
    CHECK(error_of(same) == "embedding_size is hidden_size, 24: a projection between equal widths is not supported");
  }

  TEST_CASE("Hugging Face config: Marian") {
    const auto model = parse(marian(R"(, "scale_embedding": true)"), {"model.shared.weight", "final_logits_bias"});
    const auto& c = model.config;
    CHECK(c.kind == hr::architecture::encoder_decoder);
    CHECK_FALSE(c.pre_norm);
    CHECK_FALSE(c.final_norm);
    CHECK(c.norm_epsilon == 1e-5);
    CHECK(c.source == hr::embedding_config{50, 24, hr::positions::sinusoidal_halves, 1024, 0, std::sqrt(24.), false});
    CHECK(c.target == c.source);
    CHECK(c.shared_embeddings);
    CHECK(c.tied_output);
    CHECK(c.output == hr::output_head::projection);
    CHECK(c.output_bias);
    CHECK(c.encoder.layers == std::vector<hr::layer_config>(2, {{4, 4, 6, {}}, {}, 40}));
    CHECK(c.decoder.layers == std::vector<hr::layer_config>(3, {{3, 3, 8, {}}, {3, 3, 8, {}}, 44}));
    CHECK(c.pad_id == 49);
    CHECK(c.begin_id == 49);
    CHECK(c.end_id == 0);
    CHECK(model.begin.empty());
    CHECK_FALSE(parse(marian(), {"model.shared.weight"}).config.output_bias);
    const auto separate = parse(marian(R"(, "share_encoder_decoder_embeddings": false, "decoder_vocab_size": 60,)"
                                       R"( "pad_token_id": 5, "decoder_start_token_id": 59, "eos_token_id": 58)"))
                              .config;
    CHECK(separate.source.vocabulary == 50);
    CHECK(separate.target.vocabulary == 60);
    CHECK(separate.target.scale == 1);
    CHECK_FALSE(separate.shared_embeddings);
    CHECK(separate.pad_id == 5);
    CHECK(separate.begin_id == 59);
    CHECK(separate.end_id == 58);
  }

  TEST_CASE("Hugging Face config: what would be computed otherwise is refused by name") {
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"", "is not JSON: mistake at byte 1"},
        {"[1]", "document is not an object"},
        {"{}", "document has no key \"model_type\""},
        {R"({"model_type": null})", "model_type is null, expected a string"},
        {R"({"model_type": "mamba\n"})",
         "model_type is \"mamba\\x0a\", expected one of bert, albert, marian, marian-like"},
        {R"({"model_type": "roberta"})",
         "model_type is \"roberta\", whose positions begin after the padding id: not supported"},
        {R"({"model_type": "bert"})", "document has no key \"hidden_size\""},
        {bert(R"(, "x": NaN)"), "is not JSON: mistake at byte 141"},
        {bert(R"(, "layer_norm_eps": NaN)"), "is not JSON: mistake at byte 154"},
        {bert(R"(, "layer_norm_eps": -1e-12)"),
         "layer_norm_eps is -1e-12, expected a number from 2.2250738585072014e-308 to 1"},
        {bert(R"(, "layer_norm_eps": "1e-12")"),
         "layer_norm_eps is \"1e-12\", expected a number from 2.2250738585072014e-308 to 1"},
        {bert(R"(, "hidden_size": 24)"), "key \"hidden_size\" is given twice"},
        {bert(R"(, "hidden_act": "mish")"),
         "hidden_act is \"mish\", expected one of relu, gelu, gelu_new, gelu_pytorch_tanh, silu, swish"},
        {bert(R"(, "position_embedding_type": "relative_key")"),
         "position_embedding_type is \"relative_key\", expected \"absolute\": relative positions are not supported"},
        {bert(R"(, "is_decoder": true)"), "is_decoder is true, which is not supported"},
        {bert(R"(, "add_cross_attention": true)"), "add_cross_attention is true, which is not supported"},
        {bert(R"(, "is_decoder": 0)"), "is_decoder is 0, expected true or false"},
        {bert(R"(, "pad_token_id": 50)"), "pad_token_id is 50, expected a whole number from -1 to 49"},
        {bert(R"(, "hidden_dropout_prob": 1)"),
         "hidden_dropout_prob is 1, expected a number from 0 to 0.9999999999999999"},
        {bert(R"(, "architectures": [3])"), "architectures holds 3, expected strings"},
        {bert(R"(, "architectures": "BertModel")"), "architectures is \"BertModel\", expected an array"},
        {bert(R"(, "max_position_embeddings": 1e9)"),
         "max_position_embeddings is 1000000000.0, expected a whole number from 1 to 16777216"},
        {marian("", "mish"),
         "activation_function is \"mish\", expected one of relu, gelu, gelu_new, gelu_pytorch_tanh, silu, swish"},
        {marian(R"(, "normalize_before": true)"), "normalize_before is true, which is not supported"},
        {marian(R"(, "normalize_embedding": true)"), "normalize_embedding is true, which is not supported"},
        {marian(R"(, "add_final_layer_norm": true)"), "add_final_layer_norm is true, which is not supported"},
        {marian(R"(, "static_position_embeddings": false)"),
         "static_position_embeddings is false: learned positions are not supported for Marian"},
        {marian(R"(, "decoder_vocab_size": 51)"),
         "transformer_config: shared embeddings need one vocabulary and the model's width"},
    };
    for (const auto& wrong : cases) {
      CAPTURE(wrong.first);
      CHECK(error_of(wrong.first) == wrong.second);
    }
  }

  TEST_CASE("Hugging Face config: absurd sizes and indivisible widths") {
    for (const char* key :
         {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"}) {
      for (const char* value :
           {"0", "-1", "1e18", "9223372036854775807", "18446744073709551616", "1.5", "true", "\"8\"", "null", "[]"}) {
        std::string text = bert();
        const std::size_t at = text.find(key) + std::string(key).size() + 3;
        text.replace(at, text.find_first_of(",}", at) - at, value);
        CAPTURE(text);
        CHECK(error_of(text).starts_with(std::string(key) + " is "));
      }
    }
    std::string text = bert();
    text.replace(text.find("\"num_attention_heads\": 4"), 24, "\"num_attention_heads\": 5");
    CHECK(error_of(text) == "num_attention_heads is 5, expected a divisor of the width 24");
  }
}
