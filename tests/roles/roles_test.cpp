// Roles on planted and random maps.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <headred/importance/roles/attention_patterns.hpp>
#include <headred/importance/roles/positional_heads.hpp>
#include <headred/importance/roles/rare_tokens.hpp>
#include <headred/importance/roles/repeated_tokens.hpp>
#include <headred/importance/roles/syntactic_heads.hpp>
#include <headred/importance/roles/target_heads.hpp>
#include <headred/io/roles_json.hpp>
#include <headred/prune/grammar_roles.hpp>

#include "environment.hpp"
#include "oracle/roles.hpp"

namespace hr = headred;
using hr::index_t;

namespace {

// Maps (L,H,T,S) with everything on one key of each row, chosen by f(layer, head, query); -1: a row of zeros.
struct maps {
  index_t L, H, T, S;
  std::vector<double> data;
  maps(index_t layers, index_t heads, index_t queries, index_t keys)
      : L(layers), H(heads), T(queries), S(keys), data(static_cast<std::size_t>(L * H * T * S)) {}
  template <class F>
  maps(index_t layers, index_t heads, index_t queries, index_t keys, F&& f) : maps(layers, heads, queries, keys) {
    for (index_t l = 0; l < L; ++l)
      for (index_t h = 0; h < H; ++h)
        for (index_t t = 0; t < T; ++t)
          if (const index_t s = f(l, h, t); s >= 0) at(l, h, t, s) = 1;
  }
  double& at(index_t l, index_t h, index_t t, index_t s) {
    return data[static_cast<std::size_t>(((l * H + h) * T + t) * S + s)];
  }
  hr::tensor_view<const double, 4> view() const { return {data.data(), {L, H, T, S}}; }
  std::vector<hr::tensor_view<const double, 3>> layers() const {
    std::vector<hr::tensor_view<const double, 3>> all;
    for (index_t l = 0; l < L; ++l) all.push_back(view()[l]);
    return all;
  }
};

// Rows of few different values, so that ties are frequent; some rows are zero.
maps random_maps(std::uint64_t seed, index_t T, index_t S) {
  maps m(2, 3, T, S);
  const hr::random_stream random(headred_test::seed(), seed);
  std::uint64_t drawn = 0;
  for (index_t r = 0; r < 6 * T; ++r) {
    if (random.uniform(drawn++) < .1) continue;
    double sum = 0;
    double* row = m.data.data() + r * S;
    for (index_t s = 0; s < S; ++s) sum += row[s] = static_cast<double>(random.below(drawn++, 4));
    if (sum == 0) sum = row[0] = 1;
    for (index_t s = 0; s < S; ++s) row[s] /= sum;
  }
  return m;
}

oracle::map_rows rows_of(maps& m, index_t l, index_t h) {
  oracle::map_rows rows(static_cast<std::size_t>(m.T));
  for (index_t t = 0; t < m.T; ++t)
    for (index_t s = 0; s < m.S; ++s) rows[static_cast<std::size_t>(t)].push_back(m.at(l, h, t, s));
  return rows;
}

template <class F>
std::string text_of_error(F&& f) {
  try {
    f();
  } catch (const hr::error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_SUITE("roles") {
  TEST_CASE("wilson interval: known values, ends, no token") {
    // R: prop.test(k, n, correct = FALSE)
    CHECK(hr::wilson_interval(9, 10).low == doctest::Approx(.5958500).epsilon(1e-6));
    CHECK(hr::wilson_interval(9, 10).high == doctest::Approx(.9821238).epsilon(1e-6));
    CHECK(hr::wilson_interval(0, 10).low == 0);
    CHECK(hr::wilson_interval(0, 10).high == doctest::Approx(.2775328).epsilon(1e-6));
    CHECK(hr::wilson_interval(10, 10).high == 1);
    CHECK(hr::wilson_interval(0, 0).low == 0);
    CHECK(hr::wilson_interval(0, 0).high == 1);
  }

  TEST_CASE("verdicts: threshold inclusive, too few, settled only, a baseline") {
    for (index_t n = 10; n < 2000; n += 10) {  // 9 of 10 at any size is yes, one less is no
      CHECK(hr::judge(n / 10 * 9, n, {.threshold = .9, .min_tokens = 1}).says == hr::verdict::yes);
      CHECK(hr::judge(n / 10 * 9 - 1, n, {.threshold = .9, .min_tokens = 1}).says == hr::verdict::no);
      CHECK(hr::judge(n / 10 * 4, n, {.threshold = .1, .min_tokens = 1}, n / 10 * 3).says == hr::verdict::yes);
      CHECK(hr::judge(n / 10 * 4 - 1, n, {.threshold = .1, .min_tokens = 1}, n / 10 * 3).says == hr::verdict::no);
    }
    CHECK(hr::judge(29, 29, {}).says == hr::verdict::too_few);
    CHECK(hr::judge(30, 30, {}).says == hr::verdict::yes);
    CHECK(hr::judge(0, 0, {}).says == hr::verdict::too_few);
    CHECK(hr::judge(0, 0, {}).share == 0);
    CHECK_FALSE(hr::judge(52, 100, {}).settled);
    CHECK(hr::judge(52, 100, {}).says == hr::verdict::yes);
    CHECK(hr::judge(52, 100, {.settled_only = true}).says == hr::verdict::too_few);
    CHECK(hr::judge(70, 100, {.settled_only = true}).says == hr::verdict::yes);
    CHECK(hr::judge(30, 100, {.settled_only = true}).says == hr::verdict::no);
  }

  TEST_CASE("positional: shift heads at any offset, also longer than the sentence") {
    const auto shift = [](index_t T) {
      return maps(1, 7, T, T,
                  [T](index_t, index_t h, index_t t) { return std::min(std::max<index_t>(t + h - 3, 0), T - 1); });
    };
    hr::positional_heads heads({1, 7}, {.end = hr::end_token::included, .rule = {.threshold = .9}});
    for (const index_t T : {100, 1, 2, 120}) heads.add(shift(T).view());
    for (index_t h = 0; h < 7; ++h) {
      CHECK(heads.tokens({0, h}) == 223);
      CHECK(heads.best_offset({0, h}) == h - 3);
      CHECK(heads.evidence({0, h}, h - 3).says == hr::verdict::yes);
      CHECK(heads.count({0, h}, 1000) == 0);
    }
    CHECK(heads.roles()[0].detail == "offset -3");
    // one sentence, shorter than the offset: no crash, no verdict
    hr::positional_heads few({1, 7});
    few.add(shift(2).view());
    CHECK(few.tokens({0, 0}) == 1);
    CHECK(few.evidence({0, 0}, -3).says == hr::verdict::too_few);
  }

  TEST_CASE("positional: the end token, ties, single tokens, rows of zeros") {
    // row 0 is greatest at the end token, then ties between 1 and 2
    maps m(1, 1, 4, 4);
    const double row[4] = {.1, .2, .2, .5};
    for (index_t s = 0; s < 4; ++s) m.at(0, 0, 0, s) = row[s];
    m.at(0, 0, 1, 3) = 1;  // nothing but the end token: the first key
    m.at(0, 0, 3, 3) = 1;
    hr::positional_heads heads({1, 1}), key({1, 1}, {.end = hr::end_token::excluded_as_key}),
        all({1, 1}, {.end = hr::end_token::included});
    for (auto* h : {&heads, &key, &all}) h->add(m.view());
    CHECK(heads.tokens({0, 0}) == 2);  // row 2 is zero, row 3 the end token
    CHECK(heads.count({0, 0}, 1) == 1);
    CHECK(heads.count({0, 0}, -1) == 1);
    CHECK(heads.best_offset({0, 0}) == -1);  // the smaller of equals
    CHECK(key.tokens({0, 0}) == 3);
    CHECK(key.count({0, 0}, -3) == 1);
    CHECK(all.count({0, 0}, 3) == 1);
    CHECK(all.count({0, 0}, 0) == 1);
    const maps end(1, 1, 1, 1, [](index_t, index_t, index_t) { return 0; });
    for (auto* h : {&heads, &key}) {
      const index_t before = h->tokens({0, 0});
      h->add(end.view());
      h->add(m.view(), {.length = 0});
      CHECK(h->tokens({0, 0}) == before);
    }
    all.add(end.view());
    CHECK(all.tokens({0, 0}) == 4);
    hr::positional_heads nobody({1, 1});
    CHECK(nobody.best_offset({0, 0}) == 0);
    CHECK(nobody.roles()[0].evidence.says == hr::verdict::too_few);
  }

  TEST_CASE("positional: random maps as by definition; merged, by layers, and padded alike") {
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      const index_t T = 1 + static_cast<index_t>(seed % 7), S = 1 + static_cast<index_t>(seed % 5);
      maps m = random_maps(seed, T, S);
      for (const int without : {0, 1}) {
        hr::positional_options options;
        options.end = without != 0 ? hr::end_token::excluded : hr::end_token::included;
        hr::positional_heads heads({2, 3}, options), layers({2, 3}, options), padded({2, 3}, options);
        heads.add(m.view());
        layers.add(m.layers());
        maps wide(2, 3, T + 2, S + 4);
        for (double& x : wide.data) x = std::numeric_limits<double>::quiet_NaN();
        for (index_t i = 0; i < 6 * T; ++i)
          for (index_t s = 0; s < S; ++s)
            wide.at(i / T / 3, i / T % 3, i % T, s) = m.at(i / T / 3, i / T % 3, i % T, s);
        padded.add(wide.view(), {.queries = T, .keys = S});
        hr::positional_heads merged({2, 3}, options);
        merged.merge(heads);
        merged.merge(layers);
        for (index_t h = 0; h < 6; ++h) {
          const hr::head_id id{h / 3, h % 3};
          const auto expected = oracle::offsets(rows_of(m, id.layer, id.head), without);
          index_t tokens = 0;
          for (const auto& [offset, count] : expected) {
            tokens += count;
            CHECK(heads.count(id, offset) == count);
            CHECK(layers.count(id, offset) == count);
            CHECK(padded.count(id, offset) == count);
            CHECK(merged.count(id, offset) == 2 * count);
          }
          CHECK(heads.tokens(id) == tokens);
        }
      }
    }
  }

  TEST_CASE("targets: random maps as by definition, order and merging without a trace") {
    hr::target_heads one({2, 3}, "any"), back({2, 3}, "any"), first({2, 3}, "any"), rest({2, 3}, "any");
    std::vector<oracle::target_sums> expected(6);
    std::vector<maps> all;
    std::vector<hr::key_targets> targets;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const index_t T = 1 + static_cast<index_t>(seed % 6);
      all.push_back(random_maps(100 + seed, T, T + 1));
      std::vector<std::vector<int>> lists(static_cast<std::size_t>(T));
      hr::key_targets k;
      for (index_t t = 0; t < T; ++t) {
        for (index_t s = 0; s <= T; ++s)
          if ((seed + static_cast<std::uint64_t>(t * s)) % 3 == 0) {
            lists[static_cast<std::size_t>(t)].push_back(static_cast<int>(s));
            k.add(s);
          }
        k.end_query();
      }
      targets.push_back(k);
      for (index_t h = 0; h < 6; ++h) {
        const auto more = oracle::on_targets(rows_of(all.back(), h / 3, h % 3), lists);
        auto& sum = expected[static_cast<std::size_t>(h)];
        sum = {sum.tokens + more.tokens, sum.hits + more.hits, sum.mass + more.mass};
      }
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      one.add(all[i].view(), targets[i]);
      back.add(all[all.size() - 1 - i].layers(), targets[all.size() - 1 - i]);
      (i < 7 ? first : rest).add(all[i].view(), targets[i]);
    }
    rest.merge(first);
    for (index_t h = 0; h < 6; ++h) {
      const hr::head_id id{h / 3, h % 3};
      const auto& sum = expected[static_cast<std::size_t>(h)];
      CHECK(one.evidence(id).tokens == sum.tokens);
      CHECK(one.evidence(id).count == sum.hits);
      CHECK(std::abs(one.mass(id) - static_cast<double>(sum.mass / sum.tokens)) < 1e-15);
      for (const auto* other : {&back, &rest}) {
        CHECK(other->mass(id) == one.mass(id));
        CHECK(other->chance(id) == one.chance(id));
        CHECK(other->evidence(id).count == one.evidence(id).count);
      }
    }
  }

  TEST_CASE("induction and duplicate-token heads planted among others are found, and no other") {
    hr::target_heads induction({1, 4}, "induction"), duplicate({1, 4}, "duplicate");
    hr::key_targets targets;
    for (std::uint64_t i = 0; i < 3; ++i) {
      const auto tokens = hr::repeated_random_tokens(7, i, 25, 3, 1000);
      REQUIRE(tokens.size() == 50);
      const maps m(1, 4, 50, 50, [](index_t, index_t h, index_t t) -> index_t {
        if (h == 0) return t < 25 ? 0 : t - 24;           // the token after the earlier occurrence
        if (h == 1) return t < 25 ? 0 : t - 25;           // the earlier occurrence
        return h == 2 ? std::max<index_t>(t - 1, 0) : t;  // the token before, itself
      });
      hr::induction_targets(tokens, targets);
      induction.add(m.view(), targets);
      hr::duplicate_targets(tokens, targets);
      duplicate.add(m.view(), targets);
    }
    for (index_t h = 0; h < 4; ++h) {
      CAPTURE(h);
      CHECK(induction.evidence({0, h}).says == (h == 0 ? hr::verdict::yes : hr::verdict::no));
      CHECK(duplicate.evidence({0, h}).says == (h == 1 ? hr::verdict::yes : hr::verdict::no));
    }
    CHECK(induction.mass({0, 0}) > .98);
    CHECK(induction.mass({0, 2}) < .05);
    CHECK(induction.chance({0, 0}) < .05);
  }

  TEST_CASE("induction and duplicate targets, one by one") {
    const auto list = [](const hr::key_targets& k, index_t t) {
      return std::vector<index_t>(k.of(t).begin(), k.of(t).end());
    };
    hr::key_targets k;
    const std::vector<std::int32_t> tokens{5, 6, 5, 5, 6};
    hr::induction_targets(tokens, k);
    CHECK(list(k, 0).empty());
    CHECK(list(k, 2) == std::vector<index_t>{1});
    CHECK(list(k, 3) == std::vector<index_t>{1});  // not 3, which is itself
    CHECK(list(k, 4) == std::vector<index_t>{2});
    hr::duplicate_targets(tokens, k);
    CHECK(list(k, 3) == std::vector<index_t>{0, 2});
    CHECK(list(k, 4) == std::vector<index_t>{1});
    CHECK(k.queries() == 5);
  }

  TEST_CASE("rare tokens: the rarest, the two rarest, equals, sentences without one") {
    const auto list = [](const hr::key_targets& k) { return std::vector<index_t>(k.of(0).begin(), k.of(0).end()); };
    hr::key_targets k;
    const std::vector<index_t> ranks{3, 700, 20, 900, -1}, equal{700, 900, 900, -1}, common{3, 499, -1};
    hr::rare_token_targets(ranks, 4, k);
    CHECK(k.queries() == 4);
    CHECK(list(k) == std::vector<index_t>{3});
    hr::rare_token_targets(ranks, 4, k, {.rarest = 2});
    CHECK(list(k) == std::vector<index_t>{1, 3});
    hr::rare_token_targets(equal, 3, k, {.rarest = 2});
    CHECK(list(k) == std::vector<index_t>{1, 2});
    hr::rare_token_targets(ranks, 4, k, {.rarest = 9});
    CHECK(list(k) == std::vector<index_t>{0, 1, 2, 3});
    hr::rare_token_targets(common, 2, k);
    CHECK(list(k).empty());
    hr::rare_token_targets(common, 2, k, {.most_frequent = 499});
    CHECK(list(k) == std::vector<index_t>{1});
    hr::rare_token_targets({}, 1, k);
    CHECK(list(k).empty());
    CHECK(text_of_error([&] { hr::rare_token_targets(ranks, 1, k, {.rarest = 0}); }) ==
          "rare_token_targets: the 0 rarest and the 500 most frequent, expected at least 1 and 0");
  }

  TEST_CASE("delimiter, band and block heads") {
    const std::vector<std::uint8_t> separator{1, 0, 0, 0, 0, 1};
    const std::vector<index_t> block{-1, 0, 0, 1, 1, -1};
    const maps m(1, 3, 6, 6, [](index_t, index_t h, index_t t) -> index_t {
      if (h == 0) return 5;
      return h == 1 ? std::min<index_t>(t + 1, 5) : (t == 1 || t == 2 ? 3 - t : t == 3 || t == 4 ? 7 - t : 0);
    });
    const hr::verdict_rule rule{.threshold = .9, .min_tokens = 4};
    const hr::target_options options{.end = hr::end_token::included, .rule = rule};
    hr::target_heads delimiter({1, 3}, "delimiter", options), diagonal({1, 3}, "diagonal", options),
        blocks({1, 3}, "block", options);
    hr::key_targets k;
    hr::delimiter_targets(separator, 6, k);
    delimiter.add(m.view(), k);
    hr::band_targets(6, 6, 1, 1, k);
    CHECK(k.of(5).empty());
    diagonal.add(m.view(), k);
    hr::block_targets(block, k);
    CHECK(k.of(0).empty());
    blocks.add(m.view(), k);
    for (index_t h = 0; h < 3; ++h) {
      CAPTURE(h);
      CHECK(delimiter.evidence({0, h}).says == (h == 0 ? hr::verdict::yes : hr::verdict::no));
      CHECK(diagonal.evidence({0, h}).says == (h == 1 ? hr::verdict::yes : hr::verdict::no));
      CHECK(blocks.evidence({0, h}).says == (h == 2 ? hr::verdict::yes : hr::verdict::no));
    }
    CHECK(blocks.evidence({0, 0}).tokens == 4);
    CHECK(delimiter.chance({0, 0}) == doctest::Approx(1. / 3));
    constexpr index_t far = std::numeric_limits<index_t>::max();
    hr::band_targets(2, 3, -far, far, k);
    CHECK(k.of(1).size() == 3);
    hr::band_targets(2, 3, far, far, k);
    CHECK(k.of(1).empty());
  }

  TEST_CASE("syntactic: pieces, directions, baseline, words without tokens, relations that do not occur") {
    // [CLS] w0 w1a w1b w2 [SEP]; w0 depends on w2 (nsubj), w1 on w2 (amod), w3 on w2 (obj) has no token
    const std::vector<index_t> heads{2, 2, -1, 2}, word{-1, 0, 1, 1, 2, -1};
    const std::vector<std::string> relations{"nsubj", "amod", "root", "obj"};
    maps m(1, 2, 6, 6, [](index_t, index_t h, index_t t) -> index_t { return h == 0 ? 4 : t == 4 ? 1 : 5; });
    // head 1 from w1: the pieces of w1 together hold more than w2, each of them less
    for (const index_t t : {2, 3}) {
      m.at(0, 1, t, 5) = 0;
      m.at(0, 1, t, 2) = m.at(0, 1, t, 3) = .3;
      m.at(0, 1, t, 4) = .4;
    }
    hr::syntactic_options options;
    options.rule.min_tokens = 1;
    options.words = hr::word_policy::word_mean_sum_words_only;
    hr::syntactic_heads words({1, 2}, options);
    options.words = hr::word_policy::first_piece;
    hr::syntactic_heads piece({1, 2}, options);
    for (auto* s : {&words, &piece}) s->add(m.view(), {heads, relations, word});
    const auto to_head = hr::dependency_direction::dependent_to_head;
    const auto back = hr::dependency_direction::head_to_dependent;
    CHECK(words.of({0, 0}, "nsubj", to_head).evidence.count == 1);
    CHECK(words.of({0, 0}, "nsubj", to_head).baseline_offset == 2);
    CHECK(piece.of({0, 0}, "nsubj", to_head).baseline_offset == 3);
    CHECK(words.of({0, 1}, "nsubj", back).evidence.count == 1);
    CHECK(words.of({0, 1}, "nsubj", back).baseline_offset == -2);
    CHECK(words.of({0, 1}, "amod", to_head).evidence.count == 0);
    CHECK(piece.of({0, 1}, "amod", to_head).evidence.count == 1);
    CHECK(words.of({0, 0}, "obj", to_head).evidence.tokens == 0);
    CHECK(words.of({0, 0}, "obj", to_head).evidence.says == hr::verdict::too_few);
    CHECK(words.of({0, 0}, "advmod", back).evidence.tokens == 0);
    CHECK(words.unaligned() == 1);
    // one pair at one offset: the baseline is right too, so that nobody is above it
    CHECK(words.of({0, 0}, "nsubj", to_head).evidence.says == hr::verdict::no);
    CHECK(words.of({0, 0}, "nsubj", to_head).evidence.threshold == 1.1);
    // a fully masked query makes no pair
    const maps zero(1, 2, 6, 6);
    words.add(zero.view(), {heads, relations, word});
    CHECK(words.of({0, 0}, "nsubj", to_head).evidence.tokens == 1);
    hr::syntactic_heads twice({1, 2}, [] {
      hr::syntactic_options o;
      o.rule.min_tokens = 1;
      return o;
    }());
    twice.merge(words);
    twice.merge(words);
    CHECK(twice.of({0, 1}, "nsubj", back).evidence.count == 2);
    CHECK(twice.roles().size() == 2 * 4 * 2);
    CHECK(text_of_error([&] { twice.merge(piece); }) ==
          "syntactic_heads: merge of accumulators with different relations or policies");
  }

  TEST_CASE("syntactic: labels are exact unless subtypes are folded; the start token as a candidate") {
    const std::vector<index_t> heads{1, -1}, word{-1, 0, 1, -1};
    const std::vector<std::string> relations{"nsubj:pass", "root"};
    maps m(1, 1, 4, 4, [](index_t, index_t, index_t) -> index_t { return 0; });
    for (index_t t = 0; t < 4; ++t) {
      m.at(0, 0, t, 0) = .6;
      m.at(0, 0, t, 2) = .4;
    }
    hr::syntactic_options options;
    for (const bool fold : {false, true}) {
      options.fold_subtypes = fold;
      for (const auto policy : {hr::word_policy::word_mean_sum, hr::word_policy::word_mean_sum_words_only}) {
        options.words = policy;
        hr::syntactic_heads s({1, 1}, options);
        s.add(m.view(), {heads, relations, word});
        const auto r = s.of({0, 0}, "nsubj", hr::dependency_direction::dependent_to_head);
        CHECK(r.evidence.tokens == (fold ? 1 : 0));
        CHECK(r.evidence.count == (fold && policy == hr::word_policy::word_mean_sum_words_only ? 1 : 0));
      }
    }
  }

  TEST_CASE("what does not fit is refused by name, and leaves no trace") {
    maps m(1, 1, 3, 3, [](index_t, index_t, index_t t) { return t; });
    hr::syntactic_heads s({1, 1});
    const std::vector<index_t> heads{1, -1}, word{0, 1, -1}, far{2, -1}, self{0, -1}, torn{0, -1, 0}, down{1, 0, -1};
    const std::vector<std::string> relations{"obj", "root"}, one{"obj"};
    const auto add = [&](const auto& h, const auto& r, const auto& w) {
      return text_of_error([&] { s.add(m.view(), {h, r, w}); });
    };
    CHECK(add(heads, relations, word) == "no error");
    CHECK(add(heads, relations, heads) == "word_tree: words of 2 tokens, expected 3");
    CHECK(add(heads, one, word) == "word_tree: 1 relations for 2 words");
    CHECK(add(far, relations, word) == "word_tree: word 0 has head 2, expected another one of 2 words, or -1");
    CHECK(add(self, relations, word) == "word_tree: word 0 has head 0, expected another one of 2 words, or -1");
    CHECK(add(heads, relations, torn).starts_with("word_tree: token 2 is of word 0, expected -1 or one from 0 on"));
    CHECK(add(heads, relations, down).starts_with("word_tree: token 1 is of word 0, expected -1 or one from 1 on"));
    CHECK(s.of({0, 0}, "obj", hr::dependency_direction::dependent_to_head).evidence.tokens == 1);
    CHECK(text_of_error([&] {
            s.of({0, 0}, "case", hr::dependency_direction::dependent_to_head);
          }) == "syntactic_heads: relation \"case\" was not asked for");
    hr::syntactic_options twice;
    twice.relations = {"obj", "obj"};
    CHECK(text_of_error([&] { hr::syntactic_heads({1, 1}, twice); }) == "syntactic_heads: a relation is given twice");

    hr::positional_heads p({1, 1}, {.end = hr::end_token::included});
    m.at(0, 0, 2, 0) = std::nan("");
    CHECK(text_of_error([&] { p.add(m.view()); }).find("layer 0, head 0, row 2") == 0);
    CHECK(p.tokens({0, 0}) == 0);
    CHECK(text_of_error([&] { p.add(random_maps(1, 2, 2).view()); }).starts_with("attention: 2 layers, expected 1"));
    CHECK(text_of_error([&] {
            hr::positional_heads({1, 1}, {.rule = {.threshold = 1.5}});
          }) == "positional_heads: threshold is 1.5, expected a number in [0,1]");
    CHECK(text_of_error([&] {
            p.merge(hr::positional_heads({1, 1}));
          }) == "positional_heads: merge of accumulators with different end-token policies");
    hr::target_heads t({1, 1}, "x");
    hr::key_targets k;
    k.add(3);
    k.end_query();
    m.at(0, 0, 2, 0) = 0;
    CHECK(text_of_error([&] { t.add(m.view(), k); }) == "target_heads: query 0 has target 3, expected a key in [0,3)");
    CHECK(text_of_error([&] {
            hr::repeated_random_tokens(1, 1, 0, 0, 5);
          }).starts_with("repeated_random_tokens: 2 times 0"));
  }

  TEST_CASE("grammar: trees and ranks fit the roles; a head that follows the tree is found") {
    const hr::translation_grammar grammar(3);
    const auto ranks = hr::grammar_ranks(grammar, 500);
    CHECK(static_cast<index_t>(ranks.size()) == grammar.source_vocabulary());
    CHECK(ranks[2] == -1);
    CHECK(ranks[static_cast<std::size_t>(grammar.source_vocabulary() - 1)] > 100);  // the rarest name
    hr::syntactic_heads heads({1, 1});
    for (std::uint64_t i = 0; i < 200; ++i) {
      const auto sentence = grammar.sentence(i);
      const index_t T = static_cast<index_t>(sentence.source.size());
      const maps m(1, 1, T, T, [&](index_t, index_t, index_t t) {
        const index_t head = sentence.heads[static_cast<std::size_t>(t)];
        return head < 0 ? t : head;
      });
      heads.add(m.view(), hr::words_of(sentence).tree());
    }
    CHECK(heads.unaligned() == 0);
    const auto subject = heads.of({0, 0}, "nsubj", hr::dependency_direction::dependent_to_head);
    CHECK(subject.evidence.share == 1);
    CHECK(subject.evidence.tokens >= 200);
    CHECK(subject.evidence.says == hr::verdict::yes);
  }

  TEST_CASE("roles as JSON") {
    hr::head_roles roles{hr::attention_kind::cross, {1, 1}, {}};
    CHECK(nlohmann::json::parse(hr::to_json_text(roles))["roles"].empty());
    roles.append({{"posi\"tional\xff", "offset 1", {0, 0}, hr::judge(90, 100, {.threshold = .9}), -1, .25}});
    const auto read = nlohmann::json::parse(hr::to_json_text(roles));
    CHECK(read["kind"] == "cross");
    CHECK(read["heads_per_layer"] == nlohmann::json({1}));
    const auto& entry = read["roles"][0];
    CHECK(entry["role"] == "posi\"tional\xef\xbf\xbd");
    CHECK(entry["verdict"] == "yes");
    CHECK(entry["low"].get<double>() == hr::wilson_interval(90, 100).low);
    CHECK(entry["mass"].is_null());
    CHECK(entry["chance"] == .25);
    CHECK(roles.found().size() == 1);
  }
}
