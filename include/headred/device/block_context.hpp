// What a kernel is, and what it may ask of the block that runs it. No CUDA here: the same source runs on a GPU and, in
// tests, on the host.
#pragma once

#include <concepts>

#include <headred/backend/concept.hpp>

namespace headred {

/// The context that a kernel receives. A kernel is a trivially copyable struct with
///   static constexpr int threads                 threads of a block, whole warps of 32
///   shared, a template over Block                its shared memory: members `Block::template array<T, Count>`
///   operator()(Block&, shared<Block>&) const     what one thread does, HEADRED_FUNCTION
/// and every thread of a block reaches the same calls of sync(), every lane of a warp the same calls of shuffle_xor().
///   thread()                   in [0, threads)
///   block()                    in [0, blocks)
///   sync()                     a barrier for the block: what was written to shared memory before may be read after
///   shuffle_xor(value, mask)   the value of lane (own lane xor mask) of the warp
template <class B>
concept block_context = requires(B& block, float value) {
  { block.thread() } -> std::same_as<int>;
  { block.block() } -> std::same_as<index_t>;
  block.sync();
  { block.shuffle_xor(value, 1) } -> std::same_as<float>;
};

/// A backend that launches such kernels on memory of a device and has scratch memory there.
template <class B>
concept device_backend =
    backend<B> && std::same_as<typename B::space, device_space> && requires(B& be, std::size_t bytes) {
      { be.workspace(bytes) } -> std::same_as<void*>;
    };

namespace detail {

struct add {
  template <class T>
  HEADRED_FUNCTION T operator()(T a, T b) const {
    return a + b;
  }
};
struct take_greater {
  template <class T>
  HEADRED_FUNCTION T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

/// Folds a value of each thread, in one order; every thread gets the result. `part` holds a value for each warp.
template <int Threads, class Block, class Array, class T, class Combine>
HEADRED_FUNCTION T block_fold(Block& block, Array& part, T value, const Combine& combine) {
  for (int mask = 16; mask > 0; mask /= 2) value = combine(value, block.shuffle_xor(value, mask));
  const int t = block.thread();
  block.sync();  // the fold before may still be read
  if (t % 32 == 0) part[t / 32] = value;
  block.sync();
  T all = part[0];
  for (int warp = 1; warp < Threads / 32; ++warp) all = combine(all, static_cast<T>(part[warp]));
  return all;
}

}  // namespace detail
}  // namespace headred
