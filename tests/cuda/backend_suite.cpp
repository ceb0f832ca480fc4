// What every backend promises, on (cpu, cuda) x (float, double).
#include <thread>

#include "device.hpp"

using namespace headred_test;

namespace {

template <class T, class Space>
struct double_entry {
  hr::tensor_view<T, 1, Space> x;
  HEADRED_FUNCTION void operator()(hr::index_t i) const { x(i) = x(i) + x(i); }
};
template <class T, class Space>
struct entry_of {
  hr::tensor_view<const T, 2, Space> x;
  HEADRED_FUNCTION T operator()(hr::index_t r, hr::index_t c) const { return x(r, c); }
};
struct sum_of_two {
  template <class T>
  HEADRED_FUNCTION T operator()(T a, T b) const {
    return a + b;
  }
};
template <class T, class Space>
struct store_row {
  hr::tensor_view<T, 1, Space> to;
  HEADRED_FUNCTION void operator()(hr::index_t r, T value) const { to(r) = value; }
};

// A matrix batch inside a larger buffer: three ways to lie there.
enum class lay { plain, transposed, spread };
template <class T, class Space>
hr::tensor_view<T, 3, Space> laid(T* at, lay how, hr::index_t n, hr::index_t r, hr::index_t c) {
  if (how == lay::plain) return {at, {n, r, c}, {r * (c + 3), c + 3, 1}};
  if (how == lay::transposed) return {at, {n, r, c}, {(r + 1) * c, 1, r + 1}};
  return {at, {n, r, c}, {r * c * 2 + r * 2, 2 * c + 1, 2}};
}

}  // namespace

TEST_SUITE("cuda") {
  TEST_CASE_TEMPLATE("for_each visits each index once", On, HEADRED_EVERY_BACKEND) {
    using T = typename On::value;
    using space = typename On::backend::space;
    typename On::backend be;
    for (const hr::index_t n : {0, 1, 31, 255, 256, 257, 1000}) {
      const auto values = numbers<T>(n, 1);
      const auto result = in_every_order([&] {
        auto x = put<T, 1>(be, values, {n});
        be.for_each(n, double_entry<T, space>{x.view()});
        return get(be, x);
      });
      for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(result[i] == 2 * values[i]);
    }
  }

  TEST_CASE_TEMPLATE("reduce folds every column once", On, HEADRED_EVERY_BACKEND) {
    using T = typename On::value;
    using space = typename On::backend::space;
    typename On::backend be;
    for (const hr::index_t cols : {0, 1, 2, 32, 33, 64, 127, 128, 129, 1000}) {
      const hr::index_t rows = 5;
      auto values = numbers<T>(rows * cols, 2);
      for (T& v : values) v = std::round(v * 100);  // whole numbers: every order gives the same sum
      const auto result = in_every_order([&] {
        auto x = put<T, 2>(be, values, {rows, cols});
        hr::tensor<T, 1, typename On::backend> sums(be, {rows});
        const auto& from = x;
        be.reduce(rows, cols, T(7), entry_of<T, space>{from.view()}, sum_of_two{}, store_row<T, space>{sums.view()});
        return get(be, sums);
      });
      for (hr::index_t r = 0; r < rows; ++r) {
        T expected = 7;
        for (hr::index_t c = 0; c < cols; ++c) expected += values[static_cast<std::size_t>(r * cols + c)];
        REQUIRE(result[static_cast<std::size_t>(r)] == expected);
      }
    }
  }

  TEST_CASE_TEMPLATE("gemm on every layout of its operands", On, HEADRED_EVERY_BACKEND) {
    using T = typename On::value;
    using space = typename On::backend::space;
    typename On::backend be;
    const double tolerance = sizeof(T) == 4 ? 2e-6 : 4e-15;
    constexpr hr::index_t shapes[][4] = {{1, 1, 1, 1}, {2, 3, 4, 5}, {3, 1, 7, 2},
                                         {2, 6, 1, 3}, {2, 4, 3, 1}, {2, 3, 0, 2}};
    const lay lays[] = {lay::plain, lay::transposed, lay::spread};
    for (const auto& s : shapes)
      for (const lay la : lays)
        for (const lay lb : lays)
          for (const lay lc : lays) {
            const hr::index_t n = s[0], m = s[1], k = s[2], p = s[3], size = 400;
            const auto av = numbers<T>(size, 3), bv = numbers<T>(size, 4);
            auto cv = numbers<T>(size, 5);
            for (const T beta : {T(0), T(.5)}) {
              auto a = put<T, 1>(be, av, {size}), b = put<T, 1>(be, bv, {size}), c = put<T, 1>(be, cv, {size});
              be.gemm(T(2), hr::tensor_view<const T, 3, space>(laid<T, space>(a.data(), la, n, m, k)),
                      hr::tensor_view<const T, 3, space>(laid<T, space>(b.data(), lb, n, k, p)), beta,
                      laid<T, space>(c.data(), lc, n, m, p));
              const auto result = get(be, c);
              std::vector<T> expected = cv;
              std::vector<double> bound(static_cast<std::size_t>(size), 0);
              std::vector<T> ah = av, bh = bv;
              const auto x = laid<T, hr::host_space>(ah.data(), la, n, m, k);
              const auto y = laid<T, hr::host_space>(bh.data(), lb, n, k, p);
              const auto z = laid<T, hr::host_space>(expected.data(), lc, n, m, p);
              for (hr::index_t i = 0; i < n; ++i)
                for (hr::index_t r = 0; r < m; ++r)
                  for (hr::index_t q = 0; q < p; ++q) {
                    long double sum = 0;
                    for (hr::index_t l = 0; l < k; ++l)
                      sum += static_cast<long double>(x(i, r, l)) * static_cast<long double>(y(i, l, q));
                    T& to = z(i, r, q);
                    bound[static_cast<std::size_t>(&to - expected.data())] = tolerance;
                    to = static_cast<T>(2 * sum + static_cast<long double>(beta) * static_cast<long double>(to));
                  }
              // what lies between the entries of c stays as it was
              for (std::size_t i = 0; i < expected.size(); ++i)
                REQUIRE(std::fabs(static_cast<double>(result[i]) - static_cast<double>(expected[i])) <= bound[i] * 4);
            }
          }
  }

  TEST_CASE_TEMPLATE("gemm with beta 0 does not read c, and refuses shapes that do not fit", On,
                     HEADRED_EVERY_BACKEND) {
    using T = typename On::value;
    using space = typename On::backend::space;
    typename On::backend be;
    auto a = put<T, 3>(be, {1, 2, 3, 4}, {1, 2, 2});
    auto c = put<T, 3>(be, std::vector<T>(4, std::nan("")), {1, 2, 2});
    const hr::tensor_view<const T, 3, space> x = a.view();
    be.gemm(T(1), x, x, T(0), c.view());
    CHECK(get(be, c) == std::vector<T>{7, 10, 15, 22});
    CHECK_THROWS_WITH_AS(be.gemm(T(1), x, x.narrow(1, 0, 1), T(0), c.view()),
                         "gemm: a is (1,2,2), b is (1,1,2), c is (1,2,2), expected (N,M,K), (N,K,P), (N,M,P)",
                         hr::shape_error);
  }

  TEST_CASE("a product in tf32 is an explicit choice") {
    // 1 + 2^-11 has 12 significant bits: one too many for tf32
    const float x = 1 + 0x1p-11f;
    const auto product = [x](hr::cuda_math math) {
      hr::cuda be{{.math = math}};
      auto a = put<float, 3>(be, std::vector<float>(64 * 64, x), {1, 64, 64});
      hr::tensor<float, 3, hr::cuda> c(be, {1, 64, 64});
      const hr::tensor_view<const float, 3, hr::device_space> v = a.view();
      be.gemm(1.f, v, v, 0.f, c.view());
      return static_cast<double>(get(be, c)[0]) / (64.0 * x * x) - 1;
    };
    CHECK(std::fabs(product(hr::cuda_math::ieee)) < 1e-6);
    const double cut = std::fabs(product(hr::cuda_math::tf32));
    MESSAGE("relative error of a product of 64 terms in tf32: " << cut);
    CHECK(cut < 2 * 0x1p-11 + 1e-6);
  }

  TEST_CASE("a device that is not there is refused by its number") {
    CHECK_THROWS_AS((hr::cuda{{.device = -2}}), hr::argument_error);
    CHECK_THROWS_AS((hr::cuda{{.device = 1000}}), hr::argument_error);
  }

  TEST_CASE("memory that is not there is an error that names the call") {
    hr::cuda be;
    std::string text;
    try {
      be.allocate(std::size_t{1} << 50);
    } catch (const hr::cuda_error& e) {
      text = e.what();
      CHECK(e.call() == "cudaMalloc");
      CHECK(e.code() == cudaErrorMemoryAllocation);
    }
    CHECK(text == "cudaMalloc: cudaErrorMemoryAllocation, out of memory, 1125899906842624 bytes on device 0");
    auto x = put<float, 1>(be, {1, 2, 3}, {3});  // and the backend goes on
    CHECK(get(be, x) == std::vector<float>{1, 2, 3});
  }

  TEST_CASE("the workspace grows and then stays") {
    hr::cuda be;
    void* const small = be.workspace(100);
    CHECK(be.workspace(50) == small);
    CHECK(be.workspace(100) == small);
    void* const large = be.workspace(1 << 20);
    CHECK(be.workspace(200) == large);
  }

  TEST_CASE("backends in several threads do not disturb each other") {
    std::vector<std::vector<float>> found(3);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < found.size(); ++t)
      threads.emplace_back([&to = found[t], t] {
        hr::cuda be;
        auto x = put<float, 1>(be, numbers<float>(500, 70 + t), {500});
        for (int i = 0; i < 5; ++i) be.for_each(500, double_entry<float, hr::device_space>{x.view()});
        to = get(be, x);
      });
    for (auto& t : threads) t.join();
    for (std::size_t t = 0; t < found.size(); ++t) {
      auto expected = numbers<float>(500, 70 + t);
      for (float& v : expected) v *= 32;
      CHECK(found[t] == expected);
    }
  }

  TEST_CASE("a borrowed stream and handle keep their settings and stay with their owner") {
    cudaStream_t stream = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    cublasHandle_t handle = nullptr;
    REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE) == CUBLAS_STATUS_SUCCESS);
    {
      hr::cuda be{{.stream = stream, .handle = handle}};
      CHECK(be.stream() == stream);
      auto a = put<float, 3>(be, {1, 2, 3, 4}, {1, 2, 2});
      hr::tensor<float, 3, hr::cuda> c(be, {1, 2, 2});
      const hr::tensor_view<const float, 3, hr::device_space> x = a.view();
      be.gemm(1.f, x, x, 0.f, c.view());
      CHECK(get(be, c) == std::vector<float>{7, 10, 15, 22});
    }
    cublasMath_t math{};
    cublasPointerMode_t mode{};
    cublasGetMathMode(handle, &math);
    cublasGetPointerMode(handle, &mode);
    CHECK(math == CUBLAS_TF32_TENSOR_OP_MATH);
    CHECK(mode == CUBLAS_POINTER_MODE_DEVICE);
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  }
}
