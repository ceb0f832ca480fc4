#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <headred/prune/plan_text.hpp>

#include "environment.hpp"
#include "oracle/plan_sets.hpp"

namespace hr = headred;
namespace oracle = headred_test::oracle;
using hr::attention_kind;
using hr::prune_unit;

namespace {
const std::string worked =
    "prune_plan schema 1 unit head layers 4\n"
    "encoder_self 0: 0 4 7 (3 of 12)\n"
    "encoder_self 1: (0 of 12)\n"
    "decoder_self 0: 1 2 (2 of 6, groups 3+3)\n"
    "decoder_self 1: (0 of 0)";
}

TEST_SUITE("prune") {
  TEST_CASE("plan text: worked example, printed and read back") {
    hr::plan_layout layout(hr::head_layout(2, 12));
    layout.add(attention_kind::decoder_self, hr::head_layout(std::vector<hr::index_t>{6, 0}), {{3, 3}, {}});
    auto plan = hr::prune_plan::keep_nothing(layout);
    plan.set_kept(attention_kind::encoder_self, 0, {7, 0, 4});
    plan.set_kept(attention_kind::decoder_self, 0, {1, 2});
    std::ostringstream out;
    out << plan;
    CHECK(out.str() == worked);
    CHECK(hr::parse_plan(worked) == plan);
    CHECK(hr::parse_plan(worked + "\n") == plan);
  }

  TEST_CASE("plan text: units of key/value groups count groups and always give their sizes") {
    const std::string text =
        "prune_plan schema 1 unit kv_group layers 3\n"
        "cross 0: 1 (1 of 2, groups 3+2)\n"
        "cross 1: 0 2 (2 of 3, groups 1+1+1)\n"
        "cross 2: (0 of 0)";
    const auto plan = hr::parse_plan(text);
    CHECK(plan.unit() == prune_unit::kv_group);
    CHECK(plan.kept(attention_kind::cross, 0) == std::vector<hr::index_t>{3, 4});
    CHECK(plan.kept(attention_kind::cross, 1) == std::vector<hr::index_t>{0, 2});
    CHECK(hr::to_text(plan) == text);
  }

  TEST_CASE("plan text: every plan comes back as it was") {
    for (std::uint64_t seed = 0; seed < 80; ++seed) {
      const auto unit = seed % 2 == 0 ? prune_unit::head : prune_unit::kv_group;
      const auto layout = oracle::random_layout(headred_test::seed() + seed, seed % 4 < 2);
      for (const auto& plan : {hr::prune_plan(layout, unit), hr::prune_plan::keep_nothing(layout, unit),
                               oracle::random_units(layout, unit, seed)}) {
        const auto text = hr::to_text(plan);
        CHECK(hr::parse_plan(text) == plan);
        CHECK(hr::to_text(hr::parse_plan(text)) == text);
      }
    }
    CHECK(hr::parse_plan(hr::to_text(hr::prune_plan())) == hr::prune_plan());
  }

  TEST_CASE("plan text: neurons and layers make it schema 2") {
    const std::string both =
        "prune_plan schema 2 unit head layers 3 neurons 3\n"
        "encoder_self 0: 0 2 (2 of 4)\n"
        "encoder_self 1: (0 of 4)\n"
        "decoder_self 0: 1 (1 of 2, groups 1+1)\n"
        "encoder 0: 0-2 5 7-8 (6 of 9)\n"
        "encoder 1: removed (of 9)\n"
        "decoder 0: (0 of 3)";
    hr::plan_layout layout;
    layout.add(attention_kind::encoder_self, hr::head_layout(2, 4));
    layout.add(attention_kind::decoder_self, hr::head_layout(1, 2));
    layout.add_stack(hr::model_stack::decoder, {3}).add_stack(hr::model_stack::encoder, {9, 9});
    CHECK(hr::to_string(layout) ==
          "encoder_self 2x4 heads, decoder_self 1x2 heads, encoder 2x9 neurons, decoder 1x3 neurons");
    hr::prune_plan plan(layout);
    plan.set_kept(attention_kind::encoder_self, 0, {2, 0});
    plan.set_kept(attention_kind::decoder_self, 0, {1});
    plan.set_kept_neurons(hr::model_stack::encoder, 0, {8, 0, 1, 2, 7, 5});
    plan.set_kept_neurons(hr::model_stack::decoder, 0, {});
    plan.set_kept_layers(hr::model_stack::encoder, {0});
    const std::string plain = [&] {
      std::string text = both;
      return text.erase(text.find(", groups 1+1"), 12);
    }();
    CHECK(hr::to_text(plan) == plain);
    CHECK(hr::parse_plan(both) == plan);
    CHECK(hr::parse_plan(plain + "\n") == plan);
    for (std::size_t length = 0; length < both.size(); ++length)
      CHECK_THROWS_AS(hr::parse_plan(both.substr(0, length)), hr::argument_error);
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      const auto random = oracle::random_whole_units(oracle::random_whole_layout(seed), seed);
      CHECK(hr::parse_plan(hr::to_text(random)) == random);
    }
  }

  TEST_CASE("plan text: what is wrong is named with its line") {
    const std::string head = "prune_plan schema 1 unit head layers 1\n";
    const std::string two = "prune_plan schema 1 unit head layers 2\n",
                      three = "prune_plan schema 1 unit head layers 3\n";
    const std::string group = "prune_plan schema 1 unit kv_group layers 1\n";
    const std::string blocks = "prune_plan schema 2 unit head layers 1 neurons 1\n";
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"", "parse_plan: line 1: expected \"prune_plan schema \""},
        {"prune_plan schema x", "parse_plan: line 1: expected a schema version"},
        {"prune_plan schema 3 unit head", "parse_plan: line 1: schema is 3, expected 1 to 2"},
        {"prune_plan schema 0 unit head", "parse_plan: line 1: schema is 0, expected 1 to 2"},
        {"prune_plan schema 2 unit head layers 1\n", "parse_plan: line 1: expected \" neurons \""},
        {"prune_plan schema 1 unit head layers 1 neurons 1\n", "parse_plan: line 1: expected the end of the line"},
        {blocks + "cross 0: 0 (1 of 2)\nencoder 0: 0-3 (4 of 4)\nencoder 1: (0 of 4)",
         "parse_plan: line 4: expected the end after 2 layers"},
        {blocks + "cross 0: 0 (1 of 2)\ncross 1: (0 of 4)", "parse_plan: line 3: expected a stack: encoder or decoder"},
        {blocks + "cross 0: 0 (1 of 2)\nencoder 0: 0-3 (3 of 4)", "parse_plan: line 3: lists 4 neurons but counts 3"},
        {blocks + "cross 0: 0 (1 of 2)\nencoder 0: 3-2 (0 of 4)",
         "parse_plan: line 3: expected ranges of neurons below 1048576, 8388608 at most in all"},
        {blocks + "cross 0: 0 (1 of 2)\nencoder 0: 0-1048576 (1 of 1)",
         "parse_plan: line 3: expected ranges of neurons below 1048576, 8388608 at most in all"},
        {blocks + "cross 0: 0 (1 of 2)\nencoder 0: 0-3 3 (5 of 5)",
         "prune_plan: encoder layer 0: neuron 3 is named twice"},
        {blocks + "cross 0: 0 (1 of 2)\nencoder 0: 4 (1 of 4)",
         "prune_plan: encoder layer 0: neuron 4 is not in [0,4)"},
        {blocks + "cross 0: 0 (1 of 2)\nencoder 0: (0 of 1048577)",
         "plan_layout: encoder layer 0 has 1048577 neurons, expected 0 to 1048576"},
        {blocks + "cross 0: 0 (1 of 2)\ndecoder 0: removed (of 4)",
         "prune_plan: cross layer 0 is removed, expected it in set_kept_layers before its heads"},
        {"prune_plan schema 1 unit neuron", "parse_plan: line 1: unknown unit, expected head or kv_group"},
        {"prune_plan schema 1 unit head", "parse_plan: line 1: expected \" layers \""},
        {"prune_plan schema 1 unit head layers 1 ", "parse_plan: line 1: expected the end of the line"},
        {"prune_plan schema 1 unit head layers 999999999\n",
         "parse_plan: line 2: a layer is missing, 0 of 999999999 are given"},
        {two + "cross 0: 0 (1 of 2)\n", "parse_plan: line 3: a layer is missing, 1 of 2 are given"},
        {two + "cross 0: 0 (1 of 2)", "parse_plan: line 2: a layer is missing, 1 of 2 are given"},
        {head + "cross 0: 0 (1 of 2)\ncross 1: 0 (1 of 2)", "parse_plan: line 3: expected the end after 1 layers"},
        {head + "\n", "parse_plan: line 2: expected an attention kind: encoder_self, decoder_self or cross"},
        {head + "self 0: (0 of 0)",
         "parse_plan: line 2: expected an attention kind: encoder_self, decoder_self or cross"},
        {head + "cross 1: 0 (1 of 2)", "parse_plan: line 2: cross layer 1 comes early, expected layer 0"},
        {two + "cross 0: 0 (1 of 2)\ncross 0: 1 (1 of 2)",
         "parse_plan: line 3: cross layer 0 is given twice or late, expected layer 1"},
        {three + "cross 0: 0 (1 of 2)\nencoder_self 0: 1 (1 of 2)\ncross 0: 0 (1 of 2)",
         "plan_layout: cross is given twice"},
        {head + "cross 0: 0 1 (1 of 2)", "parse_plan: line 2: lists 2 numbers but counts 1"},
        {head + "cross 0: 0 2 (2 of 2)", "prune_plan: cross layer 0: head 2 is not in [0,2)"},
        {head + "cross 0: 1 1 (2 of 2)", "prune_plan: cross layer 0: head 1 is named twice"},
        {head + "cross 0: -1 (1 of 2)", "parse_plan: line 2: expected a number or \"(\""},
        {head + "cross 0: 01 (1 of 2)", "parse_plan: line 2: expected a number or \"(\""},
        {head + "cross 0: 99999999999999999999 (1 of 2)", "parse_plan: line 2: expected a number or \"(\""},
        {head + "cross 0: 0 (1 of 9223372036854775807)", "parse_plan: line 2: expected at most 4096 units"},
        {head + "cross 0: 0 (1 of 4, groups 2+1)",
         "plan_layout: cross layer 0: its key/value groups hold 3 heads, expected 4"},
        {head + "cross 0: 0 (1 of 2) ", "parse_plan: line 2: expected the end of the line"},
        {head + "cross 0: 0 (1 of 2", "parse_plan: line 2: expected \")\""},
        {head + "cross 0:", "parse_plan: line 2: expected \" \""},
        {group + "cross 0: 0 (1 of 2)", "parse_plan: line 2: has 0 groups but counts 2"},
        {group + "cross 0: 0 (1 of 2, groups 2+0)",
         "parse_plan: line 2: expected group sizes of at least 1 that sum to at most 4096"},
        {group + "cross 0: 0 (1 of 2, groups 9223372036854775807+9223372036854775807)",
         "parse_plan: line 2: expected group sizes of at least 1 that sum to at most 4096"},
        {group + "cross 0: 2 (1 of 2, groups 2+2)", "prune_plan: cross layer 0: group 2 is not in [0,2)"},
    };
    for (const auto& wrong : cases) {
      const std::string& text = wrong.first;
      const std::string& message = wrong.second;
      CAPTURE(text);
      CHECK_THROWS_WITH_AS(hr::parse_plan(text), message.c_str(), hr::argument_error);
    }
  }

  TEST_CASE("plan text: cut anywhere it is refused, altered anywhere refused or another plan") {
    const auto plan_of_worked = hr::parse_plan(worked);
    for (std::size_t length = 0; length < worked.size(); ++length)
      CHECK_THROWS_AS(hr::parse_plan(worked.substr(0, length)), hr::argument_error);
    int accepted = 0;
    for (std::size_t at = 0; at < worked.size(); ++at) {
      for (const char c : std::string("0 9(-+:\n\0\xff z", 13)) {
        std::string altered = worked;
        altered[at] = c;
        if (altered == worked) continue;
        try {
          const auto plan = hr::parse_plan(altered);
          ++accepted;
          CHECK(plan != plan_of_worked);
          CHECK(hr::parse_plan(hr::to_text(plan)) == plan);
        } catch (const hr::error& e) {
          CHECK(std::string(e.what()).find('\n') == std::string::npos);
        }
      }
    }
    CHECK(accepted > 0);
  }
}
