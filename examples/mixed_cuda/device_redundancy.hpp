// What the .cpp files of the program know of the device: a plain function, nothing of CUDA.
#pragma once

#include <span>

#include <headred/core/matrix.hpp>
#include <headred/core/view.hpp>

/// Mean Jensen-Shannon distances of the heads over sentences (L,H,T,T) in the host's memory, computed on a GPU.
headred::matrix device_redundancy(std::span<const headred::tensor_view<const float, 4>> sentences);
