// Distances of all pairs of heads on the device, against naive ones in long double.
#include <algorithm>
#include <limits>
#include <string>

#include <headred/device/redundancy.hpp>

#include "../oracle/row_distances.hpp"
#include "device.hpp"

using namespace headred_test;

namespace {

namespace device = headred::device;

/// Maps of very different rows: peaked, even, near twins of other heads, twins, zero rows, rows off from sum 1.
template <class T>
std::vector<T> mixed_maps(hr::index_t heads, hr::index_t tokens, hr::index_t keys, std::uint64_t stream) {
  const hr::random_stream random(seed(), stream);
  std::vector<T> maps(static_cast<std::size_t>(heads * tokens * keys));
  const auto at = [&](hr::index_t h, hr::index_t t, hr::index_t k) -> T& {
    return maps[static_cast<std::size_t>((h * tokens + t) * keys + k)];
  };
  std::uint64_t drawn = 0;
  for (hr::index_t h = 0; h < heads; ++h)
    for (hr::index_t t = 0; t < tokens; ++t) {
      const auto kind = random.below(drawn++, 8);
      double sum = 0;
      std::vector<double> row(static_cast<std::size_t>(keys));
      for (double& v : row) {
        const double u = random.uniform(drawn++);
        v = kind == 0 ? 1 + 1e-3 * u : kind == 1 ? (u < .1 ? 1 : 0) : std::exp(8 * u);
        sum += v;
      }
      if (kind == 2 && h > 0) {  // a near twin of the head before
        for (hr::index_t k = 0; k < keys; ++k) {
          row[static_cast<std::size_t>(k)] =
              static_cast<double>(at(h - 1, t, k)) * (1 + 1e-5 * random.uniform(drawn++));
        }
        sum = 1;
      }
      if (kind == 3 && h > 0) {  // the same bits
        for (hr::index_t k = 0; k < keys; ++k) at(h, t, k) = at(h - 1, t, k);
        continue;
      }
      if (kind == 4 && random.below(drawn++, 4) == 0)
        sum = std::numeric_limits<double>::infinity();  // nothing attended
      const double off = kind == 5 ? 1.004 : 1;
      for (hr::index_t k = 0; k < keys; ++k)
        at(h, t, k) = sum > 0 ? static_cast<T>(row[static_cast<std::size_t>(k)] / sum * off) : T(0);
    }
  return maps;
}

template <class T, class Rule>
void compare(hr::index_t layers, hr::index_t per_layer, hr::index_t tokens, hr::index_t keys) {
  const hr::index_t heads = layers * per_layer;
  const auto maps = mixed_maps<T>(heads, tokens, keys, static_cast<std::uint64_t>(heads * 1000 + keys));
  hr::cuda be;
  const auto found = in_every_order([&] {
    const auto x = put<T, 4>(be, maps, {layers, per_layer, tokens, keys});
    return device::pairwise(be, x.view(), Rule{});
  });
  const auto row = [&](hr::index_t h, hr::index_t t) {
    const auto* const p = maps.data() + (h * tokens + t) * keys;
    return oracle::long_row(p, p + keys);
  };
  double worst = 0;
  for (hr::index_t i = 0; i < heads; ++i) {
    CHECK(found(i, i) == 0);
    for (hr::index_t j = i + 1; j < heads; ++j) {
      long double mean = 0;
      for (hr::index_t t = 0; t < tokens; ++t)
        mean += oracle::row_distance(Rule::name, row(i, t), row(j, t), std::numeric_limits<T>::epsilon());
      const double expected = static_cast<double>(mean / static_cast<long double>(tokens));
      worst = std::max(worst, std::fabs(found(i, j) - expected));
      REQUIRE(found(i, j) == found(j, i));
      REQUIRE(found(i, j) >= 0);
      REQUIRE(found(i, j) <= 1);
    }
  }
  const std::string name = Rule::name;
  CAPTURE(name);
  CHECK(worst <= (sizeof(T) == 4 ? 3e-6 : 2e-14));
}

}  // namespace

TEST_SUITE("cuda") {
  TEST_CASE_TEMPLATE("pairs of heads are as far apart as in long double", T, float, double) {
    compare<T, device::jensen_shannon>(2, 3, 4, 5);
    compare<T, device::jensen_shannon>(1, 34, 3, 33);
    compare<T, device::bhattacharyya>(3, 3, 17, 40);
    compare<T, device::cosine>(2, 17, 2, 31);
    compare<T, device::pearson>(1, 33, 3, 32);
  }

  TEST_CASE_TEMPLATE("the worked values", T, float, double) {
    hr::cuda be;
    const std::vector<T> maps = {T(.70), T(.20), T(.10), T(.25), T(.50), T(.25), T(.05), T(.15), T(.80),
                                 T(.10), T(.60), T(.30), T(.30), T(.30), T(.40), T(.20), T(.20), T(.60)};
    const auto x = put<T, 4>(be, maps, {1, 2, 3, 3});
    const auto view = std::as_const(x).view();
    const double tolerance = sizeof(T) == 4 ? 2e-7 : 2e-12;
    CHECK(std::fabs(device::pairwise(be, view, device::cosine{})(0, 1) - .229029041364) < tolerance);
    CHECK(std::fabs(device::pairwise(be, view, device::pearson{})(0, 1) - .534673184984) < tolerance);
    CHECK(std::fabs(device::pairwise(be, view, device::jensen_shannon{})(0, 1) - .314144342978) < tolerance);
    CHECK(std::fabs(device::pairwise(be, view, device::bhattacharyya{})(0, 1) - .266416690431) < tolerance);
  }

  TEST_CASE("a close pair keeps its digits") {
    hr::cuda be;
    const auto x = put<double, 4>(be, {.5306, .4694, .5304, .4696}, {1, 2, 1, 2});
    const double d = device::pairwise(be, x.view(), device::jensen_shannon{})(0, 1);
    const double expected = 2.00746980874155e-08 / 0.69314718055994530942;  // nats -> bits
    CHECK(std::fabs(d * d / expected - 1) < 1e-12);
  }

  TEST_CASE_TEMPLATE("rows without a common key, zero rows and constant rows", T, float, double) {
    hr::cuda be;
    const auto one = [&](std::vector<T> rows, auto rule) {
      const auto x = put<T, 4>(be, rows, {1, 2, 1, 2});
      return device::pairwise(be, std::as_const(x).view(), rule)(0, 1);
    };
    CHECK(one({1, 0, 0, 1}, device::jensen_shannon{}) == 1);
    CHECK(one({1, 0, 0, 1}, device::bhattacharyya{}) == 1);
    CHECK(one({1, 0, 0, 1}, device::cosine{}) == 1);
    CHECK(std::fabs(one({1, 0, 0, 1}, device::pearson{}) - 1) < 8 * std::numeric_limits<T>::epsilon());
    CHECK(one({T(.5), T(.5), 0, 1}, device::pearson{}) == .5);
    CHECK(one({T(.5), T(.5), T(.5), T(.5)}, device::pearson{}) == 0);
    CHECK(one({0, 0, 0, 1}, device::pearson{}) == 1);
    CHECK(one({0, 0, 0, 1}, device::jensen_shannon{}) == 1);
    CHECK(one({0, 0, 0, 0}, device::bhattacharyya{}) == 0);
  }

  TEST_CASE("padding cut off by a view does not count; strides are honoured; permuted heads give permuted bits") {
    hr::cuda be;
    const hr::index_t heads = 6, tokens = 5, keys = 7;
    const auto maps = mixed_maps<float>(heads, tokens, keys, 77);
    const auto x = put<float, 4>(be, maps, {2, 3, tokens, keys});
    const auto plain = device::pairwise(be, x.view(), device::jensen_shannon{});

    std::vector<float> padded(static_cast<std::size_t>(heads * 8 * 11), std::nanf(""));
    std::vector<float> turned(padded.size(), std::nanf("")), swapped(maps.size());
    for (hr::index_t h = 0; h < heads; ++h)
      for (hr::index_t t = 0; t < tokens; ++t)
        for (hr::index_t k = 0; k < keys; ++k) {
          const float v = maps[static_cast<std::size_t>((h * tokens + t) * keys + k)];
          padded[static_cast<std::size_t>((h * 8 + t) * 11 + k)] = v;
          turned[static_cast<std::size_t>((h * 11 + k) * 8 + t)] = v;
          swapped[static_cast<std::size_t>(((heads - 1 - h) * tokens + t) * keys + k)] = v;
        }
    const auto y = put<float, 4>(be, padded, {2, 3, 8, 11});
    CHECK(device::pairwise(be, y.view().narrow(2, 0, tokens).narrow(3, 0, keys), device::jensen_shannon{}) == plain);
    const auto z = put<float, 4>(be, turned, {2, 3, 11, 8});
    CHECK(device::pairwise(be, z.view().narrow(3, 0, tokens).narrow(2, 0, keys).transposed(),
                           device::jensen_shannon{}) == plain);
    const auto w = put<float, 4>(be, swapped, {2, 3, tokens, keys});
    const auto back = device::pairwise(be, w.view(), device::jensen_shannon{});
    for (hr::index_t i = 0; i < heads; ++i)
      for (hr::index_t j = 0; j < heads; ++j) CHECK(back(heads - 1 - i, heads - 1 - j) == plain(i, j));
  }

  TEST_CASE("the mean over sentences has the same bits in any order") {
    hr::cuda be;
    const hr::index_t lengths[] = {3, 5, 2};
    std::vector<hr::tensor<float, 4, hr::cuda>> sentences;
    for (const hr::index_t n : lengths)
      sentences.push_back(
          put<float, 4>(be, mixed_maps<float>(6, n, n, static_cast<std::uint64_t>(90 + n)), {2, 3, n, n}));
    device::redundancy<device::bhattacharyya, hr::cuda> forth(be, 2, 3), back(be, 2, 3);
    CHECK_THROWS_WITH_AS(forth.matrix(), "redundancy: no sentence was added", hr::argument_error);
    for (auto& s : sentences) forth.add(s.view());
    for (std::size_t i = sentences.size(); i-- > 0;) back.add(std::as_const(sentences[i]).view());
    const auto mean = forth.matrix();
    CHECK(mean == back.matrix());
    CHECK(forth.sentences() == 3);
    double worst = 0;
    for (hr::index_t i = 0; i < 6; ++i)
      for (hr::index_t j = 0; j < 6; ++j) {
        double sum = 0;
        for (auto& s : sentences) sum += device::pairwise(be, std::as_const(s).view(), device::bhattacharyya{})(i, j);
        worst = std::max(worst, std::fabs(sum / 3 - mean(i, j)));
      }
    CHECK(worst < 1e-15);
    CHECK_THROWS_WITH_AS(forth.add(sentences[0].view().narrow(1, 0, 2)),
                         "redundancy: attention is (2,2,3,3), expected 2 layers of 3 heads", hr::shape_error);
    CHECK_THROWS_WITH_AS((device::redundancy<device::cosine, hr::cuda>(be, 0, 3)),
                         "redundancy: 0 layers of 3 heads, expected at least one of each", hr::shape_error);
  }

  TEST_CASE("rows that are no attention are named") {
    hr::cuda be;
    const auto refuse = [&](std::size_t at, float value) {
      std::vector<float> maps(2 * 2 * 3 * 2, .5f);
      maps[at] = value;
      const auto x = put<float, 4>(be, maps, {2, 2, 3, 2});
      device::pairwise(be, x.view(), device::cosine{});
    };
    CHECK_THROWS_WITH_AS(refuse(6 * 2 + 2 * 2, .6f),
                         "layer 1, head 0, row 2: attention: the row has an entry that is no number >= 0, or sums to "
                         "1.100000, expected 1",
                         hr::data_error);
    CHECK_THROWS_AS(refuse(3, -.5f), hr::data_error);
    CHECK_THROWS_AS(refuse(3, std::nanf("")), hr::data_error);
    CHECK_THROWS_AS(refuse(3, std::numeric_limits<float>::infinity()), hr::data_error);
    CHECK_NOTHROW(refuse(3, .505f));
    const auto x = put<float, 4>(be, std::vector<float>(8, .5f), {1, 2, 2, 2});
    hr::tensor<double, 2, hr::cuda> out(be, {2, 3});
    CHECK_THROWS_WITH_AS(device::pairwise(be, x.view(), device::cosine{}, out.view()),
                         "cosine: out is (2,3), expected (2,2)", hr::shape_error);
    CHECK_THROWS_WITH_AS(device::pairwise(be, x.view().narrow(2, 0, 0), device::cosine{}),
                         "cosine: attention is (1,2,0,2), expected at least 1 valid token", hr::shape_error);
  }
}
