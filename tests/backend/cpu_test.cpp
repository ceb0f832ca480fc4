#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include <headred/backend/cpu.hpp>

namespace hr = headred;

static_assert(hr::backend<hr::cpu> && hr::host_backend<hr::cpu> && hr::task_backend<hr::cpu>);

TEST_SUITE("backend") {
  TEST_CASE("threads are checked; 0 takes what the machine has") {
    CHECK(hr::cpu{}.workers() >= 1);
    CHECK(hr::cpu{{.threads = 2}}.workers() == 2);
    CHECK_THROWS_WITH_AS((hr::cpu{{.threads = -1}}), "cpu: threads is -1, expected 0 (all) to 4096",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS((hr::cpu{{.threads = 4097}}), "cpu: threads is 4097, expected 0 (all) to 4096",
                         hr::argument_error);
  }

  TEST_CASE("memory is aligned and copied both ways") {
    hr::cpu be{{.threads = 1}};
    void* p = be.allocate(24);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % 64 == 0);
    const double values[3] = {1, 2, 3};
    double back[3] = {};
    be.upload(p, values, sizeof values);
    be.synchronize();
    be.download(back, p, sizeof back);
    CHECK(back[2] == 3);
    be.deallocate(p, 24);
  }

  TEST_CASE("for_each visits each index once") {
    for (const int threads : {1, 3}) {
      hr::cpu be{{.threads = threads}};
      for (const hr::index_t n : {0, 1, 63, 64, 65, 129, 1000}) {
        std::vector<int> visits(static_cast<std::size_t>(n));
        be.for_each(n, [&](hr::index_t i) { ++visits[static_cast<std::size_t>(i)]; });
        for (const int v : visits) REQUIRE(v == 1);
      }
    }
  }

  TEST_CASE("reduce combines in one order, whatever the number of threads") {
    std::vector<std::vector<float>> results;
    for (const int threads : {1, 2, 3, 5}) {
      hr::cpu be{{.threads = threads}};
      std::vector<float> sums(37, -1.f);
      be.reduce(
          37, 1000, 0.f, [](hr::index_t r, hr::index_t c) { return std::sin(static_cast<float>(r * 1000 + c)); },
          [](float a, float b) { return a + b; },
          [&](hr::index_t r, float sum) { sums[static_cast<std::size_t>(r)] = sum; });
      results.push_back(sums);
    }
    for (const auto& r : results) CHECK(r == results[0]);
    float expected = 0;
    for (int c = 0; c < 1000; ++c) expected += std::sin(static_cast<float>(c));
    CHECK(results[0][0] == expected);
    hr::cpu be{{.threads = 2}};
    double empty = -1;
    be.reduce(
        1, 0, 5.0, [](hr::index_t, hr::index_t) { return 1.0; }, [](double a, double b) { return a + b; },
        [&](hr::index_t, double sum) { empty = sum; });
    CHECK(empty == 5);
  }
}
