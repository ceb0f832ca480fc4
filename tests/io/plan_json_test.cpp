#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <headred/io/plan_json.hpp>
#include <headred/prune/random_plan.hpp>

#include "environment.hpp"
#include "oracle/plan_sets.hpp"

namespace hr = headred;
namespace fs = std::filesystem;
namespace oracle = headred_test::oracle;
using hr::attention_kind;
using hr::prune_unit;

namespace {

const std::string worked = R"({
  "format": "headred.prune_plan",
  "schema": 1,
  "unit": "head",
  "attention": [
    {"kind": "encoder_self", "layers": [
      {"heads": 12, "kept": [0, 4, 7]},
      {"heads": 12, "groups": [6, 6], "kept": []}
    ]},
    {"kind": "cross", "layers": [
      {"heads": 0, "kept": []}
    ]}
  ]
}
)";

// A document with one kind of one layer, or with one part of it exchanged.
std::string document(const std::string& layer, const std::string& before = R"("schema": 1, "unit": "head")") {
  return R"({"format": "headred.prune_plan", )" + before + R"(, "attention": [{"kind": "cross", "layers": [)" + layer +
         "]}]}";
}

struct folder {
  folder() { fs::create_directories(path); }
  ~folder() { fs::remove_all(path); }
  fs::path path = fs::temp_directory_path() /
                  ("headred_plan_" + std::to_string(std::chrono::steady_clock::now().time_since_epoch().count()));
};

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_SUITE("io") {
  TEST_CASE("plan JSON: worked example, bit for bit") {
    hr::plan_layout layout;
    layout.add(attention_kind::encoder_self, hr::head_layout(2, 12), {{}, {6, 6}});
    layout.add(attention_kind::cross, hr::head_layout(1, 0));
    auto plan = hr::prune_plan::keep_nothing(layout);
    plan.set_kept(attention_kind::encoder_self, 0, {0, 4, 7});
    CHECK(hr::to_json_text(plan) == worked);
    CHECK(hr::parse_plan_json(worked) == plan);
    CHECK(
        hr::to_json_text(hr::prune_plan()) ==
        "{\n  \"format\": \"headred.prune_plan\",\n  \"schema\": 1,\n  \"unit\": \"head\",\n  \"attention\": []\n}\n");
  }

  TEST_CASE("plan JSON: every plan comes back as it was, from a text and from a file") {
    const folder here;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      const auto unit = seed % 2 == 0 ? prune_unit::head : prune_unit::kv_group;
      const auto layout = oracle::random_layout(headred_test::seed() + seed, seed % 4 < 2);
      for (const auto& plan : {hr::prune_plan(layout, unit), hr::prune_plan::keep_nothing(layout, unit),
                               oracle::random_units(layout, unit, seed)}) {
        const auto text = hr::to_json_text(plan);
        CHECK(hr::parse_plan_json(text) == plan);
        CHECK(hr::to_json_text(hr::parse_plan_json(text)) == text);
      }
    }
    const auto plan = hr::random_plan(hr::head_layout(12, 12), 36, 1);
    hr::save_plan_json(here.path / "plan.json", plan);
    CHECK(read(here.path / "plan.json") == hr::to_json_text(plan));
    CHECK(hr::load_plan_json(here.path / "plan.json") == plan);
    hr::save_plan_json(here.path / "plan.json", hr::prune_plan());  // replaces
    CHECK(hr::load_plan_json(here.path / "plan.json") == hr::prune_plan());
    CHECK(std::distance(fs::directory_iterator(here.path), {}) == 1);
  }

  TEST_CASE("plan JSON: white space, key order and the order of heads are free") {
    const auto plan = hr::parse_plan_json(
        R"( {"attention":[{"layers":[{"kept":[2,0],"heads":3}],"kind":"cross"}],"unit":"head","schema":1,)"
        R"("format":"headred.prune_plan"} )");
    CHECK(plan.kept(attention_kind::cross, 0) == std::vector<hr::index_t>{0, 2});
  }

  TEST_CASE("plan JSON: kept numbers are groups in a plan of unit kv_group") {
    const auto plan = hr::parse_plan_json(
        document(R"({"heads": 5, "groups": [3, 2], "kept": [1]})", R"("schema": 1, "unit": "kv_group")"));
    CHECK(plan.unit() == prune_unit::kv_group);
    CHECK(plan.kept(attention_kind::cross, 0) == std::vector<hr::index_t>{3, 4});
  }

  TEST_CASE("plan JSON: neurons and layers make it schema 2") {
    hr::plan_layout layout(hr::head_layout(2, 4));
    layout.add_stack(hr::model_stack::encoder, {3, 5});
    hr::prune_plan plan(layout);
    plan.set_kept(attention_kind::encoder_self, 0, {1, 3});
    plan.set_kept_neurons(hr::model_stack::encoder, 0, {0, 2});
    plan.set_kept_layers(hr::model_stack::encoder, {0});
    const std::string text = R"({
  "format": "headred.prune_plan",
  "schema": 2,
  "unit": "head",
  "attention": [
    {"kind": "encoder_self", "layers": [
      {"heads": 4, "kept": [1, 3]},
      {"heads": 4, "kept": []}
    ]}
  ],
  "feed_forward": [
    {"stack": "encoder", "layers": [
      {"neurons": 3, "kept": [0, 2]},
      {"neurons": 5, "removed": true}
    ]}
  ]
}
)";
    CHECK(hr::to_json_text(plan) == text);
    CHECK(hr::parse_plan_json(text) == plan);
    for (std::size_t length = 0; length + 1 < text.size(); ++length)
      CHECK_THROWS_AS(hr::parse_plan_json(text.substr(0, length)), hr::argument_error);
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      const auto random = oracle::random_whole_units(oracle::random_whole_layout(seed), seed);
      CHECK(hr::parse_plan_json(hr::to_json_text(random)) == random);
    }
  }

  TEST_CASE("plan JSON: what is wrong is named by its key") {
    const std::string good = R"({"heads": 3, "kept": [0]})";
    const std::string layer = "plan JSON: attention[0].layers[0]", block = "plan JSON: feed_forward[0].layers[0]";
    const auto blocks = [&](const std::string& layers) {
      return document(
          good, R"("schema": 2, "unit": "head", "feed_forward": [{"stack": "decoder", "layers": [)" + layers + "]}]");
    };
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"", "plan JSON: is not JSON: mistake at byte 1"},
        {"{", "plan JSON: is not JSON: mistake at byte 2"},
        {worked + "x", "plan JSON: is not JSON: mistake at byte " + std::to_string(worked.size() + 1)},
        {"null", "plan JSON: document is not an object"},
        {"[]", "plan JSON: document is not an object"},
        {R"({"schema": 1})", "plan JSON: document has no key \"format\""},
        {document(good, R"("schema": 1, "unit": "head", "note": "x")"),
         "plan JSON: document has the unknown key \"note\""},
        {document(good, R"("schema": 1, "unit": "head", "\u0000\n\u00e4": 1)"),
         "plan JSON: document has the unknown key \"\\x00\\x0a\\xc3\\xa4\""},
        {document(good, R"("schema": 1, "schema": 1, "unit": "head")"), "plan JSON: key \"schema\" is given twice"},
        {document(R"({"heads": 3, "kept": [0], "kept": [1]})"), "plan JSON: key \"kept\" is given twice"},
        {document(good, R"("schema": 2, "unit": "head")"),
         "plan JSON: document has no key \"feed_forward\" in schema 2"},
        {document(good, R"("schema": 3, "unit": "head")"), "plan JSON: schema is 3, expected 1 to 2"},
        {document(good, R"("schema": 1, "feed_forward": [], "unit": "head")"),
         "plan JSON: document has the key \"feed_forward\" in schema 1"},
        {blocks(R"({"neurons": 3})"), block + " has not one of \"kept\" and \"removed\""},
        {blocks(R"({"neurons": 3, "kept": [], "removed": true})"), block + " has not one of \"kept\" and \"removed\""},
        {blocks(R"({"neurons": 3, "removed": false})"), block + ".removed is not true"},
        {blocks(R"({"neurons": 3, "kept": [3]})"), "prune_plan: decoder layer 0: neuron 3 is not in [0,3)"},
        {blocks(R"({"neurons": 3, "kept": [0, 1048577]})"),
         block + ".kept[1] is 1048577, expected a whole number from 0 to 1048576"},
        {blocks(R"({"neurons": 3, "kept": []}, {"neurons": 3, "kept": []})"),
         "plan_layout: cross has 1 layers, expected the 2 of the decoder"},
        {blocks(R"({"neurons": 3, "removed": true})"),
         "prune_plan: cross layer 0 is removed, expected it in set_kept_layers before its heads"},
        {document(good, R"("schema": 2, "feed_forward": [{"stack": "cross", "layers": []}], "unit": "head")"),
         "plan JSON: feed_forward[0].stack is \"cross\", expected one of encoder, decoder"},
        {document(good, R"("schema": 1.0, "unit": "head")"), "plan JSON: schema is 1.0, expected 1 to 2"},
        {document(good, R"("schema": "1", "unit": "head")"), "plan JSON: schema is string, expected 1 to 2"},
        {document(good, R"("schema": 1, "unit": "neuron")"),
         "plan JSON: unit is \"neuron\", expected one of head, kv_group"},
        {document(good, R"("schema": 1, "unit": 3)"), "plan JSON: unit is number, expected one of head, kv_group"},
        {document("3"), layer + " is not an object"},
        {document(R"({"heads": 3})"), layer + " has no key \"kept\""},
        {document(R"({"heads": 3, "kept": [], "kv": 1})"), layer + " has the unknown key \"kv\""},
        {document(R"({"heads": -1, "kept": []})"), layer + ".heads is -1, expected a whole number from 0 to 4096"},
        {document(R"({"heads": 3.0, "kept": []})"), layer + ".heads is 3.0, expected a whole number from 0 to 4096"},
        {document(R"({"heads": 4097, "kept": []})"), layer + ".heads is 4097, expected a whole number from 0 to 4096"},
        {document(R"({"heads": 18446744073709551615, "kept": []})"),
         layer + ".heads is 18446744073709551615, expected a whole number from 0 to 4096"},
        {document(R"({"heads": 1e999, "kept": []})"), "plan JSON: is not JSON: a number is out of range"},
        {document(R"({"heads": true, "kept": []})"),
         layer + ".heads is boolean, expected a whole number from 0 to 4096"},
        {document(R"({"heads": 3, "kept": {}})"), layer + ".kept is not an array"},
        {document(R"({"heads": 3, "kept": [0, "1"]})"),
         layer + ".kept[1] is string, expected a whole number from 0 to 4096"},
        {document(R"({"heads": 3, "kept": [3]})"), "prune_plan: cross layer 0: head 3 is not in [0,3)"},
        {document(R"({"heads": 3, "kept": [1, 1]})"), "prune_plan: cross layer 0: head 1 is named twice"},
        {document(R"({"heads": 3, "groups": [2, 2], "kept": []})"),
         "plan_layout: cross layer 0: its key/value groups do not divide 3 heads"},
        {document(""), "plan_layout: cross has no layers, expected at least 1"},
        {document(good + R"(]}, {"kind": "cross", "layers": [)" + good), "plan_layout: cross is given twice"},
        {document(good + R"(]}, {"kind": "self", "layers": [)" + good),
         "plan JSON: attention[1].kind is \"self\", expected one of encoder_self, decoder_self, cross"},
        {document(R"({"heads": 3, "kept": [[[0]]]})"), "plan JSON: is nested deeper than a plan is"},
        {std::string(1000000, '['), "plan JSON: is nested deeper than a plan is"},
        {std::string((16u << 20) + 1, ' '), "plan JSON: has 16777217 bytes, expected at most 16777216"},
    };
    for (const auto& wrong : cases) {
      const std::string& text = wrong.first;
      const std::string& message = wrong.second;
      CAPTURE(text.substr(0, 300));
      CHECK_THROWS_WITH_AS(hr::parse_plan_json(text), message.c_str(), hr::argument_error);
    }
  }

  TEST_CASE("plan JSON: cut or altered anywhere, it is refused or still a plan that round-trips") {
    for (std::size_t length = 0; length + 1 < worked.size(); ++length)
      CHECK_THROWS_AS(hr::parse_plan_json(worked.substr(0, length)), hr::argument_error);
    int accepted = 0;
    for (std::size_t at = 0; at < worked.size(); ++at) {
      for (const char c : std::string("0 9-[]{},\":\0\xff\n", 14)) {
        std::string altered = worked;
        altered[at] = c;
        try {
          const auto plan = hr::parse_plan_json(altered);
          ++accepted;
          CHECK(hr::parse_plan_json(hr::to_json_text(plan)) == plan);
        } catch (const hr::error& e) {
          CHECK(std::string(e.what()).find('\n') == std::string::npos);
        }
      }
    }
    CHECK(accepted > 0);
  }

  TEST_CASE("plan JSON: files that cannot be read or written, by name") {
    const folder here;
    const auto path = here.path / "plan.json";
    CHECK_THROWS_AS(hr::load_plan_json(path), hr::file_error);
    CHECK_THROWS_AS(hr::load_plan_json(here.path), hr::file_error);
    std::ofstream(path) << "{}";
    CHECK_THROWS_WITH_AS(hr::load_plan_json(path),
                         (path.string() + ": plan JSON: document has no key \"format\"").c_str(), hr::file_error);
    std::ofstream(here.path / "empty.json");
    CHECK_THROWS_AS(hr::load_plan_json(here.path / "empty.json"), hr::file_error);
    CHECK_THROWS_AS(hr::save_plan_json(here.path / "no" / "such" / "folder.json", hr::prune_plan()), hr::file_error);
    CHECK_THROWS_AS(hr::save_plan_json(here.path, hr::prune_plan()), hr::file_error);
  }
}
