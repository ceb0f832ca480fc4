// The calls of cuBLAS that headred makes, as plain loops; compiled against NVIDIA's own headers.
#include <cublas_v2.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "device_memory.hpp"
#include "emulator.hpp"
#include "fake_stream.hpp"
#include "state.hpp"

/// cuBLAS's own opaque type.
struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
  int device = 0;
};

namespace {

using namespace headred_emulator;
using wide = std::int64_t;

/// As tensor cores see a float: 11 significant bits, to the nearest, ties to even.
float cut(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::isfinite(x) ? std::bit_cast<float>((bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu) : x;
}
double cut(double x) { return x; }

template <class T>
bool covers(const T* p, wide rows, wide cols, wide leading, wide step, wide count) {
  const wide last = (count - 1) * step + (cols - 1) * leading + rows;
  return leading >= std::max<wide>(1, rows) && step >= 0 &&
         is_device_memory(p, static_cast<std::size_t>(last) * sizeof(T));
}

template <class T>
cublasStatus_t multiply(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, wide m, wide n, wide k,
                        const T* alpha, const T* a, wide lda, wide step_a, const T* b, wide ldb, wide step_b,
                        const T* beta, T* c, wide ldc, wide step_c, wide count) {
  const std::lock_guard lock(device_mutex());
  if (handle == nullptr || !is_stream(handle->stream)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (handle->stream->device != device_of_thread()) return CUBLAS_STATUS_INVALID_VALUE;
  if (m <= 0 || n <= 0 || k <= 0 || count <= 0 || handle->pointers != CUBLAS_POINTER_MODE_HOST)
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool ta = op_a == CUBLAS_OP_T, tb = op_b == CUBLAS_OP_T;
  if (!covers(a, ta ? k : m, ta ? m : k, lda, step_a, count) ||
      !covers(b, tb ? n : k, tb ? k : n, ldb, step_b, count) || !covers(c, m, n, ldc, step_c, count) ||
      (count > 1 && step_c < (n - 1) * ldc + m))
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool tensor_cores = handle->math == CUBLAS_TF32_TENSOR_OP_MATH;
  const T factor = *alpha, keep = *beta;
  issue(handle->stream, [=] {
    const open_device_memory open;
    const auto see = [=](T x) { return tensor_cores ? cut(x) : x; };
    for (wide s = 0; s < count; ++s)
      for (wide j = 0; j < n; ++j)
        for (wide i = 0; i < m; ++i) {
          T sum = 0;
          for (wide l = 0; l < k; ++l)
            sum += see(a[s * step_a + (ta ? i * lda + l : l * lda + i)]) *
                   see(b[s * step_b + (tb ? l * ldb + j : j * ldb + l)]);
          T& to = c[s * step_c + j * ldc + i];
          to = keep == T(0) ? factor * sum : factor * sum + keep * to;
        }
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new cublasContext{nullptr, CUBLAS_DEFAULT_MATH, CUBLAS_POINTER_MODE_HOST, device_of_thread()};
  const std::lock_guard lock(device_mutex());
  ++census_now().handles;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  const std::lock_guard lock(device_mutex());
  --census_now().handles;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  *stream = handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t math) {
  handle->math = math;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* math) {
  *math = handle->math;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  handle->pointers = mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  *mode = handle->pointers;
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE" : "CUBLAS_STATUS_NOT_INITIALIZED";
}

cublasStatus_t cublasSgemmStridedBatched_64(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                                            wide m, wide n, wide k, const float* alpha, const float* a, wide lda,
                                            long long step_a, const float* b, wide ldb, long long step_b,
                                            const float* beta, float* c, wide ldc, long long step_c, wide count) {
  return multiply<float>(handle, op_a, op_b, m, n, k, alpha, a, lda, step_a, b, ldb, step_b, beta, c, ldc, step_c,
                         count);
}
cublasStatus_t cublasDgemmStridedBatched_64(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                                            wide m, wide n, wide k, const double* alpha, const double* a, wide lda,
                                            long long step_a, const double* b, wide ldb, long long step_b,
                                            const double* beta, double* c, wide ldc, long long step_c, wide count) {
  return multiply<double>(handle, op_a, op_b, m, n, k, alpha, a, lda, step_a, b, ldb, step_b, beta, c, ldc, step_c,
                          count);
}

}  // extern "C"
