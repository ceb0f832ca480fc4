#include <doctest/doctest.h>

#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

#include <headred/backend/cpu.hpp>
#include <headred/backend/gemm_rows.hpp>
#include <headred/backend/tensor.hpp>

namespace hr = headred;

namespace {

// Counts what is in use, and can be told to fail.
struct counting_backend {
  using space = hr::host_space;
  int blocks = 0;
  std::size_t bytes = 0;
  bool full = false;
  void* allocate(std::size_t n) {
    if (full) throw std::bad_alloc();
    ++blocks;
    bytes += n;
    return ::operator new(n, std::align_val_t{64});
  }
  void deallocate(void* p, std::size_t n) {
    --blocks;
    bytes -= n;
    ::operator delete(p, std::align_val_t{64});
  }
  void upload(void*, const void*, std::size_t) {}
  void download(void*, const void*, std::size_t) {}
  void synchronize() {}
  template <class T, class Space>
  void gemm(T alpha, headred::tensor_view<const T, 3, Space> a, headred::tensor_view<const T, 3, Space> b, T beta,
            headred::tensor_view<T, 3, Space> c) {
    headred::gemm_by_rows(*this, alpha, a, b, beta, c);
  }
  template <class F>
  void for_each(hr::index_t n, const F& f) {
    for (hr::index_t i = 0; i < n; ++i) f(i);
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
static_assert(hr::host_backend<counting_backend> && !hr::task_backend<counting_backend>);

}  // namespace

TEST_SUITE("backend") {
  TEST_CASE("a tensor owns zeroed memory and gives it back") {
    counting_backend be;
    {
      hr::tensor<float, 3, counting_backend> t(be, {2, 3, 4});
      CHECK(be.blocks == 1);
      CHECK(be.bytes == 96);
      CHECK(t.size() == 24);
      CHECK(t.bytes() == 96);
      CHECK(t.extent(2) == 4);
      for (hr::index_t i = 0; i < t.size(); ++i) REQUIRE(t.data()[i] == 0);
      t(1, 2, 3) = 5;
      CHECK(t.view()(1, 2, 3) == 5);
      CHECK(std::as_const(t)(1, 2, 3) == 5);
      static_assert(std::is_same_v<decltype(std::as_const(t).view())::element_type, const float>);
    }
    CHECK(be.blocks == 0);
    CHECK(be.bytes == 0);
  }

  TEST_CASE("moves leave an empty tensor and free what was there") {
    counting_backend be;
    hr::tensor<double, 1, counting_backend> a(be, {10}), b(be, {3});
    a(9) = 7;
    b = std::move(a);
    CHECK(be.blocks == 1);
    CHECK(b(9) == 7);
    CHECK(a.data() == nullptr);
    CHECK(a.size() == 0);
    hr::tensor<double, 1, counting_backend> c(std::move(b));
    CHECK(c(9) == 7);
    CHECK(b.size() == 0);
    c = hr::tensor<double, 1, counting_backend>();
    CHECK(be.blocks == 0);
    hr::tensor<double, 1, counting_backend> d(be, {2});
    auto& self = d;
    d = std::move(self);
    CHECK(d.size() == 2);
    static_assert(!std::is_copy_constructible_v<decltype(d)> && !std::is_copy_assignable_v<decltype(d)>);
    static_assert(std::is_nothrow_move_constructible_v<decltype(d)>);
  }

  TEST_CASE("bad shapes are errors before anything is allocated") {
    counting_backend be;
    using tensor2 = hr::tensor<double, 2, counting_backend>;
    CHECK_THROWS_WITH_AS(tensor2(be, {-1, 4}), "tensor: negative extent in (-1,4)", hr::shape_error);
    CHECK_THROWS_AS(tensor2(be, {0, -4}), hr::shape_error);
    constexpr hr::index_t big = hr::index_t{1} << 61;
    CHECK_THROWS_WITH_AS(tensor2(be, {big, 8}), "tensor: the size of (2305843009213693952,8) overflows",
                         hr::shape_error);
    CHECK_THROWS_AS(tensor2(be, {big, 2}), hr::shape_error);
    CHECK_THROWS_AS(tensor2(be, {std::numeric_limits<hr::index_t>::max(), std::numeric_limits<hr::index_t>::max()}),
                    hr::shape_error);
    CHECK(be.blocks == 0);
    CHECK(tensor2(be, {big, 0}).size() == 0);
    CHECK(tensor2(be, {0, 5}).data() == nullptr);
    CHECK(be.blocks == 0);
    be.full = true;
    CHECK_THROWS_AS(tensor2(be, {2, 2}), std::bad_alloc);
    CHECK(be.blocks == 0);
  }
}
