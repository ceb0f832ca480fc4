# headred::cuda: what <headred/cuda.hpp> needs on top, the CUDA runtime and cuBLAS. No language is enabled here: users
# enable CUDA themselves, and headred's own tests call nvcc.
include_guard()

set(HEADRED_CUDA_FOUND FALSE)
if(HEADRED_CUDA STREQUAL "OFF")
  return()
endif()
# A parent that says nothing is not searched for: AUTO takes the toolkit there if the parent has it.
if(HEADRED_CUDA STREQUAL "AUTO" AND NOT PROJECT_IS_TOP_LEVEL AND NOT TARGET CUDA::cudart AND NOT CMAKE_CUDA_COMPILER)
  return()
endif()
find_package(CUDAToolkit 12 QUIET)
if(NOT CUDAToolkit_FOUND OR NOT TARGET CUDA::cudart OR NOT TARGET CUDA::cublas)
  if(HEADRED_CUDA STREQUAL "ON")
    message(FATAL_ERROR "HEADRED_CUDA=ON: no CUDA toolkit 12 or later with cuBLAS was found (set CUDAToolkit_ROOT)")
  endif()
  return()
endif()
set(HEADRED_CUDA_FOUND TRUE)
add_library(headred_cuda INTERFACE)
add_library(headred::cuda ALIAS headred_cuda)
set_target_properties(headred_cuda PROPERTIES EXPORT_NAME cuda)
target_link_libraries(headred_cuda INTERFACE headred CUDA::cudart CUDA::cublas)
# std::array's members are constexpr, not __device__; and CMake 3.25 knows no cuda_std_20 of nvcc 13. headredConfig.cmake
# says the same of the installed target.
target_compile_options(headred_cuda
                       INTERFACE "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-std=c++20>>")
if(HEADRED_INSTALL)
  install(TARGETS headred_cuda EXPORT headred_cudaTargets)
  install(EXPORT headred_cudaTargets NAMESPACE headred:: DESTINATION "${CMAKE_INSTALL_DATADIR}/cmake/headred")
endif()
