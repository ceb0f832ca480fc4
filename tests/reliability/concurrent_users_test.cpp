// A hundred threads use the library at once, each with objects of its own, or some of them through one backend: nothing
// is shared behind their backs, and every answer has the bits that a single thread computes alone.
#include <doctest/doctest.h>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/cluster/silhouette.hpp>
#include <headred/cluster/spectral.hpp>
#include <headred/distance/jensen_shannon.hpp>
#include <headred/distance/procrustes.hpp>
#include <headred/distance/redundancy.hpp>
#include <headred/nn/op/embedding.hpp>
#include <headred/nn/op/gelu.hpp>
#include <headred/nn/op/layer_norm.hpp>
#include <headred/nn/op/linear.hpp>
#include <headred/nn/op/softmax_cross_entropy.hpp>
#include <headred/prune/keep_representatives.hpp>
#include <headred/prune/plan_text.hpp>

#include "environment.hpp"
#include "oracle/attention_samples.hpp"

namespace hr = headred;
using hr::index_t;

namespace {

// What one user gets: numbers bit by bit, and a plan.
struct answers {
  std::vector<double> numbers;
  std::string plan;
  friend bool operator==(const answers& a, const answers& b) {
    return a.numbers.size() == b.numbers.size() && a.plan == b.plan &&
           std::memcmp(a.numbers.data(), b.numbers.data(), a.numbers.size() * sizeof(double)) == 0;
  }
};

template <class Distance>
void add_redundancy(hr::cpu& be, std::uint64_t seed, const Distance& distance, answers& out) {
  hr::redundancy red{be, hr::head_layout{3, 4}, distance};
  for (std::uint64_t s = 0; s < 3; ++s) {
    const auto n = static_cast<index_t>(5 + seed + s);
    const auto kind = s == 0 ? headred_test::sample_kind::twins_1e9 : headred_test::sample_kind::random;
    const auto sample = headred_test::make_sample(kind, 3, 4, n, n, seed + s);
    red.template add<float>(sample.view());
  }
  const hr::matrix d = red.matrix();
  for (index_t i = 0; i < d.rows(); ++i)
    for (index_t j = 0; j < d.cols(); ++j) out.numbers.push_back(d(i, j));
  const auto clusters = hr::spectral_clusters(be, d, {.count = 4});
  for (const index_t label : clusters.labels) out.numbers.push_back(static_cast<double>(label));
  out.plan += hr::to_text(hr::keep_representatives(clusters, hr::silhouette(be, d, clusters), red.layout()));
}

// A small net, forward and back.
void add_gradients(hr::cpu& be, std::uint64_t seed, answers& out) {
  constexpr index_t words = 9, width = 24;
  hr::parameter<float, 2, hr::cpu> tokens(be, {words, width}), weight(be, {width, width});
  hr::parameter<float, 1, hr::cpu> scale(be, {width}), shift(be, {width});
  const hr::random_stream random(seed);
  std::uint64_t drawn = 0;
  const auto fill = [&](auto& p) {
    for (index_t i = 0; i < p.value.size(); ++i) p.value.data()[i] = static_cast<float>(random.uniform(drawn++) - .5);
    p.train(be);
  };
  fill(tokens), fill(weight), fill(scale), fill(shift);
  std::vector<std::int32_t> ids(40), wanted(40);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::int32_t>(random.below(drawn++, words));
    wanted[i] = static_cast<std::int32_t>(random.below(drawn++, words));
  }
  hr::tape<float, hr::cpu> t(be);
  for (int pass = 0; pass < 2; ++pass) {  // the second reuses memory; gradients add up
    t.clear();
    hr::slot x = hr::embedding(t, std::span<const std::int32_t>(ids), tokens, 1.f);
    x = hr::layer_norm(t, x, scale, shift, 1e-3f);
    x = hr::gelu(t, hr::linear(t, x, weight, nullptr), hr::gelu_form::erf);
    const auto loss = hr::softmax_cross_entropy(t, hr::linear(t, x, tokens, nullptr),
                                                std::span<const std::int32_t>(wanted), .1f, .025f);
    *t.gradient(loss.total).data() = 1;
    t.backward();
    out.numbers.push_back(static_cast<double>(*t.input(loss.total).data()));
  }
  const auto keep = [&](const auto& p) {
    for (index_t i = 0; i < p.gradient.size(); ++i) out.numbers.push_back(static_cast<double>(p.gradient.data()[i]));
  };
  keep(tokens), keep(weight), keep(scale), keep(shift);
}

answers answers_of(hr::cpu& be, std::uint64_t seed) {
  answers out;
  add_redundancy(be, seed, hr::jensen_shannon{}, out);
  add_redundancy(be, seed, hr::procrustes{}, out);
  add_gradients(be, seed, out);
  return out;
}

// Runs user(number) in that many threads, which begin together; an exception of any of them is rethrown.
template <class User>
void at_once(int users, const User& user) {
  std::barrier start(users);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(users));
  {
    std::vector<std::jthread> threads;
    for (int n = 0; n < users; ++n)
      threads.emplace_back([&, n] {
        start.arrive_and_wait();
        try {
          user(n);
        } catch (...) {
          failures[static_cast<std::size_t>(n)] = std::current_exception();
        }
      });
  }
  for (const auto& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

constexpr int users = 100, kinds = 4;

std::vector<answers> answers_alone() {
  hr::cpu be{{.threads = 1}};
  std::vector<answers> alone;
  for (int k = 0; k < kinds; ++k) alone.push_back(answers_of(be, static_cast<std::uint64_t>(k)));
  return alone;
}

}  // namespace

TEST_SUITE("reliability") {
  TEST_CASE("a hundred users at once, each with a backend of its own: the bits of one alone") {
    const std::vector<answers> alone = answers_alone();
    CHECK_FALSE(alone[0] == alone[1]);
    REQUIRE(alone[0].numbers.size() > 2 * 12 * 12);
    std::vector<int> same(users, 0);
    at_once(users, [&](int n) {
      hr::cpu be{{.threads = 1 + n % 3}};
      same[static_cast<std::size_t>(n)] =
          answers_of(be, static_cast<std::uint64_t>(n % kinds)) == alone[static_cast<std::size_t>(n % kinds)] ? 1 : 0;
    });
    CHECK(std::count(same.begin(), same.end(), 1) == users);
  }

  TEST_CASE("a hundred users of one backend take turns and get the bits of one alone") {
    const std::vector<answers> alone = answers_alone();
    hr::cpu be{{.threads = 3}};
    std::vector<int> same(users, 0);
    at_once(users, [&](int n) {
      same[static_cast<std::size_t>(n)] =
          answers_of(be, static_cast<std::uint64_t>(n % kinds)) == alone[static_cast<std::size_t>(n % kinds)] ? 1 : 0;
    });
    CHECK(std::count(same.begin(), same.end(), 1) == users);
  }
}
