// The CUDA backend: a device's memory, a stream and a cuBLAS handle. A leaf: who wants it includes it, in a .cu file.
#pragma once

#if !defined(__CUDACC__) && !defined(HEADRED_CUDA_EMULATE)
#error "headred/backend/cuda.hpp is for nvcc: include it in .cu files, and keep its types out of .cpp files"
#endif

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <string>
#include <type_traits>

#include <headred/backend/concept.hpp>
#include <headred/backend/cuda_gemm.hpp>
#include <headred/backend/cuda_kernels.hpp>
#include <headred/backend/cuda_launch.hpp>
#include <headred/backend/gemm_rows.hpp>

namespace headred {

/// How cuBLAS multiplies floats.
enum class cuda_math {
  ieee,  ///< products and sums of 24 bits
  tf32,  ///< operands cut to 11 bits, on tensor cores: relative errors of 5e-4 an operand
};

/// What a cuda backend is made with.
struct cuda_options {
  int device = -1;                  ///< number of the device; -1: the one that is current in the calling thread
  cudaStream_t stream = nullptr;    ///< borrowed, must outlive the backend; null: one of its own
  cublasHandle_t handle = nullptr;  ///< borrowed, its settings are put back after each use; null: one of its own
  cuda_math math = cuda_math::ieee;
};

/// Backend on an NVIDIA GPU. Work is issued in order on one stream; for the same device and the same cuBLAS, results are
/// bit-identical from run to run.
/// One thread at a time may call a cuda; several of them, in threads or on one device, do not disturb each other.
/// Throws argument_error for a device that is not there, cuda_error for what CUDA reports, with the call's name.
class cuda {
 public:
  using space = device_space;

  explicit cuda(cuda_options options = {}) : options_(options) {
    int count = 0;
    detail::check_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    if (options_.device < -1 || options_.device >= count)
      throw argument_error("cuda: device is " + std::to_string(options_.device) + ", expected -1 (current) or below " +
                           std::to_string(count));
    if (options_.device == -1) detail::check_cuda(cudaGetDevice(&options_.device), "cudaGetDevice");
    const detail::device_scope on(options_.device);
    if (options_.stream == nullptr) {
      detail::check_cuda(cudaStreamCreateWithFlags(&options_.stream, cudaStreamNonBlocking),
                         "cudaStreamCreateWithFlags");
      owns_stream_ = true;
    }
  }
  cuda(const cuda&) = delete;
  cuda& operator=(const cuda&) = delete;
  /// Waits for the work issued. Errors are not reported from here: call synchronize() before.
  ~cuda() {
    int before = -1;
    const bool back = cudaGetDevice(&before) == cudaSuccess && before != options_.device;
    if (back) static_cast<void>(cudaSetDevice(options_.device));
    static_cast<void>(cudaStreamSynchronize(options_.stream));
    if (workspace_ != nullptr) static_cast<void>(cudaFree(workspace_));
    if (owns_handle_) static_cast<void>(cublasDestroy(options_.handle));
    if (owns_stream_) static_cast<void>(cudaStreamDestroy(options_.stream));
    if (back) static_cast<void>(cudaSetDevice(before));
  }

  int device() const noexcept { return options_.device; }
  cudaStream_t stream() const noexcept { return options_.stream; }

  /// Uninitialised memory of the device, aligned to 256 bytes.
  void* allocate(std::size_t bytes) {
    const detail::device_scope on(options_.device);
    void* p = nullptr;
    detail::check_cuda(cudaMalloc(&p, bytes), "cudaMalloc",
                       std::to_string(bytes) + " bytes on device " + std::to_string(options_.device));
    return p;
  }
  /// Waits for the work issued, which may still use the memory.
  void deallocate(void* p, std::size_t) noexcept {
    static_cast<void>(cudaStreamSynchronize(options_.stream));
    static_cast<void>(cudaFree(p));
  }
  /// Returns when the source may be changed.
  void upload(void* to, const void* from, std::size_t bytes) { copy(to, from, bytes, cudaMemcpyHostToDevice); }
  /// Returns when the bytes have arrived.
  void download(void* to, const void* from, std::size_t bytes) { copy(to, from, bytes, cudaMemcpyDeviceToHost); }
  void synchronize() {
    const detail::device_scope on(options_.device);
    detail::check_cuda(cudaStreamSynchronize(options_.stream), "cudaStreamSynchronize");
  }

  /// Scratch memory of at least so many bytes, valid until the next call of this function. It grows to what was ever
  /// asked for and is freed with the backend: nothing is allocated in a steady state.
  void* workspace(std::size_t bytes) {
    if (bytes > workspace_bytes_) {
      void* const larger = allocate(bytes);
      if (workspace_ != nullptr) deallocate(workspace_, workspace_bytes_);
      workspace_ = larger;
      workspace_bytes_ = bytes;
    }
    return workspace_;
  }

  /// Issues a kernel, a struct as device/block_context.hpp describes it, on `blocks` blocks.
  template <class Kernel>
  void launch(index_t blocks, const Kernel& kernel) {
    const detail::device_scope on(options_.device);
    detail::launch_kernel(options_.stream, blocks, kernel);
  }

  /// f(i) once for each i in [0,n), f a struct with a HEADRED_FUNCTION operator() const and views by value.
  template <class F>
  void for_each(index_t n, const F& f) {
    using kernel = detail::for_each_kernel<F>;
    launch((n + kernel::threads - 1) / kernel::threads, kernel{n, f});
  }

  /// sink(r, init (+) term(r,0) (+) ... (+) term(r,cols-1)) for each row r; (+) = combine is taken as associative and
  /// commutative. Up to 32 columns are folded from left to right, more of them by 128 threads in a fixed order.
  template <class T, class Term, class Combine, class Sink>
  void reduce(index_t rows, index_t cols, T init, const Term& term, const Combine& combine, const Sink& sink) {
    if (cols <= 32)
      for_each(rows, detail::short_fold<T, Term, Combine, Sink>{cols, init, term, combine, sink});
    else
      launch(rows, detail::fold_kernel<T, Term, Combine, Sink>{cols, init, term, combine, sink});
  }

  /// c = alpha a b + beta c for each of N matrices, by cuBLAS where it knows the strides, else by `gemm_by_rows`.
  /// a (N,M,K), b (N,K,P), c (N,M,P), any strides; beta = 0 does not read c. Throws shape_error.
  template <class T>
  void gemm(T alpha, std::type_identity_t<tensor_view<const T, 3, device_space>> a,
            std::type_identity_t<tensor_view<const T, 3, device_space>> b, std::type_identity_t<T> beta,
            tensor_view<T, 3, device_space> c) {
    detail::require_gemm(a, b, c);
    if (c.empty()) return;
    const detail::device_scope on(options_.device);
    bool done = false;
    {
      const auto math = options_.math == cuda_math::tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH;
      const detail::cublas_settings settings(handle(), options_.stream, math);
      done = detail::multiply_by_cublas<T>(options_.handle, alpha, a, b, beta, c);
    }
    if (!done) gemm_by_rows(*this, alpha, a, b, beta, c);
  }

 private:
  cublasHandle_t handle() {
    if (options_.handle == nullptr) {
      detail::check_cublas(cublasCreate(&options_.handle), "cublasCreate");
      owns_handle_ = true;
    }
    return options_.handle;
  }
  void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    if (bytes == 0) return;
    const detail::device_scope on(options_.device);
    detail::check_cuda(cudaMemcpyAsync(to, from, bytes, kind, options_.stream), "cudaMemcpyAsync",
                       std::to_string(bytes) + " bytes");
    detail::check_cuda(cudaStreamSynchronize(options_.stream), "cudaStreamSynchronize");
  }

  cuda_options options_;
  void* workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
  bool owns_stream_ = false, owns_handle_ = false;
};

static_assert(backend<cuda>);

}  // namespace headred
