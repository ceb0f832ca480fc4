// From a kernel, a plain struct, to a launch: the only place where a __global__ function stands.
#pragma once

#include <cuda_runtime_api.h>

#include <limits>
#include <string>
#include <type_traits>

#include <headred/backend/cuda_error.hpp>

namespace headred::detail {

#if defined(__CUDACC__)

/// Shared memory of a block on the GPU; no constructor runs for it.
template <class T, int Count>
class gpu_array {
 public:
  HEADRED_FUNCTION T& operator[](index_t i) { return reinterpret_cast<T*>(bytes_)[i]; }
  HEADRED_FUNCTION const T& operator[](index_t i) const { return reinterpret_cast<const T*>(bytes_)[i]; }

 private:
  alignas(T) unsigned char bytes_[sizeof(T) * static_cast<std::size_t>(Count)];
};

/// The block_context of a GPU (device/block_context.hpp says what one is).
struct gpu_block {
  template <class T, int Count>
  using array = gpu_array<T, Count>;

#if defined(__CUDA_ARCH__)
  __device__ int thread() const { return static_cast<int>(threadIdx.x); }
  __device__ index_t block() const { return static_cast<index_t>(blockIdx.x); }
  __device__ void sync() const { __syncthreads(); }
  template <class T>
  __device__ T shuffle_xor(T value, int mask) const {
    return __shfl_xor_sync(0xffffffffu, value, mask);
  }
#else  // the host's pass over the source only needs the names
  int thread() const { return 0; }
  index_t block() const { return 0; }
  void sync() const {}
  template <class T>
  T shuffle_xor(T value, int) const {
    return value;
  }
#endif
};

/// 512 threads at least on each multiprocessor: 128 registers a thread. Without a number ptxas aims at more threads, and
/// spills.
template <class Kernel>
inline constexpr int least_blocks = Kernel::threads < 512 ? 512 / Kernel::threads : 1;

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads, least_blocks<Kernel>) run_kernel(const Kernel kernel) {
  __shared__ typename Kernel::template shared<gpu_block> memory;
  gpu_block block;
  kernel(block, memory);
}

template <class Kernel>
const void* kernel_entry() {
  return reinterpret_cast<const void*>(&run_kernel<Kernel>);
}

#else

/// Without nvcc a program that stands in for the device defines this; `entry()` is what its cudaLaunchKernel receives.
template <class Kernel>
struct emulated_kernel;

template <class Kernel>
const void* kernel_entry() {
  return emulated_kernel<Kernel>::entry();
}

#endif

/// Issues a kernel on `blocks` blocks; none does nothing.
template <class Kernel>
void launch_kernel(cudaStream_t stream, index_t blocks, const Kernel& kernel) {
  static_assert(std::is_trivially_copyable_v<Kernel> && sizeof(Kernel) <= 4096,
                "a kernel is copied to the GPU: plain values and views, 4096 bytes at most");
  static_assert(Kernel::threads % 32 == 0 && Kernel::threads >= 32 && Kernel::threads <= 1024,
                "a block has whole warps, 1024 threads at most");
  if (blocks <= 0) return;
  if (blocks > std::numeric_limits<int>::max())
    throw argument_error("cuda: " + std::to_string(blocks) + " blocks, expected at most 2147483647");
  void* arguments[] = {const_cast<void*>(static_cast<const void*>(&kernel))};
  check_cuda(cudaLaunchKernel(kernel_entry<Kernel>(), dim3(static_cast<unsigned>(blocks)),
                              dim3(static_cast<unsigned>(Kernel::threads)), arguments, 0, stream),
             "cudaLaunchKernel");
}

}  // namespace headred::detail
