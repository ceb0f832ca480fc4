#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/core/random.hpp>
#include <headred/distance/cosine.hpp>
#include <headred/distance/jensen_shannon.hpp>
#include <headred/distance/pairwise_by_blocks.hpp>
#include <headred/distance/procrustes.hpp>

namespace hr = headred;
using hr::index_t;

namespace {

// Some heads alike, a row of zeros here and there, a constant row.
std::vector<float> maps_of(index_t heads, index_t tokens) {
  std::vector<float> maps(static_cast<std::size_t>(heads * tokens * tokens));
  const hr::random_stream draws(7);
  for (index_t h = 0; h < heads; ++h)
    for (index_t t = 0; t < tokens; ++t) {
      float* const p = maps.data() + (h * tokens + t) * tokens;
      const index_t like = h % 5 == 3 ? h - 3 : h;  // a copy of an earlier head
      double sum = 0;
      for (index_t k = 0; k < tokens; ++k) {
        const double x = std::exp(3 * draws.uniform(static_cast<std::uint64_t>((like * tokens + t) * tokens + k))) +
                         (like != h && h % 2 == 0 ? 1e-4 * static_cast<double>(k) : 0);
        p[k] = static_cast<float>(x);
        sum += x;
      }
      for (index_t k = 0; k < tokens; ++k) p[k] = static_cast<float>(p[k] / sum);
      if (h % 7 == 2 && t == 1) std::fill(p, p + tokens, 0.f);
      if (h % 7 == 4 && t == 2) std::fill(p, p + tokens, 1.f / static_cast<float>(tokens));
    }
  return maps;
}

template <class Distance>
void same_as_at_once(index_t heads, index_t tokens, index_t block) {
  CAPTURE(heads);
  CAPTURE(block);
  hr::cpu be{{.threads = 2}};
  const auto maps = maps_of(heads, tokens);
  const hr::tensor_view<const float, 4> all(maps.data(), {1, heads, tokens, tokens});
  const hr::matrix expected = hr::pairwise(be, all, Distance{});
  hr::matrix out(heads, heads);
  index_t reads = 0;
  const auto read = [&](index_t first, index_t count) {
    ++reads;
    return hr::tensor_view<const float, 3>(maps.data() + first * tokens * tokens, {count, tokens, tokens});
  };
  hr::pairwise_by_blocks(be, heads, read, Distance{}, out.view(), {.block = block});
  index_t different = 0;
  for (index_t i = 0; i < heads * heads; ++i) different += out.data()[i] != expected.data()[i] ? 1 : 0;
  CHECK(different == 0);
  const index_t blocks = (heads + block - 1) / block;
  CHECK(reads == blocks * (blocks + 1) / 2);
}

}  // namespace

TEST_SUITE("distance") {
  TEST_CASE("heads by blocks give the bits of all at once") {
    for (const index_t block : {1, 5, 16, 29, 40, 100}) {
      same_as_at_once<hr::cosine>(40, 9, block);
      same_as_at_once<hr::jensen_shannon>(40, 9, block);
    }
    same_as_at_once<hr::procrustes>(12, 9, 5);
  }
  TEST_CASE("more than 256 heads have the bits of fewer") {
    // groups of tokens are held a few at a time then
    same_as_at_once<hr::cosine>(300, 70, 64);
    same_as_at_once<hr::jensen_shannon>(270, 70, 100);
  }
  TEST_CASE("single precision out, progress, faults") {
    hr::cpu be{{.threads = 1}};
    const index_t heads = 20, tokens = 4;
    auto maps = maps_of(heads, tokens);
    std::vector<float> distances(static_cast<std::size_t>(heads * heads));
    const hr::tensor_view<float, 2> out(distances.data(), {heads, heads});
    const auto read = [&](index_t first, index_t count) {
      return hr::tensor_view<const float, 3>(maps.data() + first * tokens * tokens, {count, tokens, tokens});
    };
    hr::block_options options{.block = 8};
    index_t calls = 0;
    options.progress = [&](index_t done) { return done == calls++; };
    hr::pairwise_by_blocks(be, heads, read, hr::cosine{}, out, options);
    CHECK(calls == 6);
    CHECK(out(0, 3) == doctest::Approx(out(3, 0)));
    CHECK(out(4, 4) == 0);
    options.progress = [](index_t done) { return done < 2; };
    CHECK_THROWS_AS(hr::pairwise_by_blocks(be, heads, read, hr::cosine{}, out, options), hr::cancelled);

    maps[static_cast<std::size_t>((17 * tokens + 2) * tokens)] = -1;
    CHECK_THROWS_WITH_AS(hr::pairwise_by_blocks(be, heads, read, hr::cosine{}, out, {.block = 8}),
                         doctest::Contains("layer 0, head 17, row 2: attention: key 0 is -1"), hr::data_error);
    const auto wrong = [&](index_t, index_t count) {
      return hr::tensor_view<const float, 3>(maps.data(), {count - 1, tokens, tokens});
    };
    CHECK_THROWS_WITH_AS(hr::pairwise_by_blocks(be, heads, wrong, hr::cosine{}, out, {.block = 8}),
                         doctest::Contains("heads 0 to 7 are (7,4,4), expected (8,T,S)"), hr::shape_error);
    CHECK_THROWS_AS(hr::pairwise_by_blocks(be, 21, read, hr::cosine{}, out), hr::shape_error);
    CHECK_THROWS_AS(hr::pairwise_by_blocks(be, heads, read, hr::cosine{}, out, {.block = 0}), hr::argument_error);
  }
}
