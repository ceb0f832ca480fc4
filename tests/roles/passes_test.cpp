// Passes over rows: sums and places in packs, floats as they are, threads; all against the same done plainly.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/core/random.hpp>
#include <headred/importance/confidence.hpp>
#include <headred/importance/roles/positional_heads.hpp>
#include <headred/importance/roles/syntactic_heads.hpp>
#include <headred/importance/roles/target_heads.hpp>

#include "environment.hpp"

namespace hr = headred;
using hr::index_t;

namespace {

/// One layer of three heads; rows of eighths (ties everywhere) or of anything, some rows zero.
std::vector<float> random_maps(std::uint64_t seed, index_t tokens, bool eighths) {
  const hr::random_stream random(headred_test::seed(), seed);
  std::uint64_t drawn = 0;
  std::vector<float> all(static_cast<std::size_t>(3 * tokens * tokens));
  for (index_t r = 0; r < 3 * tokens; ++r) {
    float* const row = all.data() + r * tokens;
    if (random.uniform(drawn++) < .05) continue;
    if (eighths) {
      for (int i = 0; i < 8; ++i)
        row[random.below(drawn++, static_cast<std::uint64_t>(std::min<index_t>(tokens, 9)))] += .125f;
      continue;
    }
    double sum = 0;
    for (index_t s = 0; s < tokens; ++s) sum += row[s] = static_cast<float>(std::pow(random.uniform(drawn++), 4));
    for (index_t s = 0; s < tokens; ++s) row[s] = static_cast<float>(row[s] / sum);
  }
  return all;
}

template <class T>
hr::tensor_view<const T, 4> view(const std::vector<T>& maps, index_t tokens) {
  return {maps.data(), {1, 3, tokens, tokens}};
}

/// A tree over words of one to three tokens, tokens of no word at both ends and here and there.
struct sentence {
  std::vector<index_t> heads, word;
  std::vector<std::string> relations;

  sentence(std::uint64_t seed, index_t tokens) {
    const hr::random_stream random(headred_test::seed(), seed);
    std::uint64_t drawn = 0;
    word.push_back(-1);
    for (index_t w = 0; static_cast<index_t>(word.size()) + 1 < tokens; ++w) {
      if (random.uniform(drawn++) < .1) word.push_back(-1);
      for (std::uint64_t n = random.below(drawn++, 3) + 1; n > 0 && static_cast<index_t>(word.size()) + 1 < tokens; --n)
        word.push_back(w);
      heads.push_back(w == 0 ? -1 : static_cast<index_t>(random.below(drawn++, static_cast<std::uint64_t>(w))));
      const char* const names[] = {"nsubj", "obj", "amod", "advmod", "det"};
      relations.emplace_back(names[random.below(drawn++, 5)]);
    }
    while (static_cast<index_t>(word.size()) < tokens) word.push_back(-1);
    if (random.uniform(drawn++) < .4) word.back() = word[word.size() - 2];  // the end continues a word, or none
  }
  hr::word_tree tree() const { return {heads, relations, word}; }
};

std::string told(const std::vector<hr::head_role>& roles) {
  std::string text;
  for (const auto& r : roles)
    text += r.detail + " " + std::to_string(r.evidence.count) + "/" + std::to_string(r.evidence.tokens) + " " +
            std::to_string(r.mass) + " " + std::to_string(r.chance) + " " + std::to_string(r.evidence.threshold) + "\n";
  return text;
}

}  // namespace

TEST_SUITE("roles") {
  TEST_CASE_TEMPLATE("rows: sum, greatest, its first place, what is negative; at every length", T, float, double) {
    const hr::random_stream random(headred_test::seed(), 17);
    std::uint64_t drawn = 0;
    for (index_t keys = 1; keys < 90; ++keys)
      for (const index_t candidates : {keys, keys - 1}) {
        std::vector<T> row(static_cast<std::size_t>(keys)), only(row.size());
        for (auto& x : row) x = static_cast<T>(random.below(drawn++, 12)) / T(64);
        for (auto& x : only) x = static_cast<T>(random.below(drawn++, 2));
        for (const bool masked : {false, true}) {
          hr::detail::row_peaks<T> peaks;
          const auto peak = peaks.template of<true>(row.data(), keys, candidates, masked ? only.data() : nullptr);
          double sum = 0;
          T most = 0;
          index_t place = 0;
          for (index_t s = 0; s < keys; ++s) {
            const auto at = static_cast<std::size_t>(s);
            sum += static_cast<double>(row[at]);  // exact
            if (s < candidates && (!masked || only[at] == 1) && row[at] > most) {
              most = row[at];
              place = s;
            }
          }
          CHECK(peak.sum == sum);
          CHECK(peak.most == most);
          CHECK(peak.place == place);
          CHECK_FALSE(peaks.negative());
          const auto plain = peaks.template of<false>(row.data(), keys, candidates, masked ? only.data() : nullptr);
          CHECK(plain.most == most);
          CHECK(plain.sum == sum);
        }
        hr::detail::row_peaks<T> peaks;
        row[static_cast<std::size_t>(drawn % static_cast<std::uint64_t>(keys))] = T(-1) / 64;
        peaks.template of<false>(row.data(), keys, candidates);
        CHECK(peaks.negative());
      }
  }

  TEST_CASE("the same bits with and without threads, floats as they are and as doubles") {
    for (const auto policy :
         {hr::word_policy::word_mean_sum_words_only, hr::word_policy::word_mean_sum, hr::word_policy::first_piece}) {
      hr::syntactic_options o;
      o.words = policy;
      const hr::head_layout layout(1, 3);
      hr::positional_heads positional(layout), positional_wide(layout);
      hr::target_heads targets(layout, "any"), targets_wide(layout, "any");
      hr::syntactic_heads syntactic(layout, o), syntactic_wide(layout, o);
      std::vector<hr::positional_heads> positional_on(3, positional);
      std::vector<hr::target_heads> targets_on(3, targets);
      std::vector<hr::syntactic_heads> syntactic_on(3, syntactic);
      hr::cpu one{{.threads = 1}}, two{{.threads = 2}}, three{{.threads = 3}};
      hr::cpu* const backends[] = {&one, &two, &three};
      for (std::uint64_t s = 0; s < 60; ++s) {
        const auto tokens = static_cast<index_t>(3 + s);
        const auto maps = random_maps(s, tokens, s % 2 == 0);
        const std::vector<double> wide(maps.begin(), maps.end());
        const sentence own(s, tokens);
        hr::key_targets keys;
        for (index_t t = 0; t < tokens; ++t) {
          if (t % 3 != 0) keys.add((t * 7) % tokens);
          keys.end_query();
        }
        positional.add(view(maps, tokens));
        targets.add(view(maps, tokens), keys);
        syntactic.add(view(maps, tokens), own.tree());
        positional_wide.add(view(wide, tokens));
        targets_wide.add(view(wide, tokens), keys);
        syntactic_wide.add(view(wide, tokens), own.tree());
        for (std::size_t i = 0; i < 3; ++i) {
          positional_on[i].add(*backends[i], view(maps, tokens));
          targets_on[i].add(*backends[i], view(maps, tokens), keys);
          syntactic_on[i].add(*backends[i], view(maps, tokens), own.tree());
        }
      }
      CHECK(syntactic.of({0, 1}, "nsubj", hr::dependency_direction::dependent_to_head).evidence.count > 5);
      CHECK(told(positional_wide.roles()) == told(positional.roles()));
      CHECK(told(syntactic_wide.roles()) == told(syntactic.roles()));
      CHECK(told(targets_wide.roles()) == told(targets.roles()));
      for (std::size_t i = 0; i < 3; ++i) {
        CHECK(told(positional_on[i].roles()) == told(positional.roles()));
        CHECK(told(syntactic_on[i].roles()) == told(syntactic.roles()));
        for (index_t h = 0; h < 3; ++h) {
          CHECK(targets_on[i].mass({0, h}) == targets.mass({0, h}));
          CHECK(targets_on[i].evidence({0, h}).count == targets.evidence({0, h}).count);
        }
      }
    }
  }

  TEST_CASE("a negative entry in a row that sums to 1 is refused by name, and leaves no trace") {
    constexpr index_t tokens = 40;
    auto maps = random_maps(1, tokens, true);
    const auto good = maps;
    float* const row = maps.data() + (2 * tokens + 7) * tokens;
    std::fill_n(row, tokens, 0.f);
    row[3] = 1.25f;
    row[20] = -.25f;
    hr::cpu be{{.threads = 2}};
    hr::positional_heads positional(hr::head_layout(1, 3));
    hr::target_heads targets(hr::head_layout(1, 3), "any");
    hr::syntactic_heads syntactic(hr::head_layout(1, 3));
    hr::confidence<hr::cpu> sure(be, hr::head_layout(1, 3));
    hr::key_targets keys;
    for (index_t t = 0; t < tokens; ++t) {
      keys.add(t);
      keys.end_query();
    }
    std::vector<index_t> heads(tokens, 7), word(tokens);
    heads[7] = -1;
    for (index_t t = 0; t < tokens; ++t) word[static_cast<std::size_t>(t)] = t;
    const std::vector<std::string> relations(tokens, "nsubj");
    const hr::word_tree tree{heads, relations, word};
    const auto refused = [](const auto& add) {
      try {
        add();
      } catch (const hr::data_error& e) {
        return std::string(e.what());
      }
      return std::string("no error");
    };
    const std::string text = "layer 0, head 2, row 7: attention: key 20 is -0.25, expected a number >= 0";
    CHECK(refused([&] { positional.add(view(maps, tokens)); }) == text);
    CHECK(refused([&] { positional.add(be, view(maps, tokens)); }) == text);
    CHECK(refused([&] { targets.add(view(maps, tokens), keys); }) == text);
    CHECK(refused([&] { targets.add(be, view(maps, tokens), keys); }) == text);
    CHECK(refused([&] { syntactic.add(view(maps, tokens), tree); }) == text);
    CHECK(refused([&] { syntactic.add(be, view(maps, tokens), tree); }) == text);
    CHECK(refused([&] { sure.add(view(maps, tokens)); }) == text);
    hr::positional_heads once(hr::head_layout(1, 3));
    hr::syntactic_heads one_tree(hr::head_layout(1, 3));
    positional.add(be, view(good, tokens));
    once.add(view(good, tokens));
    syntactic.add(be, view(good, tokens), tree);
    one_tree.add(view(good, tokens), tree);
    CHECK(told(positional.roles()) == told(once.roles()));
    CHECK(told(syntactic.roles()) == told(one_tree.roles()));
    CHECK(targets.evidence({0, 0}).tokens == 0);
    CHECK(sure.counts().tokens == 0);
  }
}
