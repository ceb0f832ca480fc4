// The CUDA backend and the kernels for device memory; for .cu files.
#pragma once

#include <headred/backend/cuda.hpp>
#include <headred/backend/tensor.hpp>
#include <headred/device/adam_step.hpp>
#include <headred/device/attention.hpp>
#include <headred/device/attention_gradient.hpp>
#include <headred/device/cross_entropy.hpp>
#include <headred/device/device_view.hpp>
#include <headred/device/double_centre.hpp>
#include <headred/device/embedding.hpp>
#include <headred/device/gates.hpp>
#include <headred/device/head_dots.hpp>
#include <headred/device/layer_norm.hpp>
#include <headred/device/pairwise.hpp>
#include <headred/device/redundancy.hpp>
#include <headred/device/softmax.hpp>
#include <headred/device/sums.hpp>
