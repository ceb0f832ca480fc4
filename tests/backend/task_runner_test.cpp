#include <doctest/doctest.h>

#include <vector>

#include <headred/backend/gemm_rows.hpp>
#include <headred/backend/task_runner.hpp>

#include "distance/every_distance.hpp"
#include "environment.hpp"

namespace hr = headred;

namespace {

// The concept's members and no more; for_each from the last index to the first.
struct minimal_backend {
  using space = hr::host_space;
  void* allocate(std::size_t bytes) { return ::operator new(bytes, std::align_val_t{64}); }
  void deallocate(void* p, std::size_t) { ::operator delete(p, std::align_val_t{64}); }
  void upload(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void synchronize() {}
  template <class T, class Space>
  void gemm(T alpha, headred::tensor_view<const T, 3, Space> a, headred::tensor_view<const T, 3, Space> b, T beta,
            headred::tensor_view<T, 3, Space> c) {
    headred::gemm_by_rows(*this, alpha, a, b, beta, c);
  }
  template <class F>
  void for_each(hr::index_t n, const F& f) {
    for (hr::index_t i = n; i-- > 0;) f(i);
  }
  template <class T, class Term, class Combine, class Sink>
  void reduce(hr::index_t rows, hr::index_t cols, T init, const Term& term, const Combine& combine, const Sink& sink) {
    for (hr::index_t r = 0; r < rows; ++r) {
      T sum = init;
      for (hr::index_t c = 0; c < cols; ++c) sum = combine(sum, term(r, c));
      sink(r, sum);
    }
  }
};
static_assert(hr::host_backend<minimal_backend> && !hr::task_backend<minimal_backend>);

}  // namespace

TEST_SUITE("backend") {
  TEST_CASE("task_runner runs each task once on numbered workers, on any host backend") {
    minimal_backend be;
    hr::task_runner<minimal_backend> tasks(be);
    CHECK(tasks.workers() == 8);
    for (const hr::index_t n : {0, 1, 7, 8, 9, 100}) {
      std::vector<int> runs(static_cast<std::size_t>(n));
      bool inside = true;
      tasks.run(n, [&](hr::index_t task, int worker) {
        ++runs[static_cast<std::size_t>(task)];
        inside = inside && worker >= 0 && worker < 8;
      });
      for (const int r : runs) REQUIRE(r == 1);
      CHECK(inside);
    }
    hr::cpu pool{{.threads = 3}};
    CHECK(hr::task_runner<hr::cpu>(pool).workers() == 3);
  }

  TEST_CASE("all distances have the same bits on a minimal backend as on cpu") {
    const auto sample = headred_test::make_sample(headred_test::sample_kind::random, 2, 5, 9, 9, headred_test::seed());
    minimal_backend minimal;
    hr::cpu be{{.threads = 2}};
    headred_test::for_every_distance([&](const auto& policy) {
      CHECK(hr::pairwise(minimal, sample.view(), policy) == hr::pairwise(be, sample.view(), policy));
    });
  }
}
