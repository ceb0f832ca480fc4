// Linked into tests_cuda: where no GPU can be used, the program is skipped as a whole, by exit code 77.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <iostream>

namespace {

const bool there = [] {
  int devices = 0;
  const cudaError_t result = cudaGetDeviceCount(&devices);
  if (result == cudaSuccess && devices > 0) return true;
  std::cout << "skipped: no GPU can be used here (" << cudaGetErrorName(result) << ")" << std::endl;
  std::_Exit(77);
}();

}  // namespace
