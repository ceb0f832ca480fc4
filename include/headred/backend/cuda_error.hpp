// What CUDA and cuBLAS report, as exceptions that name the call.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <string>
#include <utility>

#include <headred/core/error.hpp>

namespace headred {

/// A call of the CUDA runtime or of cuBLAS that failed; the text starts with the call's name, and an error of work that
/// was issued before may come out of any later call.
class cuda_error : public error {
 public:
  cuda_error(std::string call, int code, const std::string& what)
      : error(call + ": " + what), call_(std::move(call)), code_(code) {}
  const std::string& call() const noexcept { return call_; }
  /// The cudaError_t or cublasStatus_t.
  int code() const noexcept { return code_; }

 private:
  std::string call_;
  int code_;
};

namespace detail {

/// Throws cuda_error unless the call succeeded; `about` says what was asked for.
inline void check_cuda(cudaError_t result, const char* call, const std::string& about = {}) {
  if (result == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // an error that can be recovered from must not come up again
  std::string what = std::string(cudaGetErrorName(result)) + ", " + cudaGetErrorString(result);
  if (!about.empty()) what += ", " + about;
  throw cuda_error(call, static_cast<int>(result), what);
}

inline void check_cublas(cublasStatus_t result, const char* call) {
  if (result != CUBLAS_STATUS_SUCCESS) throw cuda_error(call, static_cast<int>(result), cublasGetStatusName(result));
}

/// Makes a device the calling thread's own, and the former one again at the end.
class device_scope {
 public:
  explicit device_scope(int device) {
    check_cuda(cudaGetDevice(&before_), "cudaGetDevice");
    if (device == before_) return;
    check_cuda(cudaSetDevice(device), "cudaSetDevice", "device " + std::to_string(device));
    changed_ = true;
  }
  ~device_scope() {
    if (changed_) static_cast<void>(cudaSetDevice(before_));
  }
  device_scope(const device_scope&) = delete;
  device_scope& operator=(const device_scope&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace detail
}  // namespace headred
