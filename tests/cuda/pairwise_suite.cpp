// Distances of all pairs of heads on the device, against naive ones in long double.
#include <algorithm>
#include <limits>
#include <span>
#include <string>

#include <headred/device/device_view.hpp>
#include <headred/device/redundancy.hpp>
#if defined(HEADRED_CUDA_EMULATE)
#include <headred/distance/distance_correlation.hpp>
#include <headred/distance/jensen_shannon.hpp>
#include <headred/distance/redundancy.hpp>
#endif

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
    return hr::pairwise(be, x.view(), Rule{});
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

/// What headred sees of a thrust::device_vector, and of a torch::Tensor.
struct like_device_vector {
  struct pointer {
    float* at;
    float* get() const { return at; }
  };
  float* at;
  std::size_t count;
  pointer data() const { return {at}; }
  std::size_t size() const { return count; }
};
struct like_torch_tensor {
  float* at;
  std::vector<std::int64_t> shape, steps;
  bool on_device = true;
  std::int64_t dim() const { return static_cast<std::int64_t>(shape.size()); }
  const std::vector<std::int64_t>& sizes() const { return shape; }
  const std::vector<std::int64_t>& strides() const { return steps; }
  bool is_cpu() const { return !on_device; }
  bool is_cuda() const { return on_device; }
  template <class T>
  T* data_ptr() const {
    return at;
  }
};

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
    CHECK(std::fabs(hr::pairwise(be, view, device::cosine{})(0, 1) - .229029041364) < tolerance);
    CHECK(std::fabs(hr::pairwise(be, view, device::pearson{})(0, 1) - .534673184984) < tolerance);
    CHECK(std::fabs(hr::pairwise(be, view, device::jensen_shannon{})(0, 1) - .314144342978) < tolerance);
    CHECK(std::fabs(hr::pairwise(be, view, device::bhattacharyya{})(0, 1) - .266416690431) < tolerance);
  }

  TEST_CASE("a close pair keeps its digits") {
    hr::cuda be;
    const auto x = put<double, 4>(be, {.5306, .4694, .5304, .4696}, {1, 2, 1, 2});
    const double d = hr::pairwise(be, x.view(), device::jensen_shannon{})(0, 1);
    const double expected = 2.00746980874155e-08 / 0.69314718055994530942;  // nats -> bits
    CHECK(std::fabs(d * d / expected - 1) < 1e-12);
  }

  // the inputs of tests/distance/unequal_spread_test.cpp
  TEST_CASE("jensen_shannon of float rows near to uniform keeps 2e-6 on the device") {
    hr::cuda be;
    for (const hr::index_t keys : {6, 64, 128, 512, 2048}) {
      const auto even = static_cast<float>(1. / static_cast<double>(keys));
      std::vector<float> maps(static_cast<std::size_t>(keys), even);  // a head for each change, after the flat one
      hr::index_t heads = 1;
      const hr::random_stream random(7);
      for (double change = .1; change < .9; change += .1, heads += 2) {
        std::vector<double> wave, noise;
        double sum = 0;
        for (hr::index_t k = 0; k < keys; ++k) {
          wave.push_back((k % 2 == 0 ? 1 + change : 1 - change) / static_cast<double>(keys));
          noise.push_back(1 + 2 * change * (random.uniform(static_cast<std::uint64_t>(k)) - .5));
          sum += noise.back();
        }
        for (const double x : wave) maps.push_back(static_cast<float>(x));
        for (const double x : noise) maps.push_back(static_cast<float>(x / sum));
      }
      const auto x = put<float, 4>(be, maps, {1, heads, 1, keys});
      const auto found = hr::pairwise(be, x.view(), device::jensen_shannon{});
      const auto row = [&](hr::index_t h) {
        return oracle::long_row(maps.data() + h * keys, maps.data() + (h + 1) * keys);
      };
      double worst = 0;
      for (hr::index_t i = 0; i < heads; ++i)
        for (hr::index_t j = i + 1; j < heads; ++j)
          worst = std::max(
              worst,
              std::fabs(found(i, j) - static_cast<double>(oracle::row_distance("jensen_shannon", row(i), row(j), 0))));
      CAPTURE(keys);
      CHECK(worst <= 2e-6);
    }
  }

  TEST_CASE("pearson of rows alike in form and unlike in length keeps its digits on the device") {
    hr::cuda be;
    const hr::index_t keys = 32;
    for (const double spread : {1e-1, 1e-3, 1e-5}) {
      std::vector<double> maps;
      for (const double s : {1., spread}) {
        const hr::random_stream random(11);
        double sum = 0;
        for (hr::index_t k = 0; k < keys; ++k) {
          maps.push_back(1 + s * (random.uniform(static_cast<std::uint64_t>(k)) - .5));
          sum += maps.back();
        }
        for (std::size_t k = maps.size() - static_cast<std::size_t>(keys); k < maps.size(); ++k) maps[k] /= sum;
      }
      maps[static_cast<std::size_t>(keys) + 3] += 1e-2 * spread / keys;
      maps[static_cast<std::size_t>(keys) + 4] -= 1e-2 * spread / keys;
      const auto x = put<double, 4>(be, maps, {1, 2, 1, keys});
      const double found = hr::pairwise(be, x.view(), device::pearson{})(0, 1);
      const auto expected = static_cast<double>(oracle::row_distance("pearson", {maps.begin(), maps.begin() + keys},
                                                                     {maps.begin() + keys, maps.end()}, 2.2e-16L));
      CAPTURE(expected);
      CHECK(std::fabs(found - expected) <= (spread < 1e-4 ? 1e-9 : 1e-10) * expected);
    }
  }

  TEST_CASE_TEMPLATE("rows without a common key, zero rows and constant rows", T, float, double) {
    hr::cuda be;
    const auto one = [&](std::vector<T> rows, auto rule) {
      const auto x = put<T, 4>(be, rows, {1, 2, 1, 2});
      return hr::pairwise(be, std::as_const(x).view(), rule)(0, 1);
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
    const auto plain = hr::pairwise(be, x.view(), device::jensen_shannon{});

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
    CHECK(hr::pairwise(be, y.view().narrow(2, 0, tokens).narrow(3, 0, keys), device::jensen_shannon{}) == plain);
    const auto z = put<float, 4>(be, turned, {2, 3, 11, 8});
    CHECK(hr::pairwise(be, z.view().narrow(3, 0, tokens).narrow(2, 0, keys).transposed(), device::jensen_shannon{}) ==
          plain);
    const auto w = put<float, 4>(be, swapped, {2, 3, tokens, keys});
    const auto back = hr::pairwise(be, w.view(), device::jensen_shannon{});
    for (hr::index_t i = 0; i < heads; ++i)
      for (hr::index_t j = 0; j < heads; ++j) CHECK(back(heads - 1 - i, heads - 1 - j) == plain(i, j));
  }

  TEST_CASE("padding cut off by options, sentences without a token") {
    hr::cuda be;
    const auto maps = mixed_maps<float>(6, 5, 5, 78);
    const auto x = put<float, 4>(be, maps, {2, 3, 5, 5});
    std::vector<float> padded(6 * 8 * 8, std::nanf(""));
    for (std::size_t h = 0; h < 6; ++h)
      for (std::size_t t = 0; t < 5; ++t)
        for (std::size_t k = 0; k < 5; ++k) padded[(h * 8 + t) * 8 + k] = maps[(h * 5 + t) * 5 + k];
    auto y = put<float, 4>(be, padded, {2, 3, 8, 8});
    const auto plain = hr::pairwise(be, x, device::cosine{});
    CHECK(hr::pairwise(be, y, device::cosine{}, {.length = 5}) == plain);
    CHECK(hr::pairwise(be, y.view(), device::cosine{}, {.queries = 5, .keys = 5}) == plain);
    CHECK_THROWS_WITH_AS(hr::pairwise(be, y, device::cosine{}, {.length = 9}),
                         "attention: 9 valid queries in (2,3,8,8)", hr::shape_error);
    CHECK_THROWS_WITH_AS(hr::pairwise(be, x, device::cosine{}, {.sum_tolerance = 1}),
                         "attention: sum_tolerance is 1, expected a number in [0,1)", hr::argument_error);
    device::redundancy<device::cosine, hr::cuda> red(be, {2, 3});
    CHECK_FALSE(red.add(y, {.length = 0}));
    CHECK(red.skipped() == 1);
    CHECK(red.add(y, {.length = 5}));
    CHECK(red.matrix() == plain);
  }

#if defined(HEADRED_CUDA_EMULATE)
  TEST_CASE("the same calls on the cpu and on the device") {
    const auto maps = mixed_maps<float>(6, 5, 5, 79);
    const auto with = [&](auto&& be) {
      const auto x = put<float, 4>(be, maps, {2, 3, 5, 5});
      return hr::pairwise(be, x, hr::jensen_shannon{}, {.length = 4, .sum_tolerance = .999});
    };
    const auto near = with(hr::cpu{}), far = with(hr::cuda{});
    for (hr::index_t i = 0; i < 6; ++i)
      for (hr::index_t j = 0; j < 6; ++j) CHECK(std::fabs(near(i, j) - far(i, j)) < 2e-6);
    static_assert(std::is_same_v<device::rule_of<hr::jensen_shannon>, device::jensen_shannon>);
    const auto mean = [&]<class Backend>(Backend&& be) {
      hr::redundancy<hr::jensen_shannon, std::remove_cvref_t<Backend>> red(be, {2, 3});
      red.add(put<float, 4>(be, maps, {2, 3, 5, 5}), {.length = 4, .sum_tolerance = .999});
      return red.matrix();
    };
    CHECK(mean(hr::cpu{}) == near);
    CHECK(mean(hr::cuda{}) == far);
    hr::cuda be;
    hr::redundancy deduced{be, hr::head_layout{2, 3}, hr::distance_correlation{.unbiased = true}};
    static_assert(std::is_same_v<decltype(deduced), hr::redundancy<hr::distance_correlation, hr::cuda>>);
    CHECK_FALSE(deduced.add(put<float, 4>(be, maps, {2, 3, 5, 5}), {.length = 3}));
  }
#endif

  TEST_CASE_TEMPLATE("distance correlation of all pairs", T, float, double) {
    hr::cuda be;
    struct geometry {
      hr::index_t heads, tokens, keys;
    };
    for (const auto& [heads, tokens, keys] : {geometry{5, 1, 3}, {6, 4, 5}, {7, 18, 34}, {3, 16, 2}})
      for (const bool unbiased : {false, true}) {
        if (unbiased && tokens < 4) continue;
        auto maps = mixed_maps<T>(heads, tokens, keys, static_cast<std::uint64_t>(700 + tokens));
        const auto size = static_cast<std::size_t>(tokens * keys);
        std::copy_n(maps.begin(), size, maps.begin() + static_cast<hr::index_t>(size));  // a twin
        for (std::size_t k = 0; k < size; ++k) maps[2 * size + k] = maps[2 * size + k % static_cast<std::size_t>(keys)];
        const auto found = in_every_order([&] {
          const auto x = put<T, 4>(be, maps, {1, heads, tokens, keys});
          return hr::pairwise(be, x.view(), device::distance_correlation{unbiased});
        });
        const auto n = static_cast<std::size_t>(tokens);
        std::vector<std::vector<long double>> centred;
        for (std::size_t h = 0; h < static_cast<std::size_t>(heads); ++h) {
          std::vector<std::vector<long double>> rows;
          for (std::size_t t = 0; t < n; ++t) {
            std::vector<long double> row(
                maps.begin() + static_cast<hr::index_t>(h * size + t * static_cast<std::size_t>(keys)),
                maps.begin() + static_cast<hr::index_t>(h * size + (t + 1) * static_cast<std::size_t>(keys)));
            long double sum = 0;
            for (const auto v : row) sum += v;
            for (auto& v : row) v /= sum == 0 ? 1 : sum;
            rows.push_back(row);
          }
          std::vector<long double> a(n * n), mean(n);
          long double all = 0;
          for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = 0; j < n; ++j) {
              long double squares = 0;
              for (std::size_t k = 0; k < rows[i].size(); ++k)
                squares += (rows[i][k] - rows[j][k]) * (rows[i][k] - rows[j][k]);
              a[i * n + j] = std::sqrt(squares);
              mean[i] += a[i * n + j];
              all += a[i * n + j];
            }
          const auto count = static_cast<long double>(n);
          for (auto& m : mean) m /= unbiased ? count - 2 : count;
          all /= unbiased ? (count - 1) * (count - 2) : count * count;
          long double squares = 0, before = 0;
          for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = 0; j < n; ++j) {
              before += a[i * n + j] * a[i * n + j];
              a[i * n + j] = unbiased && i == j ? 0 : a[i * n + j] - mean[i] - mean[j] + all;
              squares += a[i * n + j] * a[i * n + j];
            }
          const bool none = std::sqrt(squares) <= 16 * static_cast<long double>(std::numeric_limits<T>::epsilon()) *
                                                      std::sqrt(count * before);
          for (auto& v : a) v = none ? 0 : v / std::sqrt(squares);
          centred.push_back(a);
        }
        double worst = 0;
        for (hr::index_t i = 0; i < heads; ++i)
          for (hr::index_t j = 0; j < heads; ++j) {
            const auto &a = centred[static_cast<std::size_t>(i)], &b = centred[static_cast<std::size_t>(j)];
            long double product = 0, own = 0, other = 0;
            for (std::size_t k = 0; k < a.size(); ++k) {
              product += a[k] * b[k];
              own += a[k] * a[k];
              other += b[k] * b[k];
            }
            product = product < 0 ? 0 : product > 1 ? 1 : product;
            long double expected = unbiased ? 1 - product : 1 - std::sqrt(product);
            if (own == 0 || other == 0) expected = own == other ? 0 : 1;
            worst = std::max(worst, std::fabs(found(i, j) - static_cast<double>(expected)));
            REQUIRE(found(i, j) == found(j, i));
            REQUIRE((i != j || found(i, j) == 0));
          }
        CHECK(found(0, 1) == 0);
        CHECK(worst < 2e-13);
      }
    const auto x = put<T, 4>(be, std::vector<T>(12, T(.5)), {1, 2, 3, 2});
    CHECK_THROWS_WITH_AS(hr::pairwise(be, x.view(), device::distance_correlation{true}),
                         "distance_correlation: attention is (1,2,3,2), expected at least 4 valid tokens",
                         hr::shape_error);
    auto broken = std::vector<T>(12, T(.5));
    broken[9] = T(.7);
    const auto y = put<T, 4>(be, broken, {1, 2, 3, 2});
    CHECK_THROWS_AS(hr::pairwise(be, y.view(), device::distance_correlation{}), hr::data_error);
  }

  TEST_CASE("memory of other libraries is viewed where it lies") {
    hr::cuda be;
    auto x = put<float, 4>(be, mixed_maps<float>(6, 5, 5, 80), {2, 3, 5, 5});
    const auto plain = hr::pairwise(be, x, device::cosine{});
    like_device_vector vector{x.data(), 150};
    CHECK(hr::pairwise(be, hr::device_view(vector, {2, 3, 5, 5}), device::cosine{}) == plain);
    CHECK_THROWS_WITH_AS(hr::device_view(vector, {2, 3, 5, 4}),
                         "device_view: a vector of 150 elements, expected those of (2,3,5,4)", hr::shape_error);
    CHECK_THROWS_AS(hr::device_view(vector, {-2, -75}), hr::shape_error);
    CHECK_THROWS_AS(hr::device_view(vector, {150, hr::index_t{1} << 62, 4}), hr::shape_error);
    CHECK_THROWS_AS(hr::device_view(vector, {150, 0}), hr::shape_error);
    like_torch_tensor tensor{x.data(), {2, 3, 5, 5}, {75, 25, 5, 1}};
    CHECK(hr::pairwise(be, hr::device_view<const float, 4>(tensor), device::cosine{}) == plain);
    CHECK_THROWS_WITH_AS((hr::device_view<float, 3>(tensor)), "as_view: the tensor has rank 4, expected 3",
                         hr::shape_error);
    tensor.on_device = false;
    CHECK(tensor.is_cpu());
    CHECK_THROWS_WITH_AS((hr::device_view<float, 4>(tensor)), "device_view: the tensor is not in CUDA memory",
                         hr::argument_error);
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
        for (auto& s : sentences) sum += hr::pairwise(be, std::as_const(s).view(), device::bhattacharyya{})(i, j);
        worst = std::max(worst, std::fabs(sum / 3 - mean(i, j)));
      }
    CHECK(worst < 1e-15);
    CHECK(forth.last() == hr::pairwise(be, sentences[2].view(), device::bhattacharyya{}));
    device::redundancy<device::bhattacharyya, hr::cuda> first(be, 2, 3), rest(be, 2, 3), other(be, 3, 2);
    first.add(sentences[0]);
    rest.add(sentences[1]);
    rest.add(sentences[2]);
    rest.merge(first);
    CHECK((rest.matrix() == mean && rest.sentences() == 3));
    CHECK_THROWS_WITH_AS(rest.merge(other), "redundancy: merge of accumulators with different layouts",
                         hr::argument_error);
    // two backends: what is added after a merge is not part of it, whenever the streams get to it
    hr::cuda one, two_streams;
    be.synchronize();
    device::redundancy<device::bhattacharyya, hr::cuda> mine(one, 2, 3), theirs(two_streams, 2, 3);
    mine.add(sentences[1]);
    theirs.add(sentences[2]);
    theirs.add(sentences[0]);
    mine.merge(theirs);
    theirs.add(sentences[1]);
    CHECK((mine.matrix() == mean && theirs.sentences() == 3));
    CHECK(theirs.matrix() == mean);
    device::redundancy<device::cosine, hr::cuda> batch(be, 1, 2), single(be, 1, 2);
    auto two = put<float, 5>(be, mixed_maps<float>(4, 3, 3, 77), {2, 1, 2, 3, 3});
    const hr::index_t valid[] = {3, 0};
    CHECK(batch.add_batch(two.view(), valid, {.sum_tolerance = .999}) == 1);
    single.add(two.view()[0], {.sum_tolerance = .999});
    CHECK((batch.matrix() == single.matrix() && batch.skipped() == 1));
    CHECK_THROWS_WITH_AS(batch.add_batch(two.view(), std::span(valid, 1)),
                         "redundancy: 1 lengths for a batch (2,1,2,3,3)", hr::shape_error);
    CHECK_THROWS_WITH_AS(forth.add(sentences[0].view().narrow(1, 0, 2)),
                         "redundancy: attention is (2,2,3,3), expected 2 layers of 3 heads", hr::shape_error);
    CHECK_THROWS_WITH_AS(
        (device::redundancy<device::cosine, hr::cuda>(be, 0, 3)),
        "redundancy: 0 layers with 0 heads in all, expected the same number of heads in each, at least one",
        hr::shape_error);
  }

  TEST_CASE("rows that are no attention are named") {
    hr::cuda be;
    const auto refuse = [&](std::size_t at, float value) {
      std::vector<float> maps(2 * 2 * 3 * 2, .5f);
      maps[at] = value;
      const auto x = put<float, 4>(be, maps, {2, 2, 3, 2});
      hr::pairwise(be, x.view(), device::cosine{});
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
    CHECK_THROWS_WITH_AS(hr::pairwise(be, x.view().narrow(2, 0, 0), device::cosine{}),
                         "cosine: attention is (1,2,0,2), expected at least 1 valid token", hr::shape_error);
  }
}
