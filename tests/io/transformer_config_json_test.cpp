#include <headred/io/transformer_config_json.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <headred/prune/random_plan.hpp>

#include "environment.hpp"
#include "io_support.hpp"
#include "model_samples.hpp"

namespace hr = headred;
using headred_test::file_error_text;

namespace {

const std::string worked = R"({
  "format": "headred",
  "schema": 1,
  "architecture": "encoder_decoder",
  "width": 6,
  "activation": "relu",
  "pre_norm": true,
  "final_norm": true,
  "norm_epsilon": 1e-06,
  "source": {"vocabulary": 7, "width": 6, "positions": "sinusoidal_halves_from_1", "max_positions": 9, "token_types": 0, "scale": 0.1, "norm": false},
  "target": {"vocabulary": 5, "width": 6, "positions": "learned", "max_positions": 8, "token_types": 0, "scale": 1, "norm": true},
  "shared_embeddings": false,
  "encoder": {"layers": [
    {"self": {"heads": 3, "kv_heads": 3, "head_size": 2}, "feed_forward": 4},
    {"self": {"heads": 0, "kv_heads": 0, "head_size": 2}, "feed_forward": 0},
    {"self": {"heads": 2, "kv_heads": 2, "head_size": 5, "original": [0, 3]}, "feed_forward": 3}
  ]},
  "decoder": {"layers": [
    {"self": {"heads": 4, "kv_heads": 2, "head_size": 1}, "cross": {"heads": 2, "kv_heads": 2, "head_size": 3, "original": [1, 7]}, "feed_forward": 2}
  ]},
  "output": "projection",
  "tied_output": false,
  "output_bias": true,
  "pooler": false,
  "dropout": 0.1,
  "attention_dropout": 0,
  "pad_id": -1,
  "begin_id": 1,
  "end_id": 2
}
)";

hr::transformer_document parse(const std::string& text) { return hr::parse_transformer_document(text, "config.json"); }

// The worked example with one part exchanged.
std::string with(const std::string& part, const std::string& other) {
  const std::size_t at = worked.find(part);
  REQUIRE(at != std::string::npos);
  return worked.substr(0, at) + other + worked.substr(at + part.size());
}

hr::transformer_config random_config(std::mt19937_64& random) {
  const auto below = [&](int n) { return static_cast<hr::index_t>(random() % static_cast<unsigned>(n)); };
  const auto real = [&] {
    return std::ldexp(static_cast<double>(random() >> 11) + 1, static_cast<int>(below(90)) - 90);
  };
  hr::transformer_config c;
  c.kind = static_cast<hr::architecture>(below(3));
  c.width = 1 + below(40);
  c.activation = static_cast<hr::activation>(below(3));
  c.pre_norm = below(2) == 0;
  c.final_norm = below(2) == 0;
  c.norm_epsilon = real();
  const auto embedding = [&] {
    return hr::embedding_config{
        1 + below(99), c.width, static_cast<hr::positions>(below(5)), 1 + below(99), below(3), -real(), below(2) == 0};
  };
  const auto attention = [&] {
    hr::attention_config a{below(5), 0, 1 + below(9), {}};
    a.kv_heads = a.heads == 4 ? 2 : a.heads;
    if (below(2) == 0)
      for (hr::index_t h = 0; h < a.heads; ++h)
        a.original.push_back(h == 0 ? below(3) : a.original.back() + 1 + below(3));
    return a;
  };
  const auto stack = [&](bool cross) {
    hr::stack_config s;
    s.layers.resize(static_cast<std::size_t>(1 + below(4)));
    for (auto& layer : s.layers) layer = {attention(), cross ? attention() : hr::attention_config(), below(50)};
    if (below(3) == 0) {
      s.layers.assign(s.layers.size(), s.layers[0]);
      s.weights.assign(s.layers.size(), 0);
    }
    return s;
  };
  c.source = embedding();
  if (c.has_cross()) c.target = embedding();
  if (c.has_encoder()) c.encoder = stack(false);
  if (c.has_decoder()) c.decoder = stack(c.has_cross());
  c.output = static_cast<hr::output_head>(below(c.kind == hr::architecture::encoder ? 3 : 2));
  c.tied_output = below(2) == 0;
  c.output_bias = below(2) == 0;
  c.pooler = below(2) == 0;
  c.dropout = static_cast<double>(random() >> 11) * 0x1p-53;
  c.attention_dropout = static_cast<double>(random() >> 11) * 0x1p-53;
  c.pad_id = static_cast<std::int32_t>(below(9)) - 1;
  c.begin_id = std::numeric_limits<std::int32_t>::max();
  c.end_id = static_cast<std::int32_t>(below(9));
  return c;
}

}  // namespace

TEST_SUITE("io") {
  TEST_CASE("transformer config JSON: worked example, bit for bit") {
    CHECK(hr::to_json_text(headred_test::uneven_config()) == worked);
    CHECK(parse(worked).config == headred_test::uneven_config());
    CHECK_FALSE(parse(worked).plan);
    CHECK(parse(worked).saved.empty());
  }

  TEST_CASE("transformer config JSON: every config comes back as it was") {
    std::mt19937_64 random(headred_test::seed());
    int tried = 0;
    for (int i = 0; i < 400; ++i) {
      const auto config = random_config(random);
      try {
        hr::validate_config(config);
      } catch (const hr::argument_error&) {
        continue;
      }
      ++tried;
      const auto text = hr::to_json_text(config);
      CAPTURE(text);
      REQUIRE(parse(text).config == config);
      REQUIRE(hr::to_json_text(parse(text)) == text);
    }
    CHECK(tried > 300);
  }

  TEST_CASE("transformer config JSON: the plan is embedded as its own JSON") {
    hr::transformer_document document{headred_test::small_encoder(true), {}, "0123456789abcdef"};
    document.plan = hr::random_plan(hr::head_layout(3, 2), 4, 1);
    const auto text = hr::to_json_text(document);
    CHECK(text.find("  \"saved\": \"0123456789abcdef\",\n  \"plan\": {\n    \"format\": \"headred.prune_plan\",\n") !=
          std::string::npos);
    CHECK(text.ends_with("    ]\n  }\n}\n"));
    CHECK(text.find("], \"weights\": [0, 0, 0]},") != std::string::npos);
    CHECK(text.find("target") == std::string::npos);
    CHECK(text.find("decoder") == std::string::npos);
    CHECK(parse(text) == document);
    document.plan = hr::prune_plan();
    CHECK(parse(hr::to_json_text(document)) == document);
    document.saved = "\"\\\n\x01";
    CHECK(parse(hr::to_json_text(document)) == document);
  }

  TEST_CASE("transformer config JSON: parts that the architecture does not need may be there") {
    auto config = headred_test::small_encoder(false);
    config.target.vocabulary = 3;
    config.decoder.layers.resize(1);
    config.encoder.layers[1].cross.heads = 9;
    CHECK(parse(hr::to_json_text(config)).config == config);
  }

  TEST_CASE("transformer config JSON: what is wrong is named by file and key") {
    const std::string plan = "\"end_id\": 2";
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"", "is not JSON: mistake at byte 1"},
        {"[]", "document is not an object"},
        {"{}", "document has no key \"format\""},
        {with("\"headred\"", "\"bert\""), "format is \"bert\", expected \"headred\""},
        {with("\"headred\"", "[1]"), "format is array, expected \"headred\""},
        {with("\"schema\": 1", "\"schema\": 2"), "schema is 2, expected a whole number from 1 to 1"},
        {with("\"schema\": 1", "\"schema\": 1.0"), "schema is 1.0, expected a whole number from 1 to 1"},
        {with("  \"schema\": 1,\n", ""), "document has no key \"schema\""},
        {with("\"schema\": 1", "\"schema\": 1, \"note\": 0"), "document has the unknown key \"note\""},
        {with("\"schema\": 1", "\"schema\": 1, \"width\": 6"), "key \"width\" is given twice"},
        {with("\"encoder_decoder\"", "\"seq2seq\""),
         "architecture is \"seq2seq\", expected one of encoder, encoder_decoder, decoder"},
        {with("\"width\": 6", "\"width\": -6"), "width is -6, expected a whole number from 1 to 1048576"},
        {with("\"width\": 6", "\"width\": 6.0"), "width is 6.0, expected a whole number from 1 to 1048576"},
        {with("\"width\": 6", "\"width\": \"6\""), "width is \"6\", expected a whole number from 1 to 1048576"},
        {with("\"width\": 6", "\"width\": null"), "width is null, expected a whole number from 1 to 1048576"},
        {with("\"width\": 6", "\"width\": 18446744073709551615"),
         "width is 18446744073709551615, expected a whole number from 1 to 1048576"},
        {with("\"width\": 6", "\"width\": 1e999"), "is not JSON: a number is out of range"},
        {with("\"relu\"", "\"swish\""), "activation is \"swish\", expected one of relu, gelu, gelu_tanh, silu"},
        {with("\"pre_norm\": true", "\"pre_norm\": 1"), "pre_norm is 1, expected true or false"},
        {with("1e-06", "NaN"), "is not JSON: mistake at byte 176"},
        {with("1e-06", "0"), "transformer_config: norm_epsilon must be positive"},
        {with("1e-06", "-1e-6"), "norm_epsilon is -1e-06, expected a number from 0 to 1.7976931348623157e+308"},
        {with("\"vocabulary\": 7", "\"vocabulary\": 0"),
         "transformer_config: source vocabulary is 0, expected at least 1"},
        {with("\"vocabulary\": 7", "\"vocabulary\": 4294967296"),
         "source.vocabulary is 4294967296, expected a whole number from 0 to 2147483647"},
        {with("\"vocabulary\": 7, ", ""), "source has no key \"vocabulary\""},
        {with("\"scale\": 0.1", "\"scale\": \"big\""),
         "source.scale is \"big\", expected a number from -1.7976931348623157e+308 to 1.7976931348623157e+308"},
        {with("\"learned\"", "\"rotary\""),
         "target.positions is \"rotary\", expected one of none, learned, sinusoidal_interleaved, sinusoidal_halves, "
         "sinusoidal_halves_from_1"},
        {with("\"encoder\": {", "\"encoder\": [], \"x\": {"), "encoder is not an object"},
        {with("\"layers\": [", "\"layers\": [7, "), "encoder.layers[0] is not an object"},
        {with("\"feed_forward\": 4", "\"ffn\": 4"), "encoder.layers[0] has no key \"feed_forward\""},
        {with("\"feed_forward\": 4", "\"feed_forward\": 4, \"rank\": 1"),
         "encoder.layers[0] has the unknown key \"rank\""},
        {with("\"heads\": 3", "\"heads\": 4097"),
         "encoder.layers[0].self.heads is 4097, expected a whole number from 0 to 4096"},
        {with("\"kv_heads\": 3", "\"kv_heads\": 2"),
         "transformer_config: encoder layer 0 self-attention has 2 key/value heads, expected a divisor of 3"},
        {with("[0, 3]", "[3, 0]"),
         "transformer_config: encoder layer 2 self-attention: original head numbers must ascend from 0 or more"},
        {with("[0, 3]", "[0, 3, 4]"),
         "transformer_config: encoder layer 2 self-attention names 3 original heads, expected 2"},
        {with("[0, 3]", "[0, true]"),
         "encoder.layers[2].self.original[1] is true, expected a whole number from 0 to 4095"},
        {with("\"cross\"", "\"crass\""), "decoder.layers[0] has no key \"cross\""},
        {with("\"dropout\": 0.1", "\"dropout\": 1"), "transformer_config: dropout is 1.000000, expected [0,1)"},
        {with("\"pad_id\": -1", "\"pad_id\": -2"), "pad_id is -2, expected a whole number from -1 to 2147483647"},
        {with(plan, plan + ", \"plan\": 3"), "plan JSON: document is not an object"},
        {with(plan, plan + ", \"plan\": {\"format\": \"x\", \"schema\": 1, \"unit\": \"head\", \"attention\": []}"),
         "plan JSON: format is not \"headred.prune_plan\""},
        {with(plan, plan + ", \"plan\": [[[[[[[[0]]]]]]]]"), "is nested deeper than 8 levels"},
        {std::string(1000000, '['), "is nested deeper than 8 levels"},
        {std::string((16u << 20) + 1, ' '), "has 16777217 bytes, expected at most 16777216"},
    };
    for (const auto& wrong : cases) {
      const std::string& text = wrong.first;
      CAPTURE(text.substr(0, 400));
      CHECK(file_error_text([&] { parse(text); }) == "config.json: " + wrong.second);
    }
  }

  TEST_CASE("transformer config JSON: too many layers, shapes that disagree, unknown enumerators") {
    auto config = headred_test::small_encoder(true);
    config.encoder.layers.resize(4097, config.encoder.layers[0]);
    config.encoder.weights.clear();
    CHECK(file_error_text([&] { parse(hr::to_json_text(config)); }) ==
          "config.json: encoder.layers has more than 4096 entries");
    config = headred_test::small_encoder(true);
    config.encoder.layers[1].feed_forward = 9;
    CHECK(file_error_text([&] { parse(hr::to_json_text(config)); }) ==
          "config.json: transformer_config: encoder layer 1 shares its weights with layer 0 of another shape");
    config.dropout = std::numeric_limits<double>::quiet_NaN();
    CHECK_THROWS_WITH_AS(hr::to_json_text(config), "transformer_config: dropout is nan", hr::argument_error);
    config.dropout = 0;
    config.activation = static_cast<hr::activation>(17);
    CHECK_THROWS_AS(hr::to_json_text(config), hr::argument_error);
  }

  TEST_CASE("transformer config JSON: cut or altered anywhere, it is refused or still a config that round-trips") {
    for (std::size_t length = 0; length + 1 < worked.size(); ++length)
      CHECK_THROWS_AS(parse(worked.substr(0, length)), hr::file_error);
    int accepted = 0;
    for (std::size_t at = 0; at < worked.size(); ++at) {
      for (const char c : std::string("0 9-]},\"\0\xff", 10)) {
        std::string altered = worked;
        altered[at] = c;
        try {
          const auto document = parse(altered);
          ++accepted;
          REQUIRE(parse(hr::to_json_text(document)) == document);
        } catch (const hr::file_error& e) {
          REQUIRE(std::string(e.what()).find('\n') == std::string::npos);
        }
      }
    }
    CHECK(accepted > 0);
  }
}
