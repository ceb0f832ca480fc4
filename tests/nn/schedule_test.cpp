#include <doctest/doctest.h>

#include <headred/nn/learning_rate.hpp>
#include <headred/nn/progress.hpp>
#include <string>

namespace hr = headred;
using doctest::Approx;

namespace {

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
  TEST_CASE("learning_rate: constant") {
    const auto r = hr::learning_rate::constant(.5, 4);
    CHECK(r.at(1) == .125);
    CHECK(r.at(3) == .375);
    CHECK(r.at(4) == .5);
    CHECK(r.at(1000000) == .5);
    CHECK(hr::learning_rate::constant(.5).at(1) == .5);
  }

  TEST_CASE("learning_rate: Noam is the smaller of two powers") {
    const auto r = hr::learning_rate::noam(512, 4000, 2);
    for (const hr::index_t s : {1, 2, 3999, 4000, 4001, 100000}) {
      const double step = static_cast<double>(s);
      CHECK(r.at(s) ==
            Approx(2 / std::sqrt(512.) * std::min(1 / std::sqrt(step), step * std::pow(4000., -1.5))).epsilon(1e-14));
    }
    CHECK(r.at(16000) == Approx(r.at(4000) / 2).epsilon(1e-14));
  }

  TEST_CASE("learning_rate: linear and cosine reach the lowest and stay there") {
    const auto l = hr::learning_rate::linear(1, 10, 110, .2);
    CHECK(l.at(5) == .5);
    CHECK(l.at(10) == 1);
    CHECK(l.at(60) == Approx(.6));
    CHECK(l.at(110) == .2);
    CHECK(l.at(5000) == .2);
    const auto c = hr::learning_rate::cosine(1, 10, 110, .2);
    CHECK(c.at(10) == 1);
    CHECK(c.at(35) == Approx(.2 + .8 * (1 + std::sqrt(.5)) / 2));
    CHECK(c.at(60) == Approx(.6));
    CHECK(c.at(110) == Approx(.2).epsilon(1e-15));
    CHECK(c.at(5000) == c.at(110));
    CHECK(hr::learning_rate::linear(1, 0, 4).at(1) == .75);
  }

  TEST_CASE("learning_rate: what it refuses") {
    CHECK(message_of([] { (void)hr::learning_rate{}.at(0); }) == "learning_rate: step 0, expected at least 1");
    CHECK(message_of([] { hr::learning_rate::noam(0, 4); }) == "learning_rate: the width is 0, expected at least 1");
    CHECK(message_of([] { hr::learning_rate::noam(4, 0); }) ==
          "learning_rate: the warm-up has 0 steps, expected at least 1");
    CHECK(message_of([] { hr::learning_rate::constant(-1); }) ==
          "learning_rate: the peak is -1, expected a finite number of at least 0");
    CHECK(message_of([] { hr::learning_rate::linear(1, 5, 5); }) ==
          "learning_rate: the total is 5 steps, expected more than the warm-up");
    CHECK(message_of([] { hr::learning_rate::cosine(1, 5, 9, 2); }) ==
          "learning_rate: the lowest is 2, expected 0 to the peak");
    CHECK(message_of([] { hr::learning_rate::constant(1, -2); }) ==
          "learning_rate: the warm-up has -2 steps, expected at least 0");
  }

  TEST_CASE("progress: speed and time left") {
    using clock = hr::progress::clock;
    const auto at = [](double s) {
      return clock::time_point(std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(s)));
    };
    hr::progress p(10, 2, at(100));
    for (int i = 1; i <= 4; ++i) p.add(50, at(100 + .5 * i));
    const auto& v = p.values();
    CHECK(v.step == 6);
    CHECK(v.seconds == Approx(2));
    CHECK(v.tokens_per_second == Approx(100));
    CHECK(v.seconds_left == Approx(2));
    CHECK(hr::progress_line(v, 3.25, 7e-4) == "step 6/10  loss 3.2500  rate 7.0e-04  100 tokens/s  0:02 left");
    p.add(20000, at(103));
    CHECK(hr::progress_line(p.values(), 1, 1).find(" k tokens/s") != std::string::npos);
    hr::progress endless(0, 0, at(0));
    endless.add(7, at(1));
    CHECK(hr::progress_line(endless.values(), 1, .5) == "step 1  loss 1.0000  rate 5.0e-01  7 tokens/s");
    CHECK(hr::duration_text(3909) == "1:05:09");
    CHECK(hr::duration_text(-1) == "0:00");
    hr::progress at_once(3, 0, at(0));
    at_once.add(5, at(0));
    CHECK(at_once.values().tokens_per_second == 0);
  }
}
