// How strided row-major operands are told to cuBLAS, which knows column-major matrices and their transposes.
#pragma once

#include <cublas_v2.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <headred/backend/cuda_error.hpp>
#include <headred/core/view.hpp>

namespace headred::detail {

/// What of a handle the library changes, put back at the end: the handle may be the caller's.
class cublas_settings {
 public:
  cublas_settings(cublasHandle_t handle, cudaStream_t stream, cublasMath_t math) : handle_(handle) {
    check_cublas(cublasGetStream(handle, &stream_), "cublasGetStream");
    check_cublas(cublasGetMathMode(handle, &math_), "cublasGetMathMode");
    check_cublas(cublasGetPointerMode(handle, &pointers_), "cublasGetPointerMode");
    try {
      // another stream would take a workspace of the caller's away
      if (stream != stream_) check_cublas(cublasSetStream(handle, stream), "cublasSetStream");
      check_cublas(cublasSetMathMode(handle, math), "cublasSetMathMode");
      check_cublas(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST), "cublasSetPointerMode");
    } catch (...) {
      restore();
      throw;
    }
  }
  ~cublas_settings() { restore(); }
  cublas_settings(const cublas_settings&) = delete;
  cublas_settings& operator=(const cublas_settings&) = delete;

 private:
  void restore() noexcept {
    static_cast<void>(cublasSetPointerMode(handle_, pointers_));
    static_cast<void>(cublasSetMathMode(handle_, math_));
    cudaStream_t now = nullptr;
    if (cublasGetStream(handle_, &now) == CUBLAS_STATUS_SUCCESS && now != stream_)
      static_cast<void>(cublasSetStream(handle_, stream_));
  }

  cublasHandle_t handle_;
  cudaStream_t stream_ = nullptr;
  cublasMath_t math_ = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointers_ = CUBLAS_POINTER_MODE_HOST;
};

/// A row-major (rows,cols) matrix as cuBLAS sees its transpose.
struct cublas_operand {
  cublasOperation_t operation = CUBLAS_OP_N;
  std::int64_t leading = 1;
  bool fits = false;
};

/// Axis 0 of a batch is not looked at. A stride that no step is ever taken along does not matter.
template <class T>
cublas_operand as_cublas(const tensor_view<const T, 3, device_space>& x) {
  const auto side = [](index_t inner, index_t inner_step, index_t outer, index_t outer_step, cublasOperation_t op) {
    const bool fits = (inner_step == 1 || inner == 1) && (outer == 1 || outer_step >= inner);
    return cublas_operand{op, std::max<std::int64_t>(outer == 1 ? inner : outer_step, 1), fits};
  };
  const cublas_operand plain = side(x.extent(2), x.stride(2), x.extent(1), x.stride(1), CUBLAS_OP_N);
  return plain.fits ? plain : side(x.extent(1), x.stride(1), x.extent(2), x.stride(2), CUBLAS_OP_T);
}

/// c = alpha a b + beta c by cuBLAS; false, with nothing done, where the strides are none that it knows.
template <class T>
bool multiply_by_cublas(cublasHandle_t handle, T alpha, tensor_view<const T, 3, device_space> a,
                        tensor_view<const T, 3, device_space> b, T beta, tensor_view<T, 3, device_space> c) {
  if (a.extent(2) == 0) return false;
  const auto transpose = [&] { return std::pair(a.transposed(), b.transposed()); };
  if (!(c.stride(2) == 1 || c.extent(2) == 1) && (c.stride(1) == 1 || c.extent(1) == 1)) {
    const auto [at, bt] = transpose();  // C^T = B^T A^T
    return multiply_by_cublas<T>(handle, alpha, bt, at, beta, c.transposed());
  }
  const cublas_operand left = as_cublas<T>(b), right = as_cublas<T>(a),
                       to = as_cublas<T>(tensor_view<const T, 3, device_space>(c));
  const bool fits = left.fits && right.fits && to.fits && to.operation == CUBLAS_OP_N &&
                    (c.extent(0) == 1 || (a.stride(0) >= 0 && b.stride(0) >= 0 && c.stride(0) > 0));
  if (!fits) return false;
  const auto call = [&](auto multiply, const char* name) {
    check_cublas(multiply(handle, left.operation, right.operation, c.extent(2), c.extent(1), a.extent(2), &alpha,
                          b.data(), left.leading, b.stride(0), a.data(), right.leading, a.stride(0), &beta, c.data(),
                          to.leading, c.stride(0), c.extent(0)),
                 name);
  };
  if constexpr (std::is_same_v<T, float>) {
    call(cublasSgemmStridedBatched_64, "cublasSgemmStridedBatched");
  } else {
    call(cublasDgemmStridedBatched_64, "cublasDgemmStridedBatched");
  }
  return true;
}

}  // namespace headred::detail
