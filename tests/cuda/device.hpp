// What the suites for (cpu, cuda) x (float, double) share. Compiled by nvcc for a GPU, by g++ for the emulator.
#pragma once

#if defined(HEADRED_CUDA_EMULATE)
#include <headred/backend/cpu.hpp>
#include "emulator/emulator.hpp"
#endif

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <headred/backend/cuda.hpp>
#include <headred/backend/tensor.hpp>
#include <headred/core/random.hpp>

#include "../environment.hpp"

namespace headred_test {

namespace hr = headred;

template <class Backend, class T>
struct on {
  using backend = Backend;
  using value = T;
};
using cuda_float = on<hr::cuda, float>;
using cuda_double = on<hr::cuda, double>;

// nvcc 13 breaks off with an internal error at the vector types of the cpu's products, so the cpu is here for g++ alone.
#if defined(HEADRED_CUDA_EMULATE)
using cpu_float = on<hr::cpu, float>;
using cpu_double = on<hr::cpu, double>;
#define HEADRED_EVERY_BACKEND cpu_float, cpu_double, cuda_float, cuda_double
#else
#define HEADRED_EVERY_BACKEND cuda_float, cuda_double
#endif

/// Uniform in [low, high).
template <class T>
std::vector<T> numbers(hr::index_t count, std::uint64_t stream, double low = -1, double high = 1) {
  const hr::random_stream random(seed(), stream);
  std::vector<T> all(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<T>(low + (high - low) * random.uniform(i));
  return all;
}

template <class T, int Rank, class Backend>
hr::tensor<T, Rank, Backend> put(Backend& be, const std::vector<T>& values, const hr::shape_t<Rank>& shape) {
  hr::tensor<T, Rank, Backend> x(be, shape);
  if (x.bytes() != 0) be.upload(x.data(), values.data(), x.bytes());
  return x;
}
template <class T, int Rank, class Backend>
std::vector<T> get(Backend& be, const hr::tensor<T, Rank, Backend>& x) {
  std::vector<T> values(static_cast<std::size_t>(x.size()));
  if (x.bytes() != 0) be.download(values.data(), x.data(), x.bytes());
  be.synchronize();
  return values;
}

/// f() in every order that the emulator has for threads and blocks, at once and lazily; all results must have the same
/// bits. On a GPU: twice.
template <class F>
auto in_every_order(const F& f) {
  const auto first = f();
#if defined(HEADRED_CUDA_EMULATE)
  using headred_emulator::thread_order;
  auto& now = headred_emulator::device_behaviour();
  const auto before = now;
  for (const auto order : {thread_order::forward, thread_order::reverse, thread_order::shuffled})
    for (const bool lazy : {false, true}) {
      now.order = order;
      now.lazy = lazy;
      const auto again = f();
      now = before;
      CHECK(again == first);
    }
#else
  CHECK(f() == first);
#endif
  return first;
}

}  // namespace headred_test
