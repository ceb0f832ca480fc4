#include <doctest/doctest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <headred/backend/cpu.hpp>

namespace hr = headred;

TEST_SUITE("backend") {
  TEST_CASE("every task runs once, and the tasks of one worker never at once") {
    for (const int threads : {1, 2, 3, 5}) {
      hr::cpu be{{.threads = threads}};
      CHECK(be.workers() == threads);
      for (const hr::index_t n : {0, 1, 2, 7, 1000}) {
        std::vector<std::atomic<int>> runs(static_cast<std::size_t>(n));
        std::vector<std::atomic<int>> inside(static_cast<std::size_t>(threads));
        std::atomic<int> clashes{0}, bad_workers{0};
        be.run(n, [&](hr::index_t task, int worker) {
          if (worker < 0 || worker >= threads) {
            ++bad_workers;
            return;
          }
          auto& mine = inside[static_cast<std::size_t>(worker)];
          if (mine.fetch_add(1) != 0) ++clashes;
          ++runs[static_cast<std::size_t>(task)];
          --mine;
        });
        for (const auto& r : runs) REQUIRE(r == 1);
        CHECK(clashes == 0);
        CHECK(bad_workers == 0);
      }
      be.run(-3, [&](hr::index_t, int) { FAIL("no task was asked for"); });
    }
  }

  TEST_CASE("the exception of the lowest task that threw arrives, and the pool works on") {
    for (const int threads : {1, 2, 5}) {
      hr::cpu be{{.threads = threads}};
      for (int round = 0; round < 50; ++round) {
        std::string text;
        try {
          be.run(100, [](hr::index_t task, int) {
            if (task % 10 == 3) throw std::runtime_error("task " + std::to_string(task));
          });
        } catch (const std::runtime_error& e) {
          text = e.what();
        }
        // tasks are handed out in order, so task 3 was begun before any other that throws
        CHECK(text == "task 3");
        std::atomic<int> runs{0};
        be.run(20, [&](hr::index_t, int) { ++runs; });
        CHECK(runs == 20);
      }
    }
  }

  TEST_CASE("an exception of another type than std::exception passes too") {
    hr::cpu be{{.threads = 2}};
    CHECK_THROWS_AS(be.run(4, [](hr::index_t, int) { throw 7; }), int);
  }

  TEST_CASE("calls from within a task run in place, as the same worker") {
    hr::cpu be{{.threads = 3}};
    std::atomic<int> runs{0}, other_worker{0};
    be.run(20, [&](hr::index_t, int worker) {
      be.run(10, [&](hr::index_t, int inner) {
        ++runs;
        if (inner != worker) ++other_worker;
      });
    });
    CHECK(runs == 200);
    CHECK(other_worker == 0);
    CHECK_THROWS_AS(
        be.run(3, [&](hr::index_t, int) { be.run(2, [](hr::index_t, int) { throw std::logic_error("x"); }); }),
        std::logic_error);
  }

  TEST_CASE("one pool within another") {
    hr::cpu outer{{.threads = 2}}, inner{{.threads = 2}};
    std::atomic<int> runs{0};
    outer.run(8, [&](hr::index_t, int) { inner.run(8, [&](hr::index_t, int) { ++runs; }); });
    CHECK(runs == 64);
  }

  TEST_CASE("several threads may call one cpu") {
    hr::cpu be{{.threads = 3}};
    std::atomic<long> total{0};
    std::vector<std::thread> callers;
    for (int c = 0; c < 4; ++c)
      callers.emplace_back([&] {
        for (int round = 0; round < 100; ++round) be.for_each(50, [&](hr::index_t i) { total += i; });
      });
    for (auto& t : callers) t.join();
    CHECK(total == 4 * 100 * (49 * 50 / 2));
  }

  TEST_CASE("many short rounds") {
    hr::cpu be{{.threads = 2}};
    std::atomic<long> total{0};
    for (int round = 0; round < 5000; ++round) be.run(3, [&](hr::index_t task, int) { total += task; });
    CHECK(total == 15000);
  }

  TEST_CASE("pools come and go") {
    for (int i = 0; i < 100; ++i) hr::cpu be{{.threads = 4}};
  }
}
