#include <headred/distance/redundancy_state.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <headred/backend/cpu.hpp>
#include <headred/distance/cosine.hpp>
#include <headred/distance/procrustes.hpp>

namespace {

namespace hr = headred;

const std::vector<double>& maps() {
  // (2,1,2,3,3): two sentences of two heads
  static const std::vector<double> values = {.7, .2, .1, .25, .5, .25, .05, .15, .8, .1, .6, .3,
                                             .3, .3, .4, .2,  .2, .6,  .1,  .6,  .3, .3, .3, .4,
                                             .2, .2, .6, 1.,  0., 0.,  0.,  1.,  0., 0., 0., 1.};
  return values;
}
hr::tensor_view<const double, 4> sentence(hr::index_t s) { return {maps().data() + 18 * s, {1, 2, 3, 3}}; }

template <class Accumulator>
void refuses(Accumulator& into, std::span<const std::byte> bytes, const std::string& words) {
  const auto before = hr::save_state(into);
  try {
    hr::load_state(into, bytes);
    FAIL("accepted: " << words);
  } catch (const hr::argument_error& problem) {
    CHECK_MESSAGE(std::string(problem.what()).find(words) != std::string::npos, problem.what());
  }
  CHECK(hr::save_state(into) == before);
}

}  // namespace

TEST_SUITE("distance") {
  TEST_CASE("a stored accumulator goes on where it was, bit by bit") {
    hr::cpu be;
    hr::redundancy<hr::cosine, hr::cpu> whole{be, {1, 2}}, first{be, {1, 2}}, later{be, {1, 2}};
    whole.add(sentence(0));
    whole.add(sentence(1));
    first.add(sentence(0));
    hr::load_state(later, hr::save_state(first));
    CHECK(later.sentences() == 1);
    later.add(sentence(1));
    CHECK(later.matrix() == whole.matrix());
    CHECK(hr::save_state(later) == hr::save_state(whole));
  }

  TEST_CASE("sums in double are stored too, and not mixed with exact ones") {
    hr::cpu be;
    hr::redundancy<hr::cosine, hr::cpu, double> plain{be, {1, 2}}, other{be, {1, 2}};
    hr::redundancy<hr::cosine, hr::cpu> exact{be, {1, 2}};
    plain.add(sentence(0));
    hr::load_state(other, hr::save_state(plain));
    CHECK(other.matrix() == plain.matrix());
    refuses(exact, hr::save_state(plain), "another kind of sum");
  }

  TEST_CASE("states of another distance, option or layout are refused by name") {
    hr::cpu be;
    hr::redundancy<hr::cosine, hr::cpu> cosine{be, {1, 2}};
    hr::redundancy<hr::procrustes, hr::cpu> plain{be, {1, 2}}, squared{be, {1, 2}, {.squared = true}};
    hr::redundancy<hr::cosine, hr::cpu> three{be, {1, 3}}, layers{be, {2, 1}};
    cosine.add(sentence(0));
    refuses(plain, hr::save_state(cosine), "of cosine, expected procrustes");
    refuses(plain, hr::save_state(squared), "of procrustes squared, expected procrustes");
    refuses(three, hr::save_state(cosine), "layer 0 has another number of heads");
    refuses(layers, hr::save_state(cosine), "another number of layers");
  }

  TEST_CASE("an accumulator merged into itself counts twice, carries included") {
    hr::cpu be;
    hr::redundancy<hr::cosine, hr::cpu> twice{be, {1, 2}}, apart{be, {1, 2}};
    twice.add(sentence(0));
    twice.merge(twice);
    apart.add(sentence(0));
    apart.add(sentence(0));
    CHECK(hr::save_state(twice) == hr::save_state(apart));
  }

  TEST_CASE("a state that no sentences can have given is refused") {
    hr::cpu be;
    hr::redundancy<hr::cosine, hr::cpu> red{be, {1, 2}};
    red.add(sentence(0));
    auto state = red.snapshot();
    state.underdetermined = 2;
    CHECK_THROWS_AS(red.restore(state), hr::argument_error);
    state = red.snapshot();
    state.sums[0] = hr::fixed_sum(std::uint64_t{2} << 32, 0);  // 2 from one sentence
    CHECK_THROWS_AS(red.restore(state), hr::argument_error);
    CHECK(red.sentences() == 1);
  }

  TEST_CASE("every truncation and every altered byte is refused") {
    hr::cpu be;
    hr::redundancy<hr::cosine, hr::cpu> from{be, {1, 2}}, into{be, {1, 2}};
    from.add(sentence(0));
    from.add(sentence(1));
    const std::vector<std::byte> bytes = hr::save_state(from);
    for (std::size_t size = 0; size < bytes.size(); ++size)
      CHECK_THROWS_AS(hr::load_state(into, std::span(bytes).first(size)), hr::argument_error);
    for (std::size_t at = 0; at < bytes.size(); ++at)
      for (const int bit : {0, 3, 7}) {
        auto altered = bytes;
        altered[at] ^= static_cast<std::byte>(1 << bit);
        CHECK_THROWS_AS(hr::load_state(into, altered), hr::argument_error);
      }
    auto longer = bytes;
    longer.push_back(std::byte{0});
    CHECK_THROWS_AS(hr::load_state(into, longer), hr::argument_error);
    CHECK(into.sentences() == 0);
  }
}
