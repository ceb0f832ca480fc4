// The calls of the CUDA runtime that headred makes, on the host; compiled against NVIDIA's own headers.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "device_memory.hpp"
#include "emulator.hpp"
#include "fake_stream.hpp"
#include "state.hpp"

namespace headred_emulator {

behaviour& device_behaviour() {
  static behaviour now = [] {
    behaviour b;
    const char* const text = std::getenv("HEADRED_EMULATOR");
    const std::string_view asked = text == nullptr ? "" : text;
    if (asked.find("reverse") != std::string_view::npos) b.order = thread_order::reverse;
    if (asked.find("shuffled") != std::string_view::npos) b.order = thread_order::shuffled;
    b.lazy = asked.find("lazy") != std::string_view::npos;
    return b;
  }();
  return now;
}

std::recursive_mutex& device_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}
census& census_now() {
  static census now;
  return now;
}
census device_census() {
  const std::lock_guard lock(device_mutex());
  return census_now();
}

namespace {

constexpr int devices = 2;
thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;
std::string fault_text;

std::set<CUstream_st*>& streams() {
  static std::set<CUstream_st*> all;
  return all;
}

cudaError_t result(cudaError_t e) {
  if (e != cudaSuccess) last_error = e;
  return e;
}

/// Out of memory and wrong arguments can be recovered from; a fault of a kernel stays.
cudaError_t after_work() { return result(fault_text.empty() ? cudaSuccess : cudaErrorLaunchFailure); }

/// In the order that the device's mood suggests; no result may depend on it.
void run_grid(const kernel_code& code, const std::vector<unsigned char>& kernel, index_t blocks) {
  const open_device_memory open;
  const bool backwards = device_behaviour().order != thread_order::forward;
  try {
    for (index_t i = 0; i < blocks; ++i) code.run_block(kernel.data(), backwards ? blocks - 1 - i : i);
  } catch (const kernel_fault& e) {
    record_fault(e.what());
  }
}

}  // namespace

std::string take_fault() {
  const std::lock_guard lock(device_mutex());
  return std::exchange(fault_text, {});
}
void record_fault(const std::string& text) {
  const std::lock_guard lock(device_mutex());
  if (fault_text.empty()) fault_text = text;
}
bool has_fault() { return !fault_text.empty(); }

void issue(CUstream_st* stream, std::function<void()> work) {
  if (device_behaviour().lazy)
    stream->work.push_back(std::move(work));
  else
    work();
}
void finish(CUstream_st* stream) {
  while (!stream->work.empty()) {
    const auto next = std::move(stream->work.front());
    stream->work.pop_front();
    next();
  }
}
bool is_stream(CUstream_st* stream) { return streams().count(stream) != 0; }
int device_of_thread() { return current_device; }

}  // namespace headred_emulator

using namespace headred_emulator;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = devices;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= devices) return result(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorName(cudaError_t e) {
  return e == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
         : e == cudaErrorLaunchFailure  ? "cudaErrorLaunchFailure"
         : e == cudaErrorInvalidValue   ? "cudaErrorInvalidValue"
                                        : "cudaErrorUnknown";
}
const char* cudaGetErrorString(cudaError_t e) {
  return e == cudaErrorMemoryAllocation ? "out of memory"
         : e == cudaErrorLaunchFailure  ? "unspecified launch failure"
         : e == cudaErrorInvalidValue   ? "invalid argument"
                                        : "unknown error";
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const std::lock_guard lock(device_mutex());
  *stream = new CUstream_st{current_device, {}};
  streams().insert(*stream);
  ++census_now().streams;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(device_mutex());
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  finish(stream);
  streams().erase(stream);
  delete stream;
  --census_now().streams;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(device_mutex());
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  finish(stream);
  return after_work();
}

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  *p = allocate_device_memory(bytes, current_device);
  return *p == nullptr ? result(cudaErrorMemoryAllocation) : after_work();
}
cudaError_t cudaFree(void* p) {
  const std::lock_guard lock(device_mutex());
  if (p == nullptr) return cudaSuccess;
  for (CUstream_st* const stream : streams()) finish(stream);
  return free_device_memory(p) ? after_work() : result(cudaErrorInvalidValue);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const std::lock_guard lock(device_mutex());
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const auto lies = [bytes](const void* p, bool device) {
    return device ? is_device_memory(p, bytes) : !touches_device_memory(p, bytes);
  };
  if (!lies(to, to_device) || !lies(from, from_device)) return result(cudaErrorInvalidValue);
  issue(stream, [=] {
    const open_device_memory open;
    std::memcpy(to, from, bytes);
  });
  return device_behaviour().lazy ? cudaSuccess : after_work();
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                             cudaStream_t stream) {
  const std::lock_guard lock(device_mutex());
  if (!is_stream(stream) || stream->device != current_device) return result(cudaErrorInvalidResourceHandle);
  const auto& code = *static_cast<const kernel_code*>(function);
  if (block.x != static_cast<unsigned>(code.threads) || block.y != 1 || block.z != 1 || grid.y != 1 || grid.z != 1 ||
      grid.x == 0 || shared != 0)
    return result(cudaErrorInvalidConfiguration);
  if (has_fault()) return result(cudaErrorLaunchFailure);
  ++census_now().launches;
  const auto* const bytes = static_cast<const unsigned char*>(arguments[0]);
  issue(stream, [&code, kernel = std::vector<unsigned char>(bytes, bytes + code.bytes), grid] {
    run_grid(code, kernel, static_cast<index_t>(grid.x));
  });
  return cudaSuccess;  // as on a device: what a kernel does wrong comes out later
}

}  // extern "C"
