#include <headred/nn/batches.hpp>
#include <numeric>
#include <set>

#include "nn/training_support.hpp"

using namespace training_test;

namespace {

using numbers = std::vector<hr::index_t>;

std::vector<numbers> epoch_of(hr::batch_order& order) {
  std::vector<numbers> all;
  const hr::index_t epoch = order.position().epoch;
  while (order.position().epoch == epoch) {
    const auto next = order.next();
    all.emplace_back(next.begin(), next.end());
  }
  return all;
}

numbers some_lengths(hr::index_t n, std::uint64_t seed) {
  numbers lengths;
  for (hr::index_t i = 0; i < n; ++i)
    lengths.push_back(1 + static_cast<hr::index_t>(hr::random_stream(seed).below(static_cast<std::uint64_t>(i), 30)));
  return lengths;
}

template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const hr::argument_error& problem) {
    return problem.what();
  }
  return "";
}

}  // namespace

TEST_SUITE("nn") {
  TEST_CASE("batch_order: every sentence once an epoch, within the limits, lengths together") {
    const auto lengths = some_lengths(500, 1);
    for (const auto& o : {hr::batch_options{100, 0, 3, true}, hr::batch_options{100, 7, 3, true},
                          hr::batch_options{1, 0, 3, true}, hr::batch_options{100, 0, 3, false}}) {
      hr::batch_order order(lengths, o);
      for (int epoch = 0; epoch < 3; ++epoch) {
        const auto all = epoch_of(order);
        CHECK(static_cast<hr::index_t>(all.size()) == order.batches());
        std::vector<int> seen(lengths.size());
        for (const auto& batch : all) {
          hr::index_t tokens = 0, longest = 0, shortest = 1000;
          for (const hr::index_t i : batch) {
            const hr::index_t length = lengths[static_cast<std::size_t>(i)];
            ++seen[static_cast<std::size_t>(i)];
            tokens += length;
            longest = std::max(longest, length);
            shortest = std::min(shortest, length);
          }
          CHECK((tokens <= o.tokens || batch.size() == 1));
          if (o.sentences > 0) CHECK(static_cast<hr::index_t>(batch.size()) <= o.sentences);
          if (o.shuffle && o.tokens == 100) CHECK(longest - shortest <= 6);
        }
        CHECK(std::ranges::count(seen, 1) == 500);
      }
      CHECK(order.position() == hr::epoch_position{3, 0});
    }
  }

  TEST_CASE("batch_order: a function of seed and epoch, another order for each") {
    const auto lengths = some_lengths(200, 2);
    hr::batch_order a(lengths, {100, 0, 5, true}), b(lengths, {100, 0, 5, true}), c(lengths, {100, 0, 6, true});
    const auto first = epoch_of(a), second = epoch_of(a);
    CHECK(first == epoch_of(b));
    CHECK(first != second);
    CHECK(first != epoch_of(c));
    // from the middle of any epoch
    for (const hr::index_t at : {hr::index_t{0}, hr::index_t{3}, b.batches() - 1}) {
      hr::batch_order later(lengths, {100, 0, 5, true}, {1, at});
      for (hr::index_t i = at; i < later.batches(); ++i) {
        CHECK(later.position() == hr::epoch_position{1, i});
        const auto next = later.next();
        CHECK(numbers(next.begin(), next.end()) == second[static_cast<std::size_t>(i)]);
      }
      CHECK(later.position() == hr::epoch_position{2, 0});
    }
    hr::batch_order plain({4, 4, 4}, {8, 0, 0, false});
    CHECK(epoch_of(plain) == std::vector<numbers>{{0, 1}, {2}});
  }

  TEST_CASE("batch_order: equal lengths are shuffled evenly") {
    // how often sentence 0 is in the first batch of 100 epochs: 1/10 of the time
    hr::batch_order order(numbers(50, 3), {15, 0, 1, true});
    int hits = 0;
    for (hr::index_t epoch = 0; epoch < 400; ++epoch) {
      order.seek({epoch, 0});
      const auto batch = order.next();
      hits += std::ranges::count(batch, 0) > 0 ? 1 : 0;
    }
    CHECK(hits > 20);
    CHECK(hits < 65);
  }

  TEST_CASE("batch_order: what it refuses") {
    CHECK(message_of([] { hr::batch_order({}); }) == "batch_order: there is no sentence, expected at least 1");
    CHECK(message_of([] { hr::batch_order({3, 0}); }) == "batch_order: sentence 1 has length 0, expected at least 1");
    CHECK(message_of([] { hr::batch_order({3}, {.tokens = 0}); }) ==
          "batch_order: at most 0 tokens and 0 sentences in a batch, expected at least 1 token");
    CHECK(message_of([] { hr::batch_order({3}, {}, {0, 1}); }) == "batch_order: batch 1 of epoch 0, expected [0,1)");
    CHECK(message_of([] { hr::batch_order({3}, {}, {-1, 0}); }) == "batch_order: epoch -1, expected at least 0");
  }

  TEST_CASE("fill_pairs: the decoder reads what it should have said before") {
    const hr::corpus sources{{5, 6, 2}, {7, 2}}, targets{{8}, {9, 10}};
    hr::training_batch b;
    hr::fill_pairs(b, sources, targets, numbers{1, 0}, 1, 2);
    CHECK(b.source.ids == std::vector<hr::token_id>{7, 2, 5, 6, 2});
    CHECK(b.source.sentences == std::vector<hr::sequence>{{0, 2}, {2, 3}});
    CHECK(b.target.ids == std::vector<hr::token_id>{1, 9, 10, 1, 8});
    CHECK(b.target.sentences == std::vector<hr::sequence>{{0, 3}, {3, 2}});
    CHECK(b.labels == std::vector<hr::token_id>{9, 10, 2, 8, 2});
    CHECK(b.tokens() == 5);
    CHECK(hr::pair_lengths(sources, targets) == numbers{3, 3});
    CHECK(hr::sentence_lengths(targets, 1) == numbers{2, 3});
    hr::fill_pairs(b, sources, targets, numbers{0}, 1, 2);
    CHECK(b.target.ids == std::vector<hr::token_id>{1, 8});
    CHECK(message_of([&] { hr::fill_pairs(b, sources, targets, numbers{2}, 1, 2); }) ==
          "fill_pairs: there is no sentence 2, expected [0,2)");
    CHECK(message_of([&] { hr::pair_lengths(sources, {}); }) == "pair_lengths: 0 targets for 2 sources");
  }

  TEST_CASE("fill_causal: the same on one side") {
    hr::training_batch b;
    hr::fill_causal(b, {{5, 6}, {7}}, numbers{0, 1}, 1, 2);
    CHECK(b.source.ids == std::vector<hr::token_id>{1, 5, 6, 1, 7});
    CHECK(b.labels == std::vector<hr::token_id>{5, 6, 2, 7, 2});
    CHECK(b.target.tokens() == 0);
  }

  TEST_CASE("fill_masked: shares, labels, and what is never chosen") {
    hr::corpus texts;
    for (int s = 0; s < 400; ++s) {
      std::vector<hr::token_id> text{1};
      for (int i = 0; i < 48; ++i) text.push_back(10 + (7 * i + s) % 90);
      text.push_back(2);
      texts.push_back(text);
    }
    numbers all(texts.size());
    std::iota(all.begin(), all.end(), 0);
    const hr::masking_options o{.mask_id = 3, .vocabulary = 100, .lowest = 4, .never = {1, 2}, .seed = 8};
    hr::training_batch b;
    hr::fill_masked(b, texts, all, o, 0);
    double masked = 0, kept = 0, replaced = 0;
    std::vector<hr::token_id> before;
    for (const auto& t : texts) before.insert(before.end(), t.begin(), t.end());
    REQUIRE(b.rows.size() == b.labels.size());
    for (std::size_t k = 0; k < b.rows.size(); ++k) {
      const auto row = static_cast<std::size_t>(b.rows[k]);
      if (k > 0) CHECK(b.rows[k] > b.rows[k - 1]);
      CHECK(b.labels[k] == before[row]);
      CHECK(before[row] >= 10);
      const hr::token_id now = b.source.ids[row];
      (now == 3 ? masked : now == before[row] ? kept : replaced) += 1;
      CHECK(now >= 3);
      CHECK(now < 100);
    }
    const double chosen = masked + kept + replaced;
    CHECK(chosen / (400 * 48) == doctest::Approx(.15).epsilon(.06));
    CHECK(masked / chosen == doctest::Approx(.8).epsilon(.03));
    CHECK(replaced / chosen == doctest::Approx(.1 * 95 / 96).epsilon(.2));
    for (std::size_t row = 0; row < before.size(); ++row)
      if (!std::ranges::binary_search(b.rows, static_cast<hr::index_t>(row))) CHECK(b.source.ids[row] == before[row]);
    // a function of the sentence's number, whatever else is in the batch; another one in each epoch
    hr::training_batch alone, next;
    hr::fill_masked(alone, texts, numbers{17}, o, 0);
    CHECK(std::equal(alone.source.ids.begin(), alone.source.ids.end(), b.source.ids.begin() + 17 * 50));
    hr::fill_masked(next, texts, numbers{17}, o, 1);
    CHECK((next.rows != alone.rows || next.source.ids != alone.source.ids));
  }

  TEST_CASE("fill_masked: at least one token of a sentence that has one") {
    hr::corpus texts(200, {1, 10, 2});
    texts.push_back({1, 2});
    numbers all(texts.size());
    std::iota(all.begin(), all.end(), 0);
    hr::training_batch b;
    hr::fill_masked(b, texts, all, {.mask_id = 3, .vocabulary = 20, .never = {1, 2}}, 0);
    CHECK(b.tokens() == 200);
    CHECK(message_of([&] { hr::fill_masked(b, texts, all, {.vocabulary = 20, .chosen = 1.5}, 0); }) ==
          "fill_masked: chosen is 1.5, masked 0.8, random 0.1, expected shares in [0,1]");
    CHECK(message_of([&] { hr::fill_masked(b, texts, all, {}, 0); }) ==
          "fill_masked: random tokens from [0,0), expected at least 1");
  }
}
